//! Runs of sectors by member: pieces of a request that are contiguous on a member are sent as one request,
//! as the block layer merges them.

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

    /// Adds a piece for `member`. If the piece does not continue the member's run, sends that run and
    /// begins another.
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

    /// Sends the runs that are left.
    pub(super) fn finish(&mut self, mut send: impl FnMut(usize, u64, u64)) {
        for (member, run) in self.open.iter_mut().enumerate() {
            if run.count > 0 {
                send(member, run.first, run.count);
                run.count = 0;
            }
        }
    }
}
