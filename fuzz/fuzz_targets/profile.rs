//! `cargo +nightly fuzz run profile`; the same function is a property test of the model.

#![no_main]

#[path = "../../crates/model/tests/untrusted/mod.rs"]
#[allow(dead_code)]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| untrusted::profile(bytes));
