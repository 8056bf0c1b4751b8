//! Collection's flash work, from what was decided to what is booked on the dies.
//!
//! Work is debt on its die (see [`crate::resources::background`]): done in the time the die
//! would be idle, booked like host work where there is too much of it. What the next operation
//! depends on (see [`crate::copies`]) may be on another die, so from time to time every die is
//! looked at, and what has become possible is put on its die's list.

use crate::copies::ReadCopy;
use crate::in_time::Into;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::background::{Operation, Owed};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{BlockIndex, DieIndex, Instant, PhysicalUnit};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Sees to collection's debt if that was not done for as long as a page takes to be sensed:
    /// later, work would go into time that has passed, where it is in nobody's way.
    #[inline(always)]
    pub(crate) fn advance_debt_at_times(&mut self, now: Instant) {
        if now >= self.collector.advance_from {
            self.advance_debt(now);
        }
    }

    /// Carries out all debt that begins in time idle before `now`, on every die, and puts on the
    /// dies' lists what depended on it.
    #[inline(never)]
    pub(crate) fn advance_debt(&mut self, now: Instant) {
        if self.in_time.is_on() {
            self.advance_in_time(now);
            self.leave_in_time();
        }
        let mut from = 0;
        let next_due = |dues: &[Instant]| dues.iter().position(|&due| due < now);
        while let Some(next) = next_due(&self.resources.debt_due[from..]) {
            self.settle(DieIndex((from + next) as u32), now);
            from += next + 1;
        }
        let is_idle = from == 0;
        self.owe_copies_read(now);
        self.erase_emptied(now);
        let soon = now + self.timing.page_read;
        self.collector.advance_from = if !self.collector.copies.is_any() {
            Instant::from_nanos(u64::MAX)
        } else if is_idle {
            soon.later(self.next_debt())
        } else {
            soon
        };
    }

    /// Before when there is nothing to carry out and nothing new to owe, if no more is asked for:
    /// while the host only reads, what is left under way is not looked at again and again.
    #[inline(never)]
    fn next_debt(&self) -> Instant {
        let dues = self.resources.debt_due.iter().copied();
        let copies = &self.collector.copies;
        dues.min().unwrap_or(Instant::START).min(copies.next_read()).min(copies.next_emptied())
    }

    /// Puts programs whose data was read by `now` on their dies' lists.
    #[inline(always)]
    pub(crate) fn owe_copies_read(&mut self, now: Instant) {
        while let Some(copy) = self.collector.copies.take_read(now) {
            self.owe_copy(copy, now);
        }
    }

    /// Moves a copy to its die, and puts its program on that one's list.
    #[inline(never)]
    fn owe_copy(&mut self, copy: ReadCopy, now: Instant) {
        let units = self.geometry.units_per_program();
        if self.in_time.is_on() {
            let arrived = self.move_copies(copy.die, units, now);
            return self.in_time.on_die(arrived, copy);
        }
        let arrived = self.move_copies(copy.die, units, copy.data_at);
        let program = Operation::Program { first: copy.first, sequence: copy.sequence };
        self.owe(copy.die, program, arrived, now);
        self.settle(copy.die, now);
    }

    /// Puts the erases of emptied blocks on the dies' lists if what replaces the blocks' data is
    /// durable by `now`. Until then an erase is not on a list, where it would keep other work
    /// waiting.
    pub(crate) fn erase_emptied(&mut self, now: Instant) {
        while let Some(emptied) = self.collector.copies.oldest_emptied() {
            let Some(copied_at) = emptied.copied_at else {
                return;
            };
            if emptied.not_before > now && !self.in_time.is_on() {
                return;
            }
            let Some(written_at) = self.written_anew_at(emptied.host) else {
                return;
            };
            let from = copied_at.max(emptied.trims_at).max(written_at).max(self.condenser.until);
            if from > now {
                self.collector.copies.keep_oldest_emptied_until(from);
                if self.in_time.is_on() {
                    self.in_time.durable(from);
                }
                return;
            }
            self.erase(emptied.block, from, now);
        }
    }

    /// When the host's program units up to number `host` are programmed; nothing when that one
    /// is still being filled.
    fn written_anew_at(&self, host: Option<u32>) -> Option<Instant> {
        match host {
            None => Some(Instant::START),
            Some(number) => {
                let dies = &self.resources.dies;
                self.buffer.durable_through(number, |it| {
                    dies[it.die.0 as usize].end_of(it.booking, it.end)
                })
            }
        }
    }

    /// Erases the block that was emptied first, whatever has to be programmed for that.
    ///
    /// # Panics
    /// When no block was emptied: collection has failed its duty.
    pub(crate) fn erase_oldest_emptied(&mut self) {
        let emptied = self.collector.copies.oldest_emptied().expect("a block can be erased");
        if self.collector.copies.latest() == emptied.sequence && self.is_copying() {
            self.pad_collection_program();
        }
        self.carry_out_copies(emptied.sequence);
        let copied_at = self.collector.copies.oldest_emptied().and_then(|it| it.copied_at);
        let copied_at = copied_at.expect("all copies were carried out").max(emptied.trims_at);
        let written_at = match self.written_anew_at(emptied.host) {
            Some(at) => at,
            None => {
                self.send_padded_host_program(self.resources.now());
                self.written_anew_at(emptied.host).expect("it was sent off")
            }
        };
        let from = copied_at.max(written_at).max(self.condenser.until);
        self.erase(emptied.block, from, self.resources.now());
    }

    /// Books collection's programs up to `sequence`, and the reads they depend on.
    fn carry_out_copies(&mut self, sequence: u32) {
        self.leave_in_time();
        let now = self.resources.now();
        let units = self.geometry.units_per_program();
        loop {
            for die in 0..self.geometry.dies() {
                while self.resources.background[die as usize].waits_to_copy(sequence) {
                    self.carry_out_oldest(DieIndex(die), now);
                }
            }
            if !self.collector.copies.is_to_be_owed(sequence) {
                return;
            }
            let copy = self.collector.copies.take_read(Instant::from_nanos(u64::MAX));
            let copy = copy.expect("its data was read");
            // It does not go through its die's list, where its block's erase may still wait.
            let block = self.geometry.block_of(copy.first);
            self.finish_erase(copy.die, block);
            let arrived = self.move_copies(copy.die, units, copy.data_at);
            self.program_copies(copy.die, copy.first, copy.sequence, arrived);
        }
    }

    /// Puts the erase of the oldest emptied block, `block`, on its dies' lists and the block into
    /// the free pool.
    fn erase(&mut self, block: BlockIndex, from: Instant, now: Instant) {
        self.collector.copies.forget_emptied();
        self.erase_block(block, from, now);
    }

    /// The same for any block on which nothing is valid.
    pub(crate) fn erase_block(&mut self, block: BlockIndex, from: Instant, now: Instant) {
        let group = self.forget_erased(block);
        for lane in 0..self.geometry.stripe() {
            let die = DieIndex(group * self.geometry.stripe() + lane);
            self.media.owe_erase(block, die);
            self.owe(die, Operation::Erase { block }, from, now);
            self.settle(die, now);
        }
    }

    /// Notes that `block` is being erased: it is free from then on, unless it has gone bad. Returns
    /// its group of dies.
    pub(crate) fn forget_erased(&mut self, block: BlockIndex) -> u32 {
        let first = self.geometry.first_unit(block);
        self.flash.erase(block, first, self.geometry.units_per_block());
        self.counters.erases += 1;
        if let Some(slc) = &mut self.slc {
            self.counters.slc_erases += u64::from(slc.note_erased(block));
        }
        let group = self.geometry.group_of(block);
        self.free_or_retire(group, block);
        group
    }

    /// Adds an operation that can begin at `from` to a die's debt; carries out the oldest where
    /// there is too much. `now` is the present.
    #[inline(always)]
    pub(crate) fn owe(&mut self, die: DieIndex, operation: Operation, from: Instant, now: Instant) {
        self.settle(die, now);
        let queue = &mut self.resources.background[die.0 as usize];
        queue.push(Owed { operation, from });
        if queue.is_over_limit() {
            self.carry_out_oldest(die, now);
        }
        self.resources.note_debt_due(die);
    }

    /// Carries out the debt of `die` that begins in the time it was idle before `now`.
    #[inline(always)]
    pub(crate) fn settle(&mut self, die: DieIndex, now: Instant) {
        if self.map.cache().is_some_and(|cache| !cache.later_reads[die.0 as usize].is_empty()) {
            self.book_later_reads(die, now);
        }
        if self.durability.journal.is_some() {
            self.book_journal_pages(die, now);
        }
        self.settle_owed(die, now);
    }

    /// The same where no read waits to be booked.
    #[inline(always)]
    pub(crate) fn settle_owed(&mut self, die: DieIndex, now: Instant) {
        if self.resources.debt_due[die.0 as usize] < now {
            self.settle_debt(die, now);
        }
    }

    #[inline(never)]
    fn settle_debt(&mut self, die: DieIndex, now: Instant) {
        loop {
            let due = self.resources.note_debt_due(die);
            if due >= now {
                return;
            }
            self.carry_out_oldest(die, self.resources.dies[die.0 as usize].booked_until());
        }
    }

    /// Before the first program into `block` on `die`: its erase there must be over.
    #[inline(always)]
    pub(crate) fn finish_erase(&mut self, die: DieIndex, block: BlockIndex) {
        while self.resources.background[die.0 as usize].waits_to_erase(block) {
            self.carry_out_oldest(die, Instant::START);
        }
    }

    /// Carries out all debt of all dies.
    pub(crate) fn pay_all_debt(&mut self) {
        self.leave_in_time();
        for die in 0..self.geometry.dies() {
            while !self.resources.background[die as usize].is_empty() {
                self.carry_out_oldest(DieIndex(die), Instant::START);
            }
        }
    }

    /// Books the oldest operation of a die's debt, not before `earliest`.
    pub(crate) fn carry_out_oldest(&mut self, die: DieIndex, earliest: Instant) {
        let queue = &mut self.resources.background[die.0 as usize];
        let &Owed { operation, from } = queue.take_oldest();
        let earliest = earliest.later(from);
        match operation {
            Operation::Read { units, programs, sequence } => {
                let (on_die, sense) = (Resource::Die(die), self.timing.page_read);
                let span = self.resources.reserve(on_die, Class::Background, earliest, sense);
                self.resources.dies[die.0 as usize].note_sense();
                let into = Into { programs, sequence };
                if self.in_time.is_on() {
                    let booking = self.resources.dies[die.0 as usize].latest_booking();
                    return self.in_time.sensed(span.end, die, booking, units, into);
                }
                let there = self.move_copies(die, u32::from(units), span.end);
                self.note_copies_read(into, there);
            }
            Operation::Program { first, sequence } => {
                self.program_copies(die, first, sequence, earliest);
            }
            Operation::Erase { block } => self.carry_out_erase(die, block, earliest),
        }
    }

    /// What goes into these programs is in the controller at `at`.
    #[inline(always)]
    pub(crate) fn note_copies_read(&mut self, into: Into, at: Instant) {
        let Into { programs, sequence } = into;
        // One or two of them is chance, and no branch.
        self.collector.copies.note_read(sequence, at, programs > 0);
        self.collector.copies.note_read(sequence.wrapping_add(1), at, programs > 1);
        for program in 2..u32::from(programs) {
            self.collector.copies.note_read(sequence.wrapping_add(program), at, true);
        }
    }

    /// Moves `units` units of copies over the channel of `die`, from `from` on; returns when they
    /// are there.
    #[inline(always)]
    pub(crate) fn move_copies(&mut self, die: DieIndex, units: u32, from: Instant) -> Instant {
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(units);
        self.resources.reserve(channel, Class::Background, from, transfer).end
    }

    /// Programs the program unit of copies at `first`, whose data is at the die, not before
    /// `earliest`.
    #[inline(always)]
    fn program_copies(
        &mut self,
        die: DieIndex,
        first: PhysicalUnit,
        sequence: u32,
        earliest: Instant,
    ) {
        let (on_die, duration) = (Resource::Die(die), self.timing.program);
        let span = self.resources.reserve(on_die, Class::Background, earliest, duration);
        let (number, units) = self.collector.copies.note_programmed(sequence, span.end);
        self.note_programmed(first, number, die, span);
        if self.durability.notes_map_changes() {
            self.note_copies_booked(units, number, die, span.end);
        }
        if self.in_time.is_on() {
            self.erase_emptied(self.resources.now());
        }
    }

    #[inline(never)]
    fn carry_out_erase(&mut self, die: DieIndex, block: BlockIndex, earliest: Instant) {
        let erase = self.timing.erase;
        let span = self.resources.reserve(Resource::Die(die), Class::Background, earliest, erase);
        self.resources.dies[die.0 as usize].note_erase();
        // Blocks behind those for data hold the map, which the media knows nothing of.
        if block.0 < self.geometry.blocks() {
            let work = self.latest_work(die, span);
            if self.bad_blocks.is_some() && self.note_failed_erase(block, work) {
                return;
            }
            self.media.erase(block, work);
        }
    }
}
