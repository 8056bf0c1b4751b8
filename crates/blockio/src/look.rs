//! Busy-polls for completions before blocking.
//!
//! A thread that sleeps is woken by an interrupt, and so is its processor, if it was idle. An idle
//! virtual processor was given back to its host and takes a while to return, which would be measured as
//! the drive's time: on a virtio disk a read that takes 38 us took 53 us. So a thread that waits for a
//! fast drive first spins and polls the completion queue.
//!
//! Polling must not cost more than it gains, so it is suspended
//! - for a drive whose answers take longer than [`LOOK_MOST`]: waking up is short in comparison;
//! - while polling has used up its [`share`] of the processor time of everything else that requests cost;
//! - while more threads want to run on the machine than it has processors, and for a while after the
//!   thread was preempted. A thread that spins uses up its time slice, and then waits until the others
//!   have had theirs, while a thread that sleeps runs soon after it is woken: on a machine with 18
//!   runnable threads and two processors, polling cost half of the requests per second.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ssdlab_error::DriveError;
use ssdlab_units::Nanoseconds;

use super::course::Clock;

/// Longest time to poll, and longest usual wait for which polling is tried: a few times the time that a
/// virtual processor takes to return.
const LOOK_MOST: Nanoseconds = Nanoseconds::from_micros(100);

/// Shortest time to poll. A shorter one would hardly find anything: the call that sleeps and wakes up
/// takes as long.
const LOOK_LEAST: Nanoseconds = Nanoseconds::from_micros(4);

/// Returns the processor time that polling may take, in percent of that of everything else, at a depth.
/// At depth 1 the drive is idle while the machine wakes up; at a higher depth it continues with the next
/// request. With this share, a request costs about as much as with fio's engines that sleep.
///
/// If the processors are kept awake, only the thread has to be woken. Then, on a virtio disk, polling
/// made a read at depth 1 shorter by a twentieth, for half as much processor time again, and reads at
/// depth 4 no faster at all (50 thousand per second with processors that sleep, for 16 us of processor
/// time each; 56 thousand, for 6 us, with those that do not).
fn share(depth: u32, are_awake: bool) -> u64 {
    match (are_awake, depth) {
        (false, _) => 100 + 100 / u64::from(depth.max(1)),
        (true, ..=1) => 60,
        (true, _) => 0,
    }
}

/// Number of waits after which values are refreshed that cost a system call: the thread's processor time,
/// and the number of runnable threads.
const WAITS_TOGETHER: u32 = 64;

/// Largest time that is saved up for polling while waits are short.
const SAVED_MOST: Nanoseconds = Nanoseconds::from_millis(2);

/// Gap in time by which a spinning thread detects that it was preempted: an interrupt takes less, and the
/// time slice of another thread is longer.
const SET_ASIDE: Nanoseconds = Nanoseconds::from_millis(1);

/// First and longest pause of polling after a preemption. The pause doubles with each further one.
const PAUSE_FIRST: Nanoseconds = Nanoseconds::from_millis(50);
const PAUSE_MOST: Nanoseconds = Nanoseconds::from_secs(5);

/// Decides if and how long to poll.
#[derive(Debug)]
pub(super) struct Look {
    share: u64,
    /// Moving average of the latest waits.
    usual: Nanoseconds,
    /// Time that may be spent polling.
    saved: Nanoseconds,
    /// Time spent polling since the processor time was last read.
    looked: Nanoseconds,
    /// Number of waits since then.
    waits: u32,
    /// Processor time of the thread at that moment.
    cpu: Nanoseconds,
    /// Moment before which polling is suspended.
    not_before: Nanoseconds,
    /// Length of the pause after the next preemption.
    pause: Nanoseconds,
    crowd: Option<Crowd>,
    /// True if more threads wanted to run than there are processors, at the last check.
    is_crowded: bool,
}

/// Detects that more threads want to run on the machine than it has processors.
#[derive(Debug)]
struct Crowd {
    /// The kernel's load figures (proc_loadavg(5)).
    load: File,
    processors: u32,
}

impl Look {
    /// Creates the state for the thread that waits for requests at this depth, on processors that are
    /// kept awake or not. `None` if polling does not pay, and on a machine with one processor, which may
    /// be needed to deliver the completions.
    pub(super) fn new(depth: u32, are_awake: bool) -> Option<Look> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let share = share(depth, are_awake);
        if processors == 1 || share == 0 {
            return None;
        }
        let crowd = File::open("/proc/loadavg").ok().map(|load| Crowd { load, processors });
        let is_crowded = crowd.as_ref().is_some_and(Crowd::is_there);
        Some(Look { crowd, is_crowded, ..Look::at(share, cpu_time()) })
    }

    fn at(share: u64, cpu: Nanoseconds) -> Look {
        Look {
            share,
            usual: Nanoseconds::ZERO,
            saved: Nanoseconds::ZERO,
            looked: Nanoseconds::ZERO,
            waits: 0,
            cpu,
            not_before: Nanoseconds::ZERO,
            pause: PAUSE_FIRST,
            crowd: None,
            is_crowded: false,
        }
    }

    /// Returns how long to poll at `now`; zero if that would not pay.
    #[inline]
    pub(super) fn at_most(&self, now: Nanoseconds) -> Nanoseconds {
        let is_disturbed = self.is_crowded || now < self.not_before;
        if is_disturbed || self.usual > LOOK_MOST || self.saved < LOOK_LEAST {
            return Nanoseconds::ZERO;
        }
        (self.usual * 2).clamp(LOOK_LEAST, LOOK_MOST).min(self.saved)
    }

    /// Spins until there is a completion. Returns false if there is none by `until`. Counts the time
    /// spent.
    #[inline]
    pub(super) fn until(
        &mut self,
        clock: &Clock,
        until: Nanoseconds,
        mut has_answer: impl FnMut() -> Result<bool, DriveError>,
    ) -> Result<bool, DriveError> {
        let began = clock.now();
        let mut now = began;
        let found = loop {
            if has_answer()? {
                break true;
            }
            let before = now;
            now = clock.now();
            if now.saturating_sub(before) >= SET_ASIDE {
                self.set_aside(before, now);
                break false;
            }
            if now >= until {
                break false;
            }
            std::hint::spin_loop();
        };
        let looked = now.saturating_sub(began).min(LOOK_MOST);
        self.saved = self.saved.saturating_sub(looked);
        self.looked += looked;
        Ok(found)
    }

    /// Records that the thread was preempted from `from` to `now`.
    fn set_aside(&mut self, from: Nanoseconds, now: Nanoseconds) {
        // After a time without preemption longer than the last pause, the pause starts at its shortest
        // again.
        let is_long_ago = from.saturating_sub(self.not_before) > self.pause;
        let pause = if is_long_ago { PAUSE_FIRST } else { self.pause };
        self.not_before = now + pause;
        self.pause = (pause * 2).min(PAUSE_MOST);
    }

    /// Records a wait from its beginning to the completion.
    #[inline]
    pub(super) fn note(&mut self, waited: Nanoseconds) {
        // Sixteen waits forget two thirds of the earlier ones; a single pause of the drive does not
        // change the average much.
        let waited = waited.min(LOOK_MOST * 4);
        self.usual = Nanoseconds::new((self.usual.nanos() * 15 + waited.nanos()) / 16);
        self.waits += 1;
        if self.waits == WAITS_TOGETHER {
            self.settle(cpu_time());
            self.is_crowded = self.crowd.as_ref().is_some_and(Crowd::is_there);
        }
    }

    /// Adds a share of the processor time of everything else to the time that may be spent polling.
    fn settle(&mut self, cpu: Nanoseconds) {
        let rest = cpu.saturating_sub(self.cpu).saturating_sub(self.looked);
        let earned = Nanoseconds::new(rest.nanos() * self.share / 100);
        self.saved = (self.saved + earned).min(SAVED_MOST);
        (self.cpu, self.looked, self.waits) = (cpu, Nanoseconds::ZERO, 0);
    }
}

impl Crowd {
    fn is_there(&self) -> bool {
        let mut text = [0; 64];
        let length = self.load.read_at(&mut text, 0).unwrap_or(0);
        wanting_to_run(&text[..length]).is_some_and(|threads| threads > self.processors)
    }
}

/// Returns the number of runnable threads, this one included, as in `/proc/loadavg`: `0.41 0.58 0.57
/// 3/1254 20519`.
fn wanting_to_run(text: &[u8]) -> Option<u32> {
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
    fn used_to(usual: Nanoseconds) -> Look {
        let mut look = Look::at(share(4, false), Nanoseconds::ZERO);
        for _ in 0..WAITS_TOGETHER - 1 {
            look.note(usual);
        }
        look.settle(SAVED_MOST * 2);
        look
    }

    #[test]
    fn only_what_usually_comes_soon_is_looked_for() {
        let at_most = |usual| used_to(usual).at_most(Nanoseconds::ZERO);
        assert!((US(50)..=US(60)).contains(&at_most(US(30))), "{}", at_most(US(30)));
        assert_eq!(at_most(US(90)), LOOK_MOST);
        assert_eq!(at_most(US(200)), Nanoseconds::ZERO);
    }

    #[test]
    fn looking_takes_its_share_of_the_processor_and_no_more() {
        let (mut look, clock) = (used_to(US(20)), Clock::start());
        look.saved = Nanoseconds::ZERO;
        assert_eq!(look.at_most(clock.now()), Nanoseconds::ZERO);
        // 72 us of other processor time since the last settlement.
        look.settle(look.cpu + US(72));
        assert_eq!(look.saved, US(90));
        let mut looks = 0;
        loop {
            // Independent of the load of the machine that runs the test.
            let at_most = look.at_most(look.not_before);
            if at_most == Nanoseconds::ZERO {
                break;
            }
            assert!(!look.until(&clock, clock.now() + at_most, || Ok(false)).unwrap());
            looks += 1;
        }
        assert!((1..=4).contains(&looks), "{looks} looks");
        assert!(look.looked >= US(85), "{}", look.looked);
        // Time spent polling does not earn further time.
        look.settle(look.cpu + look.looked);
        assert_eq!(look.at_most(look.not_before), Nanoseconds::ZERO);
    }

    #[test]
    fn who_was_set_aside_looks_for_nothing_for_a_while_and_longer_each_time() {
        let (mut look, clock) = (used_to(US(20)), Clock::start());
        let mut pauses = Vec::new();
        for _ in 0..2 {
            let aside = || {
                std::thread::sleep(std::time::Duration::from_millis(2));
                Ok(false)
            };
            let far = clock.now() + Nanoseconds::from_secs(60);
            assert!(!look.until(&clock, far, aside).unwrap());
            let now = clock.now();
            assert_eq!(look.at_most(now), Nanoseconds::ZERO);
            pauses.push(look.not_before.saturating_sub(now));
            look.saved = SAVED_MOST;
            assert!(look.at_most(look.not_before) > Nanoseconds::ZERO);
        }
        assert!(pauses[1] > pauses[0], "{pauses:?}");
    }

    #[test]
    fn nothing_is_looked_for_where_more_threads_want_to_run_than_can() {
        assert_eq!(wanting_to_run(b"0.41 0.58 0.57 3/1254 20519\n"), Some(3));
        assert_eq!(wanting_to_run(b"0.41 0.58"), None);
        let look = Look { is_crowded: true, ..used_to(US(20)) };
        assert_eq!(look.at_most(Nanoseconds::ZERO), Nanoseconds::ZERO);
        let load = File::open("/proc/loadavg").unwrap();
        // This test itself is runnable.
        assert!(Crowd { load, processors: 0 }.is_there());
    }

    #[test]
    fn of_several_requests_none_is_looked_for_on_processors_that_do_not_sleep() {
        assert!(Look::new(4, true).is_none());
        assert!((1..share(1, false)).contains(&share(1, true)), "{}", share(1, true));
        assert!((1..share(1, false)).contains(&share(32, false)), "{}", share(32, false));
    }

    #[test]
    fn an_answer_ends_the_look() {
        let (mut look, clock) = (used_to(US(20)), Clock::start());
        let mut asked = 0;
        let until = clock.now() + Nanoseconds::from_secs(60);
        let third = || {
            asked += 1;
            Ok(asked == 3)
        };
        assert!(look.until(&clock, until, third).unwrap());
        assert_eq!(asked, 3);
    }
}
