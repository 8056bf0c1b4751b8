use std::collections::BTreeMap;

use proptest::prelude::*;
use ssdlab_drive::Drive;
use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_model::profile::Profile;
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

use super::inodes::FileNumber;
use super::{FileSystem, MountOptions, Sent};

fn drive() -> SimulatedDrive {
    let mut profile = Profile::named("generic-tlc").unwrap();
    for (key, value) in [
        ("capacity.physical", "2GiB"),
        ("flash.dies", "2"),
        ("flash.channels", "2"),
        ("flash.pages_per_block", "96"),
        ("capacity.logical", "1GiB"),
    ] {
        profile.set(key, value).unwrap();
    }
    SimulatedDrive::new("test", profile.configuration().unwrap()).unwrap()
}

const SIZE: ByteLength = ByteLength::new(1 << 30);

/// Returns the number of flushes, and of blocks written to the journal and elsewhere, between two states.
fn flushes_and_blocks(before: Sent, after: Sent) -> (u64, u64) {
    (after.flushes - before.flushes, (after.written - before.written).bytes() / 4096)
}

/// Returns the cost of `sync`, as [`flushes_and_blocks`].
fn cost(files: &mut FileSystem<'_>, sync: impl FnOnce(&mut FileSystem<'_>)) -> (u64, u64) {
    let before = files.sent();
    sync(files);
    flushes_and_blocks(before, files.sent())
}

/// Counted on ext4 (Linux 6.18, loop device, 1 GiB) with `/sys/block/*/stat`, as blocks of 4 KiB and
/// flushes: the system calls of an insert of SQLite in DELETE mode, made by hand.
#[test]
fn a_rollback_journal_costs_what_it_costs_on_ext4() {
    let mut drive = drive();
    let mut files = FileSystem::new(&mut drive, SIZE, MountOptions::default()).unwrap();
    let root = files.root();
    let database = files.create(root, "db").unwrap();
    files.write(database, 0, &[1; 16384]).unwrap();
    files.fsync(database).unwrap();
    files.sync().unwrap();
    for round in 0..3 {
        let journal = files.create(root, "db-journal").unwrap();
        files.write(journal, 0, &[2; 8720]).unwrap();
        // Three blocks of data, a descriptor, five or (with an orphan before) six blocks of
        // metadata, and the commit block.
        let blocks = if round == 0 { 10 } else { 11 };
        assert_eq!(cost(&mut files, |it| it.fdatasync(journal).unwrap()), (2, blocks));
        assert_eq!(cost(&mut files, |it| it.fdatasync(root).unwrap()), (0, 0));
        files.write(journal, 0, &[3; 12]).unwrap();
        assert_eq!(cost(&mut files, |it| it.fdatasync(journal).unwrap()), (1, 1));
        files.write(database, 0, &[4; 8192]).unwrap();
        assert_eq!(cost(&mut files, |it| it.fdatasync(database).unwrap()), (1, 2));
        files.remove(root, "db-journal").unwrap();
    }
}

#[test]
fn a_log_that_grows_costs_a_commit_and_one_that_is_written_over_does_not() {
    let mut drive = drive();
    let mut files = FileSystem::new(&mut drive, SIZE, MountOptions::default()).unwrap();
    let log = files.create(files.root(), "log").unwrap();
    files.fsync(log).unwrap();
    for frame in 0..5 {
        files.write(log, frame * 4120, &[5; 4120]).unwrap();
        // Two blocks of data (one for the first frame's place to begin with), descriptor, inode,
        // bitmap, group, commit block.
        assert_eq!(cost(&mut files, |it| it.fdatasync(log).unwrap()), (2, 7), "{frame}");
    }
    for frame in 0..3 {
        files.spend(Nanoseconds::from_millis(10)).unwrap();
        files.write(log, frame * 4120, &[6; 4120]).unwrap();
        assert_eq!(cost(&mut files, |it| it.fdatasync(log).unwrap()), (1, 2));
    }
    files.spend(Nanoseconds::from_millis(10)).unwrap();
    files.write(log, 0, &[7; 4120]).unwrap();
    // fsync waits for the new time stamp, and fdatasync does not.
    assert_eq!(cost(&mut files, |it| it.fsync(log).unwrap()), (2, 5));
    files.truncate(log, ByteLength::ZERO).unwrap();
    assert_eq!(cost(&mut files, |it| it.fdatasync(log).unwrap()), (2, 6));
    assert_eq!(cost(&mut files, |it| it.fdatasync(log).unwrap()), (1, 0));
}

#[test]
fn without_barriers_nothing_is_flushed_and_with_force_unit_access_half_as_much() {
    for (barrier, force_unit_access, flushes) in
        [(true, false, 20), (true, true, 10), (false, false, 0), (false, true, 0)]
    {
        let mut drive = drive();
        let options = MountOptions { barrier, force_unit_access, ..MountOptions::default() };
        let mut files = FileSystem::new(&mut drive, SIZE, options).unwrap();
        let file = files.create(files.root(), "log").unwrap();
        for _ in 0..10 {
            files.append(file, KIB * 4).unwrap();
            files.fsync(file).unwrap();
        }
        assert_eq!(files.sent().flushes, flushes);
        let seen = files.drive().inside().unwrap().counters.flushes;
        assert_eq!(seen, flushes);
    }
}

#[test]
fn what_nobody_waits_for_is_committed_and_written_back_after_a_while() {
    let mut drive = drive();
    let mut files = FileSystem::new(&mut drive, SIZE, MountOptions::default()).unwrap();
    let file = files.create(files.root(), "file").unwrap();
    files.append(file, MIB).unwrap();
    files.spend(Nanoseconds::from_secs(4)).unwrap();
    assert_eq!(files.sent(), Sent::default());
    files.spend(Nanoseconds::from_secs(2)).unwrap();
    assert_eq!((files.sent().commits, files.sent().flushes), (1, 2), "commit=5");
    assert!(files.sent().written < MIB, "data that has no place yet is not part of it");
    files.spend(Nanoseconds::from_secs(60)).unwrap();
    assert!(files.sent().written > MIB + KIB * 16, "data, and metadata in its place");
    let sent = files.sent();
    files.spend(Nanoseconds::from_secs(600)).unwrap();
    assert_eq!(files.sent(), sent, "all is in its place");
}

#[test]
fn too_many_dirty_pages_are_written_back_at_once() {
    let mut drive = drive();
    let options = MountOptions { dirty_background: MIB * 16, ..MountOptions::default() };
    let mut files = FileSystem::new(&mut drive, SIZE, options).unwrap();
    for name in ["a", "b", "c"] {
        let file = files.create(files.root(), name).unwrap();
        files.append(file, MIB * 8).unwrap();
        files.spend(Nanoseconds::from_millis(500)).unwrap();
    }
    assert!(files.sent().written >= MIB * 24, "{:?}", files.sent());
}

#[test]
fn deleted_files_are_trimmed_when_their_transaction_has_committed() {
    let mut drive = drive();
    let options = MountOptions { discard: true, ..MountOptions::default() };
    let mut files = FileSystem::new(&mut drive, SIZE, options).unwrap();
    let root = files.root();
    for number in 0..100 {
        let file = files.create(root, &format!("file {number}")).unwrap();
        files.append(file, KIB * 10).unwrap();
    }
    files.sync().unwrap();
    for number in 0..100 {
        files.remove(root, &format!("file {number}")).unwrap();
    }
    assert_eq!(files.sent().trims, 0);
    files.sync().unwrap();
    // Files of three blocks lie next to each other and are freed as one run.
    assert_eq!(files.sent().trimmed, KIB * 12 * 100);
    assert!(files.sent().trims <= 2, "{:?}", files.sent());
    let seen = files.drive().inside().unwrap().counters.host_trim_units;
    assert_eq!(seen, 300);
}

#[test]
fn fstrim_trims_what_is_free_once() {
    let mut drive = drive();
    let mut files = FileSystem::new(&mut drive, SIZE, MountOptions::default()).unwrap();
    let file = files.create(files.root(), "file").unwrap();
    files.append(file, MIB * 8).unwrap();
    files.sync().unwrap();
    assert_eq!(files.fstrim(ByteLength::ZERO).unwrap(), ByteLength::ZERO, "made on a new drive");
    files.remove(files.root(), "file").unwrap();
    assert_eq!(files.fstrim(ByteLength::ZERO).unwrap(), ByteLength::ZERO, "not yet committed");
    files.sync().unwrap();
    assert_eq!(files.sent().trims, 0);
    assert!(files.fstrim(ByteLength::ZERO).unwrap() >= MIB * 8);
    assert_eq!(files.fstrim(ByteLength::ZERO).unwrap(), ByteLength::ZERO);
}

#[test]
fn a_full_file_system_says_so() {
    let mut drive = drive();
    let mut files = FileSystem::new(&mut drive, MIB * 64, MountOptions::default()).unwrap();
    let file = files.create(files.root(), "file").unwrap();
    files.append(file, MIB * 60).unwrap();
    assert!(files.sync().unwrap_err().to_string().contains("is full"));
    let mut small = self::drive();
    assert!(FileSystem::new(&mut small, MIB, MountOptions::default()).is_err());
    assert!(FileSystem::new(&mut small, SIZE * 4, MountOptions::default()).is_err());
}

/// An operation of a program on one of three files.
#[derive(Clone, Debug)]
enum Step {
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    Truncate { file: usize, size: u64 },
    Remove { file: usize },
    Sync { file: usize },
    SyncAll,
    Wait { millis: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = proptest::collection::vec(any::<u8>(), 1..20_000);
    let step = prop_oneof![
        4 => (0..3usize, 0..60_000u64, bytes)
            .prop_map(|(file, offset, bytes)| Step::Write { file, offset, bytes }),
        1 => (0..3usize, 0..80_000u64).prop_map(|(file, size)| Step::Truncate { file, size }),
        1 => (0..3usize).prop_map(|file| Step::Remove { file }),
        2 => (0..3usize).prop_map(|file| Step::Sync { file }),
        1 => Just(Step::SyncAll),
        1 => (0..40_000u64).prop_map(|millis| Step::Wait { millis }),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compares the file system with a map of byte strings, which has no blocks, no journal and no drive.
    #[test]
    fn files_read_as_they_were_written_and_no_block_is_lost(steps in steps()) {
        let mut drive = drive();
        let options = MountOptions { discard: true, ..MountOptions::default() };
        let mut files = FileSystem::new(&mut drive, MIB * 128, options).unwrap();
        let root = files.root();
        let free = |files: &FileSystem<'_>| (0..files.layout.groups())
            .map(|group| files.allocator.free_blocks(group)).sum::<u64>();
        let all = free(&files);
        let mut expected: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let name = |file: usize| format!("file {file}");
        for step in steps {
            match step {
                Step::Write { file, offset, bytes } => {
                    let number = match files.find(root, &name(file)) {
                        Some(number) => number,
                        None => files.create(root, &name(file)).unwrap(),
                    };
                    files.write(number, offset, &bytes).unwrap();
                    let content = expected.entry(file).or_default();
                    let end = offset as usize + bytes.len();
                    if content.len() < end { content.resize(end, 0); }
                    content[offset as usize..end].copy_from_slice(&bytes);
                }
                Step::Truncate { file, size } => {
                    if let Some(content) = expected.get_mut(&file) {
                        let number = files.find(root, &name(file)).unwrap();
                        files.truncate(number, ByteLength::new(size)).unwrap();
                        content.truncate(size as usize);
                    }
                }
                Step::Remove { file } => {
                    let was_there = expected.remove(&file).is_some();
                    prop_assert_eq!(files.remove(root, &name(file)).is_ok(), was_there);
                }
                Step::Sync { file } => {
                    if let Some(number) = files.find(root, &name(file)) {
                        files.fsync(number).unwrap();
                        prop_assert!(is_durable(&files, number));
                    }
                }
                Step::SyncAll => files.sync().unwrap(),
                Step::Wait { millis } => files.spend(Nanoseconds::from_millis(millis)).unwrap(),
            }
        }
        for (file, content) in &expected {
            let number = files.find(root, &name(*file)).unwrap();
            prop_assert_eq!(files.size(number).bytes() as usize, content.len());
            let mut read = vec![0; content.len() + 10];
            prop_assert_eq!(files.read(number, 0, &mut read), content.len());
            prop_assert_eq!(&read[..content.len()], &content[..]);
        }
        for file in expected.into_keys() {
            files.remove(root, &name(file)).unwrap();
        }
        files.sync().unwrap();
        prop_assert_eq!(free(&files), all);
    }
}

/// Returns true if no data or metadata of a file waits to be written.
fn is_durable(files: &FileSystem<'_>, file: FileNumber) -> bool {
    let inode = files.inode(file);
    inode.dirty.is_empty() && files.is_committed(inode.sync_transaction)
}
