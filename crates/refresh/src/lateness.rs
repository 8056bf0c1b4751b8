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
pub const FIRST: Duration = Duration::from_secs(2);

/// Time after which the same step is reported again.
pub const AGAIN: Duration = Duration::from_secs(10);

/// Time between two checks. Longer than a freeze should last, so that the checks cost nothing.
const LOOK: Duration = Duration::from_millis(200);

/// Value when no step is under way.
const NOTHING: u64 = 0;

/// Number of low bits for the step; the bits above hold the time at which the step began.
const STEP_BITS: u32 = 3;

/// Report of a step that takes longer than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Event that is waited for, in words that continue "waiting for".
    pub what: String,
    /// Duration of the step so far.
    pub since: Duration,
    /// Advice; `None` once the step is over.
    pub way_out: Option<String>,
}

/// Callback for such reports. The watchdog's thread calls it, and the callback may block.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(&Late) + Send + Sync>);

impl Tell {
    /// Wraps a callback.
    pub fn new(tell: impl Fn(&Late) + Send + Sync + 'static) -> Tell {
        Tell(Arc::new(tell))
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tell")
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

    fn words(self, place: &str) -> String {
        match self {
            Step::WriteBack => format!("what is dirty on {place} to be written back"),
            Step::Freeze => format!("{place} to be frozen; whoever writes there waits as well"),
            Step::Rewrite => format!(
                "the drive below {place}, which is frozen; whoever writes there waits as well"
            ),
            Step::Thaw => format!("{place} to be thawed; whoever writes there waits as well"),
        }
    }
}

/// File system that the steps belong to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Name of the file system, in words.
    pub(crate) name: String,
    /// Advice if the file system does not answer.
    pub(crate) way_out: String,
}

/// Watchdog of one file system.
#[derive(Debug)]
pub struct Lateness {
    begun: Instant,
    /// Beginning and kind of the current step. It is written without a lock: the watching thread may not
    /// get a processor while all writers wait for the thread that writes this value.
    now: Arc<AtomicU64>,
    /// Dropped at the end, which ends the watching thread.
    _end: Sender<()>,
}

impl Lateness {
    /// Starts the watchdog. If no thread can be started, nothing is reported.
    pub(crate) fn new(place: Place, tell: Tell) -> Lateness {
        Lateness::timed(place, tell, FIRST, AGAIN)
    }

    pub(crate) fn timed(place: Place, tell: Tell, first: Duration, again: Duration) -> Lateness {
        let now = Arc::new(AtomicU64::new(NOTHING));
        let begun = Instant::now();
        let (end, ended) = channel();
        let looker = Looker { place, tell, first, again, begun, now: Arc::clone(&now) };
        // Nobody joins the thread: the callback may be waiting for the very file system.
        let builder = std::thread::Builder::new().name("lateness".to_owned());
        let _ = builder.spawn(move || looker.look(&ended));
        Lateness { begun, now, _end: end }
    }

    /// Sets the step that is waited for from now on; `None` for none.
    pub(crate) fn wait_for(&self, step: Option<Step>) {
        let value = step.map_or(NOTHING, |step| {
            let since = self.begun.elapsed().as_millis() as u64;
            since << STEP_BITS | step as u64
        });
        self.now.store(value, Ordering::Relaxed);
    }
}

struct Looker {
    place: Place,
    tell: Tell,
    first: Duration,
    again: Duration,
    begun: Instant,
    now: Arc<AtomicU64>,
}

impl Looker {
    fn look(&self, ended: &Receiver<()>) {
        // Step that was reported, and when.
        let mut told: Option<(u64, Instant)> = None;
        while ended.recv_timeout(LOOK.min(self.first)) == Err(RecvTimeoutError::Timeout) {
            let now = self.now.load(Ordering::Relaxed);
            if let Some((before, _)) = told.filter(|(before, _)| *before != now) {
                self.say(before, false);
                told = None;
            }
            let is_late = self.late_by(now).is_some_and(|(_, since)| since >= self.first);
            if is_late && told.is_none_or(|(_, at)| at.elapsed() >= self.again) {
                self.say(now, true);
                told = Some((now, Instant::now()));
            }
        }
    }

    /// Returns the step that a value names, and its duration so far; `None` if no step is under way.
    fn late_by(&self, value: u64) -> Option<(Step, Duration)> {
        let code = value & ((1 << STEP_BITS) - 1);
        let step = Step::ALL.into_iter().find(|&step| step as u64 == code)?;
        let since = Duration::from_millis(value >> STEP_BITS);
        Some((step, self.begun.elapsed().saturating_sub(since)))
    }

    fn say(&self, value: u64, goes_on: bool) {
        let Some((step, since)) = self.late_by(value) else { return };
        let way_out = goes_on.then(|| self.place.way_out.clone());
        (self.tell.0)(&Late { what: step.words(&self.place.name), since, way_out });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::freeze::Freezer;
    use crate::mounted::Stuck;

    /// Starts a watchdog with these times, and returns its reports.
    fn watched(first: u64, again: u64) -> (Lateness, Receiver<Late>) {
        let (to, told) = channel();
        let tell = Tell::new(move |late| drop(to.send(late.clone())));
        let place = Place { name: "ext4 on sda1".to_owned(), way_out: "wait".to_owned() };
        let of = Duration::from_millis;
        (Lateness::timed(place, tell, of(first), of(again)), told)
    }

    #[test]
    fn what_takes_long_is_told_again_and_again_and_that_it_has_come_about() {
        let (lateness, told) = watched(50, 60);
        lateness.wait_for(Some(Step::Freeze));
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        let (first, second) = (next(), next());
        lateness.wait_for(None);
        assert!(first.what.starts_with("ext4 on sda1 to be frozen"), "{first:?}");
        assert!(first.since >= Duration::from_millis(50), "{first:?}");
        assert_eq!(first.way_out.as_deref(), Some("wait"));
        assert!(second.since > first.since && second.what == first.what, "{second:?}");
        let mut last = next();
        while last.way_out.is_some() {
            last = next();
        }
        assert_eq!(last.what, first.what);
    }

    #[test]
    fn what_does_not_take_long_is_not_told() {
        let (lateness, told) = watched(60_000, 1);
        for step in Step::ALL {
            lateness.wait_for(Some(step));
            std::thread::sleep(Duration::from_millis(2));
        }
        lateness.wait_for(None);
        drop(lateness);
        assert_eq!(told.recv(), Err(std::sync::mpsc::RecvError));
    }

    #[test]
    fn users_are_told_within_about_two_seconds() {
        assert!(FIRST + LOOK <= Duration::from_millis(2_500));
    }

    #[test]
    fn a_freeze_that_does_not_come_about_is_told_while_it_is_waited_for() {
        let Some(stuck) = Stuck::new("freezes that hang") else { return };
        let (lateness, told) = watched(200, 200);
        let mut freezer = Freezer::new(File::open(&stuck.point).unwrap(), lateness).unwrap();
        let asking = std::thread::spawn(move || {
            let outcome = freezer.freeze().map(drop);
            (outcome, freezer)
        });
        // Whatever is reported or not, the file system goes on.
        let found = [0; 2].map(|_| told.recv_timeout(Duration::from_secs(20)).ok());
        let is_waiting = !asking.is_finished();
        stuck.goes_on();
        let (outcome, freezer) = asking.join().unwrap();
        drop(freezer);
        assert!(is_waiting, "it hangs");
        for late in found {
            let late = late.expect("it is told, and again");
            assert!(late.what.starts_with("ext4 on sda1 to be frozen"), "{late:?}");
            assert_eq!(late.way_out.as_deref(), Some("wait"));
        }
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}
