//! Raw block devices: what is refused, that a refusal changes nothing, and what is asked.
//!
//! Needs root and loop devices; without, each test says that it was skipped.

mod loops;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

pub use loops::{Above, Loop, MountedAt, SwapOn, attach, did};

use crate::support::{Done, Place, names_in, skipped, wait_until};
use loops::PartOf;

/// What has to be typed for a short run that writes.
const SHORT: [&str; 9] =
    ["--set", "area=16M", "--set", "time=50ms", "--set", "sizes=4K", "--json", "--set", "used=0"];

fn run(place: &Place, device: &str, more: &[&str]) -> Done {
    place.run(&[&["run", "blocksize", device], &SHORT[..], more].concat())
}

/// With everything that would let a run pass, if anything could.
fn run_with_all(place: &Place, device: &str) -> Done {
    run(place, device, &["--destroy-data", "--confirm", device, "--allow-buffered"])
}

/// Runs every experiment that takes devices, and expects each to be refused.
fn all_refuse(place: &Place, device: &Loop, target: &str, words: &[&str]) {
    let before = device.digest();
    each_is_refused(place, target, words);
    assert_eq!(device.digest(), before, "a refusal has changed something");
}

fn each_is_refused(place: &Place, target: &str, words: &[&str]) {
    run_with_all(place, target).fails(3, words);
    for experiment in ["random-write", "overprovision", "steady", "latency", "fragmentation"] {
        let consent = ["--quick", "--destroy-data", "--confirm", target];
        let arguments = [&["run", experiment, target], &consent[..]].concat();
        place.run(&arguments).fails(3, words);
    }
    let sweep = ["sweep", "steady", target, "--quick", "--seeds", "2"];
    place.run(&[&sweep[..], &["--destroy-data", "--confirm", target]].concat()).fails(3, words);
    let consent = ["--destroy-data", "--confirm", target];
    for (experiment, file) in [("job", job_that_writes(place)), ("replay", trace_of_trims(place))] {
        let arguments = [&["run", experiment, &file, target], &consent[..]].concat();
        place.run(&arguments).fails(3, words);
    }
    assert!(!place.path("runs.sqlite").exists());
}

/// A job that writes the second MiB.
pub fn job_that_writes(place: &Place) -> String {
    place.file("writes.fio", "[a]\ndirect=1\nrw=write\nbs=64k\noffset=1m\nsize=1m\n")
}

/// A trace that writes nothing, and loses data all the same.
pub fn trace_of_trims(place: &Place) -> String {
    place.file("trims.log", "fio version 2 iolog\n/dev/sda add\n/dev/sda trim 12582912 1048576\n")
}

#[test]
fn a_mounted_device_is_refused() {
    let test = "a mounted device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let point = place.directory("mounted");
    assert!(did("mkfs.ext4", &["-q", "-F", &device.device]));
    assert!(did("mount", &["-o", "ro,noload", &device.device, &point]));
    let _mounted = MountedAt(&point);
    all_refuse(&place, &device, &device.device, &["is in use: mounted at", "no option overrides"]);
}

#[test]
fn a_device_with_a_mounted_partition_is_refused() {
    let test = "a mounted partition";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 24) else { return };
    let part = format!("{}p1", device.device);
    // Not by a table: the kernel need not know how to read one.
    if !did("addpart", &[&device.device, "1", "2048", "32768"]) {
        return skipped(test, "no partition can be made here");
    }
    let _part = PartOf(&device.device);
    wait_until(|| Path::new(&part).exists());
    assert!(did("mkfs.ext4", &["-q", "-F", &part]));
    let point = place.directory("mounted");
    assert!(did("mount", &["-o", "ro,noload", &part, &point]));
    let _mounted = MountedAt(&point);
    all_refuse(&place, &device, &device.device, &["its partition loop", "mounted at"]);
    all_refuse(&place, &device, &part, &["is in use: mounted at"]);
}

#[test]
fn swap_space_is_refused() {
    let test = "swap space";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    assert!(did("mkswap", &[&device.device]));
    if !did("swapon", &[&device.device]) {
        return skipped(test, "nothing can be swapped to here");
    }
    let _swap = SwapOn(&device.device);
    // The kernel swaps to it as it likes, so all that stays the same is its header.
    let header = || std::fs::read(&device.backing).unwrap()[..4096].to_vec();
    let before = header();
    each_is_refused(&place, &device.device, &["is in use: swap space"]);
    assert!(header() == before, "a refusal has changed the header of the swap space");
}

#[test]
fn what_something_lies_on_is_refused() {
    let test = "a holder";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let Some(above) = attach(Path::new(&device.device), &["--read-only"]) else {
        return skipped(test, "no loop device can lie on another here");
    };
    let above = Above(above);
    all_refuse(&place, &device, &device.device, &["is in use: the backing device of loop"]);
    drop(above);
    // One that a program has open as a virtual machine's does, which claims nothing.
    let open = OpenOptions::new().read(true).write(true).open(&device.device).unwrap();
    all_refuse(&place, &device, &device.device, &["is in use: ", "open for writing"]);
    drop(open);
    // One that a program has claimed for itself, as a RAID or a file system would.
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    let claim = OpenOptions::new().read(true).custom_flags(exclusive).open(&device.device);
    let claim = claim.unwrap();
    all_refuse(
        &place,
        &device,
        &device.device,
        &["is in use: it is mounted or claimed in the kernel"],
    );
    drop(claim);
}

#[test]
fn a_loop_device_whose_file_a_program_writes_to_is_refused() {
    let test = "the file behind a loop device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    // By another name of it, as a server of the image has it open that knows of no loop device.
    let link = place.path("link");
    fs::hard_link(&device.backing, &link).unwrap();
    let open = OpenOptions::new().read(true).write(true).open(&link).unwrap();
    let file = ["is in use: its file", "disk is in use: ", "link open for writing"];
    all_refuse(&place, &device, &device.device, &file);
    let map = Stores::to(&open);
    drop(open);
    let file = ["is in use: its file", "disk is in use: ", "link mapped for writing"];
    all_refuse(&place, &device, &device.device, &file);
    drop(map);
    // A device that a program has mapped and closed again is in use as well.
    let open = OpenOptions::new().read(true).write(true).open(&device.device).unwrap();
    let map = Stores::to(&open);
    drop(open);
    all_refuse(&place, &device, &device.device, &["is in use: ", "mapped for writing"]);
    drop(map);
    // Who only reads does not stand in the way.
    let _reader = File::open(&link).unwrap();
    run_with_all(&place, &device.device).with_code(0);
}

/// A map through which this process can store to a file.
struct Stores(*mut std::ffi::c_void);

impl Stores {
    fn to(file: &File) -> Stores {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new map, which nobody touches.
        let map = unsafe { mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, file, 0) };
        Stores(map.unwrap())
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        // SAFETY: the map from above.
        unsafe { rustix::mm::munmap(self.0, 4096).unwrap() };
    }
}

#[test]
fn a_member_of_a_device_mapper_target_is_refused() {
    let test = "a device-mapper holder";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let name = format!("ssdlab-test-{}", std::process::id());
    let table = format!("0 16384 linear {} 0", device.device);
    if !did("dmsetup", &["create", &name, "--readonly", "--table", &table]) {
        return skipped(test, "device-mapper is not there");
    }
    struct Mapped(String);
    impl Drop for Mapped {
        fn drop(&mut self) {
            assert!(did("dmsetup", &["remove", &self.0]));
        }
    }
    let _mapped = Mapped(name);
    all_refuse(&place, &device, &device.device, &["is in use: held by dm-"]);
}

#[test]
fn every_member_of_a_mounted_btrfs_is_refused() {
    let test = "a btrfs of two devices";
    let place = Place::new();
    let Some(one) = Loop::new(test, &place, "one", 128) else { return };
    let Some(two) = Loop::new(test, &place, "two", 128) else { return };
    let point = place.directory("mounted");
    if !did("mkfs.btrfs", &["-q", "-f", &one.device, &two.device])
        || !did("btrfs", &["device", "scan", &one.device, &two.device])
        || !did("mount", &["-t", "btrfs", "-o", "ro", &one.device, &point])
    {
        return skipped(test, "btrfs is not there");
    }
    let _mounted = MountedAt(&point);
    let before = (one.digest(), two.digest());
    for device in [&one, &two] {
        run_with_all(&place, &device.device).fails(3, &["is in use: "]);
    }
    assert_eq!((one.digest(), two.digest()), before);
}

#[test]
fn without_the_flag_or_with_a_wrong_confirmation_nothing_is_written() {
    let test = "no flag, wrong confirmation";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let name = &device.device;
    let before = device.digest();
    // With a signature and without: it makes no difference.
    for signature in [false, true] {
        if signature {
            assert!(did("mkswap", &[name]));
        }
        let before = if signature { device.digest() } else { before };
        let no_flag = ["destroys all that it holds", "--destroy-data"];
        run(&place, name, &[]).fails(3, &no_flag);
        run(&place, name, &["--confirm", name]).fails(3, &no_flag);
        // Nobody can be asked.
        let done = run(&place, name, &["--destroy-data"]).fails(3, &["stdin is not a terminal"]);
        assert_eq!(done.stderr.contains("found on it: swap"), signature, "{}", done.stderr);
        for wrong in ["", "yes", "/dev/loop", "loop0", "/dev/vda"] {
            let given = ["--destroy-data", "--confirm", wrong];
            run(&place, name, &given).fails(3, &["does not confirm", "nothing was written"]);
        }
        assert_eq!(device.digest(), before);
    }
    assert!(!place.path("runs.sqlite").exists());
}

#[test]
fn who_may_not_write_is_refused() {
    let test = "no permission";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    // The program where nobody can run it.
    let open = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = open.path().join("ssdlab");
    fs::copy(assert_cmd::cargo::cargo_bin!("ssdlab"), &program).unwrap();
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if !did("setpriv", &[&nobody[..], &["true"]].concat()) {
        return skipped(test, "nobody can be run as");
    }
    let name = &device.device;
    let consent = ["--no-store", "--destroy-data", "--confirm", name];
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&program).args(["run", "blocksize", name]);
    command.args(SHORT).args(consent).current_dir("/").env("HOME", "/nonexistent");
    Done::of(command.output().unwrap()).fails(3, &["no permission to use", name]);
    assert_eq!(device.digest(), before);
}

#[test]
fn a_device_that_was_confirmed_is_measured_and_described() {
    let test = "a confirmed device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    let done = run_with_all(&place, &device.device).with_code(0);
    assert!(done.stderr.contains("writes about"), "{}", done.stderr);
    assert!(done.stderr.contains("to the first 16 MiB of /dev/loop"), "{}", done.stderr);
    let report = done.json();
    assert_eq!(report["target"]["kind"], "device");
    assert_eq!(report["tables"][0]["rows"].as_array().unwrap().len(), 4);
    let facts = report["target"]["facts"].as_array().unwrap();
    for name in ["model", "write cache", "rotational", "discards", "SMART before", "SMART after"] {
        assert!(facts.iter().any(|fact| fact["name"] == name), "no {name}: {facts:?}");
    }
    assert_ne!(device.digest(), before);
    // A path through a link is the same device.
    let link = place.path("link");
    std::os::unix::fs::symlink(&device.device, &link).unwrap();
    let link = link.to_str().unwrap();
    run(&place, link, &["--destroy-data", "--confirm", &device.device]).with_code(0);
    // It is free again.
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    OpenOptions::new().read(true).custom_flags(exclusive).open(&device.device).unwrap();
}

#[test]
fn a_run_that_only_reads_needs_no_consent_and_changes_nothing() {
    let test = "only reads";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let point = place.directory("mounted");
    assert!(did("mkfs.ext4", &["-q", "-F", &device.device]));
    assert!(did("mount", &["-o", "ro,noload", &device.device, &point]));
    let _mounted = MountedAt(&point);
    let before = device.digest();
    let reads = ["--set", "fill=0", "--set", "read_percent=100", "--set", "area=16M"];
    let times = ["--set", "round=20ms", "--set", "limit=60ms"];
    let arguments = [&["run", "steady", &device.device], &reads[..], &times[..]].concat();
    let done = place.run(&arguments).with_code(0);
    assert!(done.stderr.contains("only reads /dev/loop"), "{}", done.stderr);
    assert_eq!(device.digest(), before);
    // One that writes a little is refused like any other.
    let mut writes = arguments;
    writes[6] = "read_percent=99";
    place.run(&writes).fails(3, &["is in use: mounted"]);
    assert_eq!(device.digest(), before);
}

#[test]
fn experiments_on_files_do_not_take_a_device() {
    let test = "no device";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    let consent = ["--destroy-data", "--confirm", &device.device];
    let arguments = [&["run", "fragmentation", &device.device], &consent[..]].concat();
    place
        .run(&arguments)
        .fails(4, &["does not run on a raw block device", "blocksize", "directory"]);
    assert_eq!(device.digest(), before);
}

#[test]
fn what_is_said_of_a_device_that_is_written_is_refused_where_there_is_none() {
    let place = Place::new();
    let directory = place.directory("directory");
    for target in [directory.as_str(), "sim:,scale=1/2048"] {
        for options in [&["--destroy-data"][..], &["--confirm", "S3RIAL"]] {
            let option = options[0];
            run(&place, target, options).fails(2, &[option, "for a block device that is written"]);
        }
    }
    for how in ["none", "discard", "nvme-format", "ata-secure-erase"] {
        run(&place, &directory, &["--purge", how]).fails(2, &["--purge is for a block device"]);
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert!(!place.path("runs.sqlite").exists());
    place.run(&["doctor", "--yes"]).fails(2, &["--yes", "--fix or --undo"]);
}

#[test]
fn an_erase_that_the_device_cannot_is_said_before_anything_is_written() {
    let test = "erases";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let fakes = place.directory("bin");
    let script = "#!/bin/sh\necho \"$0 $*\" >> \"$FAKE_CALLS\"\nprintf 'Security:\\n\\tsupported\\n\\tfrozen\\n'\n";
    for name in ["nvme", "hdparm"] {
        let path = format!("{fakes}/{name}");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let calls = place.path("calls");
    let path = format!("{fakes}:{}", std::env::var("PATH").unwrap());
    let run = |more: &[&str]| {
        let consent = ["--destroy-data", "--confirm", &device.device];
        let mut command = place.command(
            &[&["run", "blocksize", &device.device], &SHORT[..], &consent[..], more].concat(),
        );
        Done::of(command.env("PATH", &path).env("FAKE_CALLS", &calls).output().unwrap())
    };
    let before = device.digest();
    run(&["--purge", "nvme-format"]).fails(4, &["it is no NVMe drive"]);
    assert!(!calls.exists());
    run(&["--purge", "ata-secure-erase"]).fails(4, &["frozen"]);
    let called = fs::read_to_string(&calls).unwrap();
    assert_eq!(called.lines().count(), 1, "{called}");
    assert!(called.contains("hdparm -I /dev/loop"), "{called}");
    assert_eq!(device.digest(), before);
    fs::remove_file(&calls).unwrap();
    // Never implied: what is done unless asked for needs neither program.
    let made_new = |done: Done| {
        let report = done.with_code(0).json();
        let findings = report["findings"].as_array().unwrap().clone();
        !findings.iter().any(|finding| finding["code"] == "not-made-new")
    };
    assert!(made_new(run(&[])));
    assert!(!made_new(run(&["--purge", "none"])));
    assert!(!calls.exists());
}

#[test]
fn the_share_of_the_rated_endurance_is_said_before_anything_is_written() {
    let test = "the share of the endurance";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let fakes = place.directory("bin");
    let path = format!("{fakes}/smartctl");
    let path_of_tools = format!("{fakes}:{}", std::env::var("PATH").unwrap());
    // A drive of which `used` % are used up by so many units of 512,000 bytes.
    let before_it_begins = |used: u32, units: u32| {
        let log = format!(r#"{{"percentage_used": {used}, "data_units_written": {units}}}"#);
        let told = format!(r#"{{"nvme_smart_health_information_log": {log}}}"#);
        fs::write(&path, format!("#!/bin/sh\necho '{told}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let consent = ["--destroy-data", "--confirm", &device.device];
        let arguments = [&["run", "blocksize", &device.device], &SHORT[..], &consent[..]].concat();
        let mut command = place.command(&arguments);
        Done::of(command.env("PATH", &path_of_tools).output().unwrap()).with_code(0)
    };
    // So few that the share has two digits also on a disk so slow that next to nothing is written.
    let told = before_it_begins(40, 100_000);
    let (_, rest) = told.stderr.split_once("writes about ").expect("what is written");
    let (amount, _) = rest.split_once(" in all").expect("an amount");
    let (amount, unit) = amount.split_once(' ').expect("with its unit");
    let unit = if unit == "GiB" { 1u64 << 30 } else { 1 << 20 };
    let share = amount.parse::<f64>().unwrap() * unit as f64 / 51.2e9 * 40.0;
    let (_, said) = told.stderr.split_once("For the drive: about ").expect(&told.stderr);
    let (said, words) = said.split_once(" % of its rated endurance, according to SMART").unwrap();
    let said: f64 = said.parse().unwrap();
    // Three decimals are said, and two digits of the amount.
    assert!(
        share > 0.01 && (said / share - 1.0).abs() < 0.06,
        "{said}, and {share} by hand: {}",
        told.stderr
    );
    assert!(words.starts_with(" (40 % used up by 47.68"), "{words}");
    let report = told.json();
    let facts = report["target"]["facts"].as_array().unwrap();
    let smart = facts.iter().find(|fact| fact["name"] == "SMART before").unwrap();
    assert!(smart["value"].as_str().unwrap().contains("40 % of its rated life used"), "{smart}");
    // Where not even one percent is counted, no share is made up.
    let told = before_it_begins(0, 1_000_000);
    assert!(
        told.stderr.contains("For the drive: less than 0.01 % of its rated"),
        "{}",
        told.stderr
    );
}

#[test]
fn the_question_on_a_terminal_wants_the_path_or_the_serial() {
    let test = "the question";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 16) else { return };
    let before = device.digest();
    let answered = |answer: &str| {
        let (mut master, slave) = terminal();
        let arguments = [&["run", "blocksize", &device.device], &SHORT[..], &["--destroy-data"]];
        let mut command = place.command(&arguments.concat());
        command.stdin(slave).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        writeln!(master, "{answer}").unwrap();
        let done = Done::of(child.wait_with_output().unwrap());
        assert!(done.stderr.contains("ALL OF IT WILL BE DESTROYED"), "{}", done.stderr);
        assert!(done.stderr.contains("To go on, type its path"), "{}", done.stderr);
        done
    };
    for wrong in ["", "y", "yes", "/dev/loop"] {
        answered(wrong).fails(3, &["does not confirm"]);
        assert_eq!(device.digest(), before, "{wrong:?}");
    }
    answered(&device.device).with_code(0);
    assert_ne!(device.digest(), before);
}

/// Both ends of a terminal.
pub fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32);
    (master.into(), options.open(name.to_str().unwrap()).unwrap())
}

/// The line of the mount at `point`.
fn mount_line(point: &str) -> String {
    let text = fs::read_to_string("/proc/self/mounts").unwrap();
    text.lines().find(|line| line.contains(point)).unwrap().to_owned()
}

#[test]
fn a_run_killed_at_any_point_leaves_no_file_and_no_changed_mount() {
    let test = "killed runs";
    let place = Place::new();
    let Some(device) = Loop::new(test, &place, "disk", 96) else { return };
    let point = place.directory("mounted");
    assert!(did("mkfs.ext4", &["-q", "-F", &device.device]));
    assert!(did("mount", &[&device.device, &point]));
    let mounted = MountedAt(&point);
    let before = (mount_line(&point), names_in(&point));
    for (experiment, more) in [
        ("blocksize", &["sizes=4K,64K", "--set", "area=16M", "--set", "time=300ms"][..]),
        ("random-write", &["sizes=4K,64K", "--set", "area=16M", "--set", "time=300ms"]),
        ("latency", &["area=16M", "--set", "time=300ms"]),
        ("steady", &["area=16M", "--set", "round=100ms"]),
        ("barrier", &["area=16M", "--set", "operations=100"]),
        ("fragmentation", &["file_size=16M", "--set", "rest=100ms"]),
    ] {
        for after in [5, 60, 250, 700] {
            let arguments =
                [&["run", experiment, &point, "--quick", "--no-store", "--set"], more].concat();
            let mut child = place.start(&arguments);
            std::thread::sleep(std::time::Duration::from_millis(after));
            let _ = child.kill();
            child.wait().unwrap();
            assert_eq!((mount_line(&point), names_in(&point)), before, "{experiment} {after}");
        }
    }
    drop(mounted);
    // A block device is free again at once.
    for after in [5, 100, 400] {
        let consent = ["--destroy-data", "--confirm", &device.device];
        let quick = ["--quick", "--no-store", "--set", "area=16M"];
        let arguments = [&["run", "steady", &device.device], &quick[..], &consent[..]].concat();
        let mut child = place.start(&arguments);
        std::thread::sleep(std::time::Duration::from_millis(after));
        let _ = child.kill();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert!(!words.contains("error"), "{words}");
        child.wait().unwrap();
        let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
        // The kernel takes a ring apart a moment after its process.
        let claim = || OpenOptions::new().read(true).custom_flags(exclusive).open(&device.device);
        wait_until(|| claim().is_ok());
    }
}
