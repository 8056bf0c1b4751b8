//! The experiment `write-cliff`: data written before the speed drops (SLC cache), and the speed after that.
//!
//! A new drive is written sequentially once while its speed is recorded: the usual test of the write cache in
//! reviews of client drives. If the speed changes for good, one stretch ends and the next begins. Then the
//! drive idles, and as much as the cache took is overwritten from the start: that shows how much of the cache
//! is available again on a full drive.

mod stretches;

use ssdlab_drive::{Amount, Description, Drive, Mix, Pattern, Phase, Region, ThroughputPoint};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::course::Course;
use super::figures::whole;
use super::words::{list, speed};
use super::workload;
use super::{DrivesAtOnce, Experiment, Kind, ParameterSpec, Plan, Record, Settings, Watcher};
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
        help: "how much of the drive is written, from its start",
    },
    ParameterSpec {
        name: "interval",
        kind: Kind::Duration,
        full: "1s",
        quick: "100ms",
        help: "how long a point of the curve stands for",
    },
    ParameterSpec {
        name: "rest",
        kind: Kind::Duration,
        full: "5m",
        quick: "1s",
        help: "how long the drive is left alone before it is written again; 0s for not again",
    },
];

/// Minimum interval of the points of the curve, which are kept in memory.
const INTERVAL_LEAST: Nanoseconds = Nanoseconds::from_millis(1);

/// Minimum difference of two speeds that counts as a cliff, as a share of the faster.
const CLIFF: f64 = 0.2;

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
        let again = if self.rest > Nanoseconds::ZERO { 2 } else { 1 };
        Plan {
            sequential_writes: self.area * again,
            rests: self.rest,
            space: self.area,
            block_sizes: vec![self.block],
            drives: DrivesAtOnce::default(),
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

    fn takes_devices(&self) -> bool {
        true
    }

    fn scales_with_the_drive(&self) -> bool {
        true
    }

    fn check(&self, settings: &mut Settings) -> Result<(), LabError> {
        super::check_time(settings, "interval")?;
        if settings.duration("interval") < INTERVAL_LEAST {
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
        let mut course = Course::new(drive, watcher, weight * 1.5);
        let emptied = course.empty(Region::first(protocol.area))?;
        let mut written = Written::default();
        let outcome = write(&protocol, seed, weight, &mut course, &mut written);
        course.end(record);
        emptied.tell(record);
        written.tell(drive_capacity, record);
        record.say_if_shortened(settings);
        outcome
    }
}

fn write(
    protocol: &Protocol,
    seed: u64,
    weight: f64,
    course: &mut Course,
    written: &mut Written,
) -> Result<(), LabError> {
    let block = protocol.block;
    let area = block * protocol.area.whole(block);
    let first = course.run(&protocol.write("the whole area, in order", area, seed), weight)?;
    written.points = whole(&first.throughput);
    written.stretches = stretches(&written.points);
    let Some(cache) = written.cache() else { return Ok(()) };
    if protocol.rest > Nanoseconds::ZERO {
        course.rest(protocol.rest, 0.0)?;
        let amount = block * cache.whole(block).max(1);
        let again = protocol.write("the same again, after a rest", amount, seed);
        let result = course.run(&again, weight * 0.5)?;
        written.again = stretches(&whole(&result.throughput)).first().copied();
    }
    Ok(())
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
struct Written {
    points: Vec<ThroughputPoint>,
    stretches: Vec<Stretch>,
    /// First stretch after the idle time.
    again: Option<Stretch>,
}

impl Written {
    /// Returns the bytes written before the first lasting drop of speed; `None` if there was none.
    fn cache(&self) -> Option<ByteLength> {
        let [first, second, ..] = &self.stretches[..] else { return None };
        (second.mb_per_second < (1.0 - CLIFF) * first.mb_per_second).then_some(first.length)
    }

    /// Returns the mean throughput of the whole write, in MB/s.
    fn mean(&self) -> Option<f64> {
        let time: f64 = self.points.iter().map(|point| point.length.seconds()).sum();
        let bytes: ByteLength = self.points.iter().map(|point| point.bytes).sum();
        (time > 0.0).then(|| bytes.bytes() as f64 / 1e6 / time)
    }

    fn tell(&self, capacity: ByteLength, record: &mut Record) {
        if self.stretches.is_empty() {
            return;
        }
        self.draw(record);
        self.tabulate(capacity, record);
        self.conclude(record);
    }

    fn draw(&self, record: &mut Record) {
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
        let fast_again = self.again.filter(|again| {
            let first = self.stretches[0].mb_per_second;
            again.mb_per_second > (1.0 - CLIFF) * first
        });
        let row = vec![
            Cell::from(self.cache().map(gigabytes)),
            Cell::from(
                self.cache().map(|cache| 100.0 * cache.bytes() as f64 / capacity.bytes() as f64),
            ),
            Cell::from(Some(self.stretches[0].mb_per_second)),
            Cell::from(self.stretches.get(1).map(|it| it.mb_per_second)),
            Cell::from(self.stretches.last().map(|it| it.mb_per_second)),
            Cell::from(self.mean()),
            Cell::from(self.again.map(|_| fast_again.map_or(0.0, |it| gigabytes(it.length)))),
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
        let Some(cache) = self.cache() else {
            record.find(
                Level::Info,
                "no-cliff",
                format!(
                    "No cliff: {} over all of it.",
                    speed(self.mean().unwrap_or(self.stretches[0].mb_per_second))
                ),
            );
            return;
        };
        let later: Vec<String> = self.stretches[1..]
            .iter()
            .map(|it| format!("{} at {}", gb(it.length), speed(it.mb_per_second)))
            .collect();
        record.find(
            Level::Notice,
            "write-cliff",
            format!(
                "The drive wrote {} at {}, then {}.",
                gb(cache),
                speed(self.stretches[0].mb_per_second),
                list(&later)
            ),
        );
        if let Some(again) = self.again {
            let words = after_a_rest(&self.stretches, again);
            record.find(Level::Info, "after-a-rest", format!("After a rest, full, {words}."));
        }
    }
}

/// Returns how the drive wrote after a rest, `again`, in words: beside the speed before the cliff and the one after it.
fn after_a_rest(stretches: &[Stretch], again: Stretch) -> String {
    let length = format!("{} GB", significant(again.length.bytes() as f64 / 1e9));
    let (before, after) = (stretches[0].mb_per_second, stretches[1].mb_per_second);
    if again.mb_per_second > (1.0 - CLIFF) * before {
        format!("{length} were fast again")
    } else if (1.0 - CLIFF) * again.mb_per_second > after {
        format!(
            "{length} were written at {}: faster than after the cliff, and not as fast as before it",
            speed(again.mb_per_second)
        )
    } else {
        format!("nothing was fast again: {}", speed(again.mb_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_between_that_before_the_cliff_and_that_after_it_is_neither() {
        let at = |mb_per_second| Stretch { length: ByteLength::new(5_000_000_000), mb_per_second };
        let words = |again| after_a_rest(&[at(2000.0), at(100.0)], at(again));
        assert_eq!(words(1990.0), "5.00 GB were fast again");
        assert!(
            words(1200.0).starts_with("5.00 GB were written at 1200 MB/s: faster than"),
            "{}",
            words(1200.0)
        );
        assert_eq!(words(101.0), "nothing was fast again: 101 MB/s");
    }
}
