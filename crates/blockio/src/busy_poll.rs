//! Busy-polls for completions before blocking.
//!
//! A thread that sleeps is woken by an interrupt, and so is its processor, if it was idle. An idle
//! virtual processor was given back to its host and takes a while to return, which would be measured as
//! the drive's time: on a virtio disk a read that takes 38 us took 53 us. So a thread that waits for a
//! fast drive first spins and polls the completion queue.
//!
//! Polling must not cost more than it gains, so it is suspended
//! - for a drive whose answers take longer than [`POLL_MAX`]: waking up is short in comparison;
//! - while polling has used up its share ([`cpu_share_percent`]) of the processor time of everything else
//!   that requests cost;
//! - while more threads want to run on the machine than it has processors, and for a while after the
//!   thread was preempted. A thread that spins uses up its time slice, and then waits until the others
//!   have had theirs, while a thread that sleeps runs soon after it is woken: on a machine with 18
//!   runnable threads and two processors, polling cost half of the requests per second.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ssdlab_error::DriveError;
use ssdlab_units::Nanoseconds;

use super::phase_runner::Clock;

/// Longest time to poll, and longest usual wait for which polling is tried: a few times the time that a
/// virtual processor takes to return.
const POLL_MAX: Nanoseconds = Nanoseconds::from_micros(100);

/// Shortest time to poll. A shorter one would hardly find anything: the call that sleeps and wakes up
/// takes as long.
const POLL_MIN: Nanoseconds = Nanoseconds::from_micros(4);

/// Returns the processor time that polling may take, in percent of that of everything else, at a depth.
/// At depth 1 the drive is idle while the machine wakes up; at a higher depth it continues with the next
/// request. With this share, a request costs about as much as with fio's engines that sleep.
///
/// If the processors are kept awake, only the thread has to be woken. Then, on a virtio disk, polling
/// made a read at depth 1 shorter by a twentieth, for half as much processor time again, and reads at
/// depth 4 no faster at all (50 thousand per second with processors that sleep, for 16 us of processor
/// time each; 56 thousand, for 6 us, with those that do not).
fn cpu_share_percent(depth: u32, has_idle_hold: bool) -> u64 {
    match (has_idle_hold, depth) {
        (false, _) => 100 + 100 / u64::from(depth.max(1)),
        (true, ..=1) => 60,
        (true, _) => 0,
    }
}

/// Number of waits after which values are refreshed that cost a system call: the thread's processor time,
/// and the number of runnable threads.
const WAITS_PER_REFILL: u32 = 64;

/// Largest time that is saved up for polling while waits are short.
const BUDGET_MAX: Nanoseconds = Nanoseconds::from_millis(2);

/// Gap in time by which a spinning thread detects that it was preempted: an interrupt takes less, and the
/// time slice of another thread is longer.
const PREEMPTION_GAP: Nanoseconds = Nanoseconds::from_millis(1);

/// First and longest pause of polling after a preemption. The pause doubles with each further one.
const SUSPENSION_MIN: Nanoseconds = Nanoseconds::from_millis(50);
const SUSPENSION_MAX: Nanoseconds = Nanoseconds::from_secs(5);

/// Decides if and how long to poll.
#[derive(Debug)]
pub(super) struct BusyPoll {
    share: u64,
    /// Moving average of the latest waits.
    mean_wait: Nanoseconds,
    /// Time that may be spent polling.
    budget: Nanoseconds,
    /// Time spent polling since the processor time was last read.
    polled: Nanoseconds,
    /// Number of waits since then.
    waits: u32,
    /// Processor time of the thread at that moment.
    cpu: Nanoseconds,
    /// Moment before which polling is suspended.
    suspended_until: Nanoseconds,
    /// Length of the pause after the next preemption.
    suspension: Nanoseconds,
    load_average: Option<LoadAverage>,
    /// True if more threads wanted to run than there are processors, at the last check.
    is_overloaded: bool,
}

/// Detects that more threads want to run on the machine than it has processors.
#[derive(Debug)]
struct LoadAverage {
    /// The kernel's load figures (proc_loadavg(5)).
    load: File,
    processors: u32,
}

impl BusyPoll {
    /// Creates the state for the thread that waits for requests at this depth, on processors that are
    /// kept awake or not. `None` if polling does not pay, and on a machine with one processor, which may
    /// be needed to deliver the completions.
    pub(super) fn new(depth: u32, has_idle_hold: bool) -> Option<BusyPoll> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let share = cpu_share_percent(depth, has_idle_hold);
        if processors == 1 || share == 0 {
            return None;
        }
        let load_average =
            File::open("/proc/loadavg").ok().map(|load| LoadAverage { load, processors });
        let is_overloaded = load_average.as_ref().is_some_and(LoadAverage::is_overloaded);
        Some(BusyPoll { load_average, is_overloaded, ..BusyPoll::with_share(share, cpu_time()) })
    }

    fn with_share(share: u64, cpu: Nanoseconds) -> BusyPoll {
        BusyPoll {
            share,
            mean_wait: Nanoseconds::ZERO,
            budget: Nanoseconds::ZERO,
            polled: Nanoseconds::ZERO,
            waits: 0,
            cpu,
            suspended_until: Nanoseconds::ZERO,
            suspension: SUSPENSION_MIN,
            load_average: None,
            is_overloaded: false,
        }
    }

    /// Returns how long to poll at `now`; zero if that would not pay.
    #[inline]
    pub(super) fn poll_time(&self, now: Nanoseconds) -> Nanoseconds {
        let is_disturbed = self.is_overloaded || now < self.suspended_until;
        if is_disturbed || self.mean_wait > POLL_MAX || self.budget < POLL_MIN {
            return Nanoseconds::ZERO;
        }
        (self.mean_wait * 2).clamp(POLL_MIN, POLL_MAX).min(self.budget)
    }

    /// Spins until there is a completion. Returns false if there is none by `until`. Counts the time
    /// spent.
    #[inline]
    pub(super) fn poll_until(
        &mut self,
        clock: &Clock,
        until: Nanoseconds,
        mut has_completion: impl FnMut() -> Result<bool, DriveError>,
    ) -> Result<bool, DriveError> {
        let began = clock.now();
        let mut now = began;
        let found = loop {
            if has_completion()? {
                break true;
            }
            let before = now;
            now = clock.now();
            if now.saturating_sub(before) >= PREEMPTION_GAP {
                self.note_preemption(before, now);
                break false;
            }
            if now >= until {
                break false;
            }
            std::hint::spin_loop();
        };
        let polled = now.saturating_sub(began).min(POLL_MAX);
        self.budget = self.budget.saturating_sub(polled);
        self.polled += polled;
        Ok(found)
    }

    /// Records that the thread was preempted from `from` to `now`.
    fn note_preemption(&mut self, from: Nanoseconds, now: Nanoseconds) {
        // After a time without preemption longer than the last pause, the pause starts at its shortest
        // again.
        let is_long_ago = from.saturating_sub(self.suspended_until) > self.suspension;
        let suspension = if is_long_ago { SUSPENSION_MIN } else { self.suspension };
        self.suspended_until = now + suspension;
        self.suspension = (suspension * 2).min(SUSPENSION_MAX);
    }

    /// Records a wait from its beginning to the completion.
    #[inline]
    pub(super) fn note_wait(&mut self, waited: Nanoseconds) {
        // Sixteen waits forget two thirds of the earlier ones; a single pause of the drive does not
        // change the average much.
        let waited = waited.min(POLL_MAX * 4);
        self.mean_wait = Nanoseconds::new((self.mean_wait.nanos() * 15 + waited.nanos()) / 16);
        self.waits += 1;
        if self.waits == WAITS_PER_REFILL {
            self.refill_budget(cpu_time());
            self.is_overloaded = self.load_average.as_ref().is_some_and(LoadAverage::is_overloaded);
        }
    }

    /// Adds a share of the processor time of everything else to the time that may be spent polling.
    fn refill_budget(&mut self, cpu: Nanoseconds) {
        let rest = cpu.saturating_sub(self.cpu).saturating_sub(self.polled);
        let earned = Nanoseconds::new(rest.nanos() * self.share / 100);
        self.budget = (self.budget + earned).min(BUDGET_MAX);
        (self.cpu, self.polled, self.waits) = (cpu, Nanoseconds::ZERO, 0);
    }
}

impl LoadAverage {
    fn is_overloaded(&self) -> bool {
        let mut text = [0; 64];
        let length = self.load.read_at(&mut text, 0).unwrap_or(0);
        runnable_threads(&text[..length]).is_some_and(|threads| threads > self.processors)
    }
}

/// Returns the number of runnable threads, this one included, as in `/proc/loadavg`: `0.41 0.58 0.57
/// 3/1254 20519`.
fn runnable_threads(text: &[u8]) -> Option<u32> {
    let fourth = text.split(|&byte| byte == b' ').nth(3)?;
    let running = fourth.split(|&byte| byte == b'/').next()?;
    std::str::from_utf8(running).ok()?.parse().ok()
}

/// Returns the processor time of this thread so far.
fn cpu_time() -> Nanoseconds {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`. If it fails, the time stays zero, and no time is saved up
    // for polling.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanoseconds::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanoseconds = Nanoseconds::from_micros;

    /// Returns a state that has seen waits of `usual`, and has saved up the largest time.
    fn used_to(mean_wait: Nanoseconds) -> BusyPoll {
        let mut busy_poll = BusyPoll::with_share(cpu_share_percent(4, false), Nanoseconds::ZERO);
        for _ in 0..WAITS_PER_REFILL - 1 {
            busy_poll.note_wait(mean_wait);
        }
        busy_poll.refill_budget(BUDGET_MAX * 2);
        busy_poll
    }

    #[test]
    fn only_what_usually_comes_soon_is_polled_for() {
        let poll_time = |mean_wait| used_to(mean_wait).poll_time(Nanoseconds::ZERO);
        assert!((US(50)..=US(60)).contains(&poll_time(US(30))), "{}", poll_time(US(30)));
        assert_eq!(poll_time(US(90)), POLL_MAX);
        assert_eq!(poll_time(US(200)), Nanoseconds::ZERO);
    }

    #[test]
    fn polling_takes_its_share_of_the_processor_and_no_more() {
        let (mut busy_poll, clock) = (used_to(US(20)), Clock::start());
        busy_poll.budget = Nanoseconds::ZERO;
        assert_eq!(busy_poll.poll_time(clock.now()), Nanoseconds::ZERO);
        // 72 us of other processor time since the last refill.
        busy_poll.refill_budget(busy_poll.cpu + US(72));
        assert_eq!(busy_poll.budget, US(90));
        let mut polls = 0;
        loop {
            // Independent of the load of the machine that runs the test.
            let poll_time = busy_poll.poll_time(busy_poll.suspended_until);
            if poll_time == Nanoseconds::ZERO {
                break;
            }
            assert!(!busy_poll.poll_until(&clock, clock.now() + poll_time, || Ok(false)).unwrap());
            polls += 1;
        }
        assert!((1..=4).contains(&polls), "{polls} polls");
        assert!(busy_poll.polled >= US(85), "{}", busy_poll.polled);
        // Time spent polling does not earn further time.
        busy_poll.refill_budget(busy_poll.cpu + busy_poll.polled);
        assert_eq!(busy_poll.poll_time(busy_poll.suspended_until), Nanoseconds::ZERO);
    }

    #[test]
    fn who_was_preempted_polls_for_nothing_for_a_while_and_longer_each_time() {
        let (mut busy_poll, clock) = (used_to(US(20)), Clock::start());
        let mut pauses = Vec::new();
        for _ in 0..2 {
            let preempted = || {
                std::thread::sleep(std::time::Duration::from_millis(2));
                Ok(false)
            };
            let far = clock.now() + Nanoseconds::from_secs(60);
            assert!(!busy_poll.poll_until(&clock, far, preempted).unwrap());
            let now = clock.now();
            assert_eq!(busy_poll.poll_time(now), Nanoseconds::ZERO);
            pauses.push(busy_poll.suspended_until.saturating_sub(now));
            busy_poll.budget = BUDGET_MAX;
            assert!(busy_poll.poll_time(busy_poll.suspended_until) > Nanoseconds::ZERO);
        }
        assert!(pauses[1] > pauses[0], "{pauses:?}");
    }

    #[test]
    fn nothing_is_polled_for_where_more_threads_want_to_run_than_can() {
        assert_eq!(runnable_threads(b"0.41 0.58 0.57 3/1254 20519\n"), Some(3));
        assert_eq!(runnable_threads(b"0.41 0.58"), None);
        let busy_poll = BusyPoll { is_overloaded: true, ..used_to(US(20)) };
        assert_eq!(busy_poll.poll_time(Nanoseconds::ZERO), Nanoseconds::ZERO);
        let load = File::open("/proc/loadavg").unwrap();
        // This test itself is runnable.
        assert!(LoadAverage { load, processors: 0 }.is_overloaded());
    }

    #[test]
    fn of_several_requests_none_is_polled_for_on_processors_that_do_not_sleep() {
        assert!(BusyPoll::new(4, true).is_none());
        assert!(
            (1..cpu_share_percent(1, false)).contains(&cpu_share_percent(1, true)),
            "{}",
            cpu_share_percent(1, true)
        );
        assert!(
            (1..cpu_share_percent(1, false)).contains(&cpu_share_percent(32, false)),
            "{}",
            cpu_share_percent(32, false)
        );
    }

    #[test]
    fn a_completion_ends_the_poll() {
        let (mut busy_poll, clock) = (used_to(US(20)), Clock::start());
        let mut asked = 0;
        let until = clock.now() + Nanoseconds::from_secs(60);
        let third = || {
            asked += 1;
            Ok(asked == 3)
        };
        assert!(busy_poll.poll_until(&clock, until, third).unwrap());
        assert_eq!(asked, 3);
    }
}
