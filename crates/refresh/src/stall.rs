//! Stall watchdog: reports steps that take far longer than they should, while they last.
//!
//! A request to a file system whose drive has failed may wait within the kernel for ever, and no signal
//! ends that; and once that file system is being frozen, everybody who writes to it waits as well. The
//! user should not have to guess at that, so a separate thread watches the current step.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time after which a step is reported.
pub const FIRST_REPORT: Duration = Duration::from_secs(2);

/// Time after which the same step is reported again.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Time between two checks. Longer than a freeze should last, so that the checks cost nothing.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Value when no step is under way.
const NO_STEP: u64 = 0;

/// Number of low bits for the step; the bits above hold the time at which the step began.
const STEP_BITS: u32 = 3;

/// Report of a step that takes longer than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Event that is waited for, in words that continue "waiting for".
    pub what: String,
    /// Duration of the step so far.
    pub since: Duration,
    /// Advice; `None` once the step is over.
    pub advice: Option<String>,
}

/// Callback for such reports. The watchdog's thread calls it, and the callback may block.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn(&Stall) + Send + Sync>);

impl Callback {
    /// Wraps a callback.
    pub fn new(callback: impl Fn(&Stall) + Send + Sync + 'static) -> Callback {
        Callback(Arc::new(callback))
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}

/// Steps that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Dirty data is being written back.
    WriteBack = 1,
    /// The file system is being frozen.
    Freeze = 2,
    /// The file system is frozen, and the drive is read and written.
    Rewrite = 3,
    /// The file system is being thawed.
    Thaw = 4,
}

impl Step {
    const ALL: [Step; 4] = [Step::WriteBack, Step::Freeze, Step::Rewrite, Step::Thaw];

    fn description(self, context: &str) -> String {
        match self {
            Step::WriteBack => format!("dirty data on {context} to be written back"),
            Step::Freeze => {
                format!("{context} to be frozen; programs that write there wait as well")
            }
            Step::Rewrite => format!(
                "the drive below {context}, which is frozen; programs that write there wait as well"
            ),
            Step::Thaw => format!("{context} to be thawed; programs that write there wait as well"),
        }
    }
}

/// File system that the steps belong to.
#[derive(Clone, Debug)]
pub(crate) struct StallContext {
    /// Name of the file system, in words.
    pub(crate) name: String,
    /// Advice if the file system does not answer.
    pub(crate) advice: String,
}

/// Watchdog of one file system.
#[derive(Debug)]
pub struct Watchdog {
    begun: Instant,
    /// Beginning and kind of the current step. It is written without a lock: the watching thread may not
    /// get a processor while all writers wait for the thread that writes this value.
    now: Arc<AtomicU64>,
    /// Dropped at the end, which ends the watching thread.
    _end: Sender<()>,
}

impl Watchdog {
    /// Starts the watchdog. If no thread can be started, nothing is reported.
    pub(crate) fn new(context: StallContext, callback: Callback) -> Watchdog {
        Watchdog::with_intervals(context, callback, FIRST_REPORT, REPORT_INTERVAL)
    }

    pub(crate) fn with_intervals(
        context: StallContext,
        callback: Callback,
        first: Duration,
        again: Duration,
    ) -> Watchdog {
        let now = Arc::new(AtomicU64::new(NO_STEP));
        let begun = Instant::now();
        let (end, ended) = channel();
        let monitor = Monitor { context, callback, first, again, begun, now: Arc::clone(&now) };
        // Nobody joins the thread: the callback may be waiting for the very file system.
        let builder = std::thread::Builder::new().name("stall-watchdog".to_owned());
        let _ = builder.spawn(move || monitor.run(&ended));
        Watchdog { begun, now, _end: end }
    }

    /// Sets the step that is waited for from now on; `None` for none.
    pub(crate) fn set_step(&self, step: Option<Step>) {
        let value = step.map_or(NO_STEP, |step| {
            let since = self.begun.elapsed().as_millis() as u64;
            since << STEP_BITS | step as u64
        });
        self.now.store(value, Ordering::Relaxed);
    }
}

struct Monitor {
    context: StallContext,
    callback: Callback,
    first: Duration,
    again: Duration,
    begun: Instant,
    now: Arc<AtomicU64>,
}

impl Monitor {
    fn run(&self, ended: &Receiver<()>) {
        // Step that was reported, and when.
        let mut reported: Option<(u64, Instant)> = None;
        while ended.recv_timeout(CHECK_INTERVAL.min(self.first)) == Err(RecvTimeoutError::Timeout) {
            let now = self.now.load(Ordering::Relaxed);
            if let Some((before, _)) = reported.filter(|(before, _)| *before != now) {
                self.report(before, false);
                reported = None;
            }
            let is_late = self.step_duration(now).is_some_and(|(_, since)| since >= self.first);
            if is_late && reported.is_none_or(|(_, at)| at.elapsed() >= self.again) {
                self.report(now, true);
                reported = Some((now, Instant::now()));
            }
        }
    }

    /// Returns the step that a value names, and its duration so far; `None` if no step is under way.
    fn step_duration(&self, value: u64) -> Option<(Step, Duration)> {
        let code = value & ((1 << STEP_BITS) - 1);
        let step = Step::ALL.into_iter().find(|&step| step as u64 == code)?;
        let since = Duration::from_millis(value >> STEP_BITS);
        Some((step, self.begun.elapsed().saturating_sub(since)))
    }

    fn report(&self, value: u64, is_under_way: bool) {
        let Some((step, since)) = self.step_duration(value) else { return };
        let advice = is_under_way.then(|| self.context.advice.clone());
        (self.callback.0)(&Stall { what: step.description(&self.context.name), since, advice });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::freeze::Freezer;
    use crate::loop_mount::HungFileSystem;

    /// Starts a watchdog with these times, and returns its reports.
    fn watched(first: u64, again: u64) -> (Watchdog, Receiver<Stall>) {
        let (to, told) = channel();
        let callback = Callback::new(move |stall| drop(to.send(stall.clone())));
        let context = StallContext { name: "ext4 on sda1".to_owned(), advice: "wait".to_owned() };
        let of = Duration::from_millis;
        (Watchdog::with_intervals(context, callback, of(first), of(again)), told)
    }

    #[test]
    fn what_takes_long_is_told_again_and_again_and_that_it_has_come_about() {
        let (watchdog, told) = watched(50, 60);
        watchdog.set_step(Some(Step::Freeze));
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        let (first, second) = (next(), next());
        watchdog.set_step(None);
        assert!(first.what.starts_with("ext4 on sda1 to be frozen"), "{first:?}");
        assert!(first.since >= Duration::from_millis(50), "{first:?}");
        assert_eq!(first.advice.as_deref(), Some("wait"));
        assert!(second.since > first.since && second.what == first.what, "{second:?}");
        let mut last = next();
        while last.advice.is_some() {
            last = next();
        }
        assert_eq!(last.what, first.what);
    }

    #[test]
    fn what_does_not_take_long_is_not_told() {
        let (watchdog, told) = watched(60_000, 1);
        for step in Step::ALL {
            watchdog.set_step(Some(step));
            std::thread::sleep(Duration::from_millis(2));
        }
        watchdog.set_step(None);
        drop(watchdog);
        assert_eq!(told.recv(), Err(std::sync::mpsc::RecvError));
    }

    #[test]
    fn users_are_told_within_about_two_seconds() {
        assert!(FIRST_REPORT + CHECK_INTERVAL <= Duration::from_millis(2_500));
    }

    #[test]
    fn a_freeze_that_does_not_come_about_is_told_while_it_is_waited_for() {
        let Some(hung) = HungFileSystem::new("freezes that hang") else { return };
        let (watchdog, told) = watched(200, 200);
        let mut freezer = Freezer::new(File::open(&hung.point).unwrap(), watchdog).unwrap();
        let asking = std::thread::spawn(move || {
            let outcome = freezer.freeze().map(drop);
            (outcome, freezer)
        });
        // Whatever is reported or not, the file system goes on.
        let found = [0; 2].map(|_| told.recv_timeout(Duration::from_secs(20)).ok());
        let is_waiting = !asking.is_finished();
        hung.recover();
        let (outcome, freezer) = asking.join().unwrap();
        drop(freezer);
        assert!(is_waiting, "it hangs");
        for stall in found {
            let stall = stall.expect("it is told, and again");
            assert!(stall.what.starts_with("ext4 on sda1 to be frozen"), "{stall:?}");
            assert_eq!(stall.advice.as_deref(), Some("wait"));
        }
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}
