//! The experiment `discard`: the mount option `discard` compared with an occasional fstrim.
//!
//! A source tree is unpacked and synced, deleted and synced, five times with `discard` and five times
//! without. The protocol is that of a French how-to on TRIM, which found no difference in unpacking, and
//! deletion 1.35 times slower with `discard`, on a SanDisk ReadyCache 32 GB.

mod findings;
#[cfg(target_os = "linux")]
mod mount_guard;
#[cfg(target_os = "linux")]
mod real_tree;
#[cfg(target_os = "linux")]
mod remount;
mod simulated;
mod tree;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub use mount_guard::run_guard_if_requested;
#[cfg(target_os = "linux")]
pub use remount::restore_leftover_mounts;
#[cfg(not(target_os = "linux"))]
pub use unsupported::{restore_leftover_mounts, run_guard_if_requested};

use std::path::{Path, PathBuf};

use ssdlab_blockdev::place::Place;
use ssdlab_drive::{Description, Drive, DriveKind};
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

use super::phase_runner::PhaseRunner;
use super::trials::{self, Start, Trial};
use super::{Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::report::{Cell, Column, Table};
use tree::{BYTES, ENTRIES, Tree};

/// The experiment `discard`.
pub struct Discard;

const PARAMETERS: [ParameterSpec; 6] = [
    ParameterSpec {
        name: "passes",
        kind: Kind::Count,
        full: "5",
        quick: "2",
        help: "passes with discard and as many without, each unpacking and deleting the tree",
    },
    ParameterSpec {
        name: "entries",
        kind: Kind::Count,
        full: "47854",
        quick: "47854",
        help: "files and directories of the tree",
    },
    ParameterSpec {
        name: "size",
        kind: Kind::Length,
        full: "513700KB",
        quick: "513700KB",
        help: "total size of its files",
    },
    ParameterSpec {
        name: "tarball",
        kind: Kind::Word,
        full: "",
        quick: "",
        help: "archive to unpack instead of a generated tree",
    },
    ParameterSpec {
        name: "unpack",
        kind: Kind::Duration,
        full: "20ms",
        quick: "20ms",
        help: "simulated drives: host time per MB unpacked (xz and tar of 2012; assumed)",
    },
    ParameterSpec {
        name: "remove",
        kind: Kind::Duration,
        full: "20us",
        quick: "20us",
        help: "simulated drives: host time per file or directory deleted (assumed)",
    },
];

/// All passes with one mount option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    discard: bool,
}

/// Times of one pass: unpacking and deleting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pass {
    extract: Nanoseconds,
    /// `None` if the run ended before the deletion.
    delete: Option<Nanoseconds>,
}

/// Results of a case.
#[derive(Clone, Debug, Default)]
struct Measured {
    passes: Vec<Pass>,
    /// Number of trimmed extents and their bytes; `None` if unknown.
    trimmed: Option<(u64, ByteLength)>,
}

struct Protocol {
    passes: u32,
    tree: Tree,
    tarball: Option<PathBuf>,
    /// Time of the host for unpacking a MB; `remove` is its time for deleting an entry.
    unpack: Nanoseconds,
    remove: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings, seed: u64) -> Result<Protocol, LabError> {
        let tarball = tarball(settings);
        let tree = match &tarball {
            Some(archive) => Tree::of_archive(archive)?,
            None => Tree::synthetic(settings.count("entries"), settings.length("size"), seed),
        };
        Ok(Protocol {
            passes: settings.count("passes"),
            tree,
            tarball,
            unpack: settings.duration("unpack"),
            remove: settings.duration("remove"),
        })
    }

    fn trials(&self) -> Vec<Trial<Case>> {
        let trial = |discard| Trial {
            name: format!("passes {} discard", if discard { "with" } else { "without" }),
            weight: 1.0,
            workload: Case { discard },
        };
        vec![trial(true), trial(false)]
    }

    fn plan(&self) -> Plan {
        let bytes = self.tree.length();
        let passes = 2 * u64::from(self.passes);
        let megabytes = bytes.bytes() as f64 / 1e6;
        let unpacking = Nanoseconds::from_secs_f64(self.unpack.seconds() * megabytes);
        Plan {
            sequential_writes: (bytes + KIB * 4 * self.tree.count()) * passes,
            // The host time of a simulated run is about that of a real one.
            fixed_time: (unpacking + self.remove * self.tree.count()) * passes,
            // Partly filled blocks, directories and inodes.
            space: MIB * (bytes + KIB * 8 * self.tree.count()).covering(MIB),
            files_description: Some(format!(
                "a tree of {} files and directories that is made {} times",
                self.tree.count(),
                passes
            )),
            ..Plan::default()
        }
    }
}

/// Returns the archive that the user named.
fn tarball(settings: &Settings) -> Option<PathBuf> {
    let name = settings.text("tarball");
    (!name.is_empty()).then(|| Path::new(name).to_owned())
}

impl Experiment for Discard {
    fn name(&self) -> &'static str {
        "discard"
    }

    fn question(&self) -> &'static str {
        "Does mounting with discard cost anything compared with periodic fstrim?"
    }

    fn source(&self) -> &'static str {
        "a French how-to on enabling and verifying TRIM (SanDisk ReadyCache 32 GB)"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn checks_plausibility(&self, _: &Settings) -> bool {
        false
    }

    fn simulated_only_parameters(&self) -> &'static [&'static str] {
        &["unpack", "remove"]
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        let range = |name, why: &str| {
            let value = settings.text(name).to_owned();
            Err(LabError::Range { name, value, why: why.to_owned() })
        };
        for name in ["unpack", "remove"] {
            super::check_host_time(settings, name)?;
        }
        if settings.count("entries") < 2 || settings.count("entries") > 4_000_000 {
            return range("entries", "it must be 2 to 4,000,000");
        }
        if settings.length("size") == ByteLength::ZERO {
            return range("size", "it must be more than 0");
        }
        if tarball(settings).is_some()
            && (settings.is_given("entries") || settings.is_given("size"))
        {
            return range(
                "tarball",
                "an archive has its own entries and size; set one or the other",
            );
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        if !matches!(drive.kind, DriveKind::Simulated | DriveKind::Directory) {
            return Err(needs_a_directory(&drive.name));
        }
        settings.check_kind(self, drive.kind)?;
        Ok(Protocol::new(settings, 1)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings, seed)?;
        let trials = protocol.trials();
        let place = match drive.simulated() {
            Some(_) => None,
            None => Some(protocol.real_directory(drive)?),
        };
        let mut runner = PhaseRunner::new(drive, watcher, trials.len() as f64);
        let work = |case: &Case, runner: &mut PhaseRunner, measured: &mut Measured| match &place {
            None => protocol.measure_simulated(case, runner, measured),
            Some((directory, place)) => {
                protocol.measure_real(case, directory, place, runner, measured)
            }
        };
        let done = trials::run(&mut runner, Start::AsItIs, &trials, &work);
        runner.finish(record);
        let cases: Vec<(Case, Measured)> =
            trials.into_iter().map(|trial| trial.workload).zip(done.results).collect();
        tabulate(&cases, record);
        findings::conclude(&protocol, &cases, place.is_none(), record);
        record.add_shortened_finding(settings);
        done.outcome
    }
}

impl Protocol {
    /// Returns the directory of a real drive and its mount, after checking that discards are supported. It
    /// removes the file that the estimate created.
    fn real_directory(&self, drive: &mut dyn Drive) -> Result<(PathBuf, Place), LabError> {
        let Some(directory) = drive.directory().map(Path::to_owned) else {
            return Err(needs_a_directory(&drive.description().name));
        };
        if cfg!(not(target_os = "linux")) {
            return Err(LabError::Unsupported(format!(
                "{}: mount options can be changed on Linux only; a simulated drive can be measured \
                 here",
                directory.display()
            )));
        }
        drive.clean_up()?;
        let place = Place::of(&directory)?;
        if let Some(layer) = place.layers().iter().find(|layer| layer.discard_max == Some(0)) {
            return Err(LabError::Unsupported(format!(
                "{}: {} takes no discards, so that mounting with discard changes nothing",
                directory.display(),
                layer.words()
            )));
        }
        Ok((directory, place))
    }
}

fn needs_a_directory(name: &str) -> LabError {
    LabError::Unsupported(format!(
        "{name}: this experiment needs a file system; name a directory on one that lies on the drive"
    ))
}

fn tabulate(cases: &[(Case, Measured)], record: &mut Record) {
    let columns = vec![
        Column::new("discard", ""),
        Column::new("pass", ""),
        Column::new("extract_seconds", "s"),
        Column::new("delete_seconds", "s"),
    ];
    let mut rows = Vec::new();
    for (case, measured) in cases {
        for (index, pass) in (1u64..).zip(&measured.passes) {
            rows.push(vec![
                Cell::from(case.discard),
                Cell::from(index),
                Cell::from(pass.extract.seconds()),
                Cell::from(pass.delete.map(Nanoseconds::seconds)),
            ]);
        }
    }
    record.tables.push(Table { name: "passes".to_owned(), columns, rows });
    for (case, measured) in cases {
        let with = if case.discard { "with" } else { "without" };
        let points = |value: fn(&Pass) -> Option<f64>| -> Vec<(f64, f64)> {
            let numbered = (1..).map(f64::from).zip(&measured.passes);
            numbered.filter_map(|(number, pass)| Some((number, value(pass)?))).collect()
        };
        let name = format!("delete_{with}_discard");
        let delete_times = points(|pass| pass.delete.map(Nanoseconds::seconds));
        record.add_series(name, ("pass", "s"), &delete_times);
        let name = format!("extract_{with}_discard");
        record.add_series(name, ("pass", "s"), &points(|pass| Some(pass.extract.seconds())));
    }
}

/// Returns true if the tree has the size of the published one.
fn is_published(protocol: &Protocol) -> bool {
    (protocol.tree.count(), protocol.tree.length().bytes()) == (u64::from(ENTRIES), BYTES)
}
