//! The event loop: which event comes next, and what follows from each.

use ssdlab_units::{Instant, Nanoseconds};

use super::{Nand, new_op};
use crate::clock::Due;
use crate::completions::{Completions, ReadTime, Tag};
use crate::copies::CopyNumber;
use crate::die::Line;
use crate::erase::EraseId;
use crate::pool::{Kind, NONE, Op, mark};
use crate::request::{PieceIndex, ReadId};
use crate::schedule::Scheduled;

/// Instant of an event that never happens.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Returns the instant of the next event, or `None` if there is none.
pub(super) fn next_due(nand: &Nand) -> Option<Instant> {
    let flash = nand.transit.clock.next();
    let others = nand.schedule.due().min(nand.controller.due());
    let due = if flash.due() == Due::Nothing { others } else { others.min(flash.at) };
    (due != NEVER).then_some(due)
}

/// Processes the next event if it is due until `until`; returns true if one was. At one instant dies go
/// first, then channels, then scheduled events, then the controller: a die that becomes idle begins its
/// next operation before a read that arrives at that instant.
#[inline(always)]
pub(super) fn step<S: Completions>(nand: &mut Nand, until: Instant, sink: &mut S) -> bool {
    let flash = nand.transit.clock.next();
    let scheduled = nand.schedule.due();
    let fetch = nand.controller.due();
    // While only reads are in flight, the controller's next step and transfers that end less than
    // `look_ahead` before it do not depend on each other: a read that is answered then is followed by a
    // command that is acted on later. Their order makes no difference to the drive, and events that
    // alternate are easier for the branch predictor.
    let commutes = S::READS_COMMUTE && nand.others_under_way == 0;
    let ahead = if commutes { nand.look_ahead } else { Nanoseconds::ZERO };
    // A command that is acted on later than it could be delays no event before it.
    if fetch < flash.at + ahead && fetch < scheduled && fetch <= until {
        fetch_next(nand, sink, fetch);
        return true;
    }
    if scheduled < flash.at || flash.due() == Due::Nothing {
        return step_without_flash(nand, until, sink);
    }
    if flash.at > until {
        return false;
    }
    nand.now = flash.at;
    nand.events += 1;
    match flash.due() {
        Due::Channel(channel) => transferred(nand, sink, channel, flash.at),
        Due::Die(die) => die_is_free(nand, sink, die, flash.at),
        Due::Nothing => {}
    }
    true
}

/// Processes the next scheduled event or the next command, whichever is first. Dies and channels have no
/// event before.
#[inline(never)]
fn step_without_flash<S: Completions>(nand: &mut Nand, until: Instant, sink: &mut S) -> bool {
    let scheduled = nand.schedule.due();
    let fetch = nand.controller.due();
    let at = scheduled.min(fetch);
    if at > until || at == NEVER {
        return false;
    }
    if fetch < scheduled {
        fetch_next(nand, sink, fetch);
        return true;
    }
    nand.now = scheduled;
    nand.events += 1;
    nand.transit.clock.keep_epoch_near(scheduled);
    happen(nand, sink, scheduled);
    true
}

/// Has the controller act on the first command.
#[inline(always)]
fn fetch_next<S: Completions>(nand: &mut Nand, sink: &mut S, now: Instant) {
    nand.now = now;
    nand.events += 1;
    nand.transit.clock.keep_epoch_near(now);
    let tag = nand.controller.fetch();
    sink.fetched(nand, Tag(tag), now);
}

/// Processes the next scheduled event.
fn happen<S: Completions>(nand: &mut Nand, sink: &mut S, now: Instant) {
    match nand.schedule.take() {
        Scheduled::Alarm(tag) => sink.alarm(nand, Tag(tag), now),
        Scheduled::Send(tag, duration) => {
            let end = nand.link.send(now, Nanoseconds::new(duration.into()));
            sink.read(nand, Tag(tag), end, ReadTime::default());
        }
        Scheduled::Deliver(read) => deliver(nand, sink, ReadId(read), now),
    }
}

fn deliver<S: Completions>(nand: &mut Nand, sink: &mut S, read: ReadId, now: Instant) {
    if let Some((tag, end, time)) = nand.requests.deliver(read, &mut nand.link, now) {
        sink.read(nand, tag, end, time);
    }
}

/// Returns the times of a page that was sensed for `sense`.
#[inline(always)]
fn time_of(nand: &Nand, op: &Op, sense: u32) -> ReadTime {
    let blocked = Nanoseconds::new(op.duration.into());
    let by_background = op.marks & mark::BLOCKED_BY_BACKGROUND != 0;
    ReadTime {
        sense: Nanoseconds::new(sense.into()),
        transfer: Nanoseconds::new(nand.transit.transfer_of(op).into()),
        blocked_by_program: if by_background { Nanoseconds::ZERO } else { blocked },
        blocked_by_background: if by_background { blocked } else { Nanoseconds::ZERO },
    }
}

/// Processes the end of a transfer over a channel.
#[inline(always)]
fn transferred<S: Completions>(nand: &mut Nand, sink: &mut S, channel: usize, now: Instant) {
    if let Some(op) = nand.transit.end_read(channel, now) {
        let end = nand.link.send(now, nand.unit_over_link);
        return sink.read(nand, Tag(op.owner), end, time_of(nand, &op, op.extra));
    }
    other_transferred(nand, sink, channel, now);
}

/// Processes the end of a transfer other than that of a read of a single unit.
#[inline(never)]
fn other_transferred<S: Completions>(nand: &mut Nand, sink: &mut S, channel: usize, now: Instant) {
    let index = nand.transit.end(channel, now);
    let op = *nand.transit.pool.get(index);
    match op.kind {
        Kind::Read | Kind::Program | Kind::Erase => {
            unreachable!("its data has an operation of its own")
        }
        Kind::Piece => {
            nand.transit.pool.remove(index);
            let (read, piece) = (ReadId(op.owner), PieceIndex(op.extra));
            let sense = nand.requests.sense_of(read, piece);
            let time = time_of(nand, &op, sense);
            nand.requests.arrived(read, piece, time);
            deliver(nand, sink, read, now);
        }
        Kind::Load => {
            nand.transit.pool.remove(index);
            nand.others_under_way -= 1;
            sink.loaded(nand, Tag(op.owner), now);
        }
        Kind::CopyRead => {
            nand.transit.pool.remove(index);
            nand.others_under_way -= 1;
            if nand.copies.sensed(op.owner, op.extra) {
                nand.send_complete_copies();
            }
        }
        Kind::Data => {
            nand.transit.pool.remove(index);
            nand.dies.data_arrived(&mut nand.transit, op.owner, now);
        }
        Kind::CopyProgram => {
            if op.extra != NONE {
                nand.hold_for_erase(index, EraseId(op.extra));
            }
            let is_urgent = nand.copies.is_urgent(op.owner);
            let line = if is_urgent { Line::Foreground } else { Line::Background };
            nand.dies.enqueue(&mut nand.transit, index, line, now);
        }
    }
    nand.transit.go_on(channel);
}

/// Processes the event of a die: the die is free and an operation waits for it, or a program or an erase
/// has ended.
#[inline(never)]
fn die_is_free<S: Completions>(nand: &mut Nand, sink: &mut S, die: usize, now: Instant) {
    nand.dies.set_happening(Some(die));
    let ended = nand.dies.happen(&mut nand.transit, die, now);
    if ended != NONE {
        over(nand, sink, ended, now);
    }
    nand.dies.set_happening(None);
    if ended != NONE {
        nand.dies.go_on(&mut nand.transit, die, now);
    }
}

/// Reports the end of a program or an erase.
#[inline(always)]
fn over<S: Completions>(nand: &mut Nand, sink: &mut S, ended: u32, now: Instant) {
    let op = *nand.transit.pool.get(ended);
    nand.transit.pool.remove(ended);
    match op.kind {
        Kind::Program => {
            nand.others_under_way -= 1;
            sink.programmed(nand, Tag(op.owner), now);
        }
        Kind::CopyProgram => {
            nand.others_under_way -= 1;
            sink.copies_programmed(nand, CopyNumber(op.owner), now);
        }
        Kind::Erase => {
            let die = ssdlab_units::DieIndex(op.die.into());
            sink.erased_on(nand, EraseId(op.owner), die, now);
            if nand.erases.note_erased(EraseId(op.owner), op.die.into()) {
                nand.others_under_way -= 1;
                sink.erased(nand, EraseId(op.owner), now);
            }
        }
        Kind::Read | Kind::Piece | Kind::Load | Kind::CopyRead | Kind::Data => {
            unreachable!("a sense has no event of its own")
        }
    }
}

impl Nand {
    /// Sends program units of copies that have all their data to their dies, in order.
    pub(super) fn send_complete_copies(&mut self) {
        while let Some((number, filling)) = self.copies.take_complete() {
            let die = ssdlab_units::DieIndex(filling.die.into());
            let after = filling.after;
            let op =
                new_op(Kind::CopyProgram, die, number, after, filling.duration, filling.codewords);
            let channel = self.dies.channel_of(filling.die.into());
            self.transit.announce(channel, Op { arrival: self.now, ..op }, self.now);
        }
    }
}
