//! A USB enclosure: its bridge takes commands one by one, its link carries their data, and commands that it
//! does not support are dropped.
//!
//! Data streams through: the link is occupied from the moment at which the bridge has taken the command,
//! and a request is answered when both the link and the drive are done with it.

use ssdlab_model::attribution::{Attribution, Parts as Time};
use ssdlab_units::{ByteLength, Instant};

use super::UsbBridge;
use super::layered::{Accepted, Layer, Parts};
use crate::simulated::responder::{Kind, Request};

/// A drive behind a bridge.
#[derive(Clone)]
pub(super) struct Bridged {
    bridge: UsbBridge,
    /// Moment at which the bridge can take another command.
    ready: Instant,
    /// Moments at which the link is free, to the host and to the drive.
    to_host: Instant,
    to_drive: Instant,
    /// Time that requests take in this layer rather than in the drive.
    own: Attribution,
}

impl Bridged {
    pub(super) fn new(bridge: UsbBridge) -> Self {
        let start = Instant::START;
        let own = Attribution::default();
        Bridged { bridge, ready: start, to_host: start, to_drive: start, own }
    }

    /// Returns the time that requests of this kind take in this layer; flushes count with trims.
    fn own(&mut self, kind: Kind) -> &mut Time {
        match kind {
            Kind::Read => &mut self.own.reads,
            Kind::Write | Kind::WriteThrough => &mut self.own.writes,
            Kind::Trim | Kind::Flush => &mut self.own.others,
        }
    }
}

impl Layer for Bridged {
    fn capacity(&self, member: ByteLength) -> ByteLength {
        member
    }

    fn passes_trim(&self) -> bool {
        self.bridge.trim
    }

    fn can_accept_more(&self) -> bool {
        !self.bridge.one_at_a_time
    }

    fn accept(&mut self, request: &Request, sent: Instant, at: Instant) -> Accepted {
        let (free, per_command) = (self.ready.max(at), self.bridge.per_command);
        let time = self.own(request.kind);
        time.queue += free.since(sent);
        time.command += per_command;
        self.ready = free + per_command;
        let forwarded_at = self.ready;
        let link = match request.kind {
            Kind::Read => &mut self.to_host,
            Kind::Write | Kind::WriteThrough => &mut self.to_drive,
            Kind::Trim | Kind::Flush => {
                return Accepted { forwarded_at, earliest_answer: forwarded_at };
            }
        };
        *link = forwarded_at.max(*link) + self.bridge.link.duration(request.count.length());
        Accepted { forwarded_at, earliest_answer: *link }
    }

    fn split(&mut self, request: &Request, parts: &mut Parts) {
        let Request { kind, first, count } = *request;
        let kind = match kind {
            Kind::Flush if !self.bridge.flush => return,
            Kind::WriteThrough if !self.bridge.flush => Kind::Write,
            kind => kind,
        };
        parts.send(kind, 0, first.0, count.0);
    }

    fn answered(&mut self, request: &Request, accepted: Accepted, at: Instant) -> Instant {
        // The link transfers while the drive works: only the time beyond the drive's answer counts as link
        // time.
        let answered = at.max(accepted.earliest_answer);
        self.own(request.kind).link += answered.since(at);
        answered
    }

    fn locate(&self, sector: u64) -> Option<(usize, u64)> {
        Some((0, sector))
    }

    fn time_in_layer(&self) -> Attribution {
        self.own
    }
}
