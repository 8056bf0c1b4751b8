//! `cargo +nightly fuzz run result`; the same function is a property test of the parsers.

#![no_main]

#[path = "../../crates/interchange/tests/untrusted/mod.rs"]
#[allow(dead_code)]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| untrusted::result(bytes));
