//! Encryption by the host (dm-crypt): every byte costs processor time on its way, and trims are passed on
//! only if that is allowed.

use ssdlab_model::attribution::Attribution;
use ssdlab_units::{ByteLength, Instant};

use super::Encryption;
use super::layered::{Accepted, Layer, Parts};
use crate::simulated::responder::{Kind, Request};

/// A drive under encryption. Written data is encrypted before it is sent to the drive, read data is
/// decrypted when it has arrived.
#[derive(Clone)]
pub(super) struct Encrypted {
    encryption: Encryption,
    /// Moment at which each processor is free.
    free: Vec<Instant>,
    /// Time that requests take in this layer rather than in the drive.
    own: Attribution,
}

impl Encrypted {
    pub(super) fn new(encryption: Encryption) -> Self {
        let free = vec![Instant::START; encryption.processors as usize];
        Encrypted { encryption, free, own: Attribution::default() }
    }

    /// Has the data of a request encrypted or decrypted from `at` on; returns the moment at which that is
    /// done.
    fn process(&mut self, request: &Request, at: Instant) -> Instant {
        let duration = self.encryption.per_processor.duration(request.count.length());
        let processor = self.free.iter_mut().min().expect("some processor");
        *processor = at.max(*processor) + duration;
        let done = *processor;
        let is_read = request.kind == Kind::Read;
        let own = if is_read { &mut self.own.reads } else { &mut self.own.writes };
        own.command += duration;
        own.queue += done.since(at) - duration;
        done
    }
}

impl Layer for Encrypted {
    fn capacity(&self, member: ByteLength) -> ByteLength {
        member
    }

    fn passes_trim(&self) -> bool {
        self.encryption.trim
    }

    fn accept(&mut self, request: &Request, _: Instant, at: Instant) -> Accepted {
        let forwarded_at = match request.kind {
            Kind::Write | Kind::WriteThrough => self.process(request, at),
            Kind::Read | Kind::Trim | Kind::Flush => at,
        };
        Accepted { forwarded_at, earliest_answer: forwarded_at }
    }

    fn split(&mut self, request: &Request, parts: &mut Parts) {
        parts.send(request.kind, 0, request.first.0, request.count.0);
    }

    fn answered(&mut self, request: &Request, _: Accepted, at: Instant) -> Instant {
        if request.kind == Kind::Read { self.process(request, at) } else { at }
    }

    fn locate(&self, sector: u64) -> Option<(usize, u64)> {
        Some((0, sector))
    }

    fn time_in_layer(&self) -> Attribution {
        self.own
    }
}
