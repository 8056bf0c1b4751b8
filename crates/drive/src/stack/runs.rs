//! Pieces of a request, gathered by member: what lies together on a member goes there as one
//! request, as the block layer merges it.

/// One run of sectors for each member, growing.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    open: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    count: u64,
}

impl Runs {
    pub(super) fn new(members: usize) -> Self {
        Runs { open: vec![Run { first: 0, count: 0 }; members] }
    }

    /// Adds a piece for `member`; hands on the run before it where it does not continue that.
    pub(super) fn add(
        &mut self,
        member: usize,
        first: u64,
        count: u64,
        mut send: impl FnMut(usize, u64, u64),
    ) {
        let run = &mut self.open[member];
        if run.count > 0 && run.first + run.count == first {
            run.count += count;
            return;
        }
        if run.count > 0 {
            send(member, run.first, run.count);
        }
        *run = Run { first, count };
    }

    /// Hands on what is left.
    pub(super) fn finish(&mut self, mut send: impl FnMut(usize, u64, u64)) {
        for (member, run) in self.open.iter_mut().enumerate() {
            if run.count > 0 {
                send(member, run.first, run.count);
                run.count = 0;
            }
        }
    }
}
