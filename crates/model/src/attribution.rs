//! Where the time of requests goes: what answers "why was this slow".
//!
//! The latency of every request is split into parts that add up to it. What a request does is
//! noted where it does it, what it waits for where it waits, and the rest is queueing behind other
//! requests. Of a request that needs many pages, the one that is in RAM last decides: its parts are
//! the request's. The split of one request is the difference between the totals before and behind
//! it ([`Attribution::since`]).
//!
//! A write that waits for room in the write buffer waits for programs, and those share their dies
//! with collection, merges and the map. That wait is divided in the proportion in which these
//! occupied the dies while the last block but one was written (`Shares`): which program gave a
//! slot free says nothing of what kept that program waiting.

mod room;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::{Instant, Nanoseconds};
pub(crate) use room::FlashTimes;
use room::Shares;

/// The parts and what is done with every one of them: to add a part is one line.
macro_rules! parts {
    ($($(#[$doc:meta])* $field:ident: $name:literal,)*) => {
        /// Time by what it was spent on, summed over requests.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Parts {
            $($(#[$doc])* pub $field: Nanoseconds,)*
        }

        impl Parts {
            /// Each part with its name, in the order to show them.
            pub fn named(&self) -> Vec<(&'static str, Nanoseconds)> {
                vec![$(($name, self.$field)),*]
            }

            /// The sum of all parts.
            pub fn total(&self) -> Nanoseconds {
                [$(self.$field),*].into_iter().sum()
            }

            /// What was added since `earlier`, a previous state of the same drive.
            ///
            /// # Panics
            /// When a part of `earlier` is longer: it is not an earlier state.
            #[must_use]
            pub fn since(&self, earlier: &Parts) -> Parts {
                let minus = |now: Nanoseconds, then: Nanoseconds| {
                    assert!(now >= then, "an attribution is compared with an earlier one");
                    now - then
                };
                Parts { $($field: minus(self.$field, earlier.$field),)* }
            }
        }

        impl AddAssign for Parts {
            fn add_assign(&mut self, other: Parts) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

parts! {
    /// Taking up the command: host, driver and firmware, without waiting.
    command: "command",
    /// Waiting behind other requests, wherever that was.
    queue: "queue",
    /// Moving the data over its channel and the host link.
    link: "link",
    /// Sensing the flash page that was in RAM last.
    flash_read: "flash read",
    /// Waiting for programs of host data.
    program: "program",
    /// Waiting for collection: its reads, programs and erases.
    collection: "collection",
    /// Reading and writing map pages that were not in RAM, and programming what the drive keeps of
    /// its map besides: journal, saved map, records of trims.
    map_miss: "map miss",
    /// Merging: reading what a request replaces only in part, and merges of the mapping scheme.
    merge: "merge",
    /// Making data durable that the host asked for (flush, FUA).
    flush: "flush",
    /// Carrying out trims.
    trim: "trim",
    /// What a sequential read lost because it was not read ahead of.
    read_ahead_miss: "read-ahead miss",
}

/// Where the time of requests went, by kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Reads.
    pub reads: Parts,
    /// Writes.
    pub writes: Parts,
    /// Flushes, trims and the like.
    pub others: Parts,
}

impl Attribution {
    /// What was added since `earlier`, a previous state of the same drive.
    ///
    /// # Panics
    /// When `earlier` is not an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Attribution) -> Attribution {
        Attribution {
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            others: self.others.since(&earlier.others),
        }
    }
}

impl AddAssign for Attribution {
    fn add_assign(&mut self, other: Attribution) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
    }
}

/// What is noted of the requests of one kind while they are carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) requests: u64,
    /// The sum of their latencies.
    pub(crate) latency: Nanoseconds,
    /// All that is noted where it happens; command and queue are worked out from the rest.
    pub(crate) parts: Parts,
}

impl Noted {
    /// The parts, with command and queue.
    ///
    /// # Panics
    /// When the parts add up to more than the latencies: something was counted twice.
    fn split(&self, command: Nanoseconds) -> Parts {
        let mut parts = self.parts;
        parts.command = command * self.requests;
        let (noted, latency) = (parts.total(), self.latency);
        assert!(noted <= latency, "parts of {noted} are more than latencies of {latency}");
        parts.queue = latency - noted;
        parts
    }
}

/// How long something else than reads kept a die from the reads that waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blocked {
    /// Programs of host data.
    pub(crate) program: Nanoseconds,
    /// Collection's programs and erases.
    pub(crate) collection: Nanoseconds,
}

impl AddAssign for Blocked {
    fn add_assign(&mut self, other: Blocked) {
        self.program += other.program;
        self.collection += other.collection;
    }
}

impl Blocked {
    #[inline(always)]
    pub(crate) fn since(self, earlier: Blocked) -> Blocked {
        Blocked {
            program: self.program - earlier.program,
            collection: self.collection - earlier.collection,
        }
    }
}

/// Everything noted, and what is needed to divide it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    pub(crate) reads: Noted,
    pub(crate) writes: Noted,
    pub(crate) others: Noted,
    /// What writes waited for room in the buffer since the shares were last worked out.
    pub(crate) room: Nanoseconds,
    /// What blocked senses that did not decide when their request was answered.
    pub(crate) not_critical: Blocked,
    shares: Shares,
}

impl Delays {
    /// Nothing noted yet, of a drive that has counted `counters` in an earlier life.
    pub(crate) fn after(counters: &Counters) -> Delays {
        Delays { shares: Shares::after(counters), ..Delays::default() }
    }

    /// Returns where the time of all requests went, each of which was a `command` first.
    pub(crate) fn attribution(mut self, command: Nanoseconds) -> Attribution {
        self.add_room();
        Attribution {
            reads: self.reads.split(command),
            writes: self.writes.split(command),
            others: self.others.split(command),
        }
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Divides what writes waited for by what the dies have done since the last time.
    #[inline(never)]
    pub(crate) fn divide_waits_for_room(&mut self) {
        let times = FlashTimes {
            page_read: self.timing.page_read,
            program: self.timing.program,
            erase: self.timing.erase,
            metadata: self.journal_program(),
            slc: self.slc.as_ref().map(|slc| (slc.program(), slc.units_per_program())),
            units_per_program: self.geometry.units_per_program(),
            stripe: self.geometry.stripe(),
        };
        self.delays.divide_room(&self.counters, &times);
    }

    /// Where the time of all requests so far went.
    pub fn attribution(&self) -> Attribution {
        let mut delays = self.delays.clone();
        delays.add_room();
        let blocked = self.blocked();
        delays.reads.parts.program += blocked.program;
        delays.reads.parts.collection += blocked.collection;
        let command = self.timing.command_occupancy + self.timing.command_latency;
        Attribution {
            reads: delays.reads.split(command),
            writes: delays.writes.split(command),
            others: delays.others.split(command),
        }
    }

    /// Notes a read that arrived at `at` and was answered at `end`.
    #[inline(always)]
    pub(crate) fn note_read(&mut self, at: Instant, end: Instant) -> Instant {
        self.delays.reads.requests += 1;
        self.delays.reads.latency += end.since(at);
        end
    }

    /// Notes a write that arrived at `at` and was answered at `end`.
    #[inline(always)]
    pub(crate) fn note_write(&mut self, at: Instant, end: Instant) -> Instant {
        self.delays.writes.requests += 1;
        self.delays.writes.latency += end.since(at);
        end
    }

    /// Notes a flush that arrived at `at` and was answered at `end`.
    pub(crate) fn note_flush(&mut self, at: Instant, end: Instant) -> Instant {
        let latency = self.note_other(at, end);
        self.delays.others.parts.flush += latency;
        end
    }

    /// Notes a trim that arrived at `at` and was answered at `end`.
    pub(crate) fn note_trim(&mut self, at: Instant, end: Instant) -> Instant {
        let latency = self.note_other(at, end);
        self.delays.others.parts.trim += latency;
        end
    }

    /// Notes a request that is neither read nor write; returns its latency without its command.
    fn note_other(&mut self, at: Instant, end: Instant) -> Nanoseconds {
        let latency = end.since(at);
        self.delays.others.requests += 1;
        self.delays.others.latency += latency;
        latency - self.timing.command_occupancy - self.timing.command_latency
    }

    /// What reads of the host waited for that was no read.
    #[inline(always)]
    pub(crate) fn blocked(&self) -> Blocked {
        self.resources.blocked.since(self.delays.not_critical)
    }

    /// Keeps what `work`, which is done for no read of the host, waits for out of what reads waited
    /// for.
    #[inline(always)]
    pub(crate) fn aside<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.blocked();
        let result = work(self);
        self.delays.not_critical += self.blocked().since(before);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::{small_configuration, small_drive};
    use crate::units::LogicalUnit;

    const AT: Instant = Instant::START;

    #[test]
    fn a_read_alone_is_command_sense_and_transfers() {
        let mut ssd = small_drive();
        let units = ssd.geometry().units_per_program();
        let written = ssd.write(AT, LogicalUnit(0), units);
        let flushed = ssd.flush(written);
        let before = ssd.attribution();
        let end = ssd.read(flushed, LogicalUnit(0), 1);
        let split = ssd.attribution().since(&before);
        assert_eq!(split.reads.total(), end.since(flushed));
        assert_eq!(split.reads.flash_read, ssd.timing.page_read);
        assert_eq!(split.reads.queue, Nanoseconds::ZERO);
        assert_eq!(split.reads.link, ssd.unit_over_channel + ssd.unit_to_host);
        assert_eq!(split.writes.total() + split.others.total(), Nanoseconds::ZERO);
    }

    #[test]
    fn a_read_behind_a_program_waited_for_the_program_and_so_did_the_next() {
        let mut ssd = small_drive();
        let units = ssd.geometry().units_per_program();
        let written = ssd.write(AT, LogicalUnit(0), units);
        let flushed = ssd.flush(written);
        // The same die again, one stripe later.
        for program in 1..=ssd.geometry().dies() {
            ssd.write(flushed, LogicalUnit(program * units), units);
        }
        let at = flushed + Nanoseconds::from_millis(1);
        let before = ssd.attribution();
        let first = ssd.read(at, LogicalUnit(0), 1);
        let second = ssd.read(at, LogicalUnit(1), 1);
        let split = ssd.attribution().since(&before).reads;
        assert_eq!(split.total(), first.since(at) + second.since(at));
        assert!(split.program > Nanoseconds::from_millis(1), "{split:?}");
        assert_eq!(split.collection, Nanoseconds::ZERO);
        // The second one waits for the first one's sense, on top.
        assert!(split.queue >= ssd.timing.page_read, "{split:?}");
    }

    #[test]
    fn a_full_buffer_waits_for_programs_and_on_a_full_drive_for_collection() {
        let mut configuration = small_configuration(&[]);
        configuration.buffer.units = configuration.geometry.units_per_program() * 2;
        let mut ssd = Ssd::new(&configuration).expect("a sound drive");
        let logical = ssd.geometry().logical_units();
        let mut at = AT;
        for unit in 0..logical {
            at = ssd.write(at, LogicalUnit(unit), 1);
        }
        let filled = ssd.attribution();
        assert!(filled.writes.program > Nanoseconds::ZERO);
        let mut unit = 0u64;
        for _ in 0..2 * logical {
            unit = (unit * 1_664_525 + 1_013_904_223) % u64::from(logical);
            at = ssd.write(at, LogicalUnit(unit as u32), 1);
        }
        let split = ssd.attribution().since(&filled).writes;
        assert!(split.collection > split.program / 10, "{split:?}");
        assert!(split.program + split.collection > split.total() / 4, "{split:?}");
    }

    #[test]
    fn reads_of_a_pseudo_slc_cache_take_what_its_pages_take() {
        let slc = [
            ("slc.size", "8M"),
            ("slc.bits", "3"),
            ("slc.page_read", "20us"),
            ("slc.program", "300us"),
        ];
        let mut ssd = Ssd::new(&small_configuration(&slc)).expect("a sound drive");
        let written = ssd.write(AT, LogicalUnit(0), 8);
        let flushed = ssd.flush(written);
        let before = ssd.attribution();
        let end = ssd.read(flushed, LogicalUnit(0), 1);
        let later = ssd.read(end, LogicalUnit(0), 8);
        let split = ssd.attribution().since(&before).reads;
        assert_eq!(split.total(), later.since(flushed));
        assert_eq!(split.flash_read, Nanoseconds::from_micros(40));
    }

    #[test]
    fn a_flush_is_attributed_to_itself() {
        let mut ssd = small_drive();
        let written = ssd.write(AT, LogicalUnit(0), 1);
        let before = ssd.attribution();
        let flushed = ssd.flush(written);
        let split = ssd.attribution().since(&before);
        assert!(split.others.flush > ssd.timing.program);
        assert_eq!(split.others.total(), flushed.since(written));
    }
}
