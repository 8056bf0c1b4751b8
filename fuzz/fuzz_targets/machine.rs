//! `cargo +nightly fuzz run machine`: files of a machine, a line each, that hold anything. The property test
//! of the host's facts that does the same knows fewer texts; a capture's checksum keeps a fuzzer out.

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
    made.partition("sda1", "sda", machine::mib(1));
    made.luks("dm-0", "home", "sda1", true);
    made.md("md0", "raid1", &["dm-0"], true);
    made.mount("/", "ext4", "md0", "rw,relatime");
    untrusted::machine(&String::from_utf8_lossy(bytes), &mut made.build());
});
