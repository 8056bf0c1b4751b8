//! The experiment `trim-check`: checks that TRIM reaches the flash, and how trimmed sectors read.
//!
//! A file of incompressible data is written, and its sectors are read from the block device, past the file
//! system. Then the file is deleted, its space is trimmed, and the same sectors are read again: immediately,
//! and after a time of idling. The protocol is that of a French how-to on TRIM and of an article on Habr
//! (242199), which waits two minutes in between; the read immediately after the trim was added by us.

mod blocks;
mod findings;
#[cfg(target_os = "linux")]
mod on_device;
mod simulated;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::path::Path;

use ssdlab_drive::{Description, Drive, DriveKind};
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

use super::phase_runner::PhaseRunner;
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};

/// The experiment `trim-check`.
pub struct TrimCheck;

const PARAMETERS: [ParameterSpec; 2] = [
    ParameterSpec {
        name: "size",
        kind: Kind::Length,
        full: "64M",
        quick: "8M",
        help: "length of the file",
    },
    ParameterSpec {
        name: "wait",
        kind: Kind::Duration,
        full: "120s",
        quick: "5s",
        help: "idle time between the trim and the last read",
    },
];

/// Maximum waiting time: a drive that has not trimmed after a day never will.
const MAX_WAIT_SETTING: Nanoseconds = Nanoseconds::from_secs(24 * 3600);

/// Number of blocks of 4 KiB by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    old: u64,
    zeros: u64,
    ones: u64,
    other: u64,
    /// Blocks whose content differs in a second read.
    changed: u64,
    /// Blocks that were allocated to other files meanwhile; they do not count.
    taken: u64,
}

impl Contents {
    /// Returns the number of blocks that count.
    fn counted(self) -> u64 {
        self.old + self.zeros + self.ones + self.other
    }
}

/// Name of the moment right after the trim.
const JUST_TRIMMED: &str = "just trimmed";

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Trimmed sectors no longer return the old data.
    Works { reads_as: &'static str },
    /// The old data is still readable, and the layer that stops trims is known.
    StoppedAtLayer { at: String, why: String },
    /// Every layer supports trims, but the old data is still readable.
    OldDataReadable,
    /// Reads are not deterministic: they differ, have mixed contents, or the drive reports that they may.
    NotDeterministic,
    /// Too many blocks were allocated to other files.
    TooFew,
}

/// A layer between the file system and the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LayerTrim {
    name: String,
    /// Maximum length of a discard in bytes; `None` if unknown.
    discard_max: Option<u64>,
    /// True if the layer supports trims; `None` if unknown.
    takes_trim: Option<bool>,
}

/// All observations.
#[derive(Clone, Debug, Default)]
struct Observations {
    /// Contents of the file's sectors at each moment.
    moments: Vec<(&'static str, Contents)>,
    layers: Vec<LayerTrim>,
    /// Free space trimmed by fstrim; `None` if fstrim failed or is not supported.
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

    fn checks_plausibility(&self, _: &Settings) -> bool {
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
        if settings.duration("wait") > MAX_WAIT_SETTING {
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
        let mut runner = PhaseRunner::new(drive, watcher, 1.0);
        let mut observed = Observations::default();
        let outcome = if runner.drive.simulated().is_some() {
            protocol.measure_simulated(&mut runner, &mut observed)
        } else if let Some(directory) = runner.drive.directory().map(Path::to_owned) {
            // The file that the estimate created is not needed.
            (runner.drive.clean_up().map_err(LabError::from))
                .and_then(|()| protocol.measure_real(&directory, &mut runner, &mut observed))
        } else {
            Err(needs_a_directory(&runner.drive.description().name))
        };
        runner.finish(record);
        tabulate(&observed, record);
        findings::conclude(&observed, record);
        record.add_shortened_finding(settings);
        outcome
    }
}

fn needs_a_directory(name: &str) -> LabError {
    LabError::Unsupported(format!(
        "{name}: this experiment needs a file system; name a directory on one that lies on the drive"
    ))
}

fn tabulate(observed: &Observations, record: &mut Record) {
    let column = |name: &str| Column::new(name, "");
    if let Some(verdict) = &observed.verdict {
        let (verdict, reads_as, stopped_at) = match verdict {
            Verdict::Works { reads_as } => ("works", Some(*reads_as), None),
            Verdict::StoppedAtLayer { at, .. } => ("does not", Some("old data"), Some(at.clone())),
            Verdict::OldDataReadable => ("not told", Some("old data"), None),
            Verdict::NotDeterministic => ("not told", Some("changing"), None),
            Verdict::TooFew => ("not told", None, None),
        };
        record.tables.push(Table {
            name: "verdict".to_owned(),
            columns: vec![column("trim"), column("reads_as"), column("stopped_at")],
            rows: vec![vec![Cell::from(verdict), Cell::from(reads_as), Cell::from(stopped_at)]],
        });
    }
    if !observed.moments.is_empty() {
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
            rows: observed.moments.iter().map(row).collect(),
        });
    }
    if !observed.layers.is_empty() {
        let row = |layer: &LayerTrim| {
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
            rows: observed.layers.iter().map(row).collect(),
        });
    }
}
