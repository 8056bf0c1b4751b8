//! The experiment `write-cliff`: data written before the speed drops (SLC cache), and the speed after that.
//!
//! A new drive is written sequentially once while its speed is recorded: the usual test of the write cache in
//! reviews of client drives. If the speed changes for good, one stretch ends and the next begins. Then the
//! drive idles, and as much as the cache took is overwritten from the start: that shows how much of the cache
//! is available again on a full drive.

mod stretches;

use ssdlab_drive::{Amount, Description, Drive, Mix, Pattern, Phase, Region, ThroughputPoint};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::job_table::merge_short_last_interval;
use super::phase_runner::PhaseRunner;
use super::text_format::{join_names, throughput};
use super::workload;
use super::{DrivesInMemory, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
use crate::error::LabError;
use crate::output::format::significant;
use crate::report::{Cell, Column, Level, Table};
use stretches::{Stretch, stretches};

/// The experiment `write-cliff`.
pub struct WriteCliff;

const PARAMETERS: [ParameterSpec; 5] = [
    ParameterSpec {
        name: "block",
        kind: Kind::Length,
        full: "1M",
        quick: "1M",
        help: "request size",
    },
    ParameterSpec {
        name: "depth",
        kind: Kind::Count,
        full: "4",
        quick: "4",
        help: "requests in flight",
    },
    ParameterSpec {
        name: "area",
        kind: Kind::Area,
        full: "all",
        quick: "2G",
        help: "area written, from the start of the drive",
    },
    ParameterSpec {
        name: "interval",
        kind: Kind::Duration,
        full: "1s",
        quick: "100ms",
        help: "duration of each point of the curve",
    },
    ParameterSpec {
        name: "rest",
        kind: Kind::Duration,
        full: "5m",
        quick: "1s",
        help: "idle time before the drive is written again; 0s leaves the second write out",
    },
];

/// Minimum interval of the points of the curve, which are kept in memory.
const MIN_INTERVAL: Nanoseconds = Nanoseconds::from_millis(1);

/// Minimum difference of two speeds that counts as a cliff, as a share of the faster.
const MIN_CLIFF: f64 = 0.2;

/// The steps of a run, derived from its settings and the drive.
#[derive(Clone, Debug)]
struct Protocol {
    block: ByteLength,
    depth: u32,
    area: ByteLength,
    interval: Nanoseconds,
    rest: Nanoseconds,
}

impl Protocol {
    fn new(settings: &Settings, drive: &Description) -> Result<Protocol, LabError> {
        let area = settings.area("area", drive)?;
        Ok(Protocol {
            block: workload::block(settings, area)?,
            depth: settings.count("depth"),
            area,
            interval: settings.duration("interval"),
            rest: settings.duration("rest"),
        })
    }

    fn plan(&self) -> Plan {
        let passes = if self.rest > Nanoseconds::ZERO { 2 } else { 1 };
        Plan {
            sequential_writes: self.area * passes,
            rests: self.rest,
            space: self.area,
            block_sizes: vec![self.block],
            drives: DrivesInMemory::default(),
            ..Plan::default()
        }
    }

    fn write(&self, name: &str, amount: ByteLength, seed: u64) -> Phase {
        Phase {
            name: name.to_owned(),
            pattern: Pattern::Sequential,
            block_size: self.block,
            depth: self.depth,
            mix: Mix::WRITE,
            region: Region::first(self.area),
            amount: Amount::Bytes(amount),
            rate: None,
            seed,
            flush_at_end: true,
            interval: self.interval,
        }
    }
}

impl Experiment for WriteCliff {
    fn name(&self) -> &'static str {
        "write-cliff"
    }

    fn question(&self) -> &'static str {
        "How much can be written at full speed, and how fast is it after that?"
    }

    fn source(&self) -> &'static str {
        "what reviews of client drives do, such as TechPowerUp's: the whole drive written once"
    }

    fn parameters(&self) -> &'static [ParameterSpec] {
        &PARAMETERS
    }

    fn accepts_block_devices(&self) -> bool {
        true
    }

    fn scales_with_capacity(&self) -> bool {
        true
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "interval")?;
        if settings.duration("interval") < MIN_INTERVAL {
            return Err(LabError::Range {
                name: "interval",
                value: settings.text("interval").to_owned(),
                why: "it must be at least 1 ms".to_owned(),
            });
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings, drive: &Description) -> Result<Plan, LabError> {
        Ok(Protocol::new(settings, drive)?.plan())
    }

    fn run(
        &self,
        settings: &Settings,
        seed: u64,
        drive: &mut dyn Drive,
        record: &mut Record,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        let protocol = Protocol::new(settings, &drive.description())?;
        let drive_capacity = drive.description().capacity;
        protocol.plan().check_blocks(&drive.description())?;
        drive.prepare(protocol.area)?;
        let weight = protocol.area.bytes() as f64;
        let mut runner = PhaseRunner::new(drive, watcher, weight * 1.5);
        let purge = runner.purge(Region::first(protocol.area))?;
        let mut results = CliffResults::default();
        let outcome = write(&protocol, seed, weight, &mut runner, &mut results);
        runner.finish(record);
        purge.add_finding(record);
        results.add_findings(drive_capacity, record);
        record.add_shortened_finding(settings);
        outcome
    }
}

fn write(
    protocol: &Protocol,
    seed: u64,
    weight: f64,
    runner: &mut PhaseRunner,
    results: &mut CliffResults,
) -> Result<(), LabError> {
    let block = protocol.block;
    let area = block * protocol.area.whole(block);
    let first = runner.run(&protocol.write("the whole area, in order", area, seed), weight)?;
    results.points = merge_short_last_interval(&first.throughput);
    results.stretches = stretches(&results.points);
    let Some(cache) = results.bytes_before_cliff() else { return Ok(()) };
    if protocol.rest > Nanoseconds::ZERO {
        runner.rest(protocol.rest, 0.0)?;
        let amount = block * cache.whole(block).max(1);
        let phase = protocol.write("the same again, after a rest", amount, seed);
        let result = runner.run(&phase, weight * 0.5)?;
        results.after_idle =
            stretches(&merge_short_last_interval(&result.throughput)).first().copied();
    }
    Ok(())
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
struct CliffResults {
    points: Vec<ThroughputPoint>,
    stretches: Vec<Stretch>,
    /// First stretch after the idle time.
    after_idle: Option<Stretch>,
}

impl CliffResults {
    /// Returns the bytes written before the first lasting drop of speed; `None` if there was none.
    fn bytes_before_cliff(&self) -> Option<ByteLength> {
        let [first, second, ..] = &self.stretches[..] else { return None };
        (second.mb_per_second < (1.0 - MIN_CLIFF) * first.mb_per_second).then_some(first.length)
    }

    /// Returns the mean throughput of the whole write, in MB/s.
    fn mean(&self) -> Option<f64> {
        let time: f64 = self.points.iter().map(|point| point.length.seconds()).sum();
        let bytes: ByteLength = self.points.iter().map(|point| point.bytes).sum();
        (time > 0.0).then(|| bytes.bytes() as f64 / 1e6 / time)
    }

    fn add_findings(&self, capacity: ByteLength, record: &mut Record) {
        if self.stretches.is_empty() {
            return;
        }
        self.add_curve(record);
        self.tabulate(capacity, record);
        self.conclude(record);
    }

    fn add_curve(&self, record: &mut Record) {
        let mut bytes = ByteLength::ZERO;
        let curve: Vec<(f64, f64)> = self
            .points
            .iter()
            .map(|point| {
                bytes += point.bytes;
                (bytes.bytes() as f64 / 1e9, point.mb_per_second())
            })
            .collect();
        record.add_series("throughput".to_owned(), ("GB", "MB/s"), &curve);
    }

    fn tabulate(&self, capacity: ByteLength, record: &mut Record) {
        let columns = vec![
            Column::new("cache_gb", "GB"),
            Column::new("cache_percent", "%"),
            Column::new("first_mb_per_s", "MB/s"),
            Column::new("next_mb_per_s", "MB/s"),
            Column::new("last_mb_per_s", "MB/s"),
            Column::new("mean_mb_per_s", "MB/s"),
            Column::new("after_rest_gb", "GB"),
        ];
        let gigabytes = |length: ByteLength| length.bytes() as f64 / 1e9;
        let fast_again = self.after_idle.filter(|after_idle| {
            let first = self.stretches[0].mb_per_second;
            after_idle.mb_per_second > (1.0 - MIN_CLIFF) * first
        });
        let row = vec![
            Cell::from(self.bytes_before_cliff().map(gigabytes)),
            Cell::from(
                self.bytes_before_cliff()
                    .map(|cache| 100.0 * cache.bytes() as f64 / capacity.bytes() as f64),
            ),
            Cell::from(Some(self.stretches[0].mb_per_second)),
            Cell::from(self.stretches.get(1).map(|it| it.mb_per_second)),
            Cell::from(self.stretches.last().map(|it| it.mb_per_second)),
            Cell::from(self.mean()),
            Cell::from(self.after_idle.map(|_| fast_again.map_or(0.0, |it| gigabytes(it.length)))),
        ];
        record.tables.push(Table { name: "cliff".to_owned(), columns, rows: vec![row] });
        let columns = vec![
            Column::new("from_gb", "GB"),
            Column::new("length_gb", "GB"),
            Column::new("mb_per_s", "MB/s"),
        ];
        let mut from = ByteLength::ZERO;
        let rows = self.stretches.iter().map(|stretch| {
            let row = vec![
                Cell::from(Some(gigabytes(from))),
                Cell::from(Some(gigabytes(stretch.length))),
                Cell::from(Some(stretch.mb_per_second)),
            ];
            from += stretch.length;
            row
        });
        let rows = rows.collect();
        record.tables.push(Table { name: "stretches".to_owned(), columns, rows });
    }

    fn conclude(&self, record: &mut Record) {
        let gb = |length: ByteLength| format!("{} GB", significant(length.bytes() as f64 / 1e9));
        let Some(cache) = self.bytes_before_cliff() else {
            record.add_finding(
                Level::Info,
                "no-cliff",
                format!(
                    "No cliff: {} over the whole area.",
                    throughput(self.mean().unwrap_or(self.stretches[0].mb_per_second))
                ),
            );
            return;
        };
        let later: Vec<String> = self.stretches[1..]
            .iter()
            .map(|it| format!("{} at {}", gb(it.length), throughput(it.mb_per_second)))
            .collect();
        record.add_finding(
            Level::Notice,
            "write-cliff",
            format!(
                "The drive wrote {} at {}, then {}.",
                gb(cache),
                throughput(self.stretches[0].mb_per_second),
                join_names(&later)
            ),
        );
        if let Some(after_idle) = self.after_idle {
            let words = idle_recovery_text(&self.stretches, after_idle);
            record.add_finding(
                Level::Info,
                "after-a-rest",
                format!("After a rest, with the area full, {words}."),
            );
        }
    }
}

/// Compares the speed after the idle time with the speeds before and after the cliff, as the end of a sentence.
fn idle_recovery_text(stretches: &[Stretch], after_idle: Stretch) -> String {
    let length = format!("{} GB", significant(after_idle.length.bytes() as f64 / 1e9));
    let (before, after) = (stretches[0].mb_per_second, stretches[1].mb_per_second);
    if after_idle.mb_per_second > (1.0 - MIN_CLIFF) * before {
        format!("{length} were fast again")
    } else if (1.0 - MIN_CLIFF) * after_idle.mb_per_second > after {
        format!(
            "{length} were written at {}: faster than after the cliff, and not as fast as before it",
            throughput(after_idle.mb_per_second)
        )
    } else {
        format!("nothing was fast again: {}", throughput(after_idle.mb_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_between_that_before_the_cliff_and_that_after_it_is_neither() {
        let at = |mb_per_second| Stretch { length: ByteLength::new(5_000_000_000), mb_per_second };
        let words = |after_idle| idle_recovery_text(&[at(2000.0), at(100.0)], at(after_idle));
        assert_eq!(words(1990.0), "5.00 GB were fast again");
        assert!(
            words(1200.0).starts_with("5.00 GB were written at 1200 MB/s: faster than"),
            "{}",
            words(1200.0)
        );
        assert_eq!(words(101.0), "nothing was fast again: 101 MB/s");
    }
}
