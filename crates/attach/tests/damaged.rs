//! One place of an image is damaged: a bit flips, a sector reads as zeros or a page as anything. Then every
//! unit holds what was written to it last, or reading it fails, or the drive is not opened; and `check` says so.
//!
//! `SSDLAB_STEP=1` flips a bit in every byte of the records, and not in some.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ssdlab_attach::check::{check, repair};
use ssdlab_attach::engine::{Engine, Options, Time};
use ssdlab_attach::image::Image;
use ssdlab_attach::image::layout::Layout;
use ssdlab_attach::image::storage::Storage;
use support::small_image;

const UNIT: usize = 4096;

const PAGE: usize = 4096;

/// Units that are written.
const UNITS: usize = 200;

fn content(unit: usize, round: u8) -> Vec<u8> {
    vec![if round == 0 { 0 } else { (unit as u8).wrapping_mul(7) ^ (round << 4) }; UNIT]
}

/// The pages of an image that are not zeros.
#[derive(Clone, PartialEq, Eq)]
struct Pages {
    pages: BTreeMap<usize, Vec<u8>>,
    length: u64,
}

impl Pages {
    fn read(path: &Path) -> Pages {
        let file = std::fs::File::open(path).expect("the image");
        let (mut pages, mut at) = (BTreeMap::new(), 0);
        while let Some(data) = file.next_data(at).expect("it can be searched") {
            for page in data.start as usize / PAGE..(data.end as usize).div_ceil(PAGE) {
                let mut bytes = vec![0; PAGE];
                file.read_exact_at(&mut bytes, (page * PAGE) as u64).expect("a page");
                if bytes.iter().any(|&byte| byte != 0) {
                    pages.insert(page, bytes);
                }
            }
            at = data.end;
        }
        Pages { pages, length: file.metadata().expect("its length").len() }
    }

    /// Writes them to a new file at `path`, with holes elsewhere.
    fn put(&self, path: &Path) {
        std::fs::remove_file(path).expect("the one before");
        let file = std::fs::File::create(path).expect("a file");
        file.set_len(self.length).expect("a sparse file");
        for (&page, bytes) in &self.pages {
            file.write_all_at(bytes, (page * PAGE) as u64).expect("room");
        }
    }

    /// The `length` bytes at `at`, which lie within a page.
    fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE]);
        &mut page[at % PAGE..at % PAGE + length]
    }
}

/// A drive that was written to, and what each unit of it holds.
struct Written {
    path: PathBuf,
    image: Pages,
    layout: Layout,
    holds: Vec<u8>,
    _directory: tempfile::TempDir,
}

fn open(path: &Path) -> Result<Engine, ssdlab_attach::error::AttachError> {
    let options = Options { time: Time::Fast, ..Options::default() };
    Ok(Engine::open(Image::open(path)?, options)?.0)
}

/// Writes in two lives, so that both logs of trims and all slots are used; the second ends in order or by a
/// kill. Everything is flushed in the end.
fn written(changes: &[(&str, &str)], is_closed: bool) -> Written {
    let directory = support::directory();
    let path = small_image(directory.path(), changes);
    let mut holds = vec![0; UNITS];
    for life in 0..2u8 {
        let engine = open(&path).expect("a drive");
        for step in 0..4u8 {
            let round = life * 4 + step + 1;
            for unit in (0..UNITS).filter(|it| it % (usize::from(step) + 1) == 0) {
                let data = content(unit, round);
                let at = (unit * UNIT) as u64;
                let _ = engine.write(Instant::now(), at, &data, false).expect("a write");
                holds[unit] = round;
            }
            let trimmed = 20 * usize::from(round)..20 * usize::from(round) + 5;
            let (at, length) = ((trimmed.start * UNIT) as u64, (trimmed.len() * UNIT) as u64);
            let _ = engine.trim(Instant::now(), at, length, true).expect("a trim");
            holds[trimmed].fill(0);
            let _ = engine.flush(Instant::now()).expect("a flush");
        }
        if life == 0 || is_closed {
            engine.close().expect("room");
        }
    }
    let layout = Image::open(&path).expect("an image").layout().clone();
    let image = Pages::read(&path);
    Written { path, image, layout, holds, _directory: directory }
}

/// What became of a damaged image.
#[derive(Debug, Default)]
struct Tally {
    silent: u32,
    said: u32,
    refused: u32,
    failed_units: u32,
}

impl Written {
    /// Damages the image, and sees what becomes of it.
    fn damage(&self, tally: &mut Tally, what: &str, change: impl FnOnce(&mut Pages)) {
        let mut image = self.image.clone();
        change(&mut image);
        if image == self.image {
            return;
        }
        image.put(&self.path);
        let problems = match check(&self.path) {
            Ok(report) => report.problems,
            Err(error) => vec![error.to_string()],
        };
        let engine = match open(&self.path) {
            Ok(engine) => engine,
            Err(error) => {
                assert!(!problems.is_empty(), "{what}: {error}, and check says nothing");
                tally.refused += 1;
                return;
            }
        };
        let mut failed = 0;
        for (unit, &round) in self.holds.iter().enumerate() {
            let mut data = vec![0; UNIT];
            match engine.read(Instant::now(), (unit * UNIT) as u64, &mut data) {
                Ok(_) => assert!(
                    data == content(unit, round),
                    "{what}: unit {unit} holds {:02x}, not what was written; {problems:?}",
                    data[0]
                ),
                Err(_) => failed += 1,
            }
        }
        assert!(failed == 0 || !problems.is_empty(), "{what}: {failed} units, check says nothing");
        tally.failed_units += failed;
        if problems.is_empty() { tally.silent += 1 } else { tally.said += 1 }
    }

    /// The small records: a name, where they begin and how long they are.
    fn records(&self) -> Vec<(String, usize, usize)> {
        let layout = &self.layout;
        let mut records = Vec::new();
        for copy in 0..2u64 {
            records.push((format!("header {copy}"), copy << 19, 200));
            for log in 0..2 {
                let at = layout.trims + (2 * log + copy) * layout.trims_size;
                records.push((format!("trims {log} {copy}"), at, 200));
            }
            for slot in 0..2 {
                let state = layout.state + 4096 * (2 * slot + copy);
                records.push((format!("state {slot} {copy}"), state, 128));
                let head = copy * layout.dump_head;
                let at = layout.dump + slot * layout.dump_size + head;
                records.push((format!("dump {slot} {copy}"), at, 96));
            }
            for part in 0..2 {
                records.push((
                    format!("entry {part} {copy}"),
                    layout.erases_at(part)[copy as usize],
                    8,
                ));
            }
            for program in [0, 1, 5, 20, 40] {
                let at = layout.records_at(program)[copy as usize];
                records.push((format!("record {program} {copy}"), at, layout.record));
            }
        }
        let records =
            records.into_iter().map(|(name, at, size)| (name, at as usize, size as usize));
        records.collect()
    }
}

fn check_damage_is_reported(changes: &[(&str, &str)], is_closed: bool) {
    let step = std::env::var("SSDLAB_STEP").map_or(11, |it| it.parse().expect("a number"));
    let written = written(changes, is_closed);
    let mut tally = Tally::default();
    for (name, at, size) in written.records() {
        for byte in (at..at + size).step_by(step) {
            let what = format!("{name}, byte {}", byte - at);
            written.damage(&mut tally, &what, |image| {
                image.bytes_mut(byte, 1)[0] ^= 1 << (byte % 8);
            });
        }
        let sector = at - at % 512;
        written.damage(&mut tally, &format!("{name}, zeros"), |image| {
            image.bytes_mut(sector, 512).fill(0);
        });
        let page = at - at % 4096;
        written.damage(&mut tally, &format!("{name}, garbage"), |image| {
            let garbage = (0..4096u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8);
            image.bytes_mut(page, PAGE).iter_mut().zip(garbage).for_each(|(byte, it)| *byte = it);
        });
    }
    let said = tally.said + tally.refused;
    assert!(said > 20 && tally.failed_units == 0, "{tally:?}: small records have copies");
    let layout = &written.layout;
    let regions = [
        ("data", layout.data, layout.end, step),
        ("dump", layout.dump, layout.table, 1),
        ("tables", layout.checkpoint, layout.spare, step),
    ];
    for (name, from, until, step) in regions {
        let pages = from as usize / PAGE..until as usize / PAGE;
        for (&page, _) in written.image.pages.range(pages).step_by(step) {
            let at = page * PAGE + 77;
            written.damage(&mut tally, &format!("{name} at {at}"), |image| {
                image.bytes_mut(at, 1)[0] ^= 2;
            });
        }
    }
    assert!(tally.failed_units > 0, "{tally:?}: data has no copy");
}

const PLP: [(&str, &str); 1] = [("controller.power_loss_protection", "on")];

#[test]
fn damage_to_a_drive_that_was_closed_in_order_is_found_out() {
    check_damage_is_reported(&[], true);
    check_damage_is_reported(&PLP, true);
}

#[test]
fn damage_to_a_drive_whose_program_was_killed_is_found_out() {
    check_damage_is_reported(&[], false);
    check_damage_is_reported(&PLP, false);
}

#[test]
fn where_nobody_knows_what_is_lost_the_drive_is_opened_by_a_repair_alone() {
    let written = written(&PLP, false);
    let layout = &written.layout;
    let dump = layout.dump + layout.dump_size;
    let last = |slot: u64| [slot, slot + layout.dump_head];
    let both: [(&str, Vec<u64>); 4] = [
        ("states", vec![layout.state, layout.state + 4096]),
        ("states", vec![layout.state + 2 * 4096, layout.state + 3 * 4096]),
        ("dump", [last(layout.dump), last(dump)].concat()),
        ("OOB area", layout.records_at(0).to_vec()),
    ];
    for (what, places) in both {
        let mut image = written.image.clone();
        for at in places {
            image.bytes_mut(at as usize, 40)[33] ^= 1;
        }
        image.put(&written.path);
        let problems = check(&written.path).expect("a report").problems;
        assert!(problems.iter().any(|it| it.contains(what)), "{what}: {problems:?}");
        let Err(refused) = open(&written.path) else { panic!("{what}: it is opened") };
        let refused = refused.to_string();
        assert!(refused.contains(what) && refused.contains("check --repair"), "{refused}");
        repair(&written.path).expect("it is opened all the same");
        assert!(open(&written.path).expect("a drive").damage().all().next().is_none());
    }
}

#[test]
fn an_image_of_another_version_is_refused_with_the_way_out() {
    let directory = support::directory();
    let path = small_image(directory.path(), &[]);
    let file = std::fs::File::options().write(true).open(&path).expect("the image");
    for at in [0, 1 << 19] {
        file.write_all_at(&1_u32.to_le_bytes(), at + 8).expect("room");
    }
    let refused = Image::open(&path).expect_err("it is of version 1").to_string();
    assert!(refused.contains("version 1") && refused.contains("copy what is on it"), "{refused}");
}
