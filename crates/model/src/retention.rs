//! Retention: old data takes more time to read (read retry) until it is written anew.
//!
//! Cells lose charge while data lies, so that their threshold voltages drift away from the read reference voltages.
//! The drift goes with the logarithm of time, and is faster in worn cells (Luo et al., "Improving 3D NAND Flash
//! Memory Lifetime by Tolerating Early Retention Loss and Process Variation", POMACS 2(3), 2018). A page that cannot
//! be corrected is read again with other reference voltages, step by step through a table (Park et al., "Reducing
//! Solid-State Drive Read Latency by Optimizing Read-Retry", ASPLOS 2021). The steps of that table are taken to be
//! even, so that the expected number of steps goes with the drift:
//!
//! `steps(t, n) = (S + (W - S) n / N) ln(t / F) / ln(year / F)` for `t > F`, and none before,
//!
//! with `t` the time since a block was begun, `n` its erases, `N` the rated ones, `F` the age up to which data needs
//! no retry, and `S` and `W` the steps after a year in an unworn block and in one at its rating. Each step takes
//! `retry` on the die.
//!
//! Ages are those of blocks, so that data written to a block begun long ago counts as old. They are updated when the
//! drive is idle or stored, and when a block is begun at least an hour after the last update.

use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Nanoseconds};

/// Age for which the parameters give the number of retry steps.
pub const YEAR: Nanoseconds = Nanoseconds::from_secs(365 * 24 * 3600);

/// Least time between two updates of ages when blocks are begun.
const UPDATE_INTERVAL: Nanoseconds = Nanoseconds::from_secs(3600);

/// Retention of a drive: ageing of its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetentionParameters {
    /// Time on the die of one retry step: sensing, and finding out whether the page can be corrected.
    pub retry: Nanoseconds,
    /// Age up to which data needs no retry; less than a [`YEAR`].
    pub free_for: Nanoseconds,
    /// Number of steps for data that is a year old, in a block that was hardly erased.
    pub steps: f64,
    /// Number of steps for data that is a year old, in a block that was erased as often as it is rated for.
    pub worn_steps: f64,
    /// Rated erases of a block; `None` if wear makes no difference.
    pub rated: Option<u32>,
}

impl RetentionParameters {
    /// Returns the expected number of retry steps for data of age `age` in a block that was erased `erases` times.
    pub fn retry_steps(&self, age: Nanoseconds, erases: u32) -> f64 {
        if age <= self.free_for {
            return 0.0;
        }
        let worn = self.rated.map_or(0.0, |rated| f64::from(erases) / f64::from(rated));
        let in_a_year = self.steps + (self.worn_steps - self.steps) * worn;
        let since_free = |time: Nanoseconds| (time.seconds() / self.free_for.seconds()).ln();
        in_a_year * since_free(age) / since_free(YEAR)
    }

    /// Returns the time by which reading such data takes longer on the die.
    fn retry_time(&self, age: Nanoseconds, erases: u32) -> Nanoseconds {
        let nanos = self.retry.nanos() as f64 * self.retry_steps(age, erases);
        Nanoseconds::new(nanos.round() as u64)
    }
}

/// Age of the data of each block.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    parameters: RetentionParameters,
    /// Per block, the moment at which it was begun, by a clock that also runs while the drive is stored.
    begun: Vec<Nanoseconds>,
    /// Per block, the time by which reading it takes longer.
    retry_times: Vec<Nanoseconds>,
    /// Total time for which the drive was stored.
    stored: Nanoseconds,
    updated_at: Nanoseconds,
}

impl Retention {
    /// Returns the state of a new drive; `None` if its data does not age.
    pub(crate) fn new(configuration: &Configuration) -> Option<Box<Retention>> {
        let parameters = configuration.mechanisms.retention?;
        let blocks = configuration.geometry.blocks() as usize;
        Some(Box::new(Retention {
            parameters,
            begun: vec![Nanoseconds::ZERO; blocks],
            retry_times: vec![Nanoseconds::ZERO; blocks],
            stored: Nanoseconds::ZERO,
            updated_at: Nanoseconds::ZERO,
        }))
    }

    /// Notes that data is written to `block` from `now` on; `erases` returns the erase count of a block. Returns that
    /// moment by the clock that also runs while the drive is stored.
    pub(crate) fn note_begun(
        &mut self,
        block: BlockIndex,
        now: Nanoseconds,
        erases: impl Fn(BlockIndex) -> u32,
    ) -> Nanoseconds {
        self.update_if_due(now, UPDATE_INTERVAL, erases);
        let clock = self.stored + now;
        self.begun[block.0 as usize] = clock;
        self.retry_times[block.0 as usize] = Nanoseconds::ZERO;
        clock
    }

    /// Restores ages after a power cut, at `now` by the drive's clock: `begun` returns the moment at which a block
    /// was begun, and `erases` its erase count.
    pub(crate) fn restore_ages(
        &mut self,
        begun: impl Fn(BlockIndex) -> Nanoseconds,
        now: Nanoseconds,
        erases: impl Fn(BlockIndex) -> u32,
    ) {
        for (begun_at, block) in self.begun.iter_mut().zip(0..) {
            *begun_at = begun(BlockIndex(block));
        }
        // No block can be begun in the future: the drive was stored at least until the latest of these moments.
        let latest = self.begun.iter().max().copied().unwrap_or_default();
        self.stored = latest.saturating_sub(now);
        self.update(self.stored + now, erases);
    }

    /// Updates the read times of all blocks at `now`, if the last update is at least `least` ago.
    pub(crate) fn update_if_due(
        &mut self,
        now: Nanoseconds,
        least: Nanoseconds,
        erases: impl Fn(BlockIndex) -> u32,
    ) {
        let clock = self.stored + now;
        if clock >= self.updated_at + least {
            self.update(clock, erases);
        }
    }

    /// Lets the drive lie without power for `duration`, from `now` by its own clock.
    ///
    /// # Panics
    /// Panics if the drive has existed for five hundred years.
    pub(crate) fn store(
        &mut self,
        now: Nanoseconds,
        duration: Nanoseconds,
        erases: impl Fn(BlockIndex) -> u32,
    ) {
        self.stored += duration;
        assert!(self.stored + now < YEAR * 500, "no drive is stored for five hundred years");
        self.update_if_due(now, Nanoseconds::ZERO, erases);
    }

    /// Returns the time by which reading `block` takes longer.
    #[inline(always)]
    pub(crate) fn retry_time(&self, block: BlockIndex) -> Nanoseconds {
        self.retry_times[block.0 as usize]
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Retention { parameters: _, begun, retry_times: _, stored, updated_at } = self;
        for begun in begun {
            to.long(begun.nanos())?;
        }
        to.long(stored.nanos())?;
        Ok(to.long(updated_at.nanos())?)
    }

    /// Restores what `save` wrote; `erases` returns the erase count of a block.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        erases: impl Fn(BlockIndex) -> u32,
    ) -> Result<(), SnapshotError> {
        for begun in &mut self.begun {
            *begun = Nanoseconds::new(from.long()?);
        }
        self.stored = Nanoseconds::new(from.long()?);
        let updated_at = Nanoseconds::new(from.long()?);
        let latest = Nanoseconds::new(updated_at.nanos().saturating_add(UPDATE_INTERVAL.nanos()));
        // Two hundred years: twice the time that a drive can be stored, and far from where the clock would overflow
        // with the time still to come.
        if updated_at > YEAR * 200
            || self.begun.iter().chain([&self.stored]).any(|&it| it >= latest)
        {
            return damaged("data is younger than it can be");
        }
        self.update(updated_at, erases);
        Ok(())
    }

    fn update(&mut self, clock: Nanoseconds, erases: impl Fn(BlockIndex) -> u32) {
        self.updated_at = clock;
        let all = self.begun.iter().zip(&mut self.retry_times).zip(0..);
        for ((&begun, retry_time), block) in all {
            let age = clock.saturating_sub(begun);
            *retry_time = self.parameters.retry_time(age, erases(BlockIndex(block)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit};

    const DAY: Nanoseconds = Nanoseconds::from_secs(24 * 3600);

    /// A TLC drive that loses three quarters of its read rate in a year.
    const OLD: [(&str, &str); 5] = [
        ("retention.retry", "70us"),
        ("retention.free_for", "10d"),
        ("retention.steps", "3"),
        ("retention.worn_steps", "20"),
        ("wear.pe_cycles", "2000"),
    ];

    /// Returns the time of one read on the die at `at`, beyond that of a fresh read.
    fn longer(ssd: &mut Ssd, at: Instant, unit: u32) -> u64 {
        let mut fresh = Ssd::new(&small_configuration(&[])).expect("a sound drive");
        let written = fresh.write(Instant::START, LogicalUnit(0), 1);
        let later = fresh.flush(written) + Nanoseconds::from_secs(1);
        let least = fresh.read(later, LogicalUnit(0), 1).since(later);
        let at = at + Nanoseconds::from_secs(1);
        (ssd.read(at, LogicalUnit(unit), 1).since(at) - least).nanos()
    }

    fn filled() -> (Ssd, Instant) {
        let mut ssd = Ssd::new(&small_configuration(&OLD)).expect("a sound drive");
        let units = ssd.geometry().logical_units();
        let written = ssd.write(Instant::START, LogicalUnit(0), units);
        let end = ssd.flush(written);
        (ssd, end)
    }

    #[test]
    fn old_data_is_read_more_slowly_until_it_is_written_anew() {
        let (mut ssd, at) = filled();
        assert_eq!(longer(&mut ssd, at, 0), 0, "new data");
        let mut at = at + Nanoseconds::from_secs(60);
        ssd.store(Nanoseconds::new(at.nanos()), DAY * 5);
        assert_eq!(longer(&mut ssd, at, 0), 0, "data that is a few days old");
        at += Nanoseconds::from_secs(60);
        ssd.store(Nanoseconds::new(at.nanos()), DAY * 360);
        let old = longer(&mut ssd, at, 0);
        assert!((209_000..211_000).contains(&old), "three steps of 70 us in a year: {old}");
        at += Nanoseconds::from_secs(60);
        let units = ssd.geometry().logical_units();
        let written = ssd.write(at, LogicalUnit(0), units / 2);
        let at = ssd.flush(written);
        // The first units went into the block that was open all the time.
        assert_eq!(longer(&mut ssd, at, units / 2 - 1), 0, "refreshed");
        let rest = at + Nanoseconds::from_secs(60);
        assert!(longer(&mut ssd, rest, units - 1) > 200_000, "what was not is as it was");
        ssd.check_invariants();
    }

    #[test]
    fn data_ages_in_a_rest_as_it_does_in_store() {
        let (mut stored, at) = filled();
        stored.store(Nanoseconds::new(at.nanos()), DAY * 90);
        let (mut rested, at) = filled();
        rested.rest(at, DAY * 90);
        let (one, two) = (longer(&mut stored, at, 5), longer(&mut rested, at + DAY * 90, 5));
        assert!(one > 100_000 && one.abs_diff(two) < 10, "{one} and {two}");
    }

    /// The rule in plain words: steps go with the logarithm of age, and there are more with wear.
    #[test]
    fn steps_grow_with_the_logarithm_of_time_and_with_wear() {
        let parameters = small_configuration(&OLD).mechanisms.retention.expect("data ages");
        let steps = |days: u64, erases| parameters.retry_steps(DAY * days, erases);
        assert_eq!((steps(10, 0), steps(365, 0)), (0.0, 3.0));
        assert!((steps(365, 2000) - 20.0).abs() < 1e-9);
        assert!((steps(365, 1000) - 11.5).abs() < 1e-9);
        // Tenfold ages are equally far apart.
        let (one, two) = (steps(1000, 0) - steps(100, 0), steps(10_000, 0) - steps(1000, 0));
        assert!((one - two).abs() < 1e-9, "{one} {two}");
    }

    #[test]
    fn a_drive_that_was_saved_is_as_old_as_before() {
        use crate::mapping::PageMap;
        use crate::media::Null;
        let (mut ssd, at) = filled();
        ssd.store(Nanoseconds::new(at.nanos()), DAY * 200);
        let at = ssd.shut_down(at);
        let mut bytes = Vec::new();
        ssd.save(&mut Encoder::new(&mut bytes)).unwrap();
        let map = PageMap::new(ssd.geometry().logical_units());
        let mut again: Ssd<PageMap, Null> =
            Ssd::restored(&small_configuration(&OLD), map, &mut Decoder::new(&mut &bytes[..]))
                .unwrap();
        let (old, same) = (longer(&mut ssd, at, 9), longer(&mut again, at, 9));
        assert!(old > 100_000 && old == same, "{old} {same}");
    }

    #[test]
    fn parts_of_the_latency_of_old_data_add_up_to_it() {
        let (mut ssd, at) = filled();
        let mut at = at + Nanoseconds::from_secs(60);
        ssd.store(Nanoseconds::new(at.nanos()), DAY * 365);
        for unit in (0..4_000).step_by(97) {
            let before = ssd.attribution();
            let end = ssd.read(at, LogicalUnit(unit), 1 + unit % 40);
            let parts = ssd.attribution().since(&before).reads;
            assert_eq!(parts.total(), end.since(at));
            assert!(parts.flash_read >= Nanoseconds::from_micros(250), "{parts:?}");
            at = end;
        }
    }

    #[test]
    fn old_data_of_a_drive_with_log_blocks_is_read_more_slowly_until_it_is_merged() {
        let log = [("mapping.scheme", "log-block"), ("mapping.log_blocks", "2")];
        let changes: Vec<_> = OLD.into_iter().chain(log).collect();
        let mut drive = Ssd::new(&small_configuration(&changes)).expect("a sound drive");
        let per_block = drive.geometry().units_per_block();
        let mut at = drive.write(Instant::START, LogicalUnit(0), 3 * per_block);
        let read = |drive: &mut Ssd, at: Instant, unit| {
            let at = drive.now().max(at) + Nanoseconds::from_secs(60);
            let end = drive.read(at, LogicalUnit(unit), 1);
            (end, end.since(at).nanos())
        };
        let fresh;
        (at, fresh) = read(&mut drive, at, 8);
        assert!(drive.store(Nanoseconds::new(at.nanos()), YEAR), "its data ages");
        let old;
        (at, old) = read(&mut drive, at, 8);
        assert_eq!((old - fresh) / 1000, 3 * 70, "three steps after a year");
        // A part of the block is written to the log: this part is fresh, and the rest is as old as before.
        at = drive.write(at, LogicalUnit(16), 8);
        at = drive.flush(at);
        let (after, of_log) = read(&mut drive, at, 16);
        let (after, of_rest) = read(&mut drive, after, 8);
        assert_eq!((of_log, of_rest), (fresh, old));
        // Written from its start on, the data block is a new block.
        at = drive.write(after, LogicalUnit(0), per_block);
        at = drive.flush(at);
        assert_eq!(read(&mut drive, at, 8).1, fresh);
        // Idle time makes data older, too.
        let at = drive.now() + Nanoseconds::from_secs(60);
        drive.rest(at, Nanoseconds::from_secs(20 * 24 * 3600));
        let at = at + Nanoseconds::from_secs(20 * 24 * 3600);
        assert!(read(&mut drive, at, 8).1 > fresh);
    }
}
