//! Power cuts: what they leave, what they may leave, and a search for cuts that leave anything
//! else.
//!
//! The rules are those of every block device with a volatile cache (SATA FLUSH CACHE, NVMe Flush
//! and FUA), unit by unit:
//!
//! - What was answered before a flush was sent that was itself answered is there. So is what was
//!   written with FUA, once answered; on a drive whose buffer is protected by capacitors, and on
//!   one with the write cache off, everything that was answered is.
//! - Anything sent later may be there or not, each unit on its own and in any order.
//! - So a unit holds what its latest durable write or trim left, or what a later one did: never
//!   something older, something that was never written, or another unit's data.
//! - The drive works on, by the same rules, with what it then holds.

pub mod drive;
pub mod explore;
pub mod history;
mod miniature;
pub mod rules;
pub mod tested;
pub mod text;

use crate::log_block::LogBlockSsd;
use crate::mapping::Mapping;
use crate::media::FlashWork;
use crate::media::recording::{Recording, Version};
use crate::resources::Span;
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit};

impl<M: Mapping + Clone> Ssd<M, Recording> {
    /// Cuts power at `at`, when no request that comes later has been made. Returns what is left:
    /// the flash.
    ///
    /// A write that was sent but not taken up entirely counts as taken up where capacitors protect
    /// the buffer; the host was not told either way.
    #[must_use]
    pub fn power_cut(mut self, at: Instant) -> Recording {
        // What is owed is done when a die is idle, and worked out when something looks at it.
        self.advance_debt(at);
        let Ssd { map, media, resources, buffer_parameters, trim_log, .. } = self;
        let span_of =
            |work: &FlashWork| resources.dies[work.die.0 as usize].span_of(work.booking, work.span);
        let protected = buffer_parameters.protected;
        let capacitors = protected.then_some((&map, trim_log.pending()));
        media.cut(at, span_of, capacitors)
    }

    /// The instants after `from` and before `until` at which a program or an erase begins or is
    /// over, as far as is known from what was asked of the drive so far.
    #[must_use]
    pub fn instants_of_flash_work(&self, from: Instant, until: Instant) -> Vec<Instant> {
        let mut then = self.clone();
        then.advance_debt(until);
        let span_of = |work: &FlashWork| -> Span {
            then.resources.dies[work.die.0 as usize].span_of(work.booking, work.span)
        };
        then.media.instants(from, until, span_of)
    }

    /// Forgets how what is on the flash came there, as far as it was done by `at`, when the drive
    /// is idle: no cut will come before.
    pub(crate) fn forget_how(&mut self, at: Instant) {
        let Ssd { media, resources, .. } = self;
        media.forget_how(at, |work| {
            resources.dies[work.die.0 as usize].span_of(work.booking, work.span)
        });
    }

    /// Which write of the host's `unit` holds the data of; nothing when it holds none, or zeros
    /// that fill a run of extents.
    pub fn version_of(&self, unit: LogicalUnit) -> Option<Version> {
        let version = self.map.get(unit).map(|physical| self.media.version_at(physical));
        version.filter(|&version| version > 0)
    }
}

impl<M: Mapping + Clone> LogBlockSsd<M, Recording> {
    /// Cuts power at `at`. See [`Ssd::power_cut`].
    #[must_use]
    pub fn power_cut(self, at: Instant) -> Recording {
        self.into_ssd().power_cut(at)
    }

    /// See [`Ssd::instants_of_flash_work`].
    #[must_use]
    pub fn instants_of_flash_work(&self, from: Instant, until: Instant) -> Vec<Instant> {
        self.as_ssd().instants_of_flash_work(from, until)
    }

    pub(crate) fn forget_how(&mut self, at: Instant) {
        self.as_ssd_mut().forget_how(at);
    }

    /// See [`Ssd::version_of`].
    pub fn version_of(&self, unit: LogicalUnit) -> Option<Version> {
        self.as_ssd().version_of(unit)
    }
}
