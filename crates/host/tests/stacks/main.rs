//! Layers and verdicts on machines that are made up: each stack that people run, and each thing
//! that can be wrong with it.

mod automatic;
mod drives;
mod machine;
mod outputs;
mod settings;
mod trim;

use ssdlab_host::Captured;
use ssdlab_host::doctor::{self, Check, Diagnosis, Verdict};

/// The outcome of one check of the only target, or of a drive or the machine.
fn outcome(facts: &Captured, target: &str, check: &str) -> Check {
    let diagnosis = examined(facts, target);
    let found: Vec<&Check> =
        diagnosis.all().map(|(_, it)| it).filter(|it| it.check == check).collect();
    match found.as_slice() {
        [one] => (*one).clone(),
        other => panic!("{} outcomes of {check} for {target}", other.len()),
    }
}

fn examined(facts: &Captured, target: &str) -> Diagnosis {
    // As a capture that went through a file: whatever is asked for must be in it.
    let captured = ssdlab_host::capture(facts, Some(target)).unwrap();
    let mut bytes = Vec::new();
    captured.write(&mut bytes).unwrap();
    let read = Captured::read_from(&bytes[..]).unwrap();
    let live = doctor::examine(facts, Some(target)).unwrap();
    assert_eq!(doctor::examine(&read, Some(target)).unwrap(), live);
    live
}

#[track_caller]
fn assert_verdict(check: &Check, verdict: Verdict, words: &[&str]) {
    assert_eq!(check.verdict, verdict, "{check:#?}");
    let all = format!("{check:?}");
    for word in words {
        assert!(all.contains(word), "no {word:?} in {check:#?}");
    }
}
