//! The event loop: which event comes next, and what follows from each.

use ssdlab_units::{Instant, Nanoseconds};

use super::{Nand, new_op};
use crate::completions::{Completions, ReadTime, Tag};
use crate::copies::CopyNumber;
use crate::die::Priority;
use crate::erase::EraseId;
use crate::event_queue::EventSource;
use crate::multi_page_read::{PieceIndex, ReadId};
use crate::pool::{Kind, NONE, Op, flag};
use crate::schedule::ScheduledEvent;

/// Instant of an event that never happens.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Returns the instant of the next event, or `None` if there is none.
pub(super) fn next_due(nand: &Nand) -> Option<Instant> {
    let flash = nand.transit.event_queue.next();
    let others = nand.schedule.due().min(nand.controller.due());
    let due = if flash.source() == EventSource::None { others } else { others.min(flash.at) };
    (due != NEVER).then_some(due)
}

/// Processes the next event if it is due until `until`; returns true if one was. At one instant dies go
/// first, then channels, then scheduled events, then the controller: a die that becomes idle begins its
/// next operation before a read that arrives at that instant.
#[inline(always)]
pub(super) fn step<S: Completions>(nand: &mut Nand, until: Instant, sink: &mut S) -> bool {
    let flash = nand.transit.event_queue.next();
    let scheduled = nand.schedule.due();
    let fetch = nand.controller.due();
    // While only reads are in flight, the controller's next step and transfers that end less than
    // `look_ahead` before it do not depend on each other: a read that is answered then is followed by a
    // command that is acted on later. Their order makes no difference to the drive, and events that
    // alternate are easier for the branch predictor.
    let commutes = sink.reads_commute() && nand.non_read_ops_in_flight == 0;
    let ahead = if commutes { nand.look_ahead } else { Nanoseconds::ZERO };
    // A command that is acted on later than it could be delays no event before it.
    if fetch < flash.at + ahead && fetch < scheduled && fetch <= until {
        fetch_next(nand, sink, fetch);
        return true;
    }
    if scheduled < flash.at || flash.source() == EventSource::None {
        return step_schedule_or_controller(nand, until, sink);
    }
    if flash.at > until {
        return false;
    }
    nand.now = flash.at;
    nand.events += 1;
    match flash.source() {
        EventSource::Channel(channel) => transfer_ended(nand, sink, channel, flash.at),
        EventSource::Die(die) => process_die_event(nand, sink, die, flash.at),
        EventSource::None => {}
    }
    true
}

/// Processes the next scheduled event or the next command, whichever is first. Dies and channels have no
/// event before.
#[inline(never)]
fn step_schedule_or_controller<S: Completions>(
    nand: &mut Nand,
    until: Instant,
    sink: &mut S,
) -> bool {
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
    nand.transit.event_queue.keep_epoch_near(scheduled);
    process_scheduled(nand, sink, scheduled);
    true
}

/// Has the controller act on the first command.
#[inline(always)]
fn fetch_next<S: Completions>(nand: &mut Nand, sink: &mut S, now: Instant) {
    nand.now = now;
    nand.events += 1;
    nand.transit.event_queue.keep_epoch_near(now);
    let tag = nand.controller.fetch();
    sink.fetched(nand, Tag(tag), now);
}

/// Processes the next scheduled event.
fn process_scheduled<S: Completions>(nand: &mut Nand, sink: &mut S, now: Instant) {
    match nand.schedule.pop() {
        ScheduledEvent::Alarm(tag) => sink.alarm(nand, Tag(tag), now),
        ScheduledEvent::Send(tag, duration) => {
            let end = nand.link.send(now, Nanoseconds::new(duration.into()));
            sink.read(nand, Tag(tag), end, ReadTime::default());
        }
        ScheduledEvent::Deliver(read) => deliver(nand, sink, ReadId(read), now),
    }
}

fn deliver<S: Completions>(nand: &mut Nand, sink: &mut S, read: ReadId, now: Instant) {
    if let Some((tag, end, time)) = nand.reads.deliver(read, &mut nand.link, now) {
        sink.read(nand, tag, end, time);
    }
}

/// Returns the times of a page that was sensed for `sense`.
#[inline(always)]
fn time_of(nand: &Nand, op: &Op, sense: u32) -> ReadTime {
    let blocked = Nanoseconds::new(op.duration.into());
    let by_background = op.flags & flag::BLOCKED_BY_BACKGROUND != 0;
    ReadTime {
        sense: Nanoseconds::new(sense.into()),
        transfer: Nanoseconds::new(nand.transit.transfer_of(op).into()),
        blocked_by_program: if by_background { Nanoseconds::ZERO } else { blocked },
        blocked_by_background: if by_background { blocked } else { Nanoseconds::ZERO },
    }
}

/// Processes the end of a transfer over a channel.
#[inline(always)]
fn transfer_ended<S: Completions>(nand: &mut Nand, sink: &mut S, channel: usize, now: Instant) {
    if let Some(op) = nand.transit.end_unit_read(channel, now) {
        let end = nand.link.send(now, nand.unit_over_link);
        return sink.read(nand, Tag(op.owner), end, time_of(nand, &op, op.extra));
    }
    other_transfer_ended(nand, sink, channel, now);
}

/// Processes the end of a transfer other than that of a read of a single unit.
#[inline(never)]
fn other_transfer_ended<S: Completions>(
    nand: &mut Nand,
    sink: &mut S,
    channel: usize,
    now: Instant,
) {
    let index = nand.transit.end_transfer(channel, now);
    let op = *nand.transit.pool.get(index);
    match op.kind {
        Kind::Read | Kind::Program | Kind::Erase => {
            unreachable!("its data has an operation of its own")
        }
        Kind::Piece => {
            nand.transit.pool.remove(index);
            let (read, piece) = (ReadId(op.owner), PieceIndex(op.extra));
            let sense = nand.reads.sense_of(read, piece);
            let time = time_of(nand, &op, sense);
            nand.reads.note_in_ram(read, piece, time);
            deliver(nand, sink, read, now);
        }
        Kind::Load => {
            nand.transit.pool.remove(index);
            nand.non_read_ops_in_flight -= 1;
            sink.loaded(nand, Tag(op.owner), now);
        }
        Kind::CopyRead => {
            nand.transit.pool.remove(index);
            nand.non_read_ops_in_flight -= 1;
            if nand.copies.note_sensed(op.owner, op.extra) {
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
            let priority = if is_urgent { Priority::Foreground } else { Priority::Background };
            nand.dies.enqueue(&mut nand.transit, index, priority, now);
        }
    }
    nand.transit.schedule_next(channel);
}

/// Processes the event of a die: the die is free and an operation waits for it, or a program or an erase
/// has ended.
#[inline(never)]
fn process_die_event<S: Completions>(nand: &mut Nand, sink: &mut S, die: usize, now: Instant) {
    nand.dies.set_processing_die(Some(die));
    let ended = nand.dies.process_event(&mut nand.transit, die, now);
    if ended != NONE {
        report_ended(nand, sink, ended, now);
    }
    nand.dies.set_processing_die(None);
    if ended != NONE {
        nand.dies.begin_after_event(&mut nand.transit, die, now);
    }
}

/// Reports the end of a program or an erase.
#[inline(always)]
fn report_ended<S: Completions>(nand: &mut Nand, sink: &mut S, ended: u32, now: Instant) {
    let op = *nand.transit.pool.get(ended);
    nand.transit.pool.remove(ended);
    match op.kind {
        Kind::Program => {
            nand.non_read_ops_in_flight -= 1;
            sink.programmed(nand, Tag(op.owner), now);
        }
        Kind::CopyProgram => {
            nand.non_read_ops_in_flight -= 1;
            sink.copies_programmed(nand, CopyNumber(op.owner), now);
        }
        Kind::Erase => {
            let die = ssdlab_units::DieIndex(op.die.into());
            sink.erased_on(nand, EraseId(op.owner), die, now);
            if nand.erases.note_erased(EraseId(op.owner), op.die.into()) {
                nand.non_read_ops_in_flight -= 1;
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
        while let Some((number, pending)) = self.copies.take_complete() {
            let die = ssdlab_units::DieIndex(pending.die.into());
            let after = pending.after;
            let op =
                new_op(Kind::CopyProgram, die, number, after, pending.duration, pending.codewords);
            let channel = self.dies.channel_of(pending.die.into());
            self.transit.add_and_enqueue(channel, Op { arrival: self.now, ..op }, self.now);
        }
    }
}
