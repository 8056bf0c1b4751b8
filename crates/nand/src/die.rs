//! Die scheduling: the operation that a die does next.
//!
//! Reads of the host and of the controller go first, in the order of their arrival. Then goes a suspended
//! operation, then the foreground queue (host programs and background operations that became urgent), then
//! the background queue, from which the oldest operation moves to the foreground while more than
//! [`DieParameters::background_most`] wait. An operation that waits for the erase of its block lets the
//! others go ahead. An operation whose data is still on the way to the die keeps the die waiting.
//!
//! When a program or an erase ends, the translation layer is called before the die chooses its next
//! operation. So operations that follow from the end (the journal page of a flush, data that got space in
//! the buffer) are queued by then.
//!
//! Only earlier reads and the operation in progress go before a read, and nothing stops a sense. So if a
//! read arrives at a die without a program or an erase in progress, its time on the die is reserved
//! immediately, and the channel is told when the page will be sensed. A die has an event only for the end
//! of a program or an erase, and for the end of a sense that another operation waits for.

use ssdlab_units::{Instant, Nanoseconds};

use crate::channel::Transit;
use crate::pool::{Kind, NONE, Op, Pool, Queue, flag};
use crate::suspend::{SuspendParameters, SuspendWhen, Suspendable};

/// Parameters by which a die chooses its next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DieParameters {
    /// Operations that a read may interrupt, and the time that this costs.
    pub suspend: SuspendParameters,
    /// Number of background operations that may wait on a die before the oldest gets the priority of host
    /// operations.
    pub background_most: u32,
    /// True if a page that a stream has sensed is read from the page register.
    pub page_register: bool,
}

/// Queue in which an operation other than a read waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Foreground,
    Background,
}

/// Progress of an operation that was given to a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    /// In progress until this instant.
    InProgress(Instant),
    /// Suspended, with this much time left.
    Suspended(Nanoseconds),
}

/// A die. Its size is one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Die {
    /// Moment at which the operation in progress ends; of reads, the end of the last one that is reserved.
    free_at: Instant,
    /// Moment at which the suspension of the operation in progress is complete. Used to attribute
    /// the waiting time of reads.
    suspend_end: Instant,
    /// The program or erase in progress.
    current: u32,
    /// The suspended program or erase. `suspended_left` is the time left of it in nanoseconds.
    suspended: u32,
    suspended_left: u32,
    /// Pages that the page registers hold, or will hold when the last read is complete: a number that the
    /// caller chose.
    register: u32,
    /// Reads that wait for the end of a program or erase.
    reads: Queue,
    foreground: Queue,
    background: Queue,
    background_length: u16,
    /// Number of operations in the queues that wait for an erase.
    awaiting_erase: u16,
    /// Number of times that the program or erase in progress was suspended.
    suspend_count: u16,
    channel: u16,
}

const _: () = assert!(size_of::<Die>() == 64);

impl Die {
    /// Returns true if an operation waits for the die to become idle.
    #[inline(always)]
    fn has_waiting_operation(&self) -> bool {
        // `NONE` has all bits set: so the three combined have all bits set only if each is `NONE`.
        self.foreground.head() & self.background.head() & self.suspended != NONE
    }

    /// Returns the first operation of one of the die's queues that does not wait for an erase.
    #[inline(always)]
    fn first_ready(&self, pool: &Pool, queue: &Queue) -> Option<u32> {
        if self.awaiting_erase == 0 {
            return queue.first();
        }
        pool.iter(queue).find(|&it| pool.get(it).flags & flag::AWAITS_ERASE == 0)
    }
}

/// All dies.
#[derive(Clone, Debug)]
pub(crate) struct Dies {
    dies: Box<[Die]>,
    /// Die whose event is being processed, or `usize::MAX`. Dies with higher numbers act after it at that
    /// instant.
    processing_die: usize,
    parameters: DieParameters,
    /// True if host writes wait for space in the write buffer.
    is_buffer_full: bool,
}

impl Dies {
    /// Returns idle dies, each on the channel that `channel_of` returns.
    pub(crate) fn new(
        count: u32,
        channel_of: impl Fn(u32) -> usize,
        parameters: DieParameters,
    ) -> Dies {
        let die = |index: u32| Die {
            free_at: Instant::START,
            suspend_end: Instant::START,
            current: NONE,
            suspended: NONE,
            suspended_left: 0,
            register: NONE,
            reads: Queue::EMPTY,
            foreground: Queue::EMPTY,
            background: Queue::EMPTY,
            background_length: 0,
            awaiting_erase: 0,
            suspend_count: 0,
            channel: channel_of(index) as u16,
        };
        Dies {
            dies: (0..count).map(die).collect(),
            processing_die: usize::MAX,
            parameters,
            is_buffer_full: false,
        }
    }

    /// Sets whether host writes wait for space in the write buffer.
    #[inline(always)]
    pub(crate) fn set_buffer_full(&mut self, is_buffer_full: bool) {
        self.is_buffer_full = is_buffer_full;
    }

    #[inline(always)]
    pub(crate) fn channel_of(&self, die: usize) -> usize {
        self.dies[die].channel.into()
    }

    /// Queues a read on its die. `sense` names the pages that it senses, or is [`NONE`] if no other read
    /// will look for them in the page registers.
    #[inline(always)]
    pub(crate) fn read(&mut self, transit: &mut Transit, op: Op, sense: u32, now: Instant) {
        let (number, duration) = (usize::from(op.die), op.duration);
        let order = transit.next_order();
        let index = transit.add(Op { order, ..op });
        let die = &mut self.dies[number];
        if die.current != NONE {
            return self.read_on_busy(transit, index, sense, now);
        }
        reserve(die, transit, index, duration, sense, now);
    }

    /// Queues a read on a die that programs or erases.
    #[inline(never)]
    fn read_on_busy(&mut self, transit: &mut Transit, index: u32, sense: u32, now: Instant) {
        let Op { die: number, duration, .. } = *transit.pool.get(index);
        let is_suspended = self.suspend(transit, number.into(), now);
        if is_suspended {
            let die = &self.dies[usize::from(number)];
            // Reads may have arrived while the buffer was full, when they could not suspend.
            if !die.reads.is_empty() {
                let (stopped, from) = (transit.pool.get(die.suspended).kind, die.free_at);
                self.reserve_waiting_reads(transit, number.into(), stopped, from, now);
            }
            let die = &mut self.dies[usize::from(number)];
            return reserve(die, transit, index, duration, sense, now);
        }
        let die = &mut self.dies[usize::from(number)];
        die.register = sense;
        transit.pool.get_mut(index).arrival = now;
        transit.pool.push_back(&mut die.reads, index);
    }

    /// Returns true if the page registers of the die hold `sense`, or will when the last read of the die is
    /// complete.
    pub(crate) fn register_holds(&self, die: usize, sense: u32, now: Instant) -> bool {
        let die = &self.dies[die];
        let is_reading = die.current == NONE && die.free_at > now || !die.reads.is_empty();
        // Data of queued programs passes through the same registers.
        die.register == sense
            && self.parameters.page_register
            && (is_reading || die.current == NONE && die.foreground.is_empty())
    }

    /// Queues a read that takes the page which the last read of its die senses, or has sensed. Returns an
    /// upper limit of the nanoseconds for which the die still senses.
    pub(crate) fn share_sense(&mut self, transit: &mut Transit, mut op: Op, now: Instant) -> u32 {
        let die = &mut self.dies[usize::from(op.die)];
        op.order = transit.next_order();
        op.flags |= flag::SHARES_SENSE;
        if die.reads.is_empty() {
            if die.free_at <= now {
                op.flags |= flag::FROM_REGISTER;
            }
            op.arrival = die.free_at.later(now);
            // From here on `duration` is the time that the read was kept waiting.
            op.duration = 0;
            let left = op.arrival.since(now).nanos();
            transit.add_and_enqueue(die.channel.into(), op, now);
            left.try_into().unwrap_or(u32::MAX)
        } else {
            op.arrival = now;
            let index = transit.add(op);
            transit.pool.push_back(&mut die.reads, index);
            u32::MAX
        }
    }

    /// Queues an operation other than a read on its die.
    #[inline(always)]
    pub(crate) fn enqueue(
        &mut self,
        transit: &mut Transit,
        index: u32,
        priority: Priority,
        now: Instant,
    ) {
        let number = usize::from(transit.pool.get(index).die);
        let die = &mut self.dies[number];
        match priority {
            Priority::Foreground => transit.pool.push_back(&mut die.foreground, index),
            Priority::Background => {
                transit.pool.push_back(&mut die.background, index);
                die.background_length += 1;
                if u32::from(die.background_length) > self.parameters.background_most {
                    self.promote_oldest(transit, number);
                }
            }
        }
        self.begin_if_idle(transit, number, now);
    }

    #[inline(always)]
    fn promote_oldest(&mut self, transit: &mut Transit, die: usize) {
        let die = &mut self.dies[die];
        if let Some(oldest) = transit.pool.pop_front(&mut die.background) {
            die.background_length -= 1;
            transit.pool.push_back(&mut die.foreground, oldest);
        }
    }

    /// Notes that the data of a queued operation has reached its die.
    #[inline(always)]
    pub(crate) fn data_arrived(&mut self, transit: &mut Transit, index: u32, now: Instant) {
        let op = transit.pool.get_mut(index);
        op.flags &= !flag::AWAITS_DATA;
        let die = op.die.into();
        self.begin_if_idle(transit, die, now);
    }

    /// Called when a queued operation has become able to begin: begins the next operation if the die is
    /// idle, else sets an event for the end of its reads.
    #[inline(always)]
    pub(crate) fn begin_if_idle(&mut self, transit: &mut Transit, number: usize, now: Instant) {
        let die = &self.dies[number];
        // The die whose event is being processed chooses its next operation later, when all that follows from
        // the event was queued.
        if die.current != NONE || number == self.processing_die {
            return;
        }
        // At one instant dies act in the order of their numbers.
        if die.free_at > now || die.free_at == now && number > self.processing_die {
            transit.event_queue.set_die(number, die.free_at);
        } else {
            self.begin_next(transit, number, now);
        }
    }

    /// Processes the event of a die: its program or erase has ended, or it is idle and an operation waits.
    /// Returns the operation that ended, or [`NONE`]. After an end the die does only reads until
    /// [`Dies::begin_after_event`].
    #[inline(always)]
    pub(crate) fn process_event(
        &mut self,
        transit: &mut Transit,
        number: usize,
        now: Instant,
    ) -> u32 {
        let die = &mut self.dies[number];
        let ended = std::mem::replace(&mut die.current, NONE);
        if ended != NONE && die.awaiting_erase > 0 && transit.pool.get(ended).kind == Kind::Erase {
            self.release_awaiting_erase(transit, number, transit.pool.get(ended).owner);
        }
        let die = &self.dies[number];
        if !die.reads.is_empty() {
            let ended = transit.pool.get(ended).kind;
            self.reserve_waiting_reads(transit, number, ended, now, now);
        } else if ended == NONE {
            self.begin_next(transit, number, now);
        } else {
            transit.event_queue.clear_die(number);
        }
        ended
    }

    /// Begins the next operation of a die whose operation has ended, after everything that follows from the
    /// end was queued.
    #[inline(always)]
    pub(crate) fn begin_after_event(&mut self, transit: &mut Transit, number: usize, now: Instant) {
        let die = &self.dies[number];
        if die.current == NONE && die.has_waiting_operation() {
            self.begin_if_idle(transit, number, now);
        }
    }

    /// Reserves a die, from `from` on, for the reads that waited for an operation of kind `blocker`.
    #[inline(always)]
    fn reserve_waiting_reads(
        &mut self,
        transit: &mut Transit,
        number: usize,
        blocker: Kind,
        from: Instant,
        now: Instant,
    ) {
        let die = &mut self.dies[number];
        let mut reads = std::mem::replace(&mut die.reads, Queue::EMPTY);
        die.free_at = from;
        while let Some(index) = transit.pool.pop_front(&mut reads) {
            let op = transit.pool.get_mut(index);
            if op.flags & flag::SHARES_SENSE == 0 {
                die.free_at += Nanoseconds::new(op.duration.into());
            }
            let (duration, flags) = blocked_by(blocker, from.since(op.arrival));
            op.duration = duration;
            op.flags |= flags;
            transit.enqueue(die.channel.into(), index, die.free_at, now);
        }
        transit.event_queue.set_die_if(die.has_waiting_operation(), number, die.free_at);
    }

    /// Begins the next operation of an idle die, if there is one.
    #[inline(always)]
    fn begin_next(&mut self, transit: &mut Transit, number: usize, now: Instant) {
        let die = &mut self.dies[number];
        if die.suspended != NONE {
            let resume = self.parameters.suspend.resume;
            die.current = std::mem::replace(&mut die.suspended, NONE);
            die.free_at = now + resume + Nanoseconds::new(die.suspended_left.into());
            die.register = NONE;
            return transit.event_queue.set_die(number, die.free_at);
        }
        let pool = &mut transit.pool;
        if let Some(first) = die.first_ready(pool, &die.foreground) {
            if pool.get(first).flags & flag::AWAITS_DATA != 0 {
                return transit.event_queue.clear_die(number);
            }
            pool.unlink(&mut die.foreground, first);
            return self.begin(transit, number, first, now);
        }
        match die.first_ready(pool, &die.background) {
            Some(first) => {
                pool.unlink(&mut die.background, first);
                die.background_length -= 1;
                self.begin(transit, number, first, now);
            }
            None => transit.event_queue.clear_die(number),
        }
    }

    #[inline(always)]
    fn begin(&mut self, transit: &mut Transit, number: usize, index: u32, now: Instant) {
        let die = &mut self.dies[number];
        let op = transit.pool.get_mut(index);
        die.free_at = now + Nanoseconds::new(op.duration.into());
        die.register = NONE;
        if op.kind != Kind::CopyRead {
            die.current = index;
            die.suspend_count = 0;
            return transit.event_queue.set_die(number, die.free_at);
        }
        // Nothing stops a sense, so the channel is told in advance when it will end.
        let order = transit.next_order();
        transit.pool.get_mut(index).order = order;
        transit.event_queue.set_die_if(die.has_waiting_operation(), number, die.free_at);
        transit.enqueue(die.channel.into(), index, die.free_at, now);
    }

    /// Suspends the operation in progress on a die if that is allowed and lets the arriving read begin
    /// earlier. Returns true if the operation was suspended.
    #[inline(always)]
    fn suspend(&mut self, transit: &mut Transit, number: usize, now: Instant) -> bool {
        let suspend = &self.parameters.suspend;
        let die = &mut self.dies[number];
        let left = die.free_at.since(now);
        let may = match transit.pool.get(die.current).kind {
            _ if suspend.operations == Suspendable::Off => false,
            _ if self.is_buffer_full && suspend.when == SuspendWhen::BufferHasRoom => false,
            Kind::Erase => suspend.operations != Suspendable::Program,
            _ => suspend.operations != Suspendable::Erase,
        };
        if !may || u32::from(die.suspend_count) >= suspend.most {
            return false;
        }
        let Some(stopped) = suspend.remaining_when_suspended(left) else { return false };
        die.suspend_count += 1;
        die.suspended_left = stopped.nanos() as u32;
        die.suspended = std::mem::replace(&mut die.current, NONE);
        die.free_at = now + (left - stopped) + suspend.suspend;
        die.suspend_end = die.free_at;
        true
    }

    /// Releases the operations on a die that wait for `erase`, which is complete.
    fn release_awaiting_erase(&mut self, transit: &mut Transit, number: usize, erase: u32) {
        let die = &mut self.dies[number];
        for queue in [die.foreground, die.background] {
            transit.pool.for_each_in(&queue, |op| {
                if op.flags & flag::AWAITS_ERASE != 0 && op.extra == erase {
                    op.flags &= !flag::AWAITS_ERASE;
                    die.awaiting_erase -= 1;
                }
            });
        }
    }

    /// Has an operation that is about to be queued wait for the erase in its `extra`. A host program moves
    /// that erase to the foreground.
    pub(crate) fn hold_for_erase(&mut self, transit: &mut Transit, index: u32) {
        let op = transit.pool.get_mut(index);
        op.flags |= flag::AWAITS_ERASE;
        let (number, kind, erase) = (usize::from(op.die), op.kind, op.extra);
        self.dies[number].awaiting_erase += 1;
        if kind == Kind::Program {
            self.promote_through(transit, number, |op| op.kind == Kind::Erase && op.owner == erase);
        }
    }

    /// Queues an erase: ahead of all others if an operation waits for it on that die, else in the
    /// background.
    pub(crate) fn enqueue_erase(&mut self, transit: &mut Transit, index: u32, now: Instant) {
        let op = *transit.pool.get(index);
        let number = usize::from(op.die);
        let die = &mut self.dies[number];
        let waits = |it: u32| {
            let waiting = transit.pool.get(it);
            waiting.flags & flag::AWAITS_ERASE != 0 && waiting.extra == op.owner
        };
        let is_awaited = die.awaiting_erase > 0
            && [die.foreground, die.background]
                .iter()
                .any(|queue| transit.pool.iter(queue).any(waits));
        if !is_awaited {
            return self.enqueue(transit, index, Priority::Background, now);
        }
        transit.pool.push_front(&mut die.foreground, index);
        self.begin_if_idle(transit, number, now);
    }

    /// Moves operations of a die from the background to the foreground, up to and including the last for
    /// which `is_wanted` returns true.
    pub(crate) fn promote_through(
        &mut self,
        transit: &mut Transit,
        number: usize,
        is_wanted: impl Fn(&Op) -> bool,
    ) {
        let waiting = transit.pool.iter(&self.dies[number].background);
        let wanted = waiting.enumerate().filter(|&(_, it)| is_wanted(transit.pool.get(it)));
        let count = wanted.last().map_or(0, |(place, _)| place + 1);
        (0..count).for_each(|_| self.promote_oldest(transit, number));
    }

    /// Sets the die whose event is being processed, or `None` if the event does not belong to a die.
    #[inline(always)]
    pub(crate) fn set_processing_die(&mut self, die: Option<usize>) {
        self.processing_die = die.unwrap_or(usize::MAX);
    }

    /// Returns the operations of a die other than reads, in the order in which the die would do them.
    pub(crate) fn operations(
        &self,
        pool: &Pool,
        number: usize,
    ) -> impl Iterator<Item = (u32, Stage)> {
        let die = &self.dies[number];
        let begun = [
            (die.current, Stage::InProgress(die.free_at)),
            (die.suspended, Stage::Suspended(Nanoseconds::new(die.suspended_left.into()))),
        ];
        let begun = begun.into_iter().filter(|it| it.0 != NONE);
        let waiting = pool.iter(&die.foreground).chain(pool.iter(&die.background));
        begun.chain(waiting.map(|index| (index, Stage::Waiting)))
    }

    /// Returns the parameters, which all dies share.
    pub(crate) fn parameters(&self) -> DieParameters {
        self.parameters
    }

    /// Returns the number of dies.
    pub(crate) fn count(&self) -> usize {
        self.dies.len()
    }
}

/// Reserves a die for a read that nothing can overtake, behind those that arrived before it, and tells the
/// channel when the page will be sensed.
#[inline(always)]
fn reserve(
    die: &mut Die,
    transit: &mut Transit,
    index: u32,
    duration: u32,
    sense: u32,
    now: Instant,
) {
    die.register = sense;
    let end = die.free_at.later(now) + Nanoseconds::new(duration.into());
    die.free_at = end;
    transit.pool.get_mut(index).duration = 0;
    if die.suspend_end > now {
        note_suspension(transit, index, die.suspended, die.suspend_end.since(now));
    }
    if die.has_waiting_operation() {
        let number = transit.pool.get(index).die;
        transit.event_queue.set_die(number.into(), end);
    }
    transit.enqueue(die.channel.into(), index, end, now);
}

/// Records that a read waits for `stopped` to be suspended.
#[inline(never)]
fn note_suspension(transit: &mut Transit, index: u32, stopped: u32, span: Nanoseconds) {
    let (duration, flags) = blocked_by(transit.pool.get(stopped).kind, span);
    let op = transit.pool.get_mut(index);
    op.duration = duration;
    op.flags |= flags;
}

/// Returns the duration and the flags of a read that waited for `span`, for the end or for the suspension
/// of a program or erase of kind `blocker`. The sense itself is part of the read's arrival by then.
#[inline(always)]
fn blocked_by(blocker: Kind, span: Nanoseconds) -> (u32, u8) {
    let by_background = blocker != Kind::Program;
    let flags = if by_background { flag::BLOCKED_BY_BACKGROUND } else { 0 };
    (span.nanos().try_into().unwrap_or(u32::MAX), flags)
}
