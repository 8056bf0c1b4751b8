//! Page registers: what a die has sensed stays there until the die does something else.
//!
//! Flash senses a page into the register of its plane, and a controller can have any part of it sent
//! from there as often as it likes, without another sense. The next sense, program or erase takes
//! the register (ONFI 4.2, Read Page, Change Read Column and Read Cache commands). What is kept here
//! is what the latest sense of a die has left; whether it is still there, the die's own times tell, so
//! that whoever does not look pays nothing for it.

use crate::units::{Instant, Nanoseconds};

/// What a die's registers hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRegister {
    /// The pages, as a multi-plane read senses them ([`crate::geometry::Geometry::sense_of`]).
    sense: u32,
    /// When they were sensed.
    sensed: Instant,
    /// How many wait for that.
    waiting: u32,
}

impl PageRegister {
    /// Registers that hold nothing: no die ends a sense before it begins one.
    pub(crate) const EMPTY: PageRegister =
        PageRegister { sense: 0, sensed: Instant::START, waiting: 0 };

    /// Registers that hold these pages from then on.
    pub(crate) fn new(sense: u32, sensed: Instant) -> PageRegister {
        PageRegister { sense, sensed, waiting: 1 }
    }

    /// When these pages were, or will be, sensed, if it was they.
    pub(crate) fn sensed(&self, sense: u32) -> Option<Instant> {
        (self.sense == sense && self.sensed > Instant::START).then_some(self.sensed)
    }

    /// When another request that asks at `at` has the pages. Those that wait for one sense have them in
    /// the order in which they asked: a nanosecond apart, which is less than anything takes here.
    pub(crate) fn give(&mut self, at: Instant) -> Instant {
        if at >= self.sensed {
            return at;
        }
        self.waiting += 1;
        self.sensed + Nanoseconds::new(u64::from(self.waiting - 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ssd::Ssd;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

    const UNITS: u32 = 512;

    /// A drive that reads nothing ahead, with page registers or without, on which units lie in order;
    /// and when it has come to rest.
    fn filled(page_register: bool) -> (Ssd, Instant) {
        let mut configuration = small_configuration(&[]);
        configuration.read_ahead.window = 0;
        configuration.mechanisms.page_register = page_register;
        let mut ssd = Ssd::new(&configuration).expect("a sound drive");
        let mut at = Instant::START;
        for unit in (0..UNITS).step_by(8) {
            at = ssd.write(at, LogicalUnit(unit), 8);
        }
        at = ssd.flush(at);
        (ssd, at + Nanoseconds::from_secs(10))
    }

    /// What reading `units` units one by one takes, after the two that make them a stream; and how
    /// many pages it senses.
    fn stream(ssd: &mut Ssd, at: Instant, units: u32) -> (Nanoseconds, u64) {
        let mut now = ssd.read(at, LogicalUnit(0), 1);
        now = ssd.read(now, LogicalUnit(1), 1);
        let (before, start) = (ssd.counters().flash_page_reads_host, now);
        for unit in 2..units {
            now = ssd.read(now, LogicalUnit(unit), 1);
        }
        (now.since(start), ssd.counters().flash_page_reads_host - before)
    }

    /// Reads a unit; how many pages that senses.
    fn sensed_for(ssd: &mut Ssd, at: Instant, unit: u32) -> u64 {
        let before = ssd.counters().flash_page_reads_host;
        ssd.read(at, LogicalUnit(unit), 1);
        ssd.counters().flash_page_reads_host - before
    }

    #[test]
    fn a_stream_of_small_requests_senses_its_pages_once_and_saves_that_time() {
        let (mut with, at) = filled(true);
        let (mut without, _) = filled(false);
        let (short, few) = stream(&mut with, at, UNITS);
        let (long, all) = stream(&mut without, at, UNITS);
        let together = 1 << with.geometry().units_per_sense_shift();
        assert_eq!((few, all), (u64::from(UNITS / together), u64::from(UNITS - 2)));
        let saved = with.timing.page_read * (all - few);
        assert_eq!(long - short, saved);
        let told = [with, without].map(|ssd| ssd.attribution().reads.total());
        assert_eq!(told[1] - told[0], saved, "all of it is accounted for");
    }

    #[test]
    fn parts_of_units_come_from_the_register_too() {
        let (mut ssd, mut now) = filled(true);
        let before = ssd.counters().flash_page_reads_host;
        for sector in 0..u64::from(UNITS) * 8 {
            now = ssd.read_sectors(now, Sector(sector), SectorCount(1));
        }
        let together = 1u64 << ssd.geometry().units_per_sense_shift();
        let sensed = ssd.counters().flash_page_reads_host - before;
        assert_eq!(sensed, 2 + u64::from(UNITS) / together, "two of them, and then a stream");
    }

    #[test]
    fn another_read_of_the_die_takes_the_register_and_one_elsewhere_does_not() {
        for same in [false, true] {
            let (mut ssd, at) = filled(true);
            let place = |unit| ssd.read_place_of(LogicalUnit(unit)).expect("it was written");
            let die = |unit| ssd.geometry().die_of(place(unit));
            let sense = |unit| ssd.geometry().sense_of(place(unit));
            let is_wanted = |&unit: &u32| sense(unit) != sense(2) && (die(unit) == die(2)) == same;
            let other = (UNITS / 2..UNITS).find(is_wanted).expect("there are several dies");
            let (took, sensed) = stream(&mut ssd, at, 4);
            assert_eq!(sensed, 1);
            let now = at + took * 10;
            assert_eq!(sensed_for(&mut ssd, now, other), 1);
            let later = now + took * 10;
            assert_eq!(sensed_for(&mut ssd, later, 4), u64::from(same), "the same die: {same}");
        }
    }

    #[test]
    fn a_program_on_the_die_takes_the_register() {
        for programs in [false, true] {
            let (mut ssd, at) = filled(true);
            assert_eq!(stream(&mut ssd, at, 4).1, 1);
            let mut now = at + Nanoseconds::from_millis(50);
            if programs {
                // A row of program units: one on each die.
                let row = ssd.geometry().units_per_program() * ssd.geometry().dies();
                now = ssd.write(now, LogicalUnit(UNITS), row) + Nanoseconds::from_millis(50);
            }
            assert_eq!(sensed_for(&mut ssd, now, 4), u64::from(programs));
            now += Nanoseconds::from_millis(50);
            assert_eq!(sensed_for(&mut ssd, now, 5), 0, "it was sensed again, or still there");
        }
    }

    #[test]
    fn turning_it_off_empties_the_registers() {
        let (mut ssd, at) = filled(true);
        let (_, sensed) = stream(&mut ssd, at, 4);
        assert_eq!(sensed, 1);
        ssd.shut_down(at + Nanoseconds::from_secs(1));
        let (_, sensed) = stream(&mut ssd, at, 4);
        assert_eq!(sensed, 1, "streams are still told apart, and the page is sensed anew");
    }
}
