//! Program units of a drive with PLP that are in the image and not known to be durable.
//!
//! Host data in them was promised, or will be with the next flush. It belongs into buffer dumps until the
//! program units are durable: a crash of the host may keep the dump and lose them.

use std::collections::{HashMap, VecDeque};

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::LogicalUnit;

/// A program unit that is not known to be durable.
#[derive(Debug)]
struct Program {
    stamp: u64,
    program: u32,
    /// Units in it that the host wrote; the others are copies, whose source is still there.
    host: Box<[LogicalUnit]>,
}

/// All program units that are not known to be durable.
#[derive(Debug, Default)]
pub(super) struct Undurable {
    programs: VecDeque<Program>,
    /// Stamp and sequence number of each program unit.
    numbers: HashMap<u32, (u64, SequenceNumber)>,
    units: u64,
    /// Stamp up to which there were too many units to remember; 0 if there were not.
    overflowed: u64,
    /// Maximum number of units that are remembered: a dump has no space for more.
    most: u64,
}

impl Undurable {
    /// Returns an empty set for `most` units.
    pub(super) fn new(most: u64) -> Undurable {
        Undurable { most, ..Undurable::default() }
    }

    /// Notes that `program` was written with `stamp` and sequence number `number`, and the `host` units in it.
    pub(super) fn note(
        &mut self,
        stamp: u64,
        program: u32,
        number: SequenceNumber,
        host: Box<[LogicalUnit]>,
    ) {
        self.units += host.len() as u64;
        self.numbers.insert(program, (stamp, number));
        self.programs.push_back(Program { stamp, program, host });
        if self.units > self.most {
            *self = Undurable { overflowed: stamp, ..Undurable::new(self.most) };
        }
    }

    /// Removes the program units with a stamp up to `stamp`, which are durable.
    pub(super) fn forget(&mut self, stamp: u64) {
        while let Some(first) = self.programs.front().filter(|it| it.stamp <= stamp) {
            self.units -= first.host.len() as u64;
            if self.numbers.get(&first.program).is_some_and(|&(of, _)| of == first.stamp) {
                self.numbers.remove(&first.program);
            }
            self.programs.pop_front();
        }
        if self.overflowed <= stamp {
            self.overflowed = 0;
        }
    }

    /// Returns the stamp that has to be durable because units were forgotten; `None` if none were.
    pub(super) fn overflowed(&self) -> Option<u64> {
        (self.overflowed > 0).then_some(self.overflowed)
    }

    /// Returns the sequence number of `program`; `None` if it is not in this set.
    pub(super) fn number(&self, program: u32) -> Option<SequenceNumber> {
        self.numbers.get(&program).map(|&(_, number)| number)
    }

    /// Returns the units that the host wrote to these program units.
    pub(super) fn units(&self) -> impl Iterator<Item = LogicalUnit> + '_ {
        self.programs.iter().flat_map(|program| program.host.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(undurable: &mut Undurable, stamp: u64, program: u32, unit: u32) {
        let host = [LogicalUnit(unit), LogicalUnit(unit + 1)].into();
        undurable.note(stamp, program, SequenceNumber(stamp + 100), host);
    }

    #[test]
    fn a_place_that_was_programmed_twice_is_known_until_the_second_is_durable() {
        let mut undurable = Undurable::new(10);
        note(&mut undurable, 1, 7, 20);
        note(&mut undurable, 2, 7, 30);
        undurable.forget(1);
        assert_eq!(undurable.number(7), Some(SequenceNumber(102)));
        assert_eq!(undurable.units().collect::<Vec<_>>(), [LogicalUnit(30), LogicalUnit(31)]);
        undurable.forget(2);
        assert_eq!((undurable.number(7), undurable.units), (None, 0));
    }

    #[test]
    fn more_than_a_dump_has_room_for_have_to_be_durable_first() {
        let mut undurable = Undurable::new(4);
        for stamp in 1..=3 {
            assert_eq!(undurable.overflowed(), None);
            note(&mut undurable, stamp, stamp as u32, 0);
        }
        assert_eq!((undurable.overflowed(), undurable.units().count()), (Some(3), 0));
        note(&mut undurable, 4, 4, 8);
        undurable.forget(2);
        assert_eq!(undurable.overflowed(), Some(3));
        undurable.forget(3);
        assert_eq!((undurable.overflowed(), undurable.units().count()), (None, 2));
    }
}
