//! Experiments that need a file system: simulated, and on loop-mounted ext4.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::report::{codes, column, table};
use crate::support::{Done, Place, is_root, names_in, skipped, unmount, wait_until};

/// A loop device that was made for a test, so that what is set there goes with it: a limit of
/// discards that was set to 0 cannot be raised again.
struct OwnLoop {
    number: u32,
}

impl OwnLoop {
    /// `LOOP_CTL_ADD` (linux/loop.h).
    fn add(number: u32) -> Option<OwnLoop> {
        use rustix::ioctl::{IntegerSetter, ioctl};
        let control = fs::File::options().read(true).write(true).open("/dev/loop-control").ok()?;
        // SAFETY: the request takes a number.
        let added = unsafe { ioctl(&control, IntegerSetter::<0x4c80>::new_usize(number as usize)) };
        added.ok().map(|()| OwnLoop { number })
    }

    fn path(&self) -> String {
        format!("/dev/loop{}", self.number)
    }
}

impl Drop for OwnLoop {
    /// `LOOP_CTL_REMOVE`, as soon as nobody has it open.
    fn drop(&mut self) {
        use rustix::ioctl::{IntegerSetter, ioctl};
        runs("losetup", &["-d", &self.path()]);
        let Ok(control) = fs::File::options().read(true).write(true).open("/dev/loop-control")
        else {
            return;
        };
        for _ in 0..1000 {
            let number = self.number as usize;
            // SAFETY: the request takes a number.
            let removed = unsafe { ioctl(&control, IntegerSetter::<0x4c81>::new_usize(number)) };
            if removed.is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(std::thread::panicking(), "{} stays", self.path());
    }
}

/// ext4 in a file, mounted through a loop device that goes with the mount.
pub struct Ext4 {
    point: String,
    /// The loop device, where it is the test's own; removed after the mount.
    own: Option<OwnLoop>,
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
        Some(Ext4 { point, own: None })
    }

    /// Mounts ext4 on a loop device of the test's own.
    fn on_own_loop(test: &str, place: &Place, mebibytes: u64, options: &str) -> Option<Ext4> {
        let mut mounted = Ext4::new(test, place, mebibytes, options)?;
        assert!(unmount(&mounted.point));
        let image = place.path("image");
        // Two of them at most are there at a time, one of each process.
        let Some(own) = OwnLoop::add(4096 + std::process::id() % 1024) else {
            skipped(test, "no loop device can be added here");
            std::mem::forget(mounted);
            return None;
        };
        let device = own.path();
        assert!(runs("losetup", &[&device, image.to_str().unwrap()]));
        assert!(runs("mount", &["-o", options, &device, &mounted.point]));
        mounted.own = Some(own);
        Some(mounted)
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
        let unmounted = unmount(&self.point);
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
fn times_of_a_simulated_host_are_refused_on_a_real_drive() {
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    let real = ["dir", "--no-store", "--allow-buffered"];
    for (name, set) in
        [("barrier", "host=1ms"), ("discard", "unpack=1ms"), ("discard", "remove=1ms")]
    {
        let run = [&["run", name][..], &real, &["--set", set]].concat();
        let parameter = set.split('=').next().unwrap();
        place.run(&run).fails(2, &[parameter, "no effect on a real drive"]);
    }
    assert_eq!(std::fs::read_dir(place.path("dir")).unwrap().count(), 0);
}

#[test]
fn discard_refuses_what_it_cannot_use() {
    let place = Place::new();
    let run = |target: &str, set: &[&str]| {
        place.run(&[&["run", "discard", target, "--no-store", "--allow-buffered"], set].concat())
    };
    run("./new.dat", &["--create-file"]).fails(4, &["needs a file system", "name a directory"]);
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
fn a_run_that_ends_early_puts_the_options_back_and_a_guard_does_it_for_one_that_was_killed() {
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
    let is_at_work = || mount.options().contains("discard") && names_in(&mount.point).len() > 1;
    let is_put_back =
        || !mount.options().contains("discard") && names_in(&mount.point) == ["lost+found"];
    // Killed as soon as it has begun, and in the middle; nobody comes after it.
    for after in [0, 20, 300] {
        let mut child = place.start(&arguments);
        wait_until(|| mount.options().contains("discard"));
        std::thread::sleep(Duration::from_millis(after));
        signal(&child, Signal::KILL);
        // Not waited for before, as by a parent that is busy.
        wait_until(is_put_back);
        child.wait().unwrap();
        mount.is_as_it_was(&before);
    }
    // With all that it has started.
    let mut child = place.start(&arguments);
    wait_until(is_at_work);
    let started = children_of(child.id());
    assert!(started.len() >= 2, "{started:?}");
    for process in started {
        kill_process(process, Signal::KILL).unwrap();
    }
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(mount.options().contains("discard"));
    // Any run will do.
    let quick = ["run", "fragmentation", "sim:", "--quick", "--no-store"];
    let done = place.run(&quick).with_code(0);
    assert!(done.stderr.contains("mounted without discard again"), "{}", done.stderr);
    mount.is_as_it_was(&before);
    let done = place.run(&quick).with_code(0);
    assert!(!done.stderr.contains("killed"), "{}", done.stderr);
}

/// Returns what a process has started and is still there.
fn children_of(process: u32) -> Vec<Pid> {
    let numbers = names_in("/proc").into_iter().filter_map(|name| name.parse().ok());
    let is_child = |number: &i32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // The name may hold anything, and ends with the last parenthesis.
        let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        behind.split_whitespace().nth(1) == Some(&process.to_string())
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}

#[test]
fn barrier_in_a_directory_counts_flushes_and_leaves_nothing() {
    let test = "barrier on a loop device";
    let place = Place::new();
    let Some(mount) = Ext4::new(test, &place, 2048, "nodiscard") else { return };
    let before = mount.options();
    let run = ["run", "barrier", &mount.point, "--json", "--quick"];
    let set = ["sizes=4K", "operations=64", "area=16M", "inserts=50"];
    let set = set.map(|set| ["--set", set]).concat();
    let report = place.run(&[&run[..], &set].concat()).with_code(0).json();
    let sqlite = table(&report, "sqlite");
    assert_eq!(column(sqlite, "barrier"), [true; 6]);
    let flushes: Vec<f64> =
        column(sqlite, "flushes_per_insert").iter().map(|it| it.as_f64().unwrap()).collect();
    // Full, normal, off: 4, 3 and none with fdatasync; the SQLite that is built in uses fsync, and
    // a new time stamp then costs another commit.
    assert!((4.0..=8.2).contains(&flushes[0]), "{flushes:?}");
    assert!((3.0..=6.2).contains(&flushes[1]) && flushes[1] < flushes[0], "{flushes:?}");
    assert!((1.9..=2.3).contains(&flushes[3]), "{flushes:?}");
    assert!(codes(&report).contains(&"one-mount"));
    // The verdict comes first.
    assert!(codes(&report)[0].ends_with("believable"), "{:?}", codes(&report));
    mount.is_as_it_was(&before);
    // A run that is interrupted removes its database, too.
    let child = place
        .start(&[&run[..], &set[..6], &["--set", "inserts=1000000", "--set", "time=1h"]].concat());
    wait_until(|| names_in(&mount.point).len() > 1);
    signal(&child, Signal::INT);
    Done::of(child.wait_with_output().unwrap()).with_code(130);
    mount.is_as_it_was(&before);
}

#[test]
fn trim_check_on_simulated_drives_says_where_trim_stops() {
    let place = Place::new();
    let small = "sim:generic-tlc,scale=1/64";
    let check = |target: &str, trim: &str, reads_as: &str, stopped_at: Value| {
        let run = ["run", "trim-check", target, "--json", "--quick"];
        let report = place.run(&run).with_code(0).json();
        let verdict = table(&report, "verdict");
        assert_eq!(column(verdict, "trim")[0], trim, "{target}: {verdict}");
        assert_eq!(column(verdict, "reads_as")[0], reads_as, "{target}");
        assert_eq!(column(verdict, "stopped_at")[0], stopped_at, "{target}");
        let sectors = table(&report, "sectors");
        assert_eq!(column(sectors, "old_data")[..2], [2048, 2048], "{target}");
        let text = report["findings"][0]["text"].as_str().unwrap().to_owned();
        (codes(&report)[0].to_owned(), text)
    };
    check(small, "works", "zeros", Value::Null);
    check(&format!("{small},trim.reads_after=ones"), "works", "ones", Value::Null);
    // A drive that does not say what is read gives the old data back until it has been idle.
    let undefined = format!("{small},trim.reads_after=undefined");
    let (code, text) = check(&undefined, "not told", "changing", Value::Null);
    assert_eq!(code, "no-deterministic-reads");
    assert!(text.contains("right after it 2048 blocks read as the old data"), "{text}");
    assert!(text.contains("of 2048, 0 as the old data, 2048 as zeros"), "{text}");
    let never = format!("{undefined},trim.settle=0s");
    let (_, text) = check(&never, "not told", "changing", Value::Null);
    assert!(text.contains("of 2048, 2048 as the old data"), "{text}");
    let (code, text) = check(&format!("{small},trim=off"), "does not", "old data", "drive".into());
    assert!(code == "trim-does-not-work" && text.contains("takes trims and does nothing"));
    let usb = "usb bridge".into();
    let (_, text) = check(&format!("usb({small})"), "does not", "old data", usb);
    assert!(text.contains("it stops at usb bridge"), "{text}");
    check(&format!("crypt({small})"), "does not", "old data", "crypt".into());
    check(&format!("crypt({small}),trim=on"), "works", "zeros", Value::Null);
    let members = [small; 3].join(";");
    check(&format!("raid5({members}),sync=none"), "does not", "old data", "raid5".into());
    let inner = format!("raid1(usb({small});usb({small})),sync=none");
    check(&inner, "does not", "old data", "usb bridge".into());
}

const CHECK: [&str; 5] = ["--json", "--set", "size=8M", "--set", "wait=1s"];

#[test]
fn trim_check_works_through_a_loop_device_and_does_not_through_one_that_drops_it() {
    let test = "trim-check on a loop device";
    for options in ["nodiscard", "discard"] {
        let place = Place::new();
        let Some(mount) = Ext4::on_own_loop(test, &place, 2048, options) else { return };
        let before = mount.options();
        let run = [&["run", "trim-check", &mount.point][..], &CHECK].concat();
        let report = place.run(&run).with_code(0).json();
        let verdict = table(&report, "verdict");
        assert_eq!(column(verdict, "trim")[0], "works", "{report}");
        assert_eq!(column(verdict, "reads_as")[0], "zeros");
        let sectors = table(&report, "sectors");
        assert_eq!(column(sectors, "old_data"), [2048, 0, 0]);
        mount.is_as_it_was(&before);
        let device = mount.own.as_ref().unwrap().path();
        let name = device.trim_start_matches("/dev/");
        if fs::write(format!("/sys/block/{name}/queue/discard_max_bytes"), "0").is_err() {
            return skipped(test, "the discard limit of a loop device cannot be changed here");
        }
        let report = place.run(&run).with_code(0).json();
        let verdict = table(&report, "verdict");
        assert_eq!(column(verdict, "trim")[0], "does not", "{report}");
        let stopped_at = column(verdict, "stopped_at")[0].as_str().unwrap().to_owned();
        assert!(stopped_at.starts_with(&format!("{name} (loop device")), "{stopped_at}");
        assert_eq!(column(table(&report, "sectors"), "old_data"), [2048; 3]);
        assert_eq!(codes(&report)[0], "trim-does-not-work");
        mount.is_as_it_was(&before);
    }
}

#[test]
fn trim_check_needs_a_file_system_that_says_where_files_lie() {
    let place = Place::new();
    let run = |target: &str| {
        place.run(&["run", "trim-check", target, "--no-store", "--allow-buffered", "--quick"])
    };
    let new = ["run", "trim-check", "./new.dat", "--create-file", "--no-store", "--quick"];
    place.run(&new).fails(4, &["needs a file system", "name a directory"]);
    let shared = "/dev/shm";
    if fs::metadata(shared).is_ok() {
        let done = run(shared).with_code(4);
        assert!(done.stderr.contains("no block device below it"), "{}", done.stderr);
    }
}

#[test]
fn a_file_that_is_not_of_ssdlabs_is_never_replaced() {
    let place = Place::new();
    let mine = "somebody's work";
    place.file("mine", mine);
    place.directory("figures");
    place.file("figures/columns.csv", mine);
    place.directory("tables");
    place.file("tables/table-reads.csv", mine);
    let run = ["run", "fragmentation", "--quick"];
    place.run(&[&run[..], &["--csv", "figures"]].concat()).fails(3, &["--csv", "columns.csv"]);
    assert!(!place.path("runs.sqlite").exists(), "it is refused before it runs");
    place.run(&run).with_code(0);
    place.run(&["show", "last", "--csv", "tables"]).fails(3, &["tables", "table-reads.csv"]);
    let explore = ["power-cut", "explore", "--histories", "1", "--output", "mine"];
    place.run(&explore).fails(3, &["--output", "mine"]);
    place
        .run(&["export", "steady", "x.dat", "--quick", "-o", "mine"])
        .fails(3, &["--output", "mine"]);
    let here = place.path("").display().to_string();
    place.run(&["doctor", &here, "--prometheus", "mine"]).fails(3, &["--prometheus", "mine"]);
    place.run(&["doctor", &here, "--capture", "mine"]).fails(3, &["--capture", "mine"]);
    for file in ["mine", "figures/columns.csv", "tables/table-reads.csv"] {
        assert_eq!(fs::read_to_string(place.path(file)).unwrap(), mine, "{file}");
    }
    // Its own files are replaced.
    for _ in 0..2 {
        place.run(&["show", "last", "--csv", "new"]).with_code(0);
        place.run(&["export", "steady", "x.dat", "--quick", "-o", "run.sh"]).with_code(0);
        place.run(&["doctor", &here, "--capture", "machine", "--quiet"]).with_code(0);
    }
    // There is none to be written.
    let steady = ["run", "steady", "sim:,scale=1/256", "--quick", "--hdr", "empty.hlog"];
    let done = place.run(&steady).with_code(0);
    assert!(done.stderr.contains("no histogram") && !place.path("empty.hlog").exists(), "{done:?}");
}

#[test]
fn what_cannot_be_exported_says_why() {
    let place = Place::new();
    for (experiment, words) in [
        ("trim-check", "examines a file system"),
        ("discard", "examines a file system"),
        ("job", "copy the file"),
        ("replay", "copy the file"),
        ("load-latency", "itself, which fio alone cannot do"),
    ] {
        place.run(&["export", experiment, "new.dat", "--quick"]).fails(4, &[experiment, words]);
    }
}
