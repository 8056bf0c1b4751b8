//! Being run when there is something to do, by the system's scheduler.

/// Has the system run this thread as soon as it has something to do: answers.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// True if it goes before all others.
    goes_first: bool,
}

impl Prompt {
    /// Asks for it, for the thread that calls this.
    pub(crate) fn ask() -> Prompt {
        if cfg!(feature = "stepped") {
            // All threads of a test that switches them are one thread of the system's.
            return Prompt { goes_first: false };
        }
        ask_for_fine_timers();
        // SAFETY: it only asks.
        let (policy, nice) =
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        // Somebody who gave us another place than the usual one has us keep it.
        let is_usual = policy == libc::SCHED_OTHER;
        let goes_first = is_usual && nice == 0 && go_first();
        if is_usual && !goes_first {
            ask_for_short_turns(nice);
        }
        Prompt { goes_first }
    }

    /// Returns true if it goes before all others, which it may only where it sleeps when there is
    /// nothing to do.
    pub(crate) fn goes_first(&self) -> bool {
        self.goes_first
    }

    /// Does something that takes long, and goes before nobody meanwhile.
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

/// Prepares a thread that seldom sleeps: it goes before nobody.
#[cfg(feature = "ublk")]
pub(crate) fn take_short_turns() {
    ask_for_fine_timers();
    // SAFETY: it only asks.
    ask_for_short_turns(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
}

/// Has the system wake this thread when it asked to be, and not up to 50 us later.
fn ask_for_fine_timers() {
    // It is later without; nothing else depends on it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Has the system run this thread before all that have no place of their own. Returns whether it may:
/// that takes a privilege.
fn go_first() -> bool {
    // SAFETY: it is made of integers. musl has more of them than the priority; the kernel reads that one.
    let mut first: libc::sched_param = unsafe { std::mem::zeroed() };
    first.sched_priority = 1;
    // SAFETY: the structure outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) == 0 }
}

/// Has the system run this thread in turns of a tenth of a millisecond, the shortest there are. It is
/// then run soon after it woke, before those with longer turns, and gets no larger share than they.
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
    // Systems before Linux 6.12 take no notice of how long turns are; it is later then.
    // SAFETY: the structure says how long it is, and outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attributes), 0) };
}
