//! Carries out a plan: rewrites its windows, and reads everything again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::{ProgressObserver, Refresh, report_progress};
use crate::baseline;
use crate::freeze::Freezer;
use crate::health::COOL_DOWN_BY;
use crate::interval::ratio_of_sums;
use crate::journal::EarlierRun;
use crate::judge::Evidence;
use crate::overrun::OverrunGuard;
use crate::plan::{Plan, Summary, contiguous_runs, speed};
use crate::stall::Watchdog;
use crate::strategy::btrfs::Defragment;
use crate::strategy::ext4::MoveExtents;
use crate::strategy::in_place::InPlaceRewrite;
use crate::strategy::xfs::CommitRange;
use crate::strategy::{SkipReason, Strategy};
use crate::survey::RewriteMethod;
use crate::window::Span;
use crate::{DriveError, ErrorKind, io};

/// Time after which a drive that does not cool ends the rewrite.
const COOLING_MAX: Duration = Duration::from_secs(600);

/// Time between two checks of the drive's health.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Time between two searches for programs that have the rewrite target open; a search costs some
/// milliseconds.
const WRITER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

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
    Obstacle(String),
}

impl From<DriveError> for Stop {
    fn from(error: DriveError) -> Stop {
        Stop::Error(error)
    }
}

/// Work done so far.
#[derive(Default)]
struct Completed {
    written: u64,
    left: BTreeMap<SkipReason, u64>,
    spans: Vec<Span>,
}

impl Refresh {
    /// Rewrites the windows of the plan, and reads everything again.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written, or if the file system or the drive fails before
    /// any window is done. A later failure ends the refresh, and the summary has it in `stopped`.
    pub fn execute(
        &mut self,
        plan: &Plan,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Summary, DriveError> {
        self.open_journal(plan)?;
        let mut strategy = self.strategy()?;
        let mut done = Completed::default();
        let outcome = self.rewrite_all(plan, strategy.as_mut(), &mut done, observer);
        let freezes = strategy.freezes();
        let longest_hold = strategy.longest_hold();
        // The data lies elsewhere now, and nothing that the strategy holds is needed any more.
        drop(strategy);
        let (stopped, is_interrupted) = match outcome {
            Ok(()) => (None, false),
            Err(Stop::Obstacle(why)) => (Some(why), false),
            Err(Stop::Error(error)) if error.kind() == ErrorKind::Cancelled => {
                (Some("interrupted".to_owned()), true)
            }
            // No window was done: then the error is the whole result.
            Err(Stop::Error(error)) if done.spans.is_empty() => return Err(error),
            Err(Stop::Error(error)) => (Some(describe_error(&error)), false),
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
            && let Err(error) = self.read_again(&done, &mut summary, observer)
        {
            // The windows that were written stay so, and the summary reports them.
            summary.is_interrupted = error.kind() == ErrorKind::Cancelled;
            summary.stopped = Some(if summary.is_interrupted {
                "interrupted during the final reading; all was written".to_owned()
            } else {
                format!("all was written, but the final reading failed: {}", describe_error(&error))
            });
        }
        Ok(summary)
    }

    fn open_journal(&mut self, plan: &Plan) -> Result<(), DriveError> {
        if plan.resumed {
            return self.journal.resume();
        }
        self.begin_journal(&plan.rewrite)
    }

    /// Starts the journal of a plan.
    pub(super) fn begin_journal(&mut self, planned: &[Span]) -> Result<(), DriveError> {
        let found = EarlierRun {
            planned: planned.to_vec(),
            done: Vec::new(),
            fresh: self.fresh,
            before: self.evidence.iter().map(|it| (it.span, it.first_reading())).collect(),
            after: None,
        };
        let Refresh { survey, journal, .. } = self;
        journal.begin(&survey.path, &survey.identity, survey.method, found)
    }

    fn strategy(&self) -> Result<Box<dyn Strategy>, DriveError> {
        let survey = &self.survey;
        let file = || survey.file.try_clone().map_err(|error| io("cannot use the file", error));
        let directory = survey.directory.as_deref();
        Ok(match survey.method {
            RewriteMethod::MoveExtents => {
                let directory = directory.expect("a file is in a directory");
                let (block, reserve) = (survey.block, survey.reserve);
                let max_hold = self.options.max_freeze;
                Box::new(MoveExtents::new(file()?, directory, block, reserve, max_hold))
            }
            RewriteMethod::CommitRange => {
                let directory = directory.expect("a file is in a directory");
                Box::new(CommitRange::new(file()?, directory, survey.block, survey.reserve)?)
            }
            RewriteMethod::Defragment => {
                Box::new(Defragment::new(file()?, self.options.consents.shared))
            }
            RewriteMethod::Alone | RewriteMethod::Frozen => Box::new(self.in_place()?),
        })
    }

    /// Prepares a rewrite in place. The proof of the survey is repeated: the user may have taken time to
    /// answer.
    fn in_place(&self) -> Result<InPlaceRewrite, DriveError> {
        let target = self
            .survey
            .rewrite_target
            .as_ref()
            .expect("what is rewritten in place has a rewrite target");
        target.check_exclusive()?;
        let cannot = |error| io("cannot use the device", error);
        let device = target.device().map_err(cannot)?;
        let Some(file_system) = target.freezable() else {
            return Ok(InPlaceRewrite::exclusive(device));
        };
        let watchdog = Watchdog::new(file_system.stall_context(), self.options.on_stall.clone());
        let freezer = Freezer::new(file_system.file.try_clone().map_err(cannot)?, watchdog)?;
        let is_device = self.survey.identity.inode == 0;
        let file = (!is_device).then(|| self.survey.file.try_clone()).transpose();
        Ok(InPlaceRewrite::frozen(device, file.map_err(cannot)?, freezer, self.options.max_freeze))
    }

    /// Describes who may have begun to write to the target meanwhile, or `None`.
    fn other_writer(&self, checked: &mut Instant) -> Option<String> {
        let target = self.survey.rewrite_target.as_ref()?;
        if checked.elapsed() < WRITER_CHECK_INTERVAL {
            return target.active_swap();
        }
        let found = target.other_writer();
        *checked = Instant::now();
        found
    }

    fn rewrite_all(
        &mut self,
        plan: &Plan,
        strategy: &mut dyn Strategy,
        done: &mut Completed,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), Stop> {
        let mut count = 0;
        let mut health_checked = Instant::now();
        let mut writers_checked = Instant::now();
        let mut overrun_guard = self.new_overrun_guard(plan);
        for (run, windows) in contiguous_runs(&plan.rewrite) {
            strategy.announce(run);
            for window in windows {
                report_progress(observer, "rewriting", count, plan.rewrite.len())?;
                if self.wait_until_cool(observer)? {
                    overrun_guard.restart();
                }
                if health_checked.elapsed() > HEALTH_CHECK_INTERVAL {
                    health_checked = Instant::now();
                    if let Some(why) = self.survey.disks.read_health().obstacle() {
                        return Err(Stop::Obstacle(why));
                    }
                }
                if let Some(why) = self.other_writer(&mut writers_checked) {
                    return Err(Stop::Obstacle(why));
                }
                let outcome = strategy.rewrite(*window, &mut self.limiter, &mut overrun_guard)?;
                done.written += outcome.written;
                if let Some(left) = outcome.skipped {
                    *done.left.entry(left).or_default() += window.length - outcome.written;
                }
                if let Some(why) = outcome.skipped.and_then(SkipReason::abort_reason) {
                    let who = strategy.mapped_by().map(|who| format!(" ({who})"));
                    return Err(Stop::Obstacle(format!("{why}{}", who.unwrap_or_default())));
                }
                done.spans.push(*window);
                self.journal.record_window(*window, outcome.written, outcome.skipped)?;
                count += 1;
            }
        }
        Ok(())
    }

    /// Estimates the time of a rewrite without other load: four times as long as reading the windows
    /// took, once to read and three times to write, and not less than the rate limit gives.
    fn new_overrun_guard(&self, plan: &Plan) -> OverrunGuard {
        let bytes = plan.bytes_to_write;
        let reading = if plan.speed_now > 0.0 { bytes as f64 / plan.speed_now } else { 0.0 };
        let rate = self.options.rate.map_or(f64::INFINITY, |it| it.bytes() as f64);
        let alone = (reading * 4.0).max(bytes as f64 * 2.0 / rate);
        OverrunGuard::new(bytes, Duration::try_from_secs_f64(alone).unwrap_or(Duration::MAX))
    }

    /// Waits while the drive is too hot. Returns true if it waited.
    fn wait_until_cool(&self, observer: &mut dyn ProgressObserver) -> Result<bool, Stop> {
        let max = self.options.temperature_max;
        let disks = &self.survey.disks;
        let Some(mut now) = disks.warmest() else { return Ok(false) };
        if now < max {
            return Ok(false);
        }
        let since = Instant::now();
        while now > max - COOL_DOWN_BY {
            if since.elapsed() > COOLING_MAX {
                return Err(Stop::Obstacle(format!("the drive stays at {now} degrees Celsius")));
            }
            report_progress(observer, &format!("letting the drive cool ({now} degrees)"), 0, 1)?;
            std::thread::sleep(Duration::from_secs(1));
            now = disks.warmest().unwrap_or(0.0);
        }
        Ok(true)
    }

    fn read_again(
        &mut self,
        done: &Completed,
        summary: &mut Summary,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        let mut after = Vec::new();
        let rewritten: HashSet<Span> = done.spans.iter().copied().collect();
        let outcome = self.read_all_again(&rewritten, &mut after, observer);
        let known_before = self.evidence.iter().filter(|it| !rewritten.contains(&it.span));
        let mut known: HashMap<Span, f64> =
            known_before.filter_map(|it| Some((it.span, it.after_rewrite?))).collect();
        known.extend(after.iter().copied().filter(|(span, _)| rewritten.contains(span)));
        let mut known: Vec<(Span, f64)> = known.into_iter().collect();
        known.sort_by_key(|(span, _)| *span);
        // All windows are written, whether they could be read again or not.
        self.journal.finish(known)?;
        outcome?;
        summary.speed_after = Some(speed(after.iter().copied()));
        let times: Vec<(f64, f64)> = self
            .evidence
            .iter()
            .zip(&after)
            .map(|(before, (span, now))| {
                let bytes = span.length as f64;
                (before.time_without_load() * bytes, now * bytes)
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
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        let mut again: Vec<Evidence> = Vec::with_capacity(self.evidence.len());
        let outcome = self.read_in_rounds(rewritten, &mut again, observer);
        after.extend(again.iter().map(|it| (it.span, it.time_without_load())));
        outcome
    }

    fn read_in_rounds(
        &mut self,
        rewritten: &HashSet<Span>,
        again: &mut Vec<Evidence>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        let windows = self.evidence.len();
        let is_little = rewritten.iter().map(|it| it.length).sum::<u64>() <= FEW_BYTES;
        let rounds = if is_little { baseline::PASSES_MIN } else { READ_REWRITTEN };
        for at in 0..windows {
            report_progress(observer, "reading again", at, windows)?;
            let (span, fragments) = (self.evidence[at].span, self.evidence[at].fragments);
            let took = self.probe.read_window(span, &mut self.limiter)?.seconds_per_byte();
            again.push(Evidence::new(span, fragments, took));
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
                report_progress(
                    observer,
                    "reading again what was rewritten or seems slow",
                    done,
                    left.len(),
                )?;
                let took =
                    self.probe.read_window(again[at].span, &mut self.limiter)?.seconds_per_byte();
                again[at].read_again(took);
            }
        }
        Ok(())
    }
}

/// Returns the error in words, with its cause.
fn describe_error(error: &DriveError) -> String {
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
    use crate::loop_mount::{LoopMount, succeeds};
    use crate::stall::Callback;
    use crate::survey::Consents;

    const MIB: u64 = 1 << 20;

    /// Plans a refresh of all of a file of 4 MiB, in windows of 1 MiB.
    fn refresh_of(mounted: &LoopMount, file: &Path) -> (Refresh, Plan) {
        let options = Options {
            consents: Consents::default(),
            window: ByteLength::new(MIB),
            rate: None,
            max_freeze: Duration::from_secs(2),
            all: true,
            resume: false,
            journals: mounted.beside("journals"),
            required_files: Vec::new(),
            temperature_max: 1e3,
            on_stall: Callback::new(|_| {}),
        };
        let mut refresh = Refresh::of(file, options).unwrap();
        let plan = refresh.plan(&mut |_: &str, _| true).unwrap();
        assert_eq!(plan.rewrite.len(), 4);
        (refresh, plan)
    }

    /// Mounts a file system with a file of 4 MiB.
    fn with_file(kind: &str, test: &str) -> Option<(LoopMount, std::path::PathBuf)> {
        let mounted = LoopMount::new(kind, test)?;
        let file = mounted.point().join("file");
        std::fs::write(&file, vec![7; 4 * MIB as usize]).unwrap();
        assert!(succeeds("sync", &["-f", file.to_str().unwrap()]));
        Some((mounted, file))
    }

    #[test]
    fn who_interrupts_it_is_told_what_was_done_all_the_same() {
        let Some((mounted, file)) = with_file("ext4", "interrupted refreshes") else { return };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let summary = refresh.execute(&plan, &mut |step: &str, _| step != "reading again").unwrap();
        assert!(summary.is_interrupted, "{summary:?}");
        assert_eq!((summary.bytes_written, summary.windows_left), (4 * MIB, 0), "{summary:?}");
        drop(refresh);
        // There is nothing to resume, and the next refresh knows that.
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        assert!(refresh.journal.earlier.as_ref().unwrap().after.is_some());
        let mut windows = 0;
        let mut observer = |_: &str, _| {
            windows += 1;
            windows <= 3
        };
        let summary = refresh.execute(&plan, &mut observer).unwrap();
        assert_eq!((summary.bytes_written, summary.windows_left), (3 * MIB, 1), "{summary:?}");
    }

    #[test]
    fn a_few_windows_are_read_as_often_as_a_baseline_and_in_rounds() {
        let Some((mounted, file)) = with_file("ext4", "readings after a rewrite") else { return };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        // This value does not matter here: rewritten windows are read again however fast they are.
        refresh.fresh = Some(1.0);
        let mut shares = Vec::new();
        let mut observer = |step: &str, share| {
            if step.starts_with("reading again") {
                shares.push((step == "reading again", share));
            }
            true
        };
        refresh.execute(&plan, &mut observer).unwrap();
        let round = |is_first| [0.0, 0.25, 0.5, 0.75].map(|share| (is_first, share));
        let rounds: Vec<&[(bool, f64)]> = shares.chunks(4).collect();
        assert!(rounds.len() >= baseline::PASSES_MIN, "{shares:?}");
        assert_eq!(rounds[0], round(true));
        assert!(rounds[1..baseline::PASSES_MIN].iter().all(|it| **it == round(false)));
    }

    #[test]
    fn a_window_that_there_was_no_room_for_is_not_done() {
        let Some((mounted, file)) = with_file("ext4", "refreshes without room") else { return };
        let found = rustix::fs::statvfs(mounted.point()).unwrap();
        let length = found.f_bavail * found.f_frsize - 8 * MIB;
        let other = std::fs::File::create(mounted.point().join("other")).unwrap();
        rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), 0, length).unwrap();
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let summary = refresh.execute(&plan, &mut |_: &str, _| true).unwrap();
        assert!(
            summary.stopped.as_ref().unwrap().contains("free space for a new copy"),
            "{summary:?}"
        );
        assert_eq!(summary.windows_left, 4, "{summary:?}");
        drop(refresh);
        let (refresh, _) = refresh_of(&mounted, &file);
        assert_eq!(refresh.journal.earlier.as_ref().unwrap().remaining().len(), 4);
    }

    #[test]
    fn what_a_snapshot_shares_meanwhile_stays_shared() {
        let Some((mounted, file)) = with_file("btrfs", "snapshots during a refresh") else {
            return;
        };
        let (mut refresh, plan) = refresh_of(&mounted, &file);
        let copy = mounted.point().join("copy");
        let paths = [file.to_str().unwrap(), copy.to_str().unwrap()];
        assert!(succeeds("cp", &[&["--reflink=always"], &paths[..]].concat()));
        assert!(succeeds("sync", &["-f", paths[0]]));
        let summary = refresh.execute(&plan, &mut |_: &str, _| true).unwrap();
        assert!(summary.stopped.as_ref().unwrap().contains("--shared"), "{summary:?}");
        assert_eq!((summary.bytes_written, summary.windows_left), (0, 4), "{summary:?}");
    }
}
