//! The write buffer: RAM that host data waits in until its program is over.

use std::collections::VecDeque;

use crate::resources::die::Die;
use crate::units::{BlockIndex, DieIndex, Instant, Nanoseconds, PhysicalUnit};

/// A program unit on its way to the flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) first: PhysicalUnit,
    pub(crate) units: u32,
    /// When its program is over, as far as is known.
    pub(crate) end: Instant,
    /// Where and as what it was booked.
    pub(crate) die: DieIndex,
    pub(crate) booking: u32,
    /// Its number among the host's program units; wraps.
    pub(crate) number: u32,
    /// Whether its slots were given away already, to data that waits for its end.
    pub(crate) given_away: bool,
    /// The block that is full and programmed when this one is.
    pub(crate) closes: Option<BlockIndex>,
}

/// Later than anything.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Slots of one mapping unit each.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    capacity: u32,
    occupied: u32,
    /// Slots ever given to who took them as soon as they are free, in the order of asking.
    promised: u64,
    /// Slots that were queued for, and those of which that were given.
    queued: u64,
    given: u64,
    /// Slots of programs that are over and forgotten.
    released: u64,
    /// By the end of their program.
    in_flight: VecDeque<InFlight>,
    /// The end of the first of them; never, where none is.
    first_end: Instant,
    /// The end of the last of them, as far as is known.
    in_flight_until: Instant,
    /// Until when data had to wait for slots. What comes later is not let in before: the slots
    /// that a program leaves beyond those it was waited for are not free any earlier.
    waited_until: Instant,
    /// When the latest data is there that was let in.
    received_until: Instant,
    next_number: u32,
    /// The latest end of the programs that are over and forgotten.
    over_until: Instant,
}

impl WriteBuffer {
    pub(crate) fn new(capacity: u32) -> Self {
        WriteBuffer {
            capacity,
            occupied: 0,
            promised: 0,
            queued: 0,
            given: 0,
            released: 0,
            in_flight: VecDeque::new(),
            first_end: NEVER,
            in_flight_until: Instant::START,
            waited_until: Instant::START,
            received_until: Instant::START,
            next_number: 0,
            over_until: Instant::START,
        }
    }

    /// Takes `units` slots as soon as they are free, not before `at`, and says when that is.
    /// Blocks whose last program ended by `at` are handed to `closed`. Before a program's end
    /// is counted on, its die is asked for it again: reads may have delayed it.
    ///
    /// # Panics
    /// When more slots are asked for than programs in flight will ever free: whoever fills a
    /// program unit sends it off before asking for more.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        at: Instant,
        units: u32,
        dies: &mut [Die],
        closed: impl FnMut(BlockIndex),
    ) -> Instant {
        if self.first_end <= at {
            self.release(at, dies, closed);
        }
        let mut admitted = at.max(self.waited_until);
        while self.occupied + units > self.capacity {
            admitted = admitted.max(self.give_away_earliest(at, dies));
        }
        self.occupied += units;
        self.promised += u64::from(units);
        if admitted > at {
            self.waited_until = admitted;
        }
        admitted
    }

    /// A place in the queue for `units` slots: how many were queued for before.
    pub(crate) fn queue(&mut self, units: u32) -> u64 {
        self.queued += u64::from(units);
        self.queued - u64::from(units)
    }

    /// Takes `units` slots for whose place in the queue is `queued`, if they are free at `now` and all
    /// before it have theirs; else says when that will be, as far as is known. Programs that
    /// ended by `now` have to be released before.
    pub(crate) fn let_in(
        &mut self,
        queued: u64,
        units: u32,
        now: Instant,
        dies: &[Die],
    ) -> Result<(), Instant> {
        let needed = self.promised + queued + u64::from(units);
        let mut free = self.released + u64::from(self.capacity);
        if free >= needed && self.waited_until <= now && queued == self.given {
            self.occupied += units;
            self.given += u64::from(units);
            return Ok(());
        }
        let mut place = 0;
        // Who asked before may be just about to be let in.
        let mut until = self.waited_until.max(now + Nanoseconds::new(1));
        while free < needed {
            let Some(&program) = self.in_flight.get(place) else {
                // What others asked for before has to be let in first.
                return Err(Instant::from_nanos(u64::MAX));
            };
            let end = dies[program.die.0 as usize].end_of(program.booking, program.end);
            if end > program.end {
                self.in_flight.remove(place);
                self.send_again(InFlight { end, ..program });
                continue;
            }
            free += u64::from(program.units);
            until = until.max(end);
            place += 1;
        }
        Err(until)
    }

    /// When the program units from number `from` (or all) to before `to` are programmed, as far as
    /// is known. What is asked for at once looks ahead, and has perhaps forgotten programs that
    /// are not over: then not before all of those are.
    pub(crate) fn programmed_between(
        &self,
        from: Option<u32>,
        to: u32,
        end_of: impl Fn(&InFlight) -> Instant,
    ) -> Instant {
        let is_of_them = |it: &&InFlight| {
            (it.number.wrapping_sub(to) as i32) < 0
                && from.is_none_or(|from| it.number.wrapping_sub(from) as i32 >= 0)
        };
        self.in_flight.iter().filter(is_of_them).map(end_of).fold(self.over_until, Instant::max)
    }

    /// Forgets the programs that are over at `at`.
    #[inline(never)]
    fn release(&mut self, at: Instant, dies: &[Die], mut closed: impl FnMut(BlockIndex)) {
        while let Some(front) = self.in_flight.pop_front_if(|front| front.end <= at) {
            let end = dies[front.die.0 as usize].end_of(front.booking, front.end);
            if end > front.end {
                self.send_again(InFlight { end, ..front });
                continue;
            }
            self.over_until = self.over_until.max(front.end);
            self.released += u64::from(front.units);
            if !front.given_away {
                self.occupied -= front.units;
            }
            if let Some(block) = front.closes {
                closed(block);
            }
        }
        self.note_first();
    }

    /// Notes when the first program in flight is over.
    #[inline(always)]
    fn note_first(&mut self) {
        self.first_end = self.in_flight.front().map_or(NEVER, |first| first.end);
    }

    /// Gives the slots of the program that ends first to data that waits for them from `at` on;
    /// returns the end to expect, with reads that will come before it. The data in the slots can
    /// be read from here until then.
    #[inline(never)]
    fn give_away_earliest(&mut self, at: Instant, dies: &mut [Die]) -> Instant {
        loop {
            let place = self.in_flight.iter().position(|program| !program.given_away);
            let place = place.expect("the write buffer holds what it admits");
            let program = self.in_flight[place];
            let die = &mut dies[program.die.0 as usize];
            let end = die.end_of(program.booking, program.end);
            if end > program.end {
                self.in_flight.remove(place);
                self.send_again(InFlight { end, ..program });
                continue;
            }
            self.in_flight[place].given_away = true;
            self.occupied -= program.units;
            return die.expected_end(program.booking, program.end, at);
        }
    }

    /// Notes that data that was let in will be there at `at`.
    #[inline(always)]
    pub(crate) fn note_received(&mut self, at: Instant) {
        self.received_until = self.received_until.max(at);
    }

    /// When all data that was let in is there.
    pub(crate) fn received_until(&self) -> Instant {
        self.received_until
    }

    /// The number that the next program unit sent off will get.
    #[inline(always)]
    pub(crate) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Notes that a program unit is on its way; numbers it.
    #[inline(always)]
    pub(crate) fn send(&mut self, program: InFlight) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.send_again(InFlight { number, ..program });
    }

    /// The same for who numbers program units in the order in which they were begun, and sends them
    /// off in another.
    pub(crate) fn send_as(&mut self, program: InFlight) {
        self.next_number = self.next_number.wrapping_add(1);
        self.send_again(program);
    }

    #[inline(always)]
    fn send_again(&mut self, program: InFlight) {
        self.in_flight_until = self.in_flight_until.max(program.end);
        let later = self.in_flight.iter().rev().take_while(|other| other.end > program.end);
        let place = self.in_flight.len() - later.count();
        if place == self.in_flight.len() {
            self.in_flight.push_back(program);
        } else {
            self.in_flight.insert(place, program);
        }
        self.note_first();
    }

    /// When program unit `number` and all before it are programmed, as far as is known; nothing
    /// when it was not sent off yet.
    pub(crate) fn durable_through(
        &self,
        number: u32,
        end_of: impl Fn(&InFlight) -> Instant,
    ) -> Option<Instant> {
        if number.wrapping_sub(self.next_number) as i32 >= 0 {
            return None;
        }
        let is_needed = |it: &&InFlight| it.number.wrapping_sub(number) as i32 <= 0;
        let ends = self.in_flight.iter().filter(is_needed).map(end_of);
        Some(ends.fold(self.over_until, Instant::max))
    }

    /// Whether any program may not be over at `at`.
    #[inline(always)]
    pub(crate) fn is_any_in_flight(&self, at: Instant) -> bool {
        self.in_flight_until > at
    }

    /// Whether `unit` is of a program unit whose program is not over at `at`.
    pub(crate) fn is_in_flight(&self, unit: PhysicalUnit, at: Instant) -> bool {
        self.in_flight.iter().any(|program| {
            program.end > at
                && unit.0 >= program.first.0
                && unit.0 < program.first.0 + program.units
        })
    }

    /// When program unit `number` and all after it are programmed, as far as they were sent off.
    pub(crate) fn programmed_from(
        &self,
        number: u32,
        end_of: impl FnMut(&InFlight) -> Instant,
    ) -> Instant {
        let is_of_them = |it: &&InFlight| it.number.wrapping_sub(number) as i32 >= 0;
        self.in_flight.iter().filter(is_of_them).map(end_of).max().unwrap_or(Instant::START)
    }

    /// When everything sent off so far is programmed.
    pub(crate) fn drained_at(&self, end_of: impl FnMut(&InFlight) -> Instant) -> Instant {
        self.in_flight.iter().map(end_of).max().unwrap_or(self.waited_until).max(self.waited_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(first: u32, end: u64) -> InFlight {
        let end = Instant::from_nanos(end);
        InFlight {
            first: PhysicalUnit(first),
            units: 4,
            end,
            die: DieIndex(0),
            booking: u32::MAX / 2,
            number: 0,
            given_away: false,
            closes: Some(BlockIndex(first)),
        }
    }

    #[test]
    fn a_full_buffer_waits_for_the_program_that_ends_first() {
        let mut buffer = WriteBuffer::new(8);
        let mut closed = Vec::new();
        let mut dies = [Die::default()];
        let at = Instant::from_nanos(10);
        assert_eq!(buffer.admit(at, 4, &mut dies, |_| ()), at);
        buffer.send(program(0, 900));
        assert_eq!(buffer.admit(at, 4, &mut dies, |_| ()), at);
        buffer.send(program(4, 600));
        let admitted = buffer.admit(at, 1, &mut dies, |block| closed.push(block));
        assert_eq!(admitted, Instant::from_nanos(600));
        assert_eq!(
            buffer.admit(at, 3, &mut dies, |_| ()),
            admitted,
            "no slot was free any earlier"
        );
        assert!(buffer.is_in_flight(PhysicalUnit(3), at));
        assert!(buffer.is_in_flight(PhysicalUnit(4), at), "its slots are promised, it is not over");
        assert!(closed.is_empty());
        buffer.admit(admitted, 0, &mut dies, |block| closed.push(block));
        assert_eq!(closed, [BlockIndex(4)]);
        assert!(!buffer.is_in_flight(PhysicalUnit(4), admitted));
    }

    #[test]
    fn a_program_is_durable_with_all_before_it() {
        let mut buffer = WriteBuffer::new(8);
        buffer.send(program(0, 900));
        buffer.send(program(4, 600));
        let through = |number| buffer.durable_through(number, |it| it.end);
        assert_eq!(through(0), Some(Instant::from_nanos(900)));
        assert_eq!(through(1), Some(Instant::from_nanos(900)));
        assert_eq!(through(2), None, "it was not sent off");
    }
}
