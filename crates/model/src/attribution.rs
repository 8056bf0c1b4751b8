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
use crate::units::Nanoseconds;
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

            /// Returns what was added since `earlier`, a previous state of the same drive.
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
    /// Returns what was added since `earlier`, a previous state of the same drive.
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
    /// All that is noted where it happens; of `command` what a command's length costs. The rest of that and the
    /// queue are worked out.
    pub(crate) parts: Parts,
}

impl Noted {
    /// The parts, with command and queue.
    ///
    /// # Panics
    /// When the parts add up to more than the latencies: something was counted twice.
    fn split(&self, command: Nanoseconds) -> Parts {
        let mut parts = self.parts;
        parts.command += command * self.requests;
        let (noted, latency) = (parts.total(), self.latency);
        assert!(noted <= latency, "parts of {noted} are more than latencies of {latency}");
        parts.queue = latency - noted;
        parts
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
