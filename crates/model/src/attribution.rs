//! Attribution of latency: the parts of the time of requests, which answer "why was this slow".
//!
//! The latency of every request is split into parts that add up to it. The parts of a request are noted where it is
//! carried out and where it waits; the rest is queueing behind other requests. If a request needs many pages, the
//! page that is in RAM last decides: its parts are the request's. The split of one request is the difference between
//! the totals before and after it ([`Attribution::since`]).
//!
//! A write that waits for space in the write buffer waits for programs, and those share their dies with garbage
//! collection, merges and the map. That wait is divided in the proportion in which these occupied the dies while the
//! last block but one was written (`Shares`): the program that freed a slot says nothing about the cause of its own
//! wait.

mod buffer_waits;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::units::Nanoseconds;
pub(crate) use buffer_waits::FlashTimes;
use buffer_waits::Shares;

/// Defines the parts and everything that is done with each of them, so that a new part is one line.
macro_rules! parts {
    ($($(#[$doc:meta])* $field:ident: $name:literal,)*) => {
        /// Time by cause, summed over requests.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Parts {
            $($(#[$doc])* pub $field: Nanoseconds,)*
        }

        impl Parts {
            /// Returns each part with its name, in the order to show them.
            pub fn named(&self) -> Vec<(&'static str, Nanoseconds)> {
                vec![$(($name, self.$field)),*]
            }

            /// Returns the sum of all parts.
            pub fn total(&self) -> Nanoseconds {
                [$(self.$field),*].into_iter().sum()
            }

            /// Returns the time added since `earlier`, a previous state of the same drive.
            ///
            /// # Panics
            /// Panics if a part of `earlier` is longer: it is not an earlier state.
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
    /// Command processing: host, driver and firmware, without waiting.
    command: "command",
    /// Waiting behind other requests, at any stage.
    queue: "queue",
    /// Transfer of the data over its channel and the host link.
    link: "link",
    /// Sensing the flash page that was in RAM last.
    flash_read: "flash read",
    /// Waiting for programs of host data.
    program: "program",
    /// Waiting for garbage collection: its reads, programs and erases.
    collection: "collection",
    /// Reading and writing map pages that were not in RAM, and programming other metadata of the map: journal,
    /// checkpoints, trim records.
    map_miss: "map miss",
    /// Read-modify-write of units that a request replaces only in part, and merges of the mapping scheme.
    merge: "merge",
    /// Making data durable at the request of the host (flush, FUA).
    flush: "flush",
    /// Carrying out trims.
    trim: "trim",
    /// Time that a sequential read lost because its data was not read ahead.
    read_ahead_miss: "read-ahead miss",
}

/// Attribution of the time of requests, by kind of request.
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
    /// Returns the time added since `earlier`, a previous state of the same drive.
    ///
    /// # Panics
    /// Panics if `earlier` is not an earlier state.
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

/// Totals of the requests of one kind while they are carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyTotals {
    pub(crate) requests: u64,
    /// Sum of the latencies of the requests.
    pub(crate) latency: Nanoseconds,
    /// Parts counted where they happen. `command` holds only the time that grows with a command's length; the rest of
    /// `command`, and `queue`, are worked out later.
    pub(crate) parts: Parts,
}

impl LatencyTotals {
    /// Returns all parts, with `command` and `queue` worked out.
    ///
    /// # Panics
    /// Panics if the parts add up to more than the latencies: something was counted twice.
    fn split(&self, command: Nanoseconds) -> Parts {
        let mut parts = self.parts;
        parts.command += command * self.requests;
        let (noted, latency) = (parts.total(), self.latency);
        assert!(noted <= latency, "parts of {noted} are more than latencies of {latency}");
        parts.queue = latency - noted;
        parts
    }
}

/// Totals of all requests, and the data needed to divide waits for buffer space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    pub(crate) reads: LatencyTotals,
    pub(crate) writes: LatencyTotals,
    pub(crate) others: LatencyTotals,
    /// Time that writes waited for space in the buffer since the shares were last updated.
    pub(crate) buffer_wait: Nanoseconds,
    shares: Shares,
}

impl Delays {
    /// Returns empty totals for a drive that has counted `counters` before.
    pub(crate) fn after(counters: &Counters) -> Delays {
        Delays { shares: Shares::after(counters), ..Delays::default() }
    }

    /// Returns the attribution of all requests, each of which took the time `command` first.
    pub(crate) fn attribution(mut self, command: Nanoseconds) -> Attribution {
        self.add_buffer_waits();
        Attribution {
            reads: self.reads.split(command),
            writes: self.writes.split(command),
            others: self.others.split(command),
        }
    }
}
