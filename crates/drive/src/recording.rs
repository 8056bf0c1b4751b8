//! Recording of the internal state of a simulated SSD over a run: pictures of its blocks, limited in number
//! and size.
//!
//! A [`Recorder`] is given to a drive
//! ([`SimulatedDrive::record_inside`](crate::simulated::SimulatedDrive)). It also records the drive's
//! copies, and the drive that replaces it when it is purged. Each SSD takes pictures of itself as it is
//! written to and trimmed: a [`Track`]. When there are too many, every second picture is dropped, and from
//! then on half as many are taken. So a track spans the whole life of its drive, however long, and never
//! has more than [`PICTURES_MAX`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssdlab_model::counters::Counters;
use ssdlab_model::ftl::Ssd;
use ssdlab_model::mapping::Mapping;
use ssdlab_units::{ByteLength, Instant};

/// Maximum number of pictures of a track.
pub const PICTURES_MAX: usize = 120;

/// Maximum number of cells of a picture. On drives with more blocks, neighbouring blocks share a cell.
pub const CELLS_MAX: usize = 2048;

/// Bytes written between two checks whether a picture is due, and initially between two pictures.
pub(crate) const SNAPSHOT_INTERVAL: ByteLength = ByteLength::new(4 << 20);

/// One picture, and the drive's counters at that moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Index in [`Track::steps`] of the protocol step in which the picture was taken.
    pub step: usize,
    /// Instant at which the picture was taken, in the drive's time.
    pub at: Instant,
    /// Bytes that the host had written.
    pub host_written: ByteLength,
    /// Bytes that had been programmed to the flash.
    pub flash_written: ByteLength,
    /// Number of free blocks.
    pub free_blocks: u32,
    /// Cells of the picture, [`ssdlab_model::ftl::inside::CELL_BYTES`] each.
    pub cells: Vec<u8>,
}

/// The pictures of one SSD, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// Names of the protocol steps.
    pub steps: Vec<String>,
    /// Number of blocks of the SSD.
    pub blocks: u32,
    /// Number of blocks in a cell.
    pub blocks_per_cell: u32,
    /// Size of a block in bytes.
    pub block: ByteLength,
    /// The pictures.
    pub pictures: Vec<Picture>,
}

/// Collects the tracks of a drive, of its copies, and of the drives that replace it.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    tracks: Arc<Mutex<Vec<SharedTrack>>>,
    /// The track that got the latest picture.
    newest: Arc<Mutex<Option<SharedTrack>>>,
}

type SharedTrack = Arc<Mutex<Track>>;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Returns a track with only the newest picture, of whichever drive took it, or `None` if there is no
    /// picture yet.
    pub fn newest(&self) -> Option<Track> {
        let track = lock(&self.newest).clone()?;
        let track = lock(&track);
        let newest = track.pictures.last()?.clone();
        let Track { steps, blocks, blocks_per_cell, block, .. } = &*track;
        let (steps, pictures) = (steps.clone(), vec![newest]);
        Some(Track {
            steps,
            blocks: *blocks,
            blocks_per_cell: *blocks_per_cell,
            block: *block,
            pictures,
        })
    }

    /// Returns all tracks so far that have more than one picture, in an order that does not depend on which
    /// of several copies took its pictures first.
    pub fn tracks(&self) -> Vec<Track> {
        let tracks = lock(&self.tracks).clone();
        let mut tracks: Vec<Track> = tracks.iter().map(|it| lock(it).clone()).collect();
        tracks.retain(|it| it.pictures.len() > 1);
        let key = |track: &Track| {
            let first = track.pictures.first().map(|it| (it.at, it.host_written));
            (first, track.steps.clone(), track.pictures.len())
        };
        tracks.sort_by_cached_key(key);
        tracks
    }
}

/// Takes the pictures of one SSD.
#[derive(Debug)]
pub(crate) struct Camera {
    recorder: Recorder,
    track: SharedTrack,
    step: usize,
    /// The next picture is due when the total of units written, programmed and trimmed reaches this number.
    due: u64,
    /// Units written, programmed and trimmed between two pictures; zero before the first.
    interval: u64,
}

/// Returns the total of units written, programmed and trimmed: these are all changes that a picture shows.
fn changed_units(counters: &Counters) -> u64 {
    counters.host_write_units + counters.flash_write_units() + counters.host_trim_units
}

impl Camera {
    pub(crate) fn new(recorder: Recorder) -> Camera {
        let track = SharedTrack::default();
        lock(&recorder.tracks).push(track.clone());
        Camera { recorder, track, step: 0, due: 0, interval: 0 }
    }

    /// Returns a camera for a copy of the drive. Its track begins with the copy.
    pub(crate) fn of_copy(&self) -> Camera {
        Camera::new(self.recorder.clone())
    }

    /// Begins the step `name`. Takes a picture first if anything has changed since the last picture.
    pub(crate) fn begin_step<M: Mapping>(&mut self, name: &str, ssd: &Ssd<M>) {
        let has_changed = changed_units(&ssd.counters()) + self.interval > self.due;
        if self.interval > 0 && has_changed {
            self.due = 0;
            self.record_if_due(ssd);
        }
        let steps = &mut lock(&self.track).steps;
        self.step = steps.iter().position(|it| it == name).unwrap_or_else(|| {
            steps.push(name.to_owned());
            steps.len() - 1
        });
    }

    /// Takes a picture of `ssd` if one is due.
    pub(crate) fn record_if_due<M: Mapping>(&mut self, ssd: &Ssd<M>) {
        let counters = ssd.counters();
        let changed = changed_units(&counters);
        if changed < self.due {
            return;
        }
        let mut track = lock(&self.track);
        let geometry = ssd.geometry();
        let unit = geometry.unit_size();
        if self.interval == 0 {
            self.interval = SNAPSHOT_INTERVAL.covering(unit);
            track.blocks = geometry.blocks();
            track.block = unit * u64::from(geometry.units_per_block());
        }
        if track.steps.is_empty() {
            track.steps.push("before the first step".to_owned());
        }
        let mut cells = Vec::new();
        track.blocks_per_cell = ssd.fill_cells(&mut cells, CELLS_MAX) as u32;
        track.pictures.push(Picture {
            step: self.step,
            at: ssd.now(),
            host_written: counters.host_written(unit),
            flash_written: unit * counters.flash_write_units(),
            free_blocks: ssd.free_blocks(),
            cells,
        });
        if track.pictures.len() > PICTURES_MAX {
            let mut number = 0;
            track.pictures.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval *= 2;
        }
        self.due = changed + self.interval;
        *lock(&self.recorder.newest) = Some(self.track.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDrive;
    use crate::{Amount, Drive, Mix, Pattern, Phase, Region, Template, Unobserved};
    use ssdlab_model::profile::Profile;
    use ssdlab_units::{KIB, Nanoseconds};

    fn drive() -> SimulatedDrive {
        let mut profile = Profile::named("generic-tlc").unwrap();
        profile.set("scale", "1/64").unwrap();
        SimulatedDrive::new("recorded", profile.configuration().unwrap()).unwrap()
    }

    fn write(drive: &mut dyn Drive, name: &str, pattern: Pattern, times: u64) {
        let whole = drive.description().capacity.whole(KIB * 64);
        let region = Region::first(KIB * 64 * whole);
        let phase = Phase {
            name: name.to_owned(),
            pattern,
            block_size: KIB * 64,
            depth: 8,
            mix: Mix::WRITE,
            region,
            amount: Amount::Bytes(region.length * times),
            rate: None,
            seed: 1,
            flush_at_end: false,
            interval: Nanoseconds::from_secs(1),
        };
        drive.run_phase(&phase, &mut Unobserved).unwrap();
    }

    #[test]
    fn a_track_spans_all_of_a_run_in_a_bounded_number_of_pictures() {
        let mut drive = drive();
        let recorder = Recorder::default();
        drive.record_inside(recorder.clone());
        write(&mut drive, "fill", Pattern::Sequential, 1);
        write(&mut drive, "overwrite", Pattern::Random, 6);
        let tracks = recorder.tracks();
        assert_eq!(tracks.len(), 1);
        let Track { steps, blocks, blocks_per_cell, pictures, .. } = &tracks[0];
        assert_eq!(steps, &["fill", "overwrite"]);
        assert!((PICTURES_MAX / 4..=PICTURES_MAX).contains(&pictures.len()), "{}", pictures.len());
        let cells = blocks.div_ceil(*blocks_per_cell) as usize * 4;
        assert!(pictures.iter().all(|it| it.cells.len() == cells));
        assert!(pictures.is_sorted_by(|a, b| a.at <= b.at && a.host_written <= b.host_written));
        let last = pictures.last().unwrap();
        let capacity = drive.description().capacity;
        assert!(last.host_written > capacity * 6, "{}", last.host_written);
        assert!(last.flash_written > last.host_written, "it was collected");
        assert!(pictures[0].free_blocks > last.free_blocks);
        let newest = recorder.newest().unwrap();
        assert!(newest.pictures.len() == 1 && newest.blocks == *blocks);
        assert!(newest.pictures[0].at >= last.at);
    }

    #[test]
    fn it_changes_nothing_of_what_is_measured() {
        let (mut plain, mut recorded) = (drive(), drive());
        recorded.record_inside(Recorder::default());
        for drive in [&mut plain, &mut recorded] {
            write(drive, "fill", Pattern::Sequential, 1);
            write(drive, "overwrite", Pattern::Random, 2);
        }
        assert_eq!(plain.inside(), recorded.inside());
        assert_eq!(plain.now(), recorded.now());
    }

    #[test]
    fn copies_and_what_a_drive_is_replaced_by_have_tracks_of_their_own() {
        let mut drive = drive();
        let recorder = Recorder::default();
        drive.record_inside(recorder.clone());
        write(&mut drive, "fill", Pattern::Sequential, 1);
        let mut copy = drive.copy();
        write(&mut *copy, "of the copy", Pattern::Random, 1);
        drive.purge().unwrap();
        write(&mut drive, "of the new one", Pattern::Sequential, 1);
        let steps: Vec<Vec<String>> = recorder.tracks().into_iter().map(|it| it.steps).collect();
        assert_eq!(steps.len(), 3, "{steps:?}");
        for name in ["fill", "of the copy", "of the new one"] {
            assert!(steps.iter().any(|it| it[..] == [name]), "{steps:?}");
        }
    }
}
