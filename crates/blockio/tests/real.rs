//! The real drive on real files: what is written is there, and what is created goes again.
//!
//! Tests that need root, a mount or direct I/O say on stderr when they are skipped.
#![cfg(target_os = "linux")]

#[path = "real/support.rs"]
mod support;

use std::fs;
use std::path::Path;

use ssdlab_blockio::{RealDrive, RealOptions};
use ssdlab_drive::{
    Amount, Control, Drive, DriveKind, ErrorKind, Mix, Observer, Pattern, Progress, Rate, Region,
    Unobserved,
};
use ssdlab_units::{ByteLength, GIB, KIB, MIB, Nanoseconds};
use support::{
    LoopDevice, Mounted, for_file, is_root, names_in, open, options, own_file, phase, run, scratch,
    skipped, succeeds, text_with_causes, without_uring,
};

#[test]
fn a_fill_is_read_back_byte_for_byte() {
    let directory = scratch();
    let mut drive = open(directory.path(), MIB * 16);
    let mut fill = phase(Pattern::Sequential, Mix::WRITE, MIB, MIB * 16);
    fill.flush_at_end = true;
    fill.interval = Nanoseconds::from_millis(1);
    let written = run(&mut drive, &fill);
    assert_eq!((written.requests, written.bytes_written), (16, MIB * 16));
    assert_eq!(written.write_latencies.count(), 16);
    let series = written.throughput.iter();
    assert_eq!(series.map(|point| point.bytes).sum::<ByteLength>(), MIB * 16);

    let read = run(&mut drive, &phase(Pattern::Sequential, Mix::READ, KIB * 64, MIB * 16));
    assert_eq!((read.requests, read.bytes_read), (256, MIB * 16));
    assert_eq!(read.bytes_written, ByteLength::ZERO);
    assert!(read.started > written.started);

    drive.verify(Region::first(MIB * 16), 7).unwrap();
    let error = drive.verify(Region::first(MIB * 16), 8).unwrap_err();
    assert!(text_with_causes(&error).contains("the sector at byte 0 was not written"));
}

#[test]
fn every_engine_writes_each_block_in_its_place() {
    for (options, depth) in [(options(), 1), (options(), 8), (options(), 128), (without_uring(), 8)]
    {
        let directory = scratch();
        let mut drive = RealDrive::open(directory.path(), options).unwrap();
        drive.prepare(MIB * 8).unwrap();
        let mut fill = phase(Pattern::RandomOnce, Mix::WRITE, KIB * 4, MIB * 8);
        fill.depth = depth;
        let written = run(&mut drive, &fill);
        assert_eq!(written.requests, 2048);
        assert_eq!(written.write_latencies.count(), 2048);
        drive.verify(Region::first(MIB * 8), 7).unwrap();

        // Nothing was written twice, so a second pass of another seed leaves nothing of it.
        fill.seed = 9;
        fill.mix = Mix { read_percent: 50 };
        let mixed = run(&mut drive, &fill);
        assert_eq!(mixed.bytes(), MIB * 8);
        assert!(mixed.read_latencies.count() > 800 && mixed.write_latencies.count() > 800);
        assert!(drive.verify(Region::first(MIB * 8), 7).is_err());
    }
}

#[test]
fn a_region_in_the_middle_is_all_that_changes() {
    let directory = scratch();
    let mut drive = open(directory.path(), MIB * 4);
    run(&mut drive, &phase(Pattern::Sequential, Mix::WRITE, MIB, MIB * 4));
    let middle = Region { offset: MIB, length: MIB * 2 };
    let mut overwrite = phase(Pattern::RandomOnce, Mix::WRITE, KIB * 4, MIB * 2);
    overwrite.region = middle;
    overwrite.seed = 8;
    overwrite.depth = 4;
    run(&mut drive, &overwrite);
    drive.verify(Region::first(MIB), 7).unwrap();
    drive.verify(middle, 8).unwrap();
    let behind = Region { offset: MIB * 3, length: MIB };
    drive.verify(behind, 7).unwrap();
}

#[test]
fn time_and_rate_are_kept() {
    for (options, depth) in [(options(), 1), (options(), 4), (without_uring(), 4)] {
        let directory = scratch();
        let mut drive = RealDrive::open(directory.path(), options).unwrap();
        drive.prepare(MIB).unwrap();
        let mut slow = phase(Pattern::Random, Mix::WRITE, KIB * 4, MIB);
        slow.depth = depth;
        slow.amount = Amount::Time(Nanoseconds::from_millis(400));
        slow.rate = Some(Rate::RequestsPerSecond(200.0));
        let result = run(&mut drive, &slow);
        // One every 5 ms, the first at once: at most 80, less where the machine was away.
        assert!((1..=80).contains(&result.requests), "{}", result.requests);
        assert!(result.elapsed >= Nanoseconds::from_millis(395));
        slow.amount = Amount::Bytes(KIB * 4 * 21);
        let result = run(&mut drive, &slow);
        assert_eq!(result.requests, 21);
        assert!(result.elapsed >= Nanoseconds::from_millis(100), "{}", result.elapsed);
    }
}

#[test]
fn a_directory_stays_empty_whether_the_file_was_named_or_not() {
    let directory = scratch();
    let mut drive = open(directory.path(), MIB);
    let description = drive.description();
    assert_eq!(description.kind, DriveKind::Directory);
    assert_eq!(description.capacity, MIB);
    assert_eq!(names_in(directory.path()), [""; 0]);
    assert!(!description.caveats.iter().any(|it| it.contains("killed")));
    drive.clean_up().unwrap();
    assert_eq!(names_in(directory.path()), [""; 0]);

    // What was cleaned up is prepared again.
    assert_eq!(drive.flush().unwrap_err().kind(), ErrorKind::Usage);
    drive.prepare(MIB).unwrap();
    drive.flush().unwrap();
    drop(drive);
    assert_eq!(names_in(directory.path()), [""; 0]);

    let drive = open(&directory.path().join("named"), MIB);
    assert_eq!(drive.description().kind, DriveKind::File);
    assert_eq!(names_in(directory.path()), [""; 0]);
    assert_eq!(own_file(&directory.path().join("named")).metadata().unwrap().len(), MIB.bytes());
    drop(drive);
    assert_eq!(names_in(directory.path()), [""; 0]);
}

/// Cancels once something was transferred.
struct Impatient;

impl Observer for Impatient {
    fn progress(&mut self, progress: &Progress) -> Control {
        match progress.bytes_done {
            ByteLength::ZERO => Control::Continue,
            _ => Control::Cancel,
        }
    }
}

#[test]
fn cancelling_ends_a_phase_and_leaves_nothing() {
    for (options, depth) in [(options(), 1), (options(), 8), (without_uring(), 8)] {
        let directory = scratch();
        let path = directory.path().join("named");
        let mut drive = RealDrive::open(&path, for_file(options)).unwrap();
        drive.prepare(MIB * 4).unwrap();
        let mut endless = phase(Pattern::Random, Mix::WRITE, KIB * 4, MIB * 4);
        endless.depth = depth;
        endless.amount = Amount::Time(Nanoseconds::from_secs(3600));
        let error = drive.run_phase(&endless, &mut Impatient).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        // The drive itself is in order.
        run(&mut drive, &phase(Pattern::Sequential, Mix::WRITE, MIB, MIB * 4));
        drop(drive);
        assert_eq!(names_in(directory.path()), [""; 0]);
    }
}

#[test]
fn a_rest_lasts_as_long_as_it_should_and_can_be_cancelled() {
    struct AtOnce;
    impl Observer for AtOnce {
        fn progress(&mut self, _: &Progress) -> Control {
            Control::Cancel
        }
    }
    let directory = scratch();
    let mut drive = RealDrive::open(directory.path(), options()).unwrap();
    let before = drive.now();
    drive.rest(Nanoseconds::from_millis(150), &mut Unobserved).unwrap();
    assert!(drive.now().since(before) >= Nanoseconds::from_millis(150));
    let hour = Nanoseconds::from_secs(3600);
    let error = drive.rest(hour, &mut AtOnce).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn an_existing_file_is_refused_and_unchanged() {
    let directory = scratch();
    let path = directory.path().join("precious");
    fs::write(&path, "precious").unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for target in [&path, &link] {
        let error = RealDrive::open(target, options()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("exists; ssdlab only writes"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}

#[test]
fn a_mounted_block_device_is_refused() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let devices = mounts.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let source = behind.split(' ').nth(1)?;
        let point = before.split(' ').nth(4)?;
        (source.starts_with("/dev/") && Path::new(source).exists()).then_some((source, point))
    });
    let Some((device, _)) = devices.clone().next() else {
        return skipped("a mounted block device", "no mount shows its device here");
    };
    let error = RealDrive::open(Path::new(device), options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("mounted at "), "{error}");
}

#[test]
fn a_block_device_that_nothing_uses_is_not_supported_yet() {
    let test = "a block device that nothing uses";
    if !is_root() {
        return skipped(test, "not root");
    }
    let directory = scratch();
    let Some(device) = LoopDevice::new(&directory.path().join("disk")) else {
        return skipped(test, "no loop device");
    };
    let error = RealDrive::open(&device.0, options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let content = fs::read(directory.path().join("disk")).unwrap();
    assert!(content.iter().all(|&byte| byte == 0));
}

#[test]
fn without_direct_io_the_page_cache_is_named_or_refused() {
    let test = "a file system without direct I/O";
    if !is_root() {
        return skipped(test, "not root");
    }
    let directory = scratch();
    let Some(device) = LoopDevice::new(&directory.path().join("disk")) else {
        return skipped(test, "no loop device");
    };
    let device = device.0.to_str().unwrap();
    // Journalling its data, ext4 does without direct I/O.
    let Some(mounted) = succeeds("mkfs.ext4", &["-q", device])
        .then(|| Mounted::new(directory.path().join("on"), &["-o", "data=journal", device]))
        .flatten()
    else {
        return skipped(test, "no ext4");
    };
    let required = RealOptions { require_direct: true, ..options() };
    let error = RealDrive::open(&mounted.0, required).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("--allow-buffered"), "{error}");

    let mut drive = open(&mounted.0, MIB * 8);
    let description = drive.description();
    assert!(description.engine.starts_with("page cache"));
    assert!((description.caveats.iter()).any(|it| it.contains("direct I/O")));
    for depth in [1, 8] {
        let mut fill = phase(Pattern::RandomOnce, Mix::WRITE, KIB * 4, MIB * 8);
        fill.depth = depth;
        fill.seed = u64::from(depth);
        run(&mut drive, &fill);
        drive.verify(Region::first(MIB * 8), fill.seed).unwrap();
    }
    drop(drive);
    drop(mounted);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let directory = scratch();
    let place = directory.path().join("closed");
    let mounted = if is_root() {
        let Some(mounted) = Mounted::memory(place.clone(), "ro") else {
            return skipped("a directory that cannot be written", "no mounting here");
        };
        Some(mounted)
    } else {
        fs::create_dir(&place).unwrap();
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o555);
        fs::set_permissions(&place, closed).unwrap();
        None
    };
    for (target, options) in [(place.clone(), options()), (place.join("new"), for_file(options()))]
    {
        let error = RealDrive::open(&target, options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(place.to_str().unwrap()));
    }
    drop(mounted);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let directory = scratch();
    let path = directory.path().join("named");
    let mut drive = RealDrive::open(&path, for_file(options())).unwrap();
    let error = drive.prepare(GIB * (1 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let message = error.to_string();
    assert!(message.contains("a file of 1024 TiB does not fit"), "{message}");
    assert!(message.contains("choose a smaller file size"), "{message}");
    assert_eq!(own_file(&path).metadata().unwrap().len(), 0);
    drop(drive);
    assert_eq!(names_in(directory.path()), [""; 0]);
}

#[test]
fn a_file_system_that_fills_up_during_a_phase_is_no_space() {
    let test = "a file system that fills up";
    if !is_root() {
        return skipped(test, "not root");
    }
    for (options, depth) in [(options(), 1), (options(), 8), (without_uring(), 8)] {
        let directory = scratch();
        let Some(mounted) = Mounted::memory(directory.path().join("small"), "size=8m") else {
            return skipped(test, "no mounting here");
        };
        let mut drive = RealDrive::open(&mounted.0, options).unwrap();
        assert!(drive.description().caveats[0].contains("memory"));
        assert!(!drive.description().measures_flash);
        drive.prepare(MIB * 6).unwrap();
        let intruder = mounted.0.join("intruder");
        fs::write(&intruder, vec![1; (MIB * 4).bytes() as usize]).unwrap();
        let mut fill = phase(Pattern::Sequential, Mix::WRITE, KIB * 64, MIB * 6);
        fill.depth = depth;
        let error = drive.run_phase(&fill, &mut Unobserved).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().starts_with("write of 64 KiB at byte "));
        drop(drive);
        assert_eq!(names_in(&mounted.0), ["intruder"]);
        drop(mounted);
    }
}

#[test]
fn a_transfer_that_stops_short_is_an_error_that_says_where() {
    for (options, depth) in [(options(), 1), (options(), 8), (without_uring(), 8)] {
        let directory = scratch();
        let path = directory.path().join("named");
        let mut drive = RealDrive::open(&path, for_file(options)).unwrap();
        drive.prepare(MIB).unwrap();
        let mut work = phase(Pattern::Sequential, Mix::WRITE, KIB * 64, MIB);
        run(&mut drive, &work);
        // Someone cuts the file behind our back.
        own_file(&path).set_len((KIB * 128).bytes()).unwrap();
        work.mix = Mix::READ;
        work.depth = depth;
        let error = drive.run_phase(&work, &mut Unobserved).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let message = error.to_string();
        assert!(message.starts_with("read of 64 KiB at byte "), "{message}");
        assert!(message.ends_with("stopped after 0 bytes"), "{message}");
        assert!(message.contains(path.to_str().unwrap()), "{message}");
    }
}

#[test]
fn trimmed_space_is_given_back() {
    use std::os::unix::fs::MetadataExt;

    let directory = scratch();
    let path = directory.path().join("named");
    let mut drive = open(&path, MIB * 8);
    run(&mut drive, &phase(Pattern::Sequential, Mix::WRITE, MIB, MIB * 8));
    drive.flush().unwrap();
    let before = own_file(&path).metadata().unwrap().blocks();
    let half = Region { offset: MIB * 4, length: MIB * 4 };
    match drive.trim(half) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return skipped("trimmed space is given back", &error.to_string());
        }
        trimmed => trimmed.unwrap(),
    };
    let after = own_file(&path).metadata().unwrap();
    assert_eq!(after.len(), (MIB * 8).bytes());
    assert_eq!(before - after.blocks(), (MIB * 4).bytes() / 512);
    drive.verify(Region::first(MIB * 4), 7).unwrap();
    assert!(drive.verify(half, 7).is_err());
}

#[test]
fn a_probe_gives_a_figure_and_stays_within_the_file() {
    let directory = scratch();
    let path = directory.path().join("named");
    let mut drive = RealDrive::open(&path, for_file(options())).unwrap();
    assert_eq!(drive.probe_throughput().unwrap_err().kind(), ErrorKind::Usage);
    drive.prepare(MIB * 4).unwrap();
    assert!(drive.probe_throughput().unwrap() > 1e6);
    assert_eq!(own_file(&path).metadata().unwrap().len(), (MIB * 4).bytes());
}

#[test]
fn what_a_file_cannot_do_is_said() {
    let directory = scratch();
    let mut drive = open(directory.path(), MIB);
    assert_eq!(drive.purge().unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(drive.inside().is_none());
    let wrong = phase(Pattern::Random, Mix::WRITE, KIB * 4, MIB * 2);
    let error = drive.run_phase(&wrong, &mut Unobserved).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let mut huge = phase(Pattern::Random, Mix::WRITE, MIB, MIB);
    huge.depth = 4096;
    let error = drive.run_phase(&huge, &mut Unobserved).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}
