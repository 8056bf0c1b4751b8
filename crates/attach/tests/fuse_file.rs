//! The drive as a file: what a program sees of it, and what it leaves.

mod support;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ssdlab_attach::completion_lateness::LatenessHistogram;
use ssdlab_attach::engine::{Engine, Options, Time};
use ssdlab_attach::fuse::Mounted;
use ssdlab_attach::image::Image;
use support::small_image;

/// Descriptors are counted: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Descriptors of this process that are connections of FUSE.
fn connections() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let targets = descriptors.filter_map(|it| std::fs::read_link(it.path()).ok());
    targets.filter(|it| it.to_str() == Some("/dev/fuse")).count()
}

/// Opens a small drive, mounts it and has `work` done with the file.
fn with_file(
    time: Time,
    changes: &[(&str, &str)],
    work: impl Fn(&std::path::Path, &LatenessHistogram),
) {
    let directory = support::directory();
    let image = Image::open(&small_image(directory.path(), changes)).expect("an image");
    let options = Options { time, ..Options::default() };
    let engine = Arc::new(Engine::open(image, options).expect("a drive").0);
    let place = directory.path().join("place");
    std::fs::create_dir(&place).expect("a directory");
    let lateness = Arc::<LatenessHistogram>::default();
    let mounted = Mounted::mount(engine.clone(), lateness.clone(), &place, "disk");
    let mut mounted = match mounted {
        Ok(mounted) => mounted,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: FUSE file: {error}");
            return;
        }
    };
    work(mounted.file(), &lateness);
    mounted.unmount(Duration::from_secs(10)).expect("nobody uses it");
    assert!(!place.join("disk").exists());
}

#[test]
fn nothing_stays_behind_of_reads_large_and_small() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for time in [Time::Fast, Time::Real] {
        with_file(time, &[], |path, _| {
            let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
            let data: Vec<u8> = (0..4u32 << 20).map(|at| (at >> 10) as u8 ^ at as u8).collect();
            file.write_all_at(&data, 8192).expect("room");
            file.sync_data().expect("a flush");
            let mut found = vec![0; data.len()];
            for length in [512, 4096, 100_000, 1 << 20, data.len()] {
                file.read_exact_at(&mut found[..length], 8192).expect("a read");
                assert!(found[..length] == data[..length], "{length} bytes, {time:?}");
            }
            let end = file.metadata().expect("it is there").len();
            assert_eq!(file.read_at(&mut found, end - 512).expect("the rest"), 512);
            assert_eq!(file.read_at(&mut found, end).expect("the end"), 0);
            assert!(file.write_at(&data, end).is_err());
            let refused = file.set_len(7).expect_err("a drive keeps its size");
            assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
            assert_eq!(path.metadata().expect("it is there").len(), end);
            let listed = path.parent().expect("one").read_dir().expect("a directory");
            assert_eq!(listed.flatten().map(|it| it.file_name()).collect::<Vec<_>>(), ["disk"]);
        });
        assert_eq!(connections(), 0, "{time:?}");
    }
}

/// Whoever looks at every mount has each of them open for a moment.
#[test]
fn who_is_in_the_directory_for_a_moment_is_waited_for() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for time in [Time::Fast, Time::Real] {
        with_file(time, &[], |path, _| {
            let directory = std::fs::File::open(path.parent().expect("one")).expect("a directory");
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                drop(directory);
            });
        });
        assert_eq!(connections(), 0, "{time:?}");
    }
}

#[test]
fn who_stays_in_the_directory_does_not_keep_it_mounted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let held = Mutex::new(None);
    with_file(Time::Fast, &[], |path, _| {
        let directory = std::fs::File::open(path.parent().expect("one")).expect("a directory");
        *held.lock().expect("one thread") = Some(directory);
    });
}

#[test]
fn a_read_takes_the_drives_time_and_others_are_answered_meanwhile() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let slow = [("flash.page_read", "10ms")];
    with_file(Time::Real, &slow, |path, lateness| {
        let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
        file.write_all_at(&[1; 256 << 10], 0).expect("room");
        file.sync_data().expect("a flush");
        let began = Instant::now();
        std::thread::scope(|scope| {
            for index in 0..8u64 {
                let file = &file;
                scope.spawn(move || {
                    let mut data = [0; 4096];
                    // Nobody asks twice for what is in a page of the flash that was just read.
                    file.read_exact_at(&mut data, index * (32 << 10)).expect("a read");
                    assert!(began.elapsed() >= Duration::from_millis(10), "earlier than the drive");
                });
            }
            // Not mapped: the drive knows that at once.
            let mut data = [1; 4096];
            file.read_exact_at(&mut data, 6 << 20).expect("a read");
            let took = began.elapsed();
            if took >= Duration::from_millis(10) {
                let _ = writeln!(std::io::stderr(), "\nNOT TOLD: this machine is busy: {took:?}");
            }
        });
        assert!(lateness.summary().answers >= 9);
    });
}
