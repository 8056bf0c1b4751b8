//! Slower flash and sequential reads of fresh data.
//!
//! Reading ahead gets the pages of the next requests from several dies, and two dies of an XG5 share a
//! channel. Where sensing a page takes a little longer than to transfer two, they take turns; where it takes a
//! little less, a page that is needed later goes over the channel before one that is needed first. So
//! slower flash can make such reads faster, by up to a tenth, within a narrow range. It does so only
//! there: with channels that are faster than the dies, or with a window that has pages in hand, it never
//! does.

use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_model::profile::Profile;
use ssdlab_units::{MIB, Nanoseconds};

/// Seconds that reading fresh data takes, by the microseconds that sensing a page does.
fn seconds(changes: &[(&str, &str)], page_reads: &[u64]) -> Vec<f64> {
    let time_of = |micros: &u64| {
        let mut profile = Profile::named("toshiba-xg5").unwrap();
        profile.set("scale", "1/64").unwrap();
        profile.set("flash.page_read", &format!("{micros}us")).unwrap();
        for (key, value) in changes {
            profile.set(key, value).unwrap();
        }
        let mut drive = SimulatedDrive::new("test", profile.configuration().unwrap()).unwrap();
        let phase = |mix| Phase {
            name: String::new(),
            pattern: Pattern::Sequential,
            block_size: MIB,
            depth: 1,
            mix,
            region: Region::first(MIB * 512),
            amount: Amount::Bytes(MIB * 512),
            rate: None,
            seed: 1,
            flush_at_end: mix == Mix::WRITE,
            interval: Nanoseconds::ZERO,
        };
        drive.run_phase(&phase(Mix::WRITE), &mut Unobserved).unwrap();
        drive.run_phase(&phase(Mix::READ), &mut Unobserved).unwrap().elapsed.seconds()
    };
    page_reads.iter().map(time_of).collect()
}

const MICROS: [u64; 8] = [30, 45, 50, 55, 60, 65, 70, 100];

#[test]
fn slower_flash_never_makes_reads_faster_where_dies_do_not_wait_for_a_channel() {
    for changes in [
        [("flash.channel_mb_per_second", "5000")],
        [("read_ahead.window", "2 MiB")],
        [("flash.channels", "16")],
    ] {
        let seconds = seconds(&changes, &MICROS);
        for pair in seconds.windows(2) {
            assert!(pair[1] >= pair[0] * 0.999, "{changes:?}: {seconds:?}");
        }
    }
}

#[test]
fn where_they_do_the_gain_is_within_a_tenth() {
    let seconds = seconds(&[], &MICROS);
    let mut slowest = 0.0_f64;
    for &one in &seconds {
        assert!(one >= slowest * 0.9, "{seconds:?}");
        slowest = slowest.max(one);
    }
    assert!(seconds.last() > seconds.first());
}
