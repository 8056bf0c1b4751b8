//! Flash operations in flight: 32 bytes each, in one pool, with the link of the one queue that an operation
//! can be in.

use ssdlab_units::Instant;

/// No operation, no group, no piece.
pub(crate) const NONE: u32 = u32::MAX;

/// Kind of an operation, and the receiver of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Senses a page for a read of that page alone, sends it to the controller and then to the host.
    /// `owner` is the caller's tag, `extra` the nanoseconds of the sense.
    Read,
    /// Senses a page for one piece of a read of several. `owner` is the request, `extra` the piece.
    Piece,
    /// Senses a page for the controller itself. `owner` is the caller's tag.
    Load,
    /// Senses a page whose units are copied. `owner` and `extra` are the copy programs they go to.
    CopyRead,
    /// Programs a page for the host or the controller. `owner` is the caller's tag, `extra` the erase that
    /// the program waits for.
    Program,
    /// Moves the data of a program to its die, where the program waits in a queue. `owner` is the program.
    Data,
    /// Programs copies. `owner` is the copy program's number, `extra` the erase that the program waits for.
    CopyProgram,
    /// Erases a die's part of a block. `owner` is the erase.
    Erase,
}

/// Flags of an operation.
pub(crate) mod flag {
    /// The operation takes the page that the read before it on the same die senses.
    pub(crate) const SHARES_SENSE: u8 = 1;
    /// The operation's data is still on the way to the die.
    pub(crate) const AWAITS_DATA: u8 = 2;
    /// The operation waits for the erase in its `extra`.
    pub(crate) const AWAITS_ERASE: u8 = 4;
    /// The die was blocked by background work before it sensed for this operation.
    pub(crate) const BLOCKED_BY_BACKGROUND: u8 = 8;
    /// The page was sensed before this operation was asked for.
    pub(crate) const FROM_REGISTER: u8 = 16;
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Moment at which the operation arrives at the die or the channel that it waits for.
    pub(crate) arrival: Instant,
    /// Next operation in the same queue.
    pub(crate) next: u32,
    pub(crate) owner: u32,
    pub(crate) extra: u32,
    /// Nanoseconds that the operation occupies its die. For a read whose place on the die is reserved:
    /// nanoseconds that a program or an erase kept it waiting.
    pub(crate) duration: u32,
    /// Codewords that cross the operation's channel.
    pub(crate) codewords: u16,
    /// Number of the operation among those that dies sense; see [`Op::goes_before`].
    pub(crate) order: u16,
    pub(crate) die: u16,
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Op>() == 32);

impl Op {
    /// An unused place of the pool.
    const NONE: Op = Op {
        arrival: Instant::START,
        next: NONE,
        owner: NONE,
        extra: NONE,
        duration: 0,
        codewords: 0,
        order: 0,
        die: 0,
        kind: Kind::Read,
        flags: 0,
    };

    /// Returns true if this operation goes before `later`, which is queued for a channel after it and is
    /// ready at the same instant. A page that is sensed just then goes before data that was in RAM or in a
    /// page register. Of two that are sensed, the one that was asked for first goes first; the numbers of
    /// the requests wrap.
    pub(crate) fn goes_before(&self, later: &Op) -> bool {
        match (self.is_sensed(), later.is_sensed()) {
            (true, true) => later.order.wrapping_sub(self.order) <= u16::MAX / 2,
            (is_sensed, other_is) => is_sensed || !other_is,
        }
    }

    fn is_sensed(&self) -> bool {
        !matches!(self.kind, Kind::Data | Kind::CopyProgram)
            && self.flags & flag::FROM_REGISTER == 0
    }
}

/// All operations, in flight or free.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    ops: Vec<Op>,
    /// First free place; free places are linked.
    free: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Pool { ops: Vec::new(), free: NONE }
    }
}

/// Queue of operations for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns the first operation, or [`NONE`] if the queue is empty.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Returns the first operation, or `None` if the queue is empty.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

impl Pool {
    #[inline(always)]
    pub(crate) fn add(&mut self, op: Op) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let place = &mut self.ops[index as usize];
        self.free = place.next;
        *place = op;
        index
    }

    /// Adds one free place.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.ops.len() as u32;
        self.ops.push(Op::NONE);
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, index: u32) {
        self.ops[index as usize].next = self.free;
        self.free = index;
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> &Op {
        &self.ops[index as usize]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Op {
        &mut self.ops[index as usize]
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, queue: &mut Queue, index: u32) {
        self.ops[index as usize].next = NONE;
        if queue.head == NONE {
            queue.head = index;
        } else {
            self.ops[queue.tail as usize].next = index;
        }
        queue.tail = index;
    }

    pub(crate) fn push_front(&mut self, queue: &mut Queue, index: u32) {
        self.ops[index as usize].next = queue.head;
        if queue.head == NONE {
            queue.tail = index;
        }
        queue.head = index;
    }

    #[inline(always)]
    pub(crate) fn pop_front(&mut self, queue: &mut Queue) -> Option<u32> {
        let index = queue.first()?;
        queue.head = self.ops[index as usize].next;
        Some(index)
    }

    /// Removes an operation from its queue.
    ///
    /// # Panics
    /// Panics if the operation is not in `queue`.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, queue: &mut Queue, index: u32) {
        if queue.head == index {
            queue.head = self.ops[index as usize].next;
        } else {
            self.unlink_behind_head(queue, index);
        }
    }

    #[inline(never)]
    fn unlink_behind_head(&mut self, queue: &mut Queue, index: u32) {
        let before = self.iter(queue).find(|&it| self.get(it).next == index);
        let before = before.expect("it is in the queue");
        self.ops[before as usize].next = self.ops[index as usize].next;
        if queue.tail == index {
            queue.tail = before;
        }
    }

    /// Returns the operations of a queue, first to last.
    pub(crate) fn iter(&self, queue: &Queue) -> impl Iterator<Item = u32> {
        let mut next = queue.head;
        std::iter::from_fn(move || {
            let index = (next != NONE).then_some(next)?;
            next = self.ops[index as usize].next;
            Some(index)
        })
    }

    /// Changes the operations of a queue, first to last.
    pub(crate) fn for_each_in(&mut self, queue: &Queue, mut change: impl FnMut(&mut Op)) {
        let mut next = queue.head;
        while next != NONE {
            let op = &mut self.ops[next as usize];
            change(op);
            next = op.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op(owner: u32) -> Op {
        Op { owner, ..Op::NONE }
    }

    proptest! {
        /// Compares a queue with a list.
        #[test]
        fn a_queue_does_as_a_list_does(
            steps in proptest::collection::vec((0u8..6, 0u32..20), 0..120),
        ) {
            let mut pool = Pool::default();
            let mut queue = Queue::EMPTY;
            let mut slow: Vec<u32> = Vec::new();
            for (number, (what, wanted)) in steps.into_iter().enumerate() {
                let number = number as u32;
                match what {
                    0 | 1 => {
                        let index = pool.add(op(number));
                        pool.push_back(&mut queue, index);
                        slow.push(number);
                    }
                    2 => {
                        let index = pool.add(op(number));
                        pool.push_front(&mut queue, index);
                        slow.insert(0, number);
                    }
                    3 => {
                        let taken = pool.pop_front(&mut queue);
                        let owner = taken.map(|index| pool.get(index).owner);
                        prop_assert_eq!(owner, (!slow.is_empty()).then(|| slow.remove(0)));
                        taken.into_iter().for_each(|index| pool.remove(index));
                    }
                    _ => {
                        let is_wanted = |owner: u32| owner % 3 == wanted % 3;
                        let taken = pool.iter(&queue).find(|&it| is_wanted(pool.get(it).owner));
                        taken.into_iter().for_each(|index| pool.unlink(&mut queue, index));
                        let owner = taken.map(|index| pool.get(index).owner);
                        let place = slow.iter().position(|&it| is_wanted(it));
                        prop_assert_eq!(owner, place.map(|place| slow.remove(place)));
                        taken.into_iter().for_each(|index| pool.remove(index));
                    }
                }
                let owners: Vec<u32> = pool.iter(&queue).map(|index| pool.get(index).owner).collect();
                prop_assert_eq!(owners, slow.clone());
            }
        }
    }
}
