//! Refreshes that are killed, and drives that lose power meanwhile: the content stays, and nothing else
//! is left.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FlockOperation, flock};

use crate::refresh::{MIB, Scene, text};
use crate::refresh_case::{Case, forget_memory};
use crate::support::{Place, count, tool};

/// Bytes that are free.
fn free(point: &Path) -> u64 {
    let found = rustix::fs::statvfs(point).unwrap();
    found.f_bfree * found.f_frsize
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Refreshes that are disturbed at random moments.
struct Disturbed<'a> {
    case: Case,
    place: &'a Place,
    arguments: Vec<String>,
    /// How long one takes that is not.
    whole: Duration,
    generator: Pcg64Mcg,
}

impl<'a> Disturbed<'a> {
    fn new(case: Case, place: &'a Place, scene: &Scene<'_>, seed: u64) -> Disturbed<'a> {
        let mut arguments = case.arguments(scene);
        arguments.push("--quiet".to_owned());
        let generator = Pcg64Mcg::seed_from_u64(seed);
        let mut it = Disturbed { case, place, arguments, whole: Duration::ZERO, generator };
        it.prepare(scene);
        let started = Instant::now();
        place.done(&borrowed(&it.arguments));
        it.whole = started.elapsed();
        it.restore(scene);
        it
    }

    /// Before a refresh.
    fn prepare(&self, scene: &Scene<'_>) {
        if self.case.is_unmounted() {
            scene.unmount();
        }
    }

    /// After one that cut no power.
    fn restore(&self, scene: &Scene<'_>) {
        if self.case.is_unmounted() {
            scene.mount();
        }
    }

    /// Begins a refresh, and waits for a while.
    fn begin(&mut self) -> Child {
        let mut command = self.place.command(&borrowed(&self.arguments));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(self.whole.mul_f64(self.generator.random_range(0.0..1.0)));
        child
    }
}

/// Kills refreshes at random moments; the content stays, and nothing else is left.
fn survives_kills(case: Case, kills: u32) {
    let place = case.place();
    let mut scene = case.scene(&place);
    let content = scene.content();
    let point = text(&scene.point).to_owned();
    tool("sync", &["-f", &point]);
    let room = free(&scene.point);
    // By somebody's choice, for good.
    let is_hurried = !kernel_takes_its_time();
    let mut disturbed = Disturbed::new(case, &place, &scene, 11);
    let mut midst = 0;
    for kill in 0..kills {
        disturbed.prepare(&scene);
        let mut child = disturbed.begin();
        child.kill().unwrap();
        midst += u32::from(!child.wait().unwrap().success());
        disturbed.restore(&scene);
        // A file system that stayed frozen would keep this waiting for ever.
        std::fs::write(scene.point.join("alive"), kill.to_string()).unwrap();
        tool("sync", &["-f", &point]);
        assert!(scene.content() == content, "{case:?}: the content after kill {kill}");
        // What a freeze asked of the kernel is taken back, by the child if need be.
        assert!(is_hurried || kernel_takes_its_time(), "the kernel hurries on after kill {kill}");
    }
    let names: Vec<_> = std::fs::read_dir(&scene.point)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lost+found")
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // ext4 and btrfs give back what was freed when they commit.
    let until = Instant::now() + Duration::from_secs(60);
    while free(&scene.point) + 2 * MIB < room && Instant::now() < until {
        tool("sync", &["-f", &point]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(free(&scene.point) + 2 * MIB >= room, "{case:?}: room is missing");
    disturbed.prepare(&scene);
    let rest = case.arguments_to_resume(&scene);
    let rest = place.run(&borrowed(&rest));
    // Killed before it began, or after its end, there is nothing to resume.
    assert!(matches!(rest.status.code(), Some(0 | 2)), "{rest:?}");
    disturbed.restore(&scene);
    forget_memory(&scene);
    assert!(scene.content() == content, "{case:?}: after the rest");
    scene.unmount();
    case.check(&scene);
    scene.detach();
    eprintln!("{case:?}: {midst} of {kills} killed in the midst of it");
}

/// Returns `true` where the kernel takes its time over grace periods once no refresh is in haste, as one of another
/// test may be: each holds a shared lock on the setting meanwhile.
fn kernel_takes_its_time() -> bool {
    const SETTING: &str = "/sys/kernel/rcu_expedited";
    let Ok(setting) = File::open(SETTING) else { return true };
    flock(&setting, FlockOperation::LockExclusive).unwrap();
    std::fs::read_to_string(SETTING).unwrap().trim() != "1"
}

fn kills(case: Case, few: u32) {
    if case.is_possible("refresh and kills") {
        survives_kills(case, count("SSDLAB_REFRESH_KILLS", few));
    }
}

#[test]
fn a_refresh_that_is_killed_leaves_the_content_and_nothing_else() {
    kills(Case::EXT4, 4);
    kills(Case::EXT4_FROZEN, 4);
}

#[test]
fn so_it_is_on_btrfs() {
    kills(Case::BTRFS, 2);
}

#[test]
fn so_it_is_where_xfs_exchanges_ranges() {
    kills(Case::XFS_EXCHANGED, 2);
}

#[test]
fn so_it_is_on_xfs_in_place() {
    kills(Case::XFS_FROZEN, 2);
}

#[test]
fn so_it_is_with_a_device_that_is_mounted() {
    kills(Case::DEVICE, 2);
}

#[test]
fn so_it_is_with_a_device_that_is_not() {
    kills(Case::DEVICE_UNMOUNTED, 2);
}

/// Cuts the drive's power at random moments of a refresh. Mounting then does what has to be done; the
/// file system is sound, and the content whole.
fn survives_power_cuts(case: Case, cuts: u32) {
    let place = case.place();
    let mut scene = case.scene(&place);
    let content = scene.content();
    let mut disturbed = Disturbed::new(case, &place, &scene, 13);
    let mut midst = 0;
    for cut in 0..cuts {
        disturbed.prepare(&scene);
        case.expect_failure(&scene);
        let mut child = disturbed.begin();
        place.done(&["power-cut", "disk.ssd"]);
        midst += u32::from(!child.wait().unwrap().success());
        scene.detach();
        scene.attach();
        assert!(scene.content() == content, "{case:?}: after cut {cut}");
        scene.unmount();
        case.check(&scene);
        scene.mount();
    }
    scene.detach();
    eprintln!("{case:?}: {midst} of {cuts} cuts in the midst of it");
}

fn cuts(case: Case, few: u32) {
    if case.is_possible("refresh and power cuts") {
        survives_power_cuts(case, count("SSDLAB_REFRESH_CUTS", few));
    }
}

#[test]
fn power_that_is_cut_meanwhile_costs_nothing_on_ext4() {
    cuts(Case::EXT4, 2);
    cuts(Case::EXT4_FROZEN, 2);
}

#[test]
fn power_that_is_cut_meanwhile_costs_nothing_on_btrfs() {
    cuts(Case::BTRFS, 2);
}

#[test]
fn power_that_is_cut_meanwhile_costs_nothing_on_xfs() {
    cuts(Case::XFS_EXCHANGED, 2);
    cuts(Case::XFS_FROZEN, 2);
}

#[test]
fn power_that_is_cut_meanwhile_costs_nothing_on_a_device() {
    cuts(Case::DEVICE, 2);
    cuts(Case::DEVICE_UNMOUNTED, 2);
}
