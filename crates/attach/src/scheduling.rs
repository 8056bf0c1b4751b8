//! Scheduling of threads that answer requests: real-time priority, or short time slices.

/// Scheduling of the current thread, so that it runs as soon as an answer is due.
#[derive(Debug)]
pub(crate) struct Scheduling {
    /// True if the thread has real-time priority (`SCHED_FIFO`).
    is_realtime: bool,
}

impl Scheduling {
    /// Asks the system for prompt scheduling of the calling thread.
    pub(crate) fn request() -> Scheduling {
        if cfg!(feature = "stepped") {
            // In a test that switches threads, all of them share one thread of the system.
            return Scheduling { is_realtime: false };
        }
        set_fine_timer_slack();
        // SAFETY: the calls only read.
        let (policy, nice) =
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        // A policy or nice value that somebody has set on purpose is kept.
        let is_usual = policy == libc::SCHED_OTHER;
        let is_realtime = is_usual && nice == 0 && set_realtime_priority();
        if is_usual && !is_realtime {
            set_short_slice(nice);
        }
        Scheduling { is_realtime }
    }

    /// Returns true if the thread has real-time priority. Such a thread has to sleep when it has nothing to do.
    pub(crate) fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// Does long work without real-time priority, and takes the priority back afterwards.
    pub(crate) fn without_priority<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.is_realtime {
            return work();
        }
        set_short_slice(0);
        let done = work();
        set_realtime_priority();
        done
    }
}

/// Prepares a thread that seldom sleeps: short time slices, no real-time priority.
#[cfg(feature = "ublk")]
pub(crate) fn use_short_slices() {
    set_fine_timer_slack();
    // SAFETY: the call only reads.
    set_short_slice(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
}

/// Sets the timer slack to 1 ns, so that the thread is woken on time and not up to 50 us later.
fn set_fine_timer_slack() {
    // Without it the thread wakes later; nothing else depends on it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Asks for the lowest real-time priority (`SCHED_FIFO`, 1), which precedes all normal threads. Returns true if
/// the system grants it; that takes a privilege.
fn set_realtime_priority() -> bool {
    // SAFETY: the structure consists of integers. musl has more than the priority; the kernel reads only that.
    let mut first: libc::sched_param = unsafe { std::mem::zeroed() };
    first.sched_priority = 1;
    // SAFETY: the structure outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) == 0 }
}

/// Asks for time slices of 0.1 ms, the shortest there are. The thread then runs soon after it wakes, before
/// threads with longer slices, and gets no larger share of the processor.
fn set_short_slice(nice: i32) {
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
