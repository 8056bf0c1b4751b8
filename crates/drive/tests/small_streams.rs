//! Small sequential reads of a drive that was written in no order are not slower than random ones: a
//! page that was sensed for one request serves the next, although nothing is read ahead.

use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_model::profile::Profile;
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

const AREA: ByteLength = ByteLength::new(512 << 20);

/// Four requests of `block` at a time.
fn phase(pattern: Pattern, block: ByteLength, mix: Mix, amount: ByteLength) -> Phase {
    Phase {
        name: "reads or writes".to_owned(),
        pattern,
        block_size: block,
        depth: 4,
        mix,
        region: Region::first(AREA),
        amount: Amount::Bytes(amount),
        rate: None,
        seed: 5,
        flush_at_end: mix == Mix::WRITE,
        interval: Nanoseconds::ZERO,
    }
}

/// Returns how many times as fast as random reads sequential ones are, with requests of these bytes, on this profile
/// after all of an area was written at random in pieces of 64 KiB.
fn sequential_to_random(profile: &str, register: &str, bytes: &[u64]) -> Vec<f64> {
    let mut profile = Profile::named(profile).expect("an embedded profile");
    for (key, value) in [("scale", "1/64"), ("flash.page_register", register)] {
        profile.set(key, value).expect("a sound value");
    }
    let configuration = profile.configuration().expect("a sound profile");
    let mut drive = SimulatedDrive::new("drive", configuration).expect("a sound drive");
    let mut speed = |phase: Phase| {
        let result = drive.run_phase(&phase, &mut Unobserved).expect("it runs");
        result.mb_per_second()
    };
    speed(phase(Pattern::RandomOnce, KIB * 64, Mix::WRITE, AREA));
    let mut of = |pattern, bytes| {
        let block = ByteLength::new(bytes);
        speed(phase(pattern, block, Mix::READ, (block * 20_000).min(MIB * 128)))
    };
    let ratio = |&bytes: &u64| of(Pattern::Sequential, bytes) / of(Pattern::Random, bytes);
    bytes.iter().map(ratio).collect()
}

#[test]
fn small_sequential_reads_are_faster_than_random_ones_where_nothing_is_read_ahead() {
    let bytes = [512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];
    for profile in ["generic-tlc", "samsung-pm983"] {
        let with = sequential_to_random(profile, "on", &bytes);
        assert!(with.iter().all(|&ratio| ratio > 1.0), "{profile}: {with:?}");
        let without = sequential_to_random(profile, "off", &bytes[..5]);
        assert!(without.iter().all(|&ratio| ratio < 0.85), "{profile}: {without:?}");
    }
}
