//! Machines as a real kernel shows them: captured in the guest of `scripts/guest/run`, whose drives
//! counted what arrived. `in_guest/truth.json` is what these counters say of each.
//!
//! To make them anew: `scripts/guest/run --captures crates/host/tests/in_guest`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use ssdlab_host::doctor::{self, Check, Verdict};
use ssdlab_host::{Captured, Facts};

/// Where the guest mounts what is looked at.
const TARGET: &str = "/mnt/top";

/// What the drives' counters say of a stack.
#[derive(Deserialize)]
struct Truth {
    /// True if what a deleted file leaves is trimmed on every drive.
    works: bool,
    /// Names of the layer where it is not passed on.
    stops_at: Option<Vec<String>>,
    /// True if a flush arrives when a file is made durable.
    flushes: bool,
}

fn truths() -> BTreeMap<String, Truth> {
    let text = std::fs::read_to_string(directory().join("truth.json")).expect("truth.json");
    serde_json::from_str(&text).expect("truth.json is what the guest's script writes")
}

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/in_guest"))
}

fn captured(name: &str) -> Captured {
    Captured::open(&directory().join(format!("{name}.tar.gz"))).expect(name)
}

/// Returns what doctor says of the file system on a stack.
fn checks(facts: &Captured, name: &str) -> Vec<Check> {
    let mut diagnosis = doctor::examine(facts, Some(TARGET)).expect(name);
    assert_eq!(diagnosis.targets.len(), 1, "{name}");
    diagnosis.targets.remove(0).checks
}

fn check(name: &str, which: &str) -> Option<Check> {
    checks(&captured(name), name).into_iter().find(|check| check.check == which)
}

/// A layer's name without where its node is.
fn short(name: &str) -> &str {
    let name = name.strip_prefix("/dev/").unwrap_or(name);
    name.strip_prefix("mapper/").unwrap_or(name)
}

#[test]
fn doctor_says_of_every_captured_stack_what_the_drives_have_counted() {
    let truths = truths();
    assert!(truths.len() > 30, "{} stacks", truths.len());
    for (name, truth) in truths {
        let reach = check(&name, "trim").and_then(|check| check.reach).expect(&name);
        assert_eq!(reach.works, Some(truth.works), "{name}");
        match (reach.stops_at, truth.stops_at) {
            (None, None) => {}
            (Some(said), Some(right)) => {
                assert!(right.iter().any(|it| short(it) == short(&said)), "{name}: {said}");
            }
            (said, right) => panic!("{name}: {said:?}, not {right:?}"),
        }
    }
}

#[test]
fn doctor_knows_who_sends_no_flushes() {
    let mut silent = 0;
    // A drive in memory has no cache to flush.
    for (name, truth) in truths().into_iter().filter(|(name, _)| name != "zram") {
        let barriers = check(&name, "barriers").expect(&name);
        assert_eq!(barriers.verdict == Verdict::Fine, truth.flushes, "{name}: {barriers:?}");
        silent += usize::from(!truth.flushes);
    }
    assert_eq!(silent, 1, "ext4 without barriers is among them");
}

#[test]
fn a_partition_that_begins_at_sector_63_is_seen_in_what_the_kernel_shows() {
    let of = |name| check(name, "alignment").expect("alignment is looked at").verdict;
    assert_eq!(of("plain-virtio"), Verdict::Fine);
    assert!(of("misaligned") >= Verdict::Warning, "{:?}", of("misaligned"));
}

#[test]
fn trimming_by_option_is_seen_and_a_timer_beside_it_and_trimming_by_neither() {
    let of = |name| check(name, "automatic-trim").expect("automatic trim is looked at");
    // What the timer trims is in fstab, which was not asked for when this was captured.
    let option = of("ext4-discard");
    assert_eq!(option.verdict, Verdict::Fine, "{option:?}");
    assert!(option.missing.as_ref().is_some_and(|it| it.contains("fstrim.timer")), "{option:?}");
    assert!(of("plain-virtio").verdict >= Verdict::Warning, "{:?}", of("plain-virtio"));
}

#[test]
fn a_capture_that_is_written_again_is_the_same_machine() {
    for name in truths().into_keys() {
        let mut bytes = Vec::new();
        captured(&name).write(&mut bytes).expect("memory takes all");
        let again = Captured::read_from(bytes.as_slice()).expect(&name);
        assert_eq!(again.machine(), captured(&name).machine(), "{name}");
        assert_eq!(checks(&again, &name), checks(&captured(&name), &name), "{name}");
    }
}
