//! `cargo +nightly fuzz run smart`: what smartctl and nvme-cli print, which is anything. The property test
//! of the host's facts that does the same begins with whole reports.

#![no_main]

#[path = "../../crates/host/tests/stacks/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../../crates/host/tests/untrusted/mod.rs"]
#[allow(dead_code)]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut made = machine::MachineBuilder::new();
    made.sata("sda", true);
    made.nvme("nvme0n1");
    untrusted::smart(&String::from_utf8_lossy(bytes), &mut made.build());
});
