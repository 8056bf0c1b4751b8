//! Scheduling of threads that answer requests: real-time priority, or short time slices.

/// Scheduling of the current thread, so that it runs as soon as an answer is due.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// True if the thread has real-time priority (`SCHED_FIFO`).
    goes_first: bool,
}

impl Prompt {
    /// Asks the system for prompt scheduling of the calling thread.
    pub(crate) fn ask() -> Prompt {
        if cfg!(feature = "stepped") {
            // In a test that switches threads, all of them share one thread of the system.
            return Prompt { goes_first: false };
        }
        ask_for_fine_timers();
        // SAFETY: the calls only read.
        let (policy, nice) =
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        // A policy or nice value that somebody has set on purpose is kept.
        let is_usual = policy == libc::SCHED_OTHER;
        let goes_first = is_usual && nice == 0 && go_first();
        if is_usual && !goes_first {
            ask_for_short_turns(nice);
        }
        Prompt { goes_first }
    }

    /// Returns true if the thread has real-time priority. Such a thread has to sleep when it has nothing to do.
    pub(crate) fn goes_first(&self) -> bool {
        self.goes_first
    }

    /// Does long work without real-time priority, and takes the priority back afterwards.
    pub(crate) fn meanwhile<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.goes_first {
            return work();
        }
        ask_for_short_turns(0);
        let done = work();
        go_first();
        done
    }
}

/// Prepares a thread that seldom sleeps: short time slices, no real-time priority.
#[cfg(feature = "ublk")]
pub(crate) fn take_short_turns() {
    ask_for_fine_timers();
    // SAFETY: the call only reads.
    ask_for_short_turns(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
}

/// Sets the timer slack to 1 ns, so that the thread is woken on time and not up to 50 us later.
fn ask_for_fine_timers() {
    // Without it the thread wakes later; nothing else depends on it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Asks for the lowest real-time priority (`SCHED_FIFO`, 1), which precedes all normal threads. Returns true if
/// the system grants it; that takes a privilege.
fn go_first() -> bool {
    // SAFETY: the structure consists of integers. musl has more than the priority; the kernel reads only that.
    let mut first: libc::sched_param = unsafe { std::mem::zeroed() };
    first.sched_priority = 1;
    // SAFETY: the structure outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) == 0 }
}

/// Asks for time slices of 0.1 ms, the shortest there are. The thread then runs soon after it wakes, before
/// threads with longer slices, and gets no larger share of the processor.
fn ask_for_short_turns(nice: i32) {
    /// `sched_attr` of linux/sched/types.h.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes { size, nice, runtime: 100_000, ..Attributes::default() };
    // Kernels before Linux 6.12 ignore the slice; the thread then runs later.
    // SAFETY: the structure contains its length, and outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attributes), 0) };
}
