//! Does TRIM reach the flash, and what do trimmed sectors read as?
//!
//! A file of incompressible data is written, and read where it lies on the block device, past the
//! file system. Then it is deleted, its space trimmed, and the same sectors are read again: at once,
//! and when the drive has been left alone. The protocol is that of a French how-to on TRIM and of an
//! article on Habr (242199), which waits two minutes in between; the reading in between is ours.

mod blocks;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod findings;
#[cfg(target_os = "linux")]
mod on_device;
mod simulated;

use std::path::Path;

use ssdlab_drive::{Description, Drive, DriveKind};
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

use super::course::Course;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};

/// The experiment.
pub struct TrimCheck;

const PARAMETERS: [ParameterSpec; 2] = [
    ParameterSpec {
        name: "size",
        kind: Kind::Length,
        full: "64M",
        quick: "8M",
        help: "the length of the file",
    },
    ParameterSpec {
        name: "wait",
        kind: Kind::Duration,
        full: "120s",
        quick: "5s",
        help: "how long the drive is left alone between trimming and reading",
    },
];

/// A drive that has not trimmed after a day does not.
const WAIT_MOST: Nanoseconds = Nanoseconds::from_secs(24 * 3600);

/// What a block of 4 KiB reads as: counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    old: u64,
    zeros: u64,
    ones: u64,
    other: u64,
    /// Of these, how many read otherwise a second time.
    changed: u64,
    /// Blocks that others have taken meanwhile, and that do not count.
    taken: u64,
}

impl Contents {
    /// Blocks that count.
    fn counted(self) -> u64 {
        self.old + self.zeros + self.ones + self.other
    }
}

/// The moment right after the trim.
const AT_ONCE: &str = "just trimmed";

/// What the check has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Trimmed sectors no longer read as what was there.
    Works { reads_as: &'static str },
    /// The data is still there, and it is known where trim stops.
    Stopped { at: String, why: String },
    /// Every layer takes trims, and the data is still there.
    StillThere,
    /// What is read changes, or is a mixture, or the drive says that it may.
    NotDeterministic,
    /// So many blocks were taken by others that nothing can be said.
    TooFew,
}

/// A layer between the file system and the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LayerSeen {
    name: String,
    /// The most bytes of one discard, where that is known.
    discard_max: Option<u64>,
    /// True if it takes trims, where that is known.
    takes_trim: Option<bool>,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// What the file's sectors read as, by moment.
    moments: Vec<(&'static str, Contents)>,
    layers: Vec<LayerSeen>,
    /// True if free space is trimmed by the mount, or was by fstrim; with how much.
    trimmed: Option<ByteLength>,
    verdict: Option<Verdict>,
}

struct Protocol {
    size: ByteLength,
    wait: Nanoseconds,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "of data on real drives"))]
    seed: u64,
}

impl Protocol {
    fn new(settings: &Settings, seed: u64) -> Protocol {
        Protocol { size: settings.length("size"), wait: settings.duration("wait"), seed }
    }
}

impl Experiment for TrimCheck {
    fn name(&self) -> &'static str {
        "trim-check"
    }

    fn question(&self) -> &'static str {
        "Does TRIM reach the flash, and what do trimmed sectors read as?"
    }

    fn source(&self) -> &'static str {
        "a French how-to on enabling and verifying TRIM; Habr 242199"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn examines(&self, _: &Settings) -> bool {
        false
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        let size = settings.length("size");
        if size < MIB || !size.is_multiple_of(KIB * 4) || size > ByteLength::new(1 << 36) {
            return Err(LabError::Range {
                name: "size",
                value: settings.text("size").to_owned(),
                why: "it must be a multiple of 4 KiB, from 1 MiB to 64 GiB".to_owned(),
            });
        }
        if settings.duration("wait") > WAIT_MOST {
            return Err(LabError::Range {
                name: "wait",
                value: settings.text("wait").to_owned(),
                why: "it must be at most 1 day".to_owned(),
            });
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        if !matches!(drive.kind, DriveKind::Simulated | DriveKind::Directory) {
            return Err(needs_a_directory(&drive.name));
        }
        let size = settings.length("size");
        Ok(Plan {
            sequential_writes: size,
            sequential_reads: size * 4,
            rests: settings.duration("wait"),
            space: MIB * size.covering(MIB),
            ..Plan::default()
        })
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings, seed);
        let mut course = Course::new(drive, watcher, 1.0);
        let mut seen = Seen::default();
        let outcome = if course.drive.simulated().is_some() {
            protocol.simulate(&mut course, &mut seen)
        } else if let Some(directory) = course.drive.directory().map(Path::to_owned) {
            // What the estimate needed there is in the way of nothing, but is not needed.
            (course.drive.clean_up().map_err(LabError::from))
                .and_then(|()| protocol.carry_out(&directory, &mut course, &mut seen))
        } else {
            Err(needs_a_directory(&course.drive.description().name))
        };
        course.end(record);
        tabulate(&seen, record);
        findings::conclude(&seen, record);
        record.say_if_shortened(settings);
        outcome
    }
}

fn needs_a_directory(name: &str) -> LabError {
    LabError::Unsupported(format!(
        "{name}: this experiment needs a file system; name a directory on one that lies on the drive"
    ))
}

fn tabulate(seen: &Seen, record: &mut Record) {
    let column = |name: &str| Column::new(name, "");
    if let Some(verdict) = &seen.verdict {
        let (verdict, reads_as, stopped_at) = match verdict {
            Verdict::Works { reads_as } => ("works", Some(*reads_as), None),
            Verdict::Stopped { at, .. } => ("does not", Some("old data"), Some(at.clone())),
            Verdict::StillThere => ("not told", Some("old data"), None),
            Verdict::NotDeterministic => ("not told", Some("changing"), None),
            Verdict::TooFew => ("not told", None, None),
        };
        record.tables.push(Table {
            name: "verdict".to_owned(),
            columns: vec![column("trim"), column("reads_as"), column("stopped_at")],
            rows: vec![vec![Cell::from(verdict), Cell::from(reads_as), Cell::from(stopped_at)]],
        });
    }
    if !seen.moments.is_empty() {
        let names = ["when", "blocks", "old_data", "zeros", "ones", "other", "changed", "taken"];
        let row = |(moment, it): &(&str, Contents)| {
            let mut row = vec![Cell::from(*moment)];
            let counts = [it.counted(), it.old, it.zeros, it.ones, it.other, it.changed, it.taken];
            row.extend(counts.map(Cell::from));
            row
        };
        record.tables.push(Table {
            name: "sectors".to_owned(),
            columns: names.into_iter().map(column).collect(),
            rows: seen.moments.iter().map(row).collect(),
        });
    }
    if !seen.layers.is_empty() {
        let row = |layer: &LayerSeen| {
            let takes = Cell::from(layer.takes_trim);
            vec![Cell::from(layer.name.clone()), takes, Cell::from(layer.discard_max)]
        };
        record.tables.push(Table {
            name: "layers".to_owned(),
            columns: vec![
                column("layer"),
                column("takes_trim"),
                Column::new("discard_max_bytes", "B"),
            ],
            rows: seen.layers.iter().map(row).collect(),
        });
    }
}
