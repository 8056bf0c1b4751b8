//! Experiments that need a file system: simulated, and on loop-mounted ext4.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Done, Place, is_root, names_in, skipped, wait_until};

fn table<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tables = report["tables"].as_array().unwrap();
    tables.iter().find(|table| table["name"] == name).unwrap_or_else(|| panic!("no table {name}"))
}

fn column(table: &Value, name: &str) -> Vec<Value> {
    let columns = table["columns"].as_array().unwrap();
    let index = columns.iter().position(|column| column["name"] == name).unwrap();
    table["rows"].as_array().unwrap().iter().map(|row| row[index].clone()).collect()
}

fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// ext4 in a file, mounted through a loop device that goes with the mount.
pub struct Ext4 {
    point: String,
}

impl Ext4 {
    /// `None`, said aloud, where one may not mount.
    pub fn new(test: &str, place: &Place, mebibytes: u64, options: &str) -> Option<Ext4> {
        if !is_root() {
            skipped(test, "not root, so nothing can be mounted");
            return None;
        }
        let image = place.file("image", "");
        fs::File::options().write(true).open(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let point = place.directory("mounted");
        let options = format!("loop,{options}");
        if !runs("mkfs.ext4", &["-q", "-F", &image])
            || !runs("mount", &["-o", &options, &image, &point])
        {
            skipped(test, "ext4 cannot be mounted through a loop device here");
            return None;
        }
        Some(Ext4 { point })
    }

    /// The options of the mount and of the file system, as the kernel shows them.
    fn options(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let own = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&self.point));
        own.unwrap().split(' ').nth(3).unwrap().to_owned()
    }

    /// What a run must leave behind: what was there before it.
    #[track_caller]
    fn is_as_it_was(&self, options: &str) {
        assert_eq!(self.options(), options);
        assert_eq!(names_in(&self.point), ["lost+found"]);
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let unmounted = runs("umount", &[&self.point]);
        assert!(unmounted || std::thread::panicking(), "{} stays mounted", self.point);
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

const SMALL_TREE: [&str; 4] = ["--set", "entries=400", "--set", "size=4M"];

#[test]
fn discard_on_a_simulated_drive_makes_deleting_dearer_and_nothing_else() {
    let place = Place::new();
    let run = |target: &str| {
        let run = ["run", "discard", target, "--json"];
        let set = ["--set", "entries=6000", "--set", "size=64M"];
        place.run(&[&run[..], &set].concat()).with_code(0).json()
    };
    let report = run("sim:sandisk-readycache-32");
    let passes = table(&report, "passes");
    let expected: Vec<bool> = [[true; 5], [false; 5]].concat();
    assert_eq!(column(passes, "discard"), expected);
    assert_eq!(column(passes, "pass")[3..6], [4, 5, 1]);
    let means = table(&report, "means");
    let ratio = |name: &str| {
        let both = column(means, name);
        both[0].as_f64().unwrap() / both[1].as_f64().unwrap()
    };
    // The whole tree of the source gives 1.35, too; it takes longer.
    let deleting = ratio("delete_mean_seconds");
    assert!((1.25..1.45).contains(&deleting), "{deleting}");
    assert!((ratio("extract_mean_seconds") - 1.0).abs() < 0.03);
    assert_eq!(codes(&report)[..3], ["discard-deleting", "discard-unpacking", "trims"]);
    assert_eq!(report["tables"], run("sim:sandisk-readycache-32")["tables"]);
    let dropped = run("usb(sim:sandisk-readycache-32)");
    assert!(codes(&dropped).contains(&"no-trims"), "{dropped}");
}

#[test]
fn discard_refuses_what_it_cannot_use() {
    let place = Place::new();
    let run = |target: &str, set: &[&str]| {
        place.run(&[&["run", "discard", target, "--no-store", "--allow-buffered"], set].concat())
    };
    run("./new.dat", &[]).fails(4, &["needs a file system", "name a directory"]);
    run("sim:", &["--set", "entries=1"]).fails(2, &["entries is 1"]);
    let missing = ["--set", "tarball=nosuch.tar"];
    run("sim:", &missing).fails(2, &["nosuch.tar"]);
    let both = ["--set", "tarball=a.tar", "--set", "size=1M"];
    run("sim:", &both).fails(2, &["one or the other"]);
}

#[test]
fn discard_on_a_real_mount_puts_its_options_back() {
    let test = "discard on a real mount puts its options back";
    for (options, tarball) in [("noatime", false), ("discard,noatime", true)] {
        let place = Place::new();
        let Some(mount) = Ext4::new(test, &place, 2048, options) else { return };
        let before = mount.options();
        assert_eq!(before.contains("discard"), options.contains("discard"));
        let run = ["run", "discard", &mount.point, "--json"];
        let archive = place.path("tree.tar");
        let set = if tarball {
            fs::create_dir_all(place.path("source/sub")).unwrap();
            fs::write(place.path("source/sub/file"), vec![7; 100_000]).unwrap();
            let source = place.path("");
            let arguments =
                ["-cf", archive.to_str().unwrap(), "-C", source.to_str().unwrap(), "source"];
            assert!(runs("tar", &arguments));
            vec!["--set".to_owned(), format!("tarball={}", archive.display())]
        } else {
            SMALL_TREE.map(str::to_owned).to_vec()
        };
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let done = place.run(&[&run[..], &set].concat()).with_code(0);
        let report = done.json();
        let passes = table(&report, "passes");
        assert_eq!(column(passes, "discard"), [[true; 5], [false; 5]].concat());
        assert!(column(passes, "delete_seconds").iter().all(|cell| cell.as_f64().unwrap() > 0.0));
        assert!(done.stderr.contains("that is made 10 times"), "{}", done.stderr);
        mount.is_as_it_was(&before);
    }
}

#[test]
fn a_run_that_ends_early_puts_the_options_back_and_the_next_one_does_it_for_one_that_was_killed() {
    let test = "a run that ends early puts the options back";
    let place = Place::new();
    let Some(mount) = Ext4::new(test, &place, 2048, "nodiscard") else { return };
    let before = mount.options();
    let long = ["run", "discard", &mount.point, "--json", "--set", "passes=100000"];
    let arguments = [&long[..], &SMALL_TREE].concat();
    for kind in [Signal::INT, Signal::TERM, Signal::HUP] {
        let child = place.start(&arguments);
        wait_until(|| mount.options().contains("discard"));
        signal(&child, kind);
        let report = Done::of(child.wait_with_output().unwrap()).with_code(130).json();
        assert_eq!(report["interrupted"], true);
        mount.is_as_it_was(&before);
    }
    let mut child = place.start(&arguments);
    wait_until(|| mount.options().contains("discard") && names_in(&mount.point).len() > 1);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(mount.options().contains("discard") && names_in(&mount.point).len() > 1);
    // Any run will do.
    let quick = ["run", "fragmentation", "sim:", "--quick", "--no-store"];
    let done = place.run(&quick).with_code(0);
    assert!(done.stderr.contains("mounted without discard again"), "{}", done.stderr);
    mount.is_as_it_was(&before);
    let done = place.run(&quick).with_code(0);
    assert!(!done.stderr.contains("killed"), "{}", done.stderr);
}
