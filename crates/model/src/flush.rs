//! Flush and FUA: what it costs to make writes durable.
//!
//! A drive whose buffer is volatile pads the program unit that is being filled, programs it, and
//! waits; then it programs the changes of its map to a journal page ([`crate::journal`]), where it
//! keeps one, and tells the host. Capacitors make all of that unnecessary, and a drive that
//! ignores flushes leaves it out although they do not protect it; what the command itself costs the
//! controller stays. With the write cache off every write is answered like one with FUA (force unit
//! access: durable when answered), whatever the drive does about flushes.
//!
//! What is not known of real drives: whether firmware combines the padding of writes that arrive
//! together. Here each FUA write pads on its own.

use serde::Deserialize;

use crate::buffer::InFlight;
use crate::checkpoint::Checkpoints;
use crate::journal::{Journal, JournalParameters};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::die::Die;
use crate::ssd::{Configuration, Ssd};
use crate::units::{Instant, Nanoseconds, Sector, SectorCount};

/// What a drive does when it is told to flush, or to write with FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushHandling {
    /// What it is asked for.
    #[default]
    Honest,
    /// Nothing: it answers at once, durable or not.
    Ignored,
}

/// When a plain write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// When its data is in the buffer.
    #[default]
    WriteBack,
    /// When its data is durable.
    WriteThrough,
}

/// How a drive makes writes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushParameters {
    /// Whether it does what a flush asks for.
    pub handling: FlushHandling,
    /// When a plain write is answered.
    pub write_cache: WriteCache,
    /// How long a flush keeps the controller from anything else.
    pub overhead: Nanoseconds,
    /// The journal that a flush completes; none where the spare area of the data is enough.
    pub journal: Option<JournalParameters>,
}

/// The state of what makes writes durable.
#[derive(Clone, Debug)]
pub(crate) struct Durability {
    /// Whether flush and FUA have anything to wait for.
    pub(crate) waits: bool,
    /// Whether every write waits like one with FUA.
    pub(crate) write_through: bool,
    pub(crate) overhead: Nanoseconds,
    pub(crate) journal: Option<Journal>,
    pub(crate) checkpoints: Option<Box<Checkpoints>>,
}

impl Durability {
    /// Whether anything is written down of what changes in the map.
    #[inline(always)]
    pub(crate) fn notes_map_changes(&self) -> bool {
        self.journal.is_some() || self.checkpoints.is_some()
    }

    pub(crate) fn new(configuration: &Configuration) -> Durability {
        let parameters = configuration.mechanisms.flush;
        let is_volatile = !configuration.buffer.protected;
        let waits = is_volatile && parameters.handling == FlushHandling::Honest;
        // A drive can lie about flushes and still have no cache to flush.
        let write_through = is_volatile && parameters.write_cache == WriteCache::WriteThrough;
        Durability {
            waits,
            write_through,
            overhead: parameters.overhead,
            // Nothing ever asks for a journal that neither a flush nor a write completes.
            journal: parameters
                .journal
                .filter(|_| waits || write_through)
                .map(|journal| Journal::new(&configuration.geometry, journal)),
            checkpoints: configuration.mechanisms.checkpoint.map(|parameters| {
                let Configuration { geometry, mechanisms, .. } = configuration;
                Box::new(Checkpoints::new(geometry, mechanisms, parameters))
            }),
        }
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Makes all writes that were answered durable; returns when the host is told so.
    ///
    /// A drive whose buffer is protected answers as soon as it has dealt with the command, and so does
    /// one that ignores flushes.
    pub fn flush(&mut self, at: Instant) -> Instant {
        self.counters.flushes += 1;
        let start = self.take_up_for(at, self.durability.overhead);
        if !self.durability.waits {
            return self.note_flush(at, start);
        }
        self.pad_host_program(start);
        let dies = &mut self.resources.dies;
        let end_of = |it: &InFlight| expected_end(dies, it, start);
        let programmed = self.buffer.drained_at(end_of).max(start).max(self.condenser.until);
        let recorded = self.make_trims_durable(start);
        let end = self.complete_journal(programmed).max(recorded);
        if let Some(journal) = &mut self.durability.journal {
            journal.forget_waits();
        }
        self.media.promise(end);
        self.note_flush(at, end)
    }

    /// Writes `count` sectors from `first` with FUA: returns when their data is durable.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn write_fua_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        self.counters.fua_writes += 1;
        let program = self.buffer.next_number();
        let received = self.write_sectors(at, first, count);
        if !self.durability.waits || self.durability.write_through {
            return received;
        }
        let end = self.make_durable(program, received);
        self.delays.writes.latency += end.since(received);
        end
    }

    /// Makes a write durable whose data was there at `received` and went into the host's program
    /// units from number `program` on; returns when it is.
    #[inline(never)]
    pub(crate) fn make_durable(&mut self, program: u32, received: Instant) -> Instant {
        self.pad_host_program(received);
        let dies = &mut self.resources.dies;
        let end_of = |it: &InFlight| expected_end(dies, it, received);
        let programmed = self.buffer.programmed_from(program, end_of).max(received);
        // A write that was condensed before its program unit was full is in a run.
        let programmed = programmed.max(self.condenser.until);
        let end = self.complete_journal(programmed);
        self.media.promise(end);
        self.delays.writes.parts.flush += end.since(received);
        end
    }
}

/// When a program is to be expected to be over, seen from `at`: reads that will come before it, or
/// interrupt it, are not known yet, but how many came lately is.
fn expected_end(dies: &mut [Die], program: &InFlight, at: Instant) -> Instant {
    let die = &mut dies[program.die.0 as usize];
    let end = die.end_of(program.booking, program.end);
    if end <= at { end } else { die.expected_end(program.booking, end, at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Step;
    use crate::profile::Profile;
    use crate::ssd::tests::small_configuration;
    use crate::units::LogicalUnit;

    /// A drive of 64 MiB with the parts of the default profile and these changes.
    fn drive(changes: &[(&str, &str)]) -> Ssd {
        let changes = [&[("capacity.physical", "128M")], changes].concat();
        Ssd::new(&small_configuration(&changes)).expect("a sound drive")
    }

    /// How long a write of one unit and a flush take on a new drive, in microseconds.
    fn write_and_flush(changes: &[(&str, &str)]) -> (u64, u64) {
        let mut ssd = drive(changes);
        let written = ssd.write(Instant::START, LogicalUnit(0), 1);
        let flushed = ssd.flush(written);
        (written.nanos() / 1000, flushed.since(written).nanos() / 1000)
    }

    #[test]
    fn a_flush_programs_what_the_buffer_holds_and_then_the_journal() {
        let (_, plain) = write_and_flush(&[]);
        assert!((1300..1600).contains(&plain), "one program of 1300 us: {plain}");
        let (_, journal) = write_and_flush(&[("flush.journal", "on")]);
        assert!((2600..2900).contains(&journal), "and one for the journal: {journal}");
        let fast = [("flush.journal", "on"), ("flush.journal_program", "300us")];
        let (_, fast) = write_and_flush(&fast);
        assert!((1600..1950).contains(&fast), "a fast one: {fast}");
        let (_, slow) = write_and_flush(&[("flush.overhead", "500us")]);
        assert_eq!(slow, plain + 500, "what the controller spends comes on top");
    }

    #[test]
    fn a_flush_with_nothing_new_costs_no_flash() {
        let mut ssd = drive(&[("flush.journal", "on")]);
        let written = ssd.write(Instant::START, LogicalUnit(0), 1);
        let flushed = ssd.flush(written);
        let counters = ssd.counters();
        let again = ssd.flush(flushed);
        assert!(again.since(flushed) < Nanoseconds::from_micros(50));
        assert_eq!(ssd.counters().programs, counters.programs);
        assert_eq!(ssd.counters().journal_pages, 1);
    }

    #[test]
    fn capacitors_or_a_lie_make_a_flush_free() {
        for cheap in [("controller.power_loss_protection", "on"), ("controller.flush", "ignored")] {
            let (written, flushed) = write_and_flush(&[cheap]);
            assert!(written < 100 && flushed < 50, "{cheap:?}: {written} and {flushed} us");
        }
    }

    #[test]
    fn a_fua_write_waits_for_its_own_data_only() {
        let mut ssd = drive(&[]);
        let at = Instant::START;
        let unit = ssd.geometry().unit_size();
        let units = ssd.geometry().units_per_program();
        for program in 0..12 {
            ssd.write(at, LogicalUnit(program * units), units);
        }
        // Three programs are booked on each of four dies; the next one goes behind three.
        let length = SectorCount::of(unit);
        let fua = ssd.write_fua_sectors(at, Sector::at(unit * 1000), length);
        assert!((4 * 1300..4 * 1300 + 900).contains(&(fua.nanos() / 1000)), "{fua:?}");
        let rest = Nanoseconds::from_secs(1);
        let fua_at = fua + rest;
        let fua = ssd.write_fua_sectors(fua_at, Sector::at(unit * 2000), length);
        assert!((1300..1600).contains(&(fua.since(fua_at).nanos() / 1000)));
        assert_eq!(ssd.counters().fua_writes, 2);
        assert_eq!(ssd.counters().program_units_padding, 2 * u64::from(units - 1));
    }

    #[test]
    fn without_a_write_cache_every_write_is_durable_when_answered() {
        let (written, flushed) = write_and_flush(&[("controller.write_cache", "write-through")]);
        assert!((1300..1600).contains(&written), "{written}");
        assert!(flushed < 50, "nothing is left to do: {flushed}");
        let ignored =
            [("controller.write_cache", "write-through"), ("controller.flush", "ignored")];
        let (lying, flushed) = write_and_flush(&ignored);
        assert_eq!(lying, written, "a drive that lies about flushes has no cache either");
        assert!(flushed < 50, "{flushed}");
        let journal = [&ignored[..], &[("flush.journal", "on")]].concat();
        assert!((2600..2900).contains(&write_and_flush(&journal).0), "and it journals");
    }

    #[test]
    fn step_by_step_a_drive_without_a_write_cache_waits_whatever_it_does_about_flushes() {
        let written = |changes: &[(&str, &str)]| {
            let mut ssd = drive(changes);
            let count = SectorCount::of(ssd.geometry().unit_size());
            let mut step = ssd.begin_write(Instant::START, Sector(0), count, false);
            loop {
                match step {
                    Step::Answered(end) => return end.nanos() / 1000,
                    Step::Waits(waiting) => step = ssd.go_on(waiting),
                }
            }
        };
        let through = ("controller.write_cache", "write-through");
        let honest = written(&[through]);
        assert!((1300..1600).contains(&honest), "{honest}");
        assert_eq!(written(&[through, ("controller.flush", "ignored")]), honest);
        assert!(written(&[("controller.flush", "ignored")]) < 100);
    }

    /// Goes on until the request is answered; returns when.
    fn answer(ssd: &mut Ssd, mut step: Step) -> Instant {
        loop {
            match step {
                Step::Answered(end) => return end,
                Step::Waits(waiting) => step = ssd.go_on(waiting),
            }
        }
    }

    /// A write of `sectors` with FUA that has been acted on, and waits.
    fn begun(ssd: &mut Ssd, sectors: SectorCount) -> Step {
        match ssd.begin_write(Instant::START, Sector(0), sectors, true) {
            Step::Waits(waiting) => ssd.go_on(waiting),
            Step::Answered(_) => panic!("it waits for its data"),
        }
    }

    #[test]
    fn what_is_asked_for_at_once_meanwhile_makes_no_write_durable_any_earlier() {
        let unit = SectorCount(8);
        let mut alone = drive(&[]);
        let waits = begun(&mut alone, unit);
        let alone = answer(&mut alone, waits);
        let mut ssd = drive(&[]);
        let waits = begun(&mut ssd, unit);
        // More than the buffer holds, and not by whole units: it looks far ahead.
        let last = ssd.write_sectors(Instant::START, Sector(801), SectorCount(40_000));
        assert!(last > alone, "the buffer gave its slots away");
        assert!(answer(&mut ssd, waits) >= alone);
    }

    #[test]
    fn a_durable_write_that_is_trimmed_while_its_data_comes_waits_for_the_record() {
        let mut ssd = drive(&[]);
        let units = ssd.geometry().units_per_program();
        let all = SectorCount::of(ssd.geometry().unit_size() * u64::from(units));
        // It fills a program unit, which waits for the data.
        let waits = begun(&mut ssd, all);
        assert_eq!(ssd.counters().programs, 0);
        ssd.trim(Instant::START, LogicalUnit(1), 1);
        let answered = answer(&mut ssd, waits);
        assert_eq!(ssd.counters().trim_pages, 1, "nothing else says that the unit was written");
        assert!(answered >= ssd.make_trims_durable(answered));
    }

    #[test]
    fn the_command_to_flush_costs_its_overhead_whatever_is_done_about_it() {
        let overhead = ("flush.overhead", "500us");
        for cheap in [("controller.power_loss_protection", "on"), ("controller.flush", "ignored")] {
            let (_, free) = write_and_flush(&[cheap]);
            assert_eq!(write_and_flush(&[cheap, overhead]).1, free + 500, "{cheap:?}");
        }
    }

    #[test]
    fn what_metadata_programs_counts_as_written_to_the_flash() {
        let mut ssd = drive(&[("flush.journal", "on")]);
        let written = ssd.write(Instant::START, LogicalUnit(0), 1);
        let flushed = ssd.flush(written);
        let per_program = u64::from(ssd.geometry().units_per_program());
        let per_page = u64::from(ssd.geometry().units_per_page());
        let counters = ssd.counters();
        assert_eq!(counters.data_write_units(), per_program, "one unit and its padding");
        assert_eq!(counters.metadata_write_units(), per_page, "a page of the journal");
        assert_eq!(counters.flash_write_units(), per_program + per_page);
        assert_eq!(counters.write_amplification(), Some((per_program + per_page) as f64));
        assert_eq!(counters.data_write_amplification(), Some(per_program as f64));
        let trimmed = ssd.trim(flushed, LogicalUnit(0), 1);
        ssd.flush(trimmed);
        let counters = ssd.counters();
        assert_eq!(counters.metadata_write_units(), 2 * per_page, "and one of trims");
        assert_eq!(counters.metadata_pages(), 2);
    }

    #[test]
    fn a_journal_needs_blocks_to_be_written_to() {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        profile.set("flush.journal", "on").expect("a sound value");
        profile.set("collection.metadata_units", "1").expect("a sound value");
        let error = profile.check().expect_err("one unit cannot be erased while it is written to");
        assert!(error.to_string().contains("collection.metadata_units"), "{error}");
    }
}
