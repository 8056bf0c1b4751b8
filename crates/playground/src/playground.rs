//! A drive, its host, and the operations of the page on both.

use ssdlab_model::Configuration;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::precondition::Past;
use ssdlab_model::profile::Profile;
use ssdlab_units::{Instant, LogicalUnit, Nanoseconds};

use crate::closed_form::{self, FreeSpace};
use crate::curve::Curve;
use crate::drive::Ssd;
use crate::figures::Figures;
use crate::host::{Knobs, Writer};
use crate::sequential_io::{self, ReadReport};

/// Latest instant: every event is due before it.
const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);
/// Size of the file as a share of the drive: one in this number.
const FILE_FRACTION: u32 = 8;

/// Description of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Name of a profile.
    pub profile: String,
    /// Keys and values that differ from the profile, in the order in which they are set.
    pub changes: Vec<(String, String)>,
}

impl Setup {
    /// Returns the drive of a profile without changes.
    pub fn named(profile: &str) -> Setup {
        Setup { profile: profile.to_owned(), changes: Vec::new() }
    }

    /// Returns the profile with its changes, and its configuration.
    pub(crate) fn configuration(&self, seed: u64) -> Result<(Profile, Configuration), String> {
        let mut profile = Profile::named(&self.profile).map_err(|error| error.to_string())?;
        for (key, value) in &self.changes {
            profile.set(key, value).map_err(|error| error.to_string())?;
        }
        profile.set_seed(seed);
        profile.check().map_err(|error| error.to_string())?;
        let configuration = profile.configuration().map_err(|error| error.to_string())?;
        Ok((profile, configuration))
    }
}

/// State in which a drive begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// New: nothing was ever written.
    New,
    /// Filled: every unit was written once, in order.
    Filled,
    /// Steady: full, with random writes until write amplification is steady. If theory does not know that state
    /// for the drive, it is [`Start::Filled`].
    Steady,
}

/// A drive and its host.
#[derive(Clone, Debug)]
pub struct Playground {
    profile: Profile,
    configuration: Configuration,
    ssd: Ssd,
    writer: Writer,
    /// Number of units that the host was allowed to write. It may have written more, because several are
    /// answered at the same time.
    allowed: u64,
    curve: Curve,
    free_space: FreeSpace,
    closed_form: Option<f64>,
    is_preconditioned: bool,
}

impl Playground {
    /// Creates a drive.
    ///
    /// # Errors
    /// Returns an error if there is no such profile or key, if no such drive is possible, or if it has no page
    /// map in RAM; the text says which.
    pub fn new(setup: &Setup, start: Start, seed: u64) -> Result<Playground, String> {
        let (profile, configuration) = setup.configuration(seed)?;
        if configuration.mechanisms.mapping != MappingScheme::Page {
            let name = &setup.profile;
            return Err(format!(
                "{name} maps by other means than pages in RAM; the page shows those only"
            ));
        }
        let new = || Ssd::new(&configuration).map_err(|error| error.to_string());
        let steady = match start {
            Start::Steady => Ssd::preconditioned(&configuration, Past::uniform(seed)).ok(),
            Start::New | Start::Filled => None,
        };
        let is_preconditioned = steady.is_some();
        let mut ssd = steady.map_or_else(new, Ok)?;
        let units = ssd.geometry().logical_units();
        let mut writer = Writer::new(units, seed);
        if !is_preconditioned && start != Start::New {
            writer.resume_at(sequential_io::write(&mut ssd, Instant::START, units));
        }
        let mut playground = Playground {
            curve: Curve::new(units),
            free_space: FreeSpace::Trimmed,
            closed_form: None,
            profile,
            configuration,
            ssd,
            writer,
            allowed: 0,
            is_preconditioned,
        };
        playground.begin_interval();
        playground.update_closed_form();
        Ok(playground)
    }

    /// Returns the workload of the host.
    pub fn knobs(&self) -> Knobs {
        self.writer.knobs()
    }

    /// Changes the workload from now on. Space that the host does not use any more holds stale data.
    pub fn set_knobs(&mut self, knobs: Knobs) {
        self.drain();
        let units = self.ssd.geometry().logical_units();
        let before = self.writer.knobs().used_units(units);
        self.writer.set_knobs(knobs, units);
        if self.writer.knobs().used_units(units) < before {
            self.free_space = FreeSpace::Stale;
        }
        self.begin_interval();
        self.update_closed_form();
    }

    /// Lets the host write until `units` more units are answered, or a few more that are answered at the same
    /// time, which count for the next call. The state depends on the sum of the units, not on the calls.
    pub fn advance(&mut self, units: u32) {
        self.allowed += u64::from(units);
        let target = self.allowed;
        let now = self.ssd.now();
        self.writer.start(self.ssd.port(), now);
        while self.writer.units_written() < target {
            let stop = target.min(self.curve.next());
            while self.writer.units_written() < stop {
                if !self.ssd.single_step(LATEST, &mut self.writer) {
                    return;
                }
            }
            if self.writer.units_written() >= self.curve.next() {
                let free = self.ssd.free_blocks();
                let counters = self.ssd.counters();
                self.curve.end_interval(
                    self.writer.units_written(),
                    &counters,
                    self.writer.end(),
                    free,
                );
            }
        }
    }

    /// Waits until all requests in flight are answered, and sends no other.
    fn drain(&mut self) {
        self.writer.stop();
        while !self.writer.is_idle() {
            if !self.ssd.single_step(LATEST, &mut self.writer) {
                break;
            }
        }
        self.allowed = self.writer.units_written();
    }

    /// Returns the instant at which all requests are answered and another one can be sent.
    fn idle_at(&self) -> Instant {
        self.writer.end().max(self.ssd.now())
    }

    /// Lets the host go on at `at`, after another user has used the drive.
    fn resume_at(&mut self, at: Instant) {
        self.writer.resume_at(at);
        self.begin_interval();
    }

    fn begin_interval(&mut self) {
        let counters = self.ssd.counters();
        self.curve.restart_interval(self.writer.units_written(), &counters, self.idle_at());
    }

    fn update_closed_form(&mut self) {
        let knobs = self.writer.knobs();
        self.closed_form = closed_form::write_amplification(
            &self.profile,
            &self.configuration,
            &knobs,
            self.free_space,
        );
    }

    /// Trims the host's free space.
    pub fn trim_free_space(&mut self) {
        self.drain();
        let units = self.ssd.geometry().logical_units();
        let used = self.writer.knobs().used_units(units);
        if used < units {
            let at = self.idle_at();
            let end = self.ssd.trim(at, LogicalUnit(used), units - used);
            self.resume_at(end);
        }
        if self.configuration.trim {
            self.free_space = FreeSpace::Trimmed;
        }
        self.update_closed_form();
    }

    /// Leaves the drive idle: it folds its SLC cache, and runs idle-time gc.
    pub fn idle(&mut self, seconds: f64) {
        self.drain();
        let (from, duration) = (self.idle_at(), Nanoseconds::new((seconds * 1e9) as u64));
        self.ssd.rest(from, duration);
        self.resume_at(from + duration);
    }

    /// Returns the number of units of the file, which is at the beginning of the drive.
    fn file_units(&self) -> u32 {
        self.ssd.geometry().logical_units() / FILE_FRACTION
    }

    /// Reads the file, an eighth of the drive, in order.
    pub fn read_file(&mut self) -> ReadReport {
        self.drain();
        let (at, units) = (self.idle_at(), self.file_units());
        let (end, reading) = sequential_io::read(&mut self.ssd, at, units);
        self.resume_at(end);
        reading
    }

    /// Writes the file again, in order.
    pub fn rewrite_file(&mut self) {
        self.drain();
        let (at, units) = (self.idle_at(), self.file_units());
        let end = sequential_io::write(&mut self.ssd, at, units);
        self.resume_at(end);
    }

    /// Drops all points of the curve.
    pub fn clear_curve(&mut self) {
        self.curve.clear();
    }

    /// Returns the current figures.
    pub fn figures(&self) -> Figures {
        let (geometry, counters, wear) =
            (self.ssd.geometry(), self.ssd.counters(), self.ssd.wear());
        let units = geometry.logical_units();
        let (writes, flushes) = self.writer.latencies();
        let flag = |it: bool| f64::from(u8::from(it));
        Figures {
            logical_units: units.into(),
            physical_units: geometry.physical_units().into(),
            unit_bytes: geometry.unit_size().bytes() as f64,
            blocks: geometry.blocks().into(),
            groups: geometry.groups().into(),
            units_per_block: geometry.units_per_block().into(),
            spare_of_physical: geometry.spare_of_physical(),
            used_units: self.writer.knobs().used_units(units).into(),
            is_trimmed: flag(self.free_space == FreeSpace::Trimmed),
            is_preconditioned: flag(self.is_preconditioned),
            seconds: self.idle_at().nanos() as f64 / 1e9,
            host_units: counters.host_write_units as f64,
            // Folded units count when they are copied, gc copies when they are programmed.
            copied_units: counters
                .program_units_collection
                .saturating_sub(counters.program_units_folded) as f64,
            folded_units: counters.program_units_folded as f64,
            slc_units: counters.program_units_slc as f64,
            padding_units: counters.program_units_padding as f64,
            metadata_units: counters.metadata_write_units() as f64,
            trimmed_units: counters.host_trim_units as f64,
            flushes: counters.flushes as f64,
            erases: counters.erases as f64,
            free_blocks: self.ssd.free_blocks().into(),
            slc_blocks: self.ssd.slc_blocks().into(),
            write_amplification: self.curve.write_amplification(),
            write_amplification_in_all: counters.write_amplification().unwrap_or(f64::NAN),
            closed_form: self.closed_form.unwrap_or(f64::NAN),
            units_per_second: self.curve.units_per_second(),
            write_p50: writes.quantile(0.5),
            write_p99: writes.quantile(0.99),
            write_p999: writes.quantile(0.999),
            flush_p50: flushes.quantile(0.5),
            flush_p99: flushes.quantile(0.99),
            erases_min: wear.erases_min.into(),
            erases_mean: wear.erases_mean,
            erases_max: wear.erases_max.into(),
        }
    }

    /// Replaces `cells` by four bytes for each block ([`ssdlab_model::ftl::Ssd::fill_cells`]).
    pub fn fill_cells(&self, cells: &mut Vec<u8>) {
        self.ssd.fill_cells(cells, usize::MAX);
    }

    /// Replaces `numbers` by the values of the curve, for each point: units written, write amplification, free
    /// blocks, units per second.
    pub fn fill_curve(&self, numbers: &mut Vec<f64>) {
        numbers.clear();
        numbers.extend(self.curve.values().flatten());
    }

    /// Replaces `counts` by the latencies of the latest writes, then of the latest flushes: eight buckets for
    /// each doubling from 1024 ns on.
    pub fn fill_latencies(&self, counts: &mut Vec<f64>) {
        counts.clear();
        let (writes, flushes) = self.writer.latencies();
        counts.extend(writes.counts().chain(flushes.counts()).map(f64::from));
    }

    /// Returns a 64-bit hash of the drive's state: its counters, its blocks, the latencies and the curve, to
    /// the last bit. The closed form is left out, because its logarithms depend on the platform.
    pub fn fingerprint(&self) -> u64 {
        let (mut cells, mut numbers) = (Vec::new(), Vec::new());
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix =
            |word: u64| hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        self.fill_cells(&mut cells);
        cells.iter().for_each(|&it| mix(it.into()));
        for fill in [Playground::fill_curve, Playground::fill_latencies] {
            fill(self, &mut numbers);
            numbers.iter().for_each(|it| mix(it.to_bits()));
        }
        let figures = Figures { closed_form: 0.0, ..self.figures() };
        figures.values().iter().filter(|it| !it.is_nan()).for_each(|it| mix(it.to_bits()));
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small(changes: &[(&str, &str)]) -> Setup {
        let mut setup = Setup::named("generic-tlc");
        for (key, value) in [("scale", "1/256")].iter().chain(changes) {
            setup.changes.push(((*key).to_owned(), (*value).to_owned()));
        }
        setup
    }

    fn playground(changes: &[(&str, &str)], start: Start, knobs: Knobs) -> Playground {
        let mut playground = Playground::new(&small(changes), start, 42).expect("a sound drive");
        playground.set_knobs(knobs);
        playground
    }

    #[test]
    fn a_steady_drive_writes_as_much_as_the_closed_form_says() {
        for (changes, knobs) in [
            (&[("spare", "7%")][..], Knobs::default()),
            (&[("spare", "25%")], Knobs::default()),
            (
                &[("spare", "10%"), ("collection.policy", "fifo")],
                Knobs { skew: 0.9, ..Knobs::default() },
            ),
        ] {
            let mut playground = playground(changes, Start::Steady, knobs);
            // Skew changes the steady state in which the drive was created.
            playground.advance(if knobs.skew > 0.5 { 3_000_000 } else { 400_000 });
            let Figures { write_amplification, closed_form, .. } = playground.figures();
            let off = write_amplification / closed_form - 1.0;
            assert!(off.abs() < 0.04, "{changes:?}: {write_amplification}, {closed_form}");
        }
    }

    #[test]
    fn trimmed_free_space_counts_as_spare_and_stale_data_does_not() {
        let mut playground =
            playground(&[], Start::Steady, Knobs { used: 0.75, ..Knobs::default() });
        playground.advance(600_000);
        let stale = playground.figures();
        assert!(stale.write_amplification > 6.0 && stale.closed_form.is_nan(), "{stale:?}");
        playground.trim_free_space();
        playground.advance(1_000_000);
        let trimmed = playground.figures();
        let off = trimmed.write_amplification / trimmed.closed_form - 1.0;
        assert!(off.abs() < 0.04 && trimmed.write_amplification < 2.2, "{trimmed:?}");
        playground.ssd.check_invariants();
    }

    #[test]
    fn reading_in_order_slows_down_after_random_writes_and_recovers_when_written_anew() {
        let mut playground = playground(&[], Start::Filled, Knobs::default());
        let filled = playground.read_file();
        playground.advance(500_000);
        let scattered = playground.read_file();
        playground.rewrite_file();
        let anew = playground.read_file();
        assert!(scattered.pages_per_request > 1.5 * filled.pages_per_request);
        assert!(scattered.bytes_per_second < filled.bytes_per_second / 1.5);
        assert!(anew.bytes_per_second > filled.bytes_per_second * 0.9);
    }

    #[test]
    fn a_rest_folds_the_slc_cache_and_makes_writing_fast_again() {
        let slc = [
            ("slc.space", "dynamic"),
            ("slc.size", "100 MB"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "30us"),
        ];
        let knobs = Knobs { request_units: 32, is_sequential: true, ..Knobs::default() };
        let mut playground = playground(&slc, Start::New, knobs);
        let rate = |playground: &mut Playground, units| {
            playground.advance(units);
            playground.figures().units_per_second
        };
        let cached = rate(&mut playground, 16_000);
        let behind = rate(&mut playground, 60_000);
        assert!(cached > 1.5 * behind, "{cached} and {behind}");
        assert!(playground.figures().slc_blocks > 0.0);
        playground.idle(60.0);
        // Full SLC blocks are folded; the open one stays.
        assert!(playground.figures().slc_blocks <= 1.0);
        assert!(playground.figures().folded_units > 0.0);
        playground.clear_curve();
        assert!(rate(&mut playground, 16_000) > 1.5 * behind);
    }

    #[test]
    fn drives_that_the_page_cannot_show_are_refused_with_a_reason() {
        let refused = |setup: &Setup| Playground::new(setup, Start::Steady, 1).err();
        let error = refused(&Setup::named("kingston-v-64")).expect("a map of extents");
        assert!(error.contains("pages in RAM"), "{error}");
        let error = refused(&small(&[("sparee", "7%")])).expect("no such key");
        assert!(error.contains("did you mean spare?"), "{error}");
        assert!(refused(&Setup::named("none")).is_some());
    }

    #[test]
    fn the_page_names_profiles_that_can_be_shown() {
        let page = include_str!("../page/main.js");
        let list = page.split_once("PROFILES = [").and_then(|it| it.1.split_once(']'));
        let names =
            list.expect("a list of profiles").0.split(',').map(|it| it.trim().trim_matches('\''));
        let mut count = 0;
        for name in names {
            let mut setup = Setup::named(name);
            setup.changes.push(("scale".to_owned(), "1/64".to_owned()));
            assert!(Playground::new(&setup, Start::Steady, 1).is_ok(), "{name}");
            count += 1;
        }
        assert!(count >= 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn the_state_does_not_depend_on_how_writes_are_divided_into_calls(
            parts in prop::collection::vec(1u32..20_000, 1..8),
            flush_every in prop::sample::select(vec![0u32, 7]),
            request_units in prop::sample::select(vec![1u32, 4]),
        ) {
            let parts: Vec<u32> = parts.iter().map(|it| it * request_units).collect();
            let knobs = Knobs { flush_every, request_units, ..Knobs::default() };
            let mut divided = playground(&[], Start::Steady, knobs);
            let mut whole = divided.clone();
            parts.iter().for_each(|&it| divided.advance(it));
            whole.advance(parts.iter().sum());
            prop_assert_eq!(divided.fingerprint(), whole.fingerprint());
        }
    }
}
