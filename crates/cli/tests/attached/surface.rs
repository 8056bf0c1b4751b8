//! What is not a drive's business fails as it does on a block device, and says so; who may reach a drive is
//! known.

use std::fs::{self, OpenOptions};
use std::io::Error;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::support::{Place, has_devices};

fn number(outcome: Result<(), Error>) -> i32 {
    outcome.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

#[test]
fn the_file_of_a_drive_refuses_what_a_block_device_refuses() {
    if !has_devices("the file of a drive") {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    fs::create_dir(place.path("point")).unwrap();
    let attached = place.attach(&["--file", "point", "--time", "fast"]);
    let path = place.path(&attached.at);
    let length = fs::metadata(&path).unwrap().len();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.write_all_at(&[7; 8192], 0).unwrap();

    for other in [0, 4096, length - 1, length + 1, 1 << 50] {
        assert_eq!(
            number(file.set_len(other)),
            Errno::INVAL.raw_os_error(),
            "ftruncate to {other}"
        );
    }
    assert_eq!(number(file.set_len(length)), 0, "it is that long");
    // O_TRUNC means nothing for a device, and so it is left out here.
    let again = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
    let mut data = [0; 8192];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(data, [7; 8192]);
    drop(again);

    let allocate = |flags: FallocateFlags, at, count| {
        number(fallocate(&file, flags, at, count).map_err(Error::from))
    };
    let keep = FallocateFlags::KEEP_SIZE;
    let (punch, zero) = (FallocateFlags::PUNCH_HOLE | keep, FallocateFlags::ZERO_RANGE);
    assert_eq!(
        allocate(zero, length - 4096, 8192),
        Errno::INVAL.raw_os_error(),
        "it does not grow"
    );
    assert_eq!(allocate(punch, length, 4096), Errno::INVAL.raw_os_error());
    assert_eq!(allocate(zero | keep, length + 4096, 4096), Errno::INVAL.raw_os_error());
    assert_eq!(allocate(FallocateFlags::empty(), 0, 4096), Errno::OPNOTSUPP.raw_os_error());
    assert_eq!(allocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096), Errno::OPNOTSUPP.raw_os_error());
    assert_eq!(allocate(zero | keep, length - 4096, 8192), 0, "up to its end");
    assert_eq!(allocate(punch, 0, 4096), 0);
    file.read_exact_at(&mut data, 0).unwrap();
    assert!(data[..4096] == [0; 4096] && data[4096..] == [7; 4096]);

    let refused =
        |outcome: Result<(), Error>| assert_eq!(number(outcome), Errno::PERM.raw_os_error());
    refused(fs::set_permissions(&path, fs::Permissions::from_mode(0o644)));
    refused(std::os::unix::fs::chown(&path, Some(1), Some(1)));
    refused(file.set_modified(std::time::SystemTime::UNIX_EPOCH));
    let beside = place.path("point/beside");
    refused(fs::write(&beside, "x"));
    refused(fs::create_dir(&beside));
    refused(fs::remove_file(&path));
    refused(fs::rename(&path, &beside));
    refused(fs::hard_link(&path, &beside));
    refused(std::os::unix::fs::symlink("x", &beside));
    let outcome = rustix::fs::fsetxattr(&file, "user.x", b"y", rustix::fs::XattrFlags::empty());
    assert_eq!(outcome, Err(Errno::OPNOTSUPP));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    drop(file);
    attached.detach();
}

#[test]
fn the_socket_of_a_server_is_its_owners_alone_whatever_the_umask() {
    let place = Place::new("sim:,scale=1/2048");
    for mask in ["000", "022", "077"] {
        let attached = place.attach_with_umask(mask, &["--nbd", "unix:socket", "--time", "fast"]);
        let modes =
            ["socket", "run"].map(|it| fs::metadata(place.path(it)).unwrap().mode() & 0o777);
        assert_eq!(modes, [0o600, 0o700], "umask {mask}");
        for entry in fs::read_dir(place.path("run")).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", entry.path());
        }
        attached.detach();
    }
}

#[test]
fn a_server_that_others_may_reach_says_so() {
    let place = Place::new("sim:,scale=1/2048");
    let said = |address: &str| {
        let attached = place.attach(&["--nbd", address, "--time", "fast"]);
        let said = attached.said();
        attached.detach();
        said
    };
    let public = said("0.0.0.0:0");
    assert!(public.contains("no password") && public.contains("nothing is encrypted"), "{public}");
    for private in [":0", "127.0.0.1:0", "unix:socket"] {
        assert!(!said(private).contains("password"), "{private}");
    }
}

#[test]
fn an_empty_drive_of_a_terabyte_is_opened_after_a_kill_in_little_memory() {
    let place = Place::new("sim:samsung-pm981");
    let options = ["--nbd", "unix:socket", "--time", "fast"];
    for _ in 0..2 {
        let attached = place.attach(&options);
        let Some(peak) = attached.memory_peak() else { return };
        assert!(peak < 100 << 20, "{peak} bytes, {}", attached.said());
        attached.kill();
    }
    let report: serde_json::Value =
        serde_json::from_str(&place.done(&["check", "disk.ssd", "--json"])).unwrap();
    assert_eq!(report["units_mapped"], 0);
}
