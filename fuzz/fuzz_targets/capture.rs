//! `cargo +nightly fuzz run capture`; the same function is a property test of the host's facts.

#![no_main]

#[path = "../../crates/host/tests/untrusted/mod.rs"]
#[allow(dead_code)]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| untrusted::capture(bytes));
