//! What takes far longer than it should is said while it does.
//!
//! Who asks a file system whose drive has failed for anything may wait for ever, within the kernel, where
//! no signal ends that; and once it is being frozen, so does everybody who writes to it. The user should
//! not have to guess at that, so a thread besides looks what is waited for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// What takes longer than this is said.
pub const FIRST: Duration = Duration::from_secs(2);

/// And again after that.
pub const AGAIN: Duration = Duration::from_secs(10);

/// How often is looked. Longer than a freeze should last, so that it costs nothing.
const LOOK: Duration = Duration::from_millis(200);

/// What is waited for when nothing is.
const NOTHING: u64 = 0;

/// Bits of a step beside the time since when.
const STEP_BITS: u32 = 3;

/// Something that takes longer than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// What is waited for, in words that go on after "waiting for".
    pub what: String,
    /// How long it is by now.
    pub since: Duration,
    /// What to do about it; nothing once it has come about.
    pub way_out: Option<String>,
}

/// Whoever is told of it, by a thread that may be kept waiting.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(&Late) + Send + Sync>);

impl Tell {
    /// This one.
    pub fn new(tell: impl Fn(&Late) + Send + Sync + 'static) -> Tell {
        Tell(Arc::new(tell))
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tell")
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What is dirty is written back.
    WriteBack = 1,
    /// The file system is being frozen.
    Freeze = 2,
    /// It is frozen, and the drive is read and written.
    Rewrite = 3,
    /// It is being thawed.
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

/// Where it happens.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file system, in words.
    pub(crate) name: String,
    /// What to do when it does not answer.
    pub(crate) way_out: String,
}

/// Knows what is waited for, and has it told.
#[derive(Debug)]
pub struct Lateness {
    begun: Instant,
    /// Since when and for what; written without a lock, since who looks may be kept from the processor
    /// while everybody waits for who writes.
    now: Arc<AtomicU64>,
    /// Closed when nothing is left to be waited for.
    _end: Sender<()>,
}

impl Lateness {
    /// At a place. Where there can be no other thread, nobody is told.
    pub(crate) fn new(place: Place, tell: Tell) -> Lateness {
        Lateness::timed(place, tell, FIRST, AGAIN)
    }

    pub(crate) fn timed(place: Place, tell: Tell, first: Duration, again: Duration) -> Lateness {
        let now = Arc::new(AtomicU64::new(NOTHING));
        let begun = Instant::now();
        let (end, ended) = channel();
        let looker = Looker { place, tell, first, again, begun, now: Arc::clone(&now) };
        // It is not waited for: who is told may be waiting for the very file system.
        let builder = std::thread::Builder::new().name("lateness".to_owned());
        let _ = builder.spawn(move || looker.look(&ended));
        Lateness { begun, now, _end: end }
    }

    /// From now on this is waited for; nothing where nothing is.
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
        // What was told, and when.
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

    /// Returns what a value says is waited for, and how long.
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

    /// Returns what is told, with such times.
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
        // Whatever is told or not, the file system goes on.
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
