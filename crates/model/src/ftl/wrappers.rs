//! Synchronous requests: a call sends one command, and time passes until the answer.

use super::host::{Answer, Command, Host, Port, RequestTag};
use super::{Ftl, Ssd, parts};
use crate::attribution::{Attribution, FlashTimes};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{Instant, LogicalUnit, Sector, SectorCount};

/// Tag of a synchronous request, which is the only one in flight.
const ONLY: RequestTag = RequestTag(0);

/// Latest instant: no event is due after it.
pub(super) const LATEST: Instant = Instant::from_nanos(u64::MAX - 1);

/// A host that has no request in flight.
pub(super) struct NoHost;

impl Host for NoHost {
    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        panic!("request {:?} is under way while the drive is left alone", answer.tag);
    }
}

/// A host that sends one request and waits.
#[derive(Default)]
struct SingleRequestHost {
    answered: Option<Instant>,
}

impl Host for SingleRequestHost {
    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.answered = Some(answer.at);
        None
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Sends a command at `at`, or now if that is past, and lets time pass until it is answered. No other
    /// request may be in flight. Returns the moment of the answer.
    pub fn request(&mut self, at: Instant, command: Command) -> Instant {
        let mut host = SingleRequestHost::default();
        let at = at.max(self.now());
        self.port().submit(at, ONLY, command);
        loop {
            if let Some(at) = host.answered {
                return at;
            }
            let is_done = !self.single_step(LATEST, &mut host);
            assert!(!is_done, "every request is answered");
        }
    }

    /// Reads `units` units from `first`; returns when the last of them has arrived.
    pub fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.request(at, Command::Read { first, units })
    }

    /// Writes `units` units from `first`; returns when the host is told it is done.
    pub fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.request(at, Command::Write { first, units, force: false })
    }

    /// Makes all writes that were answered durable; returns when the host is told so.
    pub fn flush(&mut self, at: Instant) -> Instant {
        self.request(at, Command::Flush)
    }

    /// Trims `units` units from `first`; returns when the host is answered.
    pub fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.request(at, Command::Trim { first, units })
    }

    /// Trims `count` sectors from `first` within the drive's limits: by one command after the other
    /// ([`Ssd::trim_command`]), each sent when the one before is answered. Returns when the last one is
    /// answered.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    pub fn trim_by_commands(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        let (mut at, mut left) = (at, Some((first, count)));
        while let Some((first, count)) = left {
            let (command, behind) = self.trim_command(first, count);
            at = self.request(at, command);
            left = behind;
        }
        at
    }

    /// Returns the command that reads `count` sectors from `first`.
    pub fn read_command(&self, first: Sector, count: SectorCount) -> Command {
        parts::read(self.geometry(), first, count)
    }

    /// Returns the command that writes `count` sectors from `first`, with FUA if `force`.
    pub fn write_command(&self, first: Sector, count: SectorCount, force: bool) -> Command {
        parts::write(self.geometry(), first, count, force)
    }

    /// Returns the first command to trim `count` sectors from `first` within the drive's limits, and the
    /// sectors left to the next commands. A command that others follow ends where a unit does (hosts know that
    /// as the discard granularity): a unit that two commands share would not be trimmed.
    ///
    /// # Panics
    /// Panics if the range is empty or does not lie within the drive.
    pub fn trim_command(
        &self,
        first: Sector,
        count: SectorCount,
    ) -> (Command, Option<(Sector, SectorCount)>) {
        let most = self.ftl.requests.trim_parameters().command_most();
        let piece = parts::first_of_trim(self.geometry(), most, first, count);
        let left = SectorCount(count.0 - piece.0);
        let behind = (left.0 > 0).then_some((first + piece, left));
        (parts::trim(self.geometry(), first, piece), behind)
    }

    /// Returns the attribution of the time of all requests so far.
    pub fn attribution(&self) -> Attribution {
        let timing = &self.ftl.timing;
        self.ftl.delays.clone().attribution(timing.command_occupancy + timing.command_latency)
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Attributes the time that writes waited for buffer space, by what the dies have done since the last call.
    #[inline(never)]
    pub(super) fn divide_buffer_wait(&mut self) {
        let times = FlashTimes {
            page_read: self.timing.page_read,
            program: self.timing.program,
            erase: self.timing.erase,
            metadata: self.metadata.program(),
            slc: None,
            units_per_program: self.geometry.units_per_program(),
            stripe: self.geometry.stripe(),
        };
        self.delays.divide_buffer_waits(&self.counters, &times);
    }
}
