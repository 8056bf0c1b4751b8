//! Several hosts use one drive at the same time, in every interleaving of their steps, or in some of many.

use ssdlab_image_crash::explore::Plan;
use ssdlab_image_crash::history::{Step, UNIT};
use ssdlab_image_crash::interleave::{InterleavingReport, Race};
use ssdlab_image_crash::setup::Setup;

fn check(name: &str, tried: &InterleavingReport) {
    println!("{name}: {tried:?}");
    assert!(tried.orders > 1, "{tried:?}");
    if let Some(finding) = &tried.finding {
        panic!("{name}: {finding}");
    }
}

/// Each host writes a unit of its own and flushes.
fn two_flushers(drive: &str, switches: usize) {
    let setup = Setup::named(drive).expect("it is there");
    let write = |unit: u32| Step::Write(unit * UNIT, UNIT, false);
    let before = vec![write(0), write(1), Step::Flush, write(2), Step::Flush];
    let hosts = vec![vec![write(10), Step::Flush], vec![write(20), Step::Flush]];
    let race = Race { setup, before, hosts, has_helper: drive == "plain-in-time" };
    check(drive, &race.try_all(switches, Plan::LONG, 300));
}

/// Three hosts do many things by chance, while the drive collects.
fn three_hosts(drive: &str, races: u64) {
    let setup = Setup::named(drive).expect("it is there");
    let first = std::env::var("SSDLAB_SEED").map_or(1, |it| it.parse().expect("a number"));
    for seed in first..first + races {
        let race = Race::random(setup, 3, 20, seed);
        check(&format!("SSDLAB_SEED={seed}: {drive}"), &race.try_some(2, seed, Plan::LONG, 300));
    }
}

#[test]
fn two_flushers_of_a_drive() {
    two_flushers("plain", 3);
}

#[test]
fn two_flushers_with_capacitors() {
    two_flushers("protected", 3);
}

#[test]
fn two_flushers_and_a_helper() {
    two_flushers("plain-in-time", 1);
}

#[test]
fn three_hosts_of_a_drive() {
    three_hosts("plain", 15);
}

#[test]
fn three_hosts_with_capacitors() {
    three_hosts("protected", 15);
}

#[test]
fn three_hosts_and_a_helper() {
    three_hosts("plain-in-time", 15);
}

#[test]
fn three_hosts_and_a_helper_with_capacitors() {
    three_hosts("protected-in-time", 15);
}
