//! Carries out a plan: rewrites its windows, and reads everything again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::{Refresh, Watch, go_on};
use crate::freeze::Freezer;
use crate::headway::Headway;
use crate::health::COOLER;
use crate::interval::ratio_of_sums;
use crate::journal::Earlier;
use crate::judge::Evidence;
use crate::lateness::Lateness;
use crate::plan::{Plan, Summary, speed, stretches};
use crate::strategy::btrfs::Defragment;
use crate::strategy::ext4::MoveExtents;
use crate::strategy::frozen::Rewrite;
use crate::strategy::xfs::CommitRange;
use crate::strategy::{Left, Strategy};
use crate::survey::Way;
use crate::window::Span;
use crate::yardstick;
use crate::{DriveError, ErrorKind, io};

/// Time after which a drive that does not cool ends the rewrite.
const COOLING_MAX: Duration = Duration::from_secs(600);

/// Time between two checks of the drive's health.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// Time between two searches for programs that have the rewrite target open; a search costs some
/// milliseconds.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Largest number of readings of a window that was rewritten or seems slow after the rewrite; fewer if
/// two agree.
const READ_AGAIN: usize = 50;

/// Least number of readings of a window that was rewritten.
const READ_REWRITTEN: usize = 3;

/// Up to this many rewritten bytes, each window is read as often as one of a baseline: the second fastest
/// of few readings is slower than that of many, and with few windows such differences do not average out.
const FEW_BYTES: u64 = 1 << 30;

/// Reason for an early end.
enum Stop {
    /// A failure.
    Error(DriveError),
    /// A state in which the rewrite should not continue, in words.
    Reason(String),
}

impl From<DriveError> for Stop {
    fn from(error: DriveError) -> Stop {
        Stop::Error(error)
    }
}

/// Work done so far.
#[derive(Default)]
struct Done {
    written: u64,
    left: BTreeMap<Left, u64>,
    spans: Vec<Span>,
}

impl Refresh {
    /// Rewrites the windows of the plan, and reads everything again.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written, or if the file system or the drive fails before
    /// any window is done. A later failure ends the refresh, and the summary has it in `stopped`.
    pub fn carry_out(&mut self, plan: &Plan, watch: &mut dyn Watch) -> Result<Summary, DriveError> {
        self.open_journal(plan)?;
        let mut strategy = self.strategy()?;
        let mut done = Done::default();
        let outcome = self.rewrite_all(plan, strategy.as_mut(), &mut done, watch);
        let freezes = strategy.freezes();
        let longest_hold = strategy.longest_hold();
        // The data lies elsewhere now, and nothing that the strategy holds is needed any more.
        drop(strategy);
        let (stopped, is_interrupted) = match outcome {
            Ok(()) => (None, false),
            Err(Stop::Reason(why)) => (Some(why), false),
            Err(Stop::Error(error)) if error.kind() == ErrorKind::Cancelled => {
                (Some("interrupted".to_owned()), true)
            }
            // No window was done: then the error is the whole result.
            Err(Stop::Error(error)) if done.spans.is_empty() => return Err(error),
            Err(Stop::Error(error)) => (Some(words(&error)), false),
        };
        let mut summary = Summary {
            plan: plan.clone(),
            bytes_written: done.written,
            left: done.left.clone(),
            speed_before: plan.speed_now,
            speed_after: None,
            gain: None,
            freezes: freezes.map(|it| it.count),
            allowed_freeze_ms: freezes.map(|it| it.allowed.as_secs_f64() * 1e3),
            longest_freeze_ms: freezes.map(|it| it.longest.as_secs_f64() * 1e3),
            freezes_too_long: freezes.map(|it| it.too_long),
            longest_hold_ms: longest_hold.map(|it| it.as_secs_f64() * 1e3),
            stopped,
            windows_left: plan.rewrite.len() - done.spans.len(),
            is_interrupted,
        };
        if summary.stopped.is_none()
            && let Err(error) = self.read_again(&done, &mut summary, watch)
        {
            // The windows that were written stay so, and the summary reports them.
            summary.is_interrupted = error.kind() == ErrorKind::Cancelled;
            summary.stopped = Some(if summary.is_interrupted {
                "interrupted while it was read again, when all was written".to_owned()
            } else {
                format!("all was written, but not read again: {}", words(&error))
            });
        }
        Ok(summary)
    }

    fn open_journal(&mut self, plan: &Plan) -> Result<(), DriveError> {
        if plan.resumed {
            return self.journal.go_on();
        }
        self.begin_journal(&plan.rewrite)
    }

    /// Starts the journal of a plan.
    pub(super) fn begin_journal(&mut self, planned: &[Span]) -> Result<(), DriveError> {
        let found = Earlier {
            planned: planned.to_vec(),
            done: Vec::new(),
            fresh: self.fresh,
            before: self.evidence.iter().map(|it| (it.span, it.first())).collect(),
            after: None,
        };
        let Refresh { survey, journal, .. } = self;
        journal.begin(&survey.path, &survey.identity, survey.way, found)
    }

    fn strategy(&self) -> Result<Box<dyn Strategy>, DriveError> {
        let survey = &self.survey;
        let file = || survey.file.try_clone().map_err(|error| io("cannot use the file", error));
        let directory = survey.directory.as_deref();
        Ok(match survey.way {
            Way::MoveExtents => {
                let directory = directory.expect("a file is in a directory");
                let (block, reserve) = (survey.block, survey.reserve);
                let max_hold = self.options.max_freeze;
                Box::new(MoveExtents::new(file()?, directory, block, reserve, max_hold))
            }
            Way::CommitRange => {
                let directory = directory.expect("a file is in a directory");
                Box::new(CommitRange::new(file()?, directory, survey.block, survey.reserve)?)
            }
            Way::Defragment => Box::new(Defragment::new(file()?, self.options.agreed.shared)),
            Way::Alone | Way::Frozen => Box::new(self.in_place()?),
        })
    }

    /// Prepares a rewrite in place. The proof of the survey is repeated: the user may have taken time to
    /// answer.
    fn in_place(&self) -> Result<Rewrite, DriveError> {
        let ground = self.survey.ground.as_ref().expect("what is rewritten in place has a ground");
        ground.prove()?;
        let cannot = |error| io("cannot use the device", error);
        let device = ground.device().map_err(cannot)?;
        let Some(held) = ground.frozen() else { return Ok(Rewrite::alone(device)) };
        let lateness = Lateness::new(held.place(), self.options.tell.clone());
        let freezer = Freezer::new(held.file.try_clone().map_err(cannot)?, lateness)?;
        let is_device = self.survey.identity.inode == 0;
        let file = (!is_device).then(|| self.survey.file.try_clone()).transpose();
        Ok(Rewrite::frozen(device, file.map_err(cannot)?, freezer, self.options.max_freeze))
    }

    /// Describes who may have begun to write to the target meanwhile, or `None`.
    fn writer(&self, asked: &mut Instant) -> Option<String> {
        let ground = self.survey.ground.as_ref()?;
        if asked.elapsed() < LOOK_AGAIN {
            return ground.swapped();
        }
        let found = ground.writer();
        *asked = Instant::now();
        found
    }

    fn rewrite_all(
        &mut self,
        plan: &Plan,
        strategy: &mut dyn Strategy,
        done: &mut Done,
        watch: &mut dyn Watch,
    ) -> Result<(), Stop> {
        let mut count = 0;
        let mut asked = Instant::now();
        let mut looked = Instant::now();
        let mut headway = self.headway(plan);
        for (stretch, windows) in stretches(&plan.rewrite) {
            strategy.announce(stretch);
            for window in windows {
                go_on(watch, "rewriting", count, plan.rewrite.len())?;
                if self.wait_for_cool(watch)? {
                    headway.rest();
                }
                if asked.elapsed() > ASK_AGAIN {
                    asked = Instant::now();
                    if let Some(why) = self.survey.disks.ask().obstacle() {
                        return Err(Stop::Reason(why));
                    }
                }
                if let Some(why) = self.writer(&mut looked) {
                    return Err(Stop::Reason(why));
                }
                let outcome = strategy.rewrite(*window, &mut self.pace, &mut headway)?;
                done.written += outcome.written;
                if let Some(left) = outcome.left {
                    *done.left.entry(left).or_default() += window.length - outcome.written;
                }
                if let Some(why) = outcome.left.and_then(Left::ends_all) {
                    let who = strategy.mapped_by().map(|who| format!(" ({who})"));
                    return Err(Stop::Reason(format!("{why}{}", who.unwrap_or_default())));
                }
                done.spans.push(*window);
                self.journal.done(*window, outcome.written, outcome.left)?;
                count += 1;
            }
        }
        Ok(())
    }

    /// Estimates the time of a rewrite without other load: four times as long as reading the windows
    /// took, once to read and three times to write, and not less than the rate limit gives.
    fn headway(&self, plan: &Plan) -> Headway {
        let bytes = plan.bytes_to_write;
        let reading = if plan.speed_now > 0.0 { bytes as f64 / plan.speed_now } else { 0.0 };
        let rate = self.options.rate.map_or(f64::INFINITY, |it| it.bytes() as f64);
        let alone = (reading * 4.0).max(bytes as f64 * 2.0 / rate);
        Headway::new(bytes, Duration::try_from_secs_f64(alone).unwrap_or(Duration::MAX))
    }

    /// Waits while the drive is too hot. Returns true if it waited.
    fn wait_for_cool(&self, watch: &mut dyn Watch) -> Result<bool, Stop> {
        let max = self.options.heat_max;
        let disks = &self.survey.disks;
        let Some(mut now) = disks.warmest() else { return Ok(false) };
        if now < max {
            return Ok(false);
        }
        let since = Instant::now();
        while now > max - COOLER {
            if since.elapsed() > COOLING_MAX {
                return Err(Stop::Reason(format!("the drive stays at {now} degrees Celsius")));
            }
            go_on(watch, &format!("letting the drive cool ({now} degrees)"), 0, 1)?;
            std::thread::sleep(Duration::from_secs(1));
            now = disks.warmest().unwrap_or(0.0);
        }
        Ok(true)
    }

    fn read_again(
        &mut self,
        done: &Done,
        summary: &mut Summary,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let mut after = Vec::new();
        let rewritten: HashSet<Span> = done.spans.iter().copied().collect();
        let outcome = self.read_all_again(&rewritten, &mut after, watch);
        let known_before = self.evidence.iter().filter(|it| !rewritten.contains(&it.span));
        let mut known: HashMap<Span, f64> =
            known_before.filter_map(|it| Some((it.span, it.after_rewrite?))).collect();
        known.extend(after.iter().copied().filter(|(span, _)| rewritten.contains(span)));
        let mut known: Vec<(Span, f64)> = known.into_iter().collect();
        known.sort_by_key(|(span, _)| *span);
        // All windows are written, whether they could be read again or not.
        self.journal.over(known)?;
        outcome?;
        summary.speed_after = Some(speed(after.iter().copied()));
        let times: Vec<(f64, f64)> = self
            .evidence
            .iter()
            .zip(&after)
            .map(|(before, (span, now))| {
                let bytes = span.length as f64;
                (before.now() * bytes, now * bytes)
            })
            .collect();
        summary.gain = ratio_of_sums(&times);
        Ok(())
    }

    /// Reads every window again, and puts the time that each takes without other load, in seconds per
    /// byte, into `after`.
    ///
    /// A window that was rewritten, or seems slow compared with fresh data, is read until two readings
    /// agree, as before the rewrite. The readings go in rounds over all such windows, so that those of
    /// one window lie apart in time: a disturbance may last.
    fn read_all_again(
        &mut self,
        rewritten: &HashSet<Span>,
        after: &mut Vec<(Span, f64)>,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let mut again: Vec<Evidence> = Vec::with_capacity(self.evidence.len());
        let outcome = self.read_in_rounds(rewritten, &mut again, watch);
        after.extend(again.iter().map(|it| (it.span, it.now())));
        outcome
    }

    fn read_in_rounds(
        &mut self,
        rewritten: &HashSet<Span>,
        again: &mut Vec<Evidence>,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let windows = self.evidence.len();
        let is_little = rewritten.iter().map(|it| it.length).sum::<u64>() <= FEW_BYTES;
        let rounds = if is_little { yardstick::PASSES_MIN } else { READ_REWRITTEN };
        for at in 0..windows {
            go_on(watch, "reading again", at, windows)?;
            let (span, pieces) = (self.evidence[at].span, self.evidence[at].pieces);
            let took = self.probe.window(span, &mut self.pace)?.shares();
            again.push(Evidence::new(span, pieces, took));
        }
        let Some(fresh) = self.fresh else { return Ok(()) };
        for round in 1..READ_AGAIN {
            let in_doubt = |it: &Evidence| match rewritten.contains(&it.span) {
                true => round < rounds || !it.is_settled(),
                false => it.is_suspicious(fresh) && !it.is_settled(),
            };
            let left: Vec<usize> = (0..windows).filter(|&at| in_doubt(&again[at])).collect();
            if left.is_empty() {
                break;
            }
            for (done, &at) in left.iter().enumerate() {
                go_on(watch, "reading again what was rewritten or seems slow", done, left.len())?;
                let took = self.probe.window(again[at].span, &mut self.pace)?.shares();
                again[at].read_again(took);
            }
        }
        Ok(())
    }
}

/// Returns the error in words, with its cause.
fn words(error: &DriveError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error} ({source})"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ssdlab_units::ByteLength;

    use super::super::Options;
    use super::*;
    use crate::lateness::Tell;
    use crate::mounted::{Mounted, run};
    use crate::survey::Agreed;

    const MIB: u64 = 1 << 20;

    /// Plans a refresh of all of a file of 4 MiB, in windows of 1 MiB.
    fn refresh_of(mounted: &Mounted, file: &Path) -> (Refresh, Plan) {
        let options = Options {
            agreed: Agreed::default(),
            window: ByteLength::new(MIB),
            rate: None,
            max_freeze: Duration::from_secs(2),
            all: true,
            resume: false,
            journals: mounted.beside("journals"),
            needed: Vec::new(),
            heat_max: 1e3,
            tell: Tell::new(|_| {}),
        };
        let mut refresh = Refresh::of(file, options).unwrap();
        let plan = refresh.plan(&mut |_: &str, _| true).unwrap();
        assert_eq!(plan.rewrite.len(), 4);
        (refresh, plan)
    }

    /// Mounts a file system with a file of 4 MiB.
    fn with_file(kind: &str, test: &str) -> Option<(Mounted, std::path::PathBuf)> {
        let mounted = Mounted::new(kind, test)?;
        let file = mounted.point().join("file");
        std::fs::write(&file, vec![7; 4 * MIB as usize]).unwrap();
        assert!(run("sync", &["-f", file.to_str().unwrap()]));
        Some((mounted, file))
    }

    #[test]
    fn who_interrupts_it_is_told_what_was_done_all_the_same() {
        let Some((mounted, file)) = with_file("ext4", "interrupted refreshes") else { return };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let summary =
            refresh.carry_out(&plan, &mut |step: &str, _| step != "reading again").unwrap();
        assert!(summary.is_interrupted, "{summary:?}");
        assert_eq!((summary.bytes_written, summary.windows_left), (4 * MIB, 0), "{summary:?}");
        drop(refresh);
        // There is nothing to resume, and the next refresh knows that.
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        assert!(refresh.journal.earlier.as_ref().unwrap().after.is_some());
        let mut windows = 0;
        let mut watch = |_: &str, _| {
            windows += 1;
            windows <= 3
        };
        let summary = refresh.carry_out(&plan, &mut watch).unwrap();
        assert_eq!((summary.bytes_written, summary.windows_left), (3 * MIB, 1), "{summary:?}");
    }

    #[test]
    fn a_few_windows_are_read_as_often_as_a_yardstick_and_in_rounds() {
        let Some((mounted, file)) = with_file("ext4", "readings after a rewrite") else { return };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        // This value does not matter here: rewritten windows are read again however fast they are.
        refresh.fresh = Some(1.0);
        let mut shares = Vec::new();
        let mut watch = |step: &str, share| {
            if step.starts_with("reading again") {
                shares.push((step == "reading again", share));
            }
            true
        };
        refresh.carry_out(&plan, &mut watch).unwrap();
        let round = |is_first| [0.0, 0.25, 0.5, 0.75].map(|share| (is_first, share));
        let rounds: Vec<&[(bool, f64)]> = shares.chunks(4).collect();
        assert!(rounds.len() >= yardstick::PASSES_MIN, "{shares:?}");
        assert_eq!(rounds[0], round(true));
        assert!(rounds[1..yardstick::PASSES_MIN].iter().all(|it| **it == round(false)));
    }

    #[test]
    fn a_window_that_there_was_no_room_for_is_not_done() {
        let Some((mounted, file)) = with_file("ext4", "refreshes without room") else { return };
        let found = rustix::fs::statvfs(mounted.point()).unwrap();
        let length = found.f_bavail * found.f_frsize - 8 * MIB;
        let other = std::fs::File::create(mounted.point().join("other")).unwrap();
        rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), 0, length).unwrap();
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let summary = refresh.carry_out(&plan, &mut |_: &str, _| true).unwrap();
        assert!(summary.stopped.as_ref().unwrap().contains("no room"), "{summary:?}");
        assert_eq!(summary.windows_left, 4, "{summary:?}");
        drop(refresh);
        let (refresh, _) = refresh_of(&mounted, &file);
        assert_eq!(refresh.journal.earlier.as_ref().unwrap().open().len(), 4);
    }

    #[test]
    fn what_a_snapshot_shares_meanwhile_stays_shared() {
        let Some((mounted, file)) = with_file("btrfs", "snapshots during a refresh") else {
            return;
        };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let copy = mounted.point().join("copy");
        let paths = [file.to_str().unwrap(), copy.to_str().unwrap()];
        assert!(run("cp", &[&["--reflink=always"], &paths[..]].concat()));
        assert!(run("sync", &["-f", paths[0]]));
        let summary = refresh.carry_out(&plan, &mut |_: &str, _| true).unwrap();
        assert!(summary.stopped.as_ref().unwrap().contains("--shared"), "{summary:?}");
        assert_eq!((summary.bytes_written, summary.windows_left), (0, 4), "{summary:?}");
    }
}
