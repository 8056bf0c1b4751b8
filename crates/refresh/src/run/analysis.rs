//! The first half of a refresh: survey, reads, verdicts and the plan.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use ssdlab_units::ByteLength;

use super::{Options, ProgressObserver, Refresh, report_progress};
use crate::baseline::{self, WrittenBaseline};
use crate::journal::{EarlierRun, Journal};
use crate::judge::{
    BASELINES_MIN, Evidence, RECHECK_THRESHOLD, REWRITE_THRESHOLD, TURNS_MAX, Turn, Verdict,
};
use crate::plan::{self, BytesByVerdict, FreshReadTime, Plan, SCHEMA};
use crate::probe::Probe;
use crate::rate_limit::RateLimiter;
use crate::rewrite_target::RewriteTarget;
use crate::survey::{RequiredFile, RewriteMethod, Survey, refuse_deadlock};
use crate::window::{Span, split_into_windows};
use crate::{DriveError, ErrorKind, refused, system};

/// Number of small reads of a slow window, each beside one of a baseline.
const SMALL_READS: usize = 9;

/// Bytes read of a window, and of each baseline, at a turn. A single request would not be typical: even
/// in sequentially written data some requests reach a die twice.
const TURN: u64 = 4 << 20;

/// Number of times that a window that seems slow is read again, if the speed of fresh data is known from
/// an earlier refresh.
const READ_AGAIN: usize = 2;

/// Data that windows are compared with.
enum Baseline {
    /// A freshly written temporary file.
    Written(Box<WrittenBaseline>),
    /// Windows of the file itself.
    Own(Vec<Span>),
}

/// Baselines that lie in different places.
struct BaselineSet(Vec<Baseline>);

impl Refresh {
    /// Surveys the file or device at `path`, and opens its journal.
    ///
    /// # Errors
    /// Returns the reason if it must not or cannot be refreshed; nothing was changed then.
    pub fn of(path: &std::path::Path, options: Options) -> Result<Refresh, DriveError> {
        let survey = Survey::of(path, options.consents)?;
        if let Some(file_system) = survey.rewrite_target.as_ref().and_then(RewriteTarget::freezable)
        {
            let required =
                [&options.required_files[..], &[RequiredFile::journal(options.journals.clone())]];
            refuse_deadlock(path, file_system.super_block, &required.concat())?;
        }
        let health = survey.disks.read_health();
        if let Some(why) = health.obstacle() {
            return Err(refused(format!("{why}; nothing was changed")));
        }
        let journal = Journal::open(&options.journals, &survey.identity)?;
        let mut notes = survey.notes.clone();
        notes.extend(health.notes());
        let open = journal.earlier.as_ref().map_or(0, |it| it.remaining().len());
        if options.resume && open == 0 {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "no earlier refresh of {} was interrupted; leave --resume out",
                    path.display()
                ),
            ));
        }
        if !options.resume && open > 0 {
            notes.push(format!(
                "An earlier refresh ended with {open} windows left; --resume continues with them."
            ));
        }
        system::set_idle_io_priority();
        Ok(Refresh {
            probe: Probe::new(survey.open_direct()?),
            limiter: RateLimiter::new(options.rate),
            windows: split_into_windows(&survey.runs, options.window.bytes().max(1 << 16)),
            survey,
            options,
            journal,
            evidence: Vec::new(),
            fresh: None,
            typical: None,
            notes,
        })
    }

    /// Reads and judges all windows, and returns the plan. Nothing is rewritten; temporary files may be
    /// written as baselines.
    ///
    /// # Errors
    /// Returns an error if the data cannot be read, or the callback `observer` cancels.
    pub fn plan(&mut self, observer: &mut dyn ProgressObserver) -> Result<Plan, DriveError> {
        if self.options.resume {
            return self.plan_rest(observer);
        }
        self.read_all(observer, "reading")?;
        let mut found =
            BytesByVerdict { not_judged: self.survey.data(), ..BytesByVerdict::default() };
        let mut baseline_bytes = 0;
        let mut rewrite = self.windows.clone();
        if !self.options.all {
            (found, rewrite, baseline_bytes) = self.judge(observer)?;
            if rewrite.is_empty() && baseline_bytes > 0 {
                self.write_empty_journal()?;
            }
        }
        let mut plan = self.new_plan(rewrite, found);
        plan.yardstick_bytes = baseline_bytes;
        Ok(plan)
    }

    /// Starts and ends a journal without windows, so that the next refresh knows the speed of fresh data
    /// without writing baselines. A journal with windows still to rewrite is left as it is.
    fn write_empty_journal(&mut self) -> Result<(), DriveError> {
        if self.journal.earlier.as_ref().is_some_and(|it| !it.remaining().is_empty()) {
            return Ok(());
        }
        let after: Vec<(Span, f64)> =
            self.evidence.iter().filter_map(|it| Some((it.span, it.after_rewrite?))).collect();
        self.begin_journal(&[])?;
        self.journal.finish(after)
    }

    /// Returns the rest of the plan of an earlier refresh.
    fn plan_rest(&mut self, observer: &mut dyn ProgressObserver) -> Result<Plan, DriveError> {
        let earlier = self.journal.earlier.clone().unwrap_or_default();
        let now: Vec<Span> =
            earlier.remaining().into_iter().filter(|it| self.is_data(*it)).collect();
        self.fresh = earlier.fresh;
        let before: HashMap<Span, f64> = earlier.before.into_iter().collect();
        self.windows.retain(|it| before.contains_key(it));
        let planned = before.keys().map(|it| it.length).max();
        if self.windows.is_empty()
            && let Some(planned) = planned.filter(|&it| it != self.options.window.bytes())
        {
            return Err(DriveError::new(
                ErrorKind::Usage,
                format!(
                    "the earlier plan has windows of {}; add --window {} to continue it, or leave \
                     --resume out",
                    ByteLength::new(planned),
                    planned
                ),
            ));
        }
        if self.windows.is_empty() {
            return Err(DriveError::new(
                ErrorKind::Usage,
                "the data has changed so much that no window of the earlier plan is left; leave \
                 --resume out",
            ));
        }
        report_progress(observer, "resuming", 1, 1)?;
        let survey = &self.survey;
        self.evidence = self
            .windows
            .iter()
            .map(|it| Evidence::new(*it, survey.count_fragments(*it), vec![before[it]]))
            .collect();
        let found = BytesByVerdict { not_judged: self.survey.data(), ..BytesByVerdict::default() };
        let mut plan = self.new_plan(now, found);
        plan.resumed = true;
        Ok(plan)
    }

    /// Returns true if a span is still data from end to end.
    fn is_data(&self, span: Span) -> bool {
        self.survey.runs.iter().any(|run| run.overlap(span) == Some(span))
    }

    fn read_all(
        &mut self,
        observer: &mut dyn ProgressObserver,
        step: &str,
    ) -> Result<(), DriveError> {
        let after = self.journal.earlier.as_ref().and_then(|it| it.after.clone());
        let after: HashMap<Span, f64> = after.unwrap_or_default().into_iter().collect();
        self.evidence.clear();
        for (done, window) in self.windows.iter().enumerate() {
            report_progress(observer, step, done, self.windows.len())?;
            let first = self.probe.read_window(*window, &mut self.limiter)?.seconds_per_byte();
            let mut evidence = Evidence::new(*window, self.survey.count_fragments(*window), first);
            evidence.after_rewrite = after.get(window).copied();
            self.evidence.push(evidence);
        }
        Ok(())
    }

    /// Judges all windows. Returns the bytes by verdict, the windows to rewrite, and the bytes written as
    /// baselines.
    fn judge(
        &mut self,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(BytesByVerdict, Vec<Span>, u64), DriveError> {
        let known = self.journal.earlier.as_ref().and_then(EarlierRun::known_fresh);
        if let Some(fresh) = known {
            self.fresh = Some(fresh);
            self.read_suspicious_again(fresh, observer)?;
        }
        if let Some(fresh) = known
            && !self.evidence.iter().any(|it| it.is_suspicious(fresh))
        {
            return Ok((self.sum_by_verdict(fresh), Vec::new(), 0));
        }
        let (mut baselines, written) =
            match known.and_then(|fresh| fresh_windows(&self.evidence, fresh)) {
                Some(windows) => {
                    self.typical = Some(FreshReadTime::even(self.mean_of(&windows)));
                    (BaselineSet::of_own(windows), 0)
                }
                None => self.make_baselines(observer)?,
            };
        let fresh = self.fresh.expect("the baselines were measured");
        self.limit_handicaps(fresh);
        self.take_turns(&mut baselines, fresh, observer)?;
        self.read_small_requests(&mut baselines, fresh, observer)?;
        let is_slow = |it: &&Evidence| matches!(it.verdict(fresh), Some(Verdict::Slow(_)));
        let rewrite: Vec<Span> = self.evidence.iter().filter(is_slow).map(|it| it.span).collect();
        if let Some(why) = self.survey.hidden_flash.as_ref().filter(|_| !rewrite.is_empty()) {
            self.notes.push(format!("{why}, so no conclusion about flash is drawn."));
        }
        Ok((self.sum_by_verdict(fresh), rewrite, written))
    }

    fn sum_by_verdict(&self, fresh: f64) -> BytesByVerdict {
        let verdict = |it: &Evidence| it.verdict(fresh).expect("enough turns were taken");
        let judged: Vec<_> = self.evidence.iter().map(|it| (it, verdict(it))).collect();
        plan::sum_by_verdict(&judged)
    }

    /// Reads suspicious windows again, if the speed of fresh data is known. A window that other load
    /// disturbed is fast the next time; scattered data is slow each time. If none stays slow, no baseline
    /// has to be written.
    fn read_suspicious_again(
        &mut self,
        fresh: f64,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        for round in 0..READ_AGAIN {
            for at in 0..self.evidence.len() {
                if !self.evidence[at].is_suspicious(fresh) {
                    continue;
                }
                let done = round * self.evidence.len() + at;
                report_progress(observer, "reading again", done, READ_AGAIN * self.evidence.len())?;
                let again = self.probe.read_window(self.evidence[at].span, &mut self.limiter)?;
                self.evidence[at].read_again(again.seconds_per_byte());
            }
        }
        Ok(())
    }

    /// Limits the speeds after an earlier rewrite that windows are compared with: such a speed counts,
    /// but one from a busy day must not keep a window from ever being rewritten.
    fn limit_handicaps(&mut self, fresh: f64) {
        for evidence in &mut self.evidence {
            evidence.after_rewrite =
                evidence.after_rewrite.map(|it| it.min(REWRITE_THRESHOLD * fresh));
        }
    }

    /// Returns the seconds per byte of these windows, averaged over their bytes.
    fn mean_of(&self, windows: &[Span]) -> f64 {
        let of = self.evidence.iter().filter(|it| windows.contains(&it.span));
        1.0 / plan::speed(of.map(|it| (it.span, it.fastest())))
    }

    /// Returns the fastest tenth of the windows.
    fn fastest(&self) -> Vec<&Evidence> {
        let mut by_time: Vec<&Evidence> = self.evidence.iter().collect();
        by_time.sort_by(|a, b| a.fastest().total_cmp(&b.fastest()));
        by_time.truncate(by_time.len().div_ceil(10));
        by_time
    }

    /// Returns the baselines and the bytes written for them: temporary files, if there is space for them.
    /// If a cache may lie below, it may hold freshly written data, so the fastest windows of the file
    /// itself become a further baseline.
    fn make_baselines(
        &mut self,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(BaselineSet, u64), DriveError> {
        report_progress(observer, "writing baseline files", 0, 1)?;
        let window = self.options.window.bytes();
        let made: Result<Vec<WrittenBaseline>, String> = match self.survey.directory.as_deref() {
            Some(directory) => (0..baseline::FILES)
                .map(|_| {
                    let length = baseline::LENGTH / baseline::FILES;
                    WrittenBaseline::write(directory, length, window, &mut self.limiter)
                        .map_err(|error| error.to_string())
                })
                .collect(),
            None => Err("there is no file system to write one to".to_owned()),
        };
        let fastest = self.fastest();
        let own: Vec<Span> = fastest.iter().map(|it| it.span).collect();
        let own_fresh = fastest.last().map_or(0.0, |it| it.fastest());
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                self.notes.push(format!(
                    "No baseline could be written ({why}), so windows are compared with the \
                     fastest tenth among them; if all are equally slow, none is found slow. --all \
                     rewrites everything."
                ));
                let typical = FreshReadTime::even(self.mean_of(&own));
                (self.fresh, self.typical) = (Some(own_fresh), Some(typical));
                return Ok((BaselineSet::of_own(own), 0));
            }
        };
        // A window that is not slower than the slowest baseline is not slow.
        let mut fresh = made.iter().map(|it| it.fresh).fold(0.0, f64::max);
        let read_times: Vec<FreshReadTime> = made.iter().map(|it| it.read_time).collect();
        let typical = FreshReadTime::mean(&read_times);
        let mut baselines: Vec<Baseline> =
            made.into_iter().map(|it| Baseline::Written(Box::new(it))).collect();
        if let Some(why) = &self.survey.hidden_flash {
            if own_fresh > REWRITE_THRESHOLD * fresh {
                self.notes.push(format!(
                    "{why}, and freshly written data reads {:.1} times as fast as the fastest \
                     tenth of this: a cache below may be the cause, so this alone does not count.",
                    own_fresh / fresh
                ));
            }
            fresh = fresh.max(own_fresh);
            baselines.push(Baseline::Own(own));
        }
        (self.fresh, self.typical) = (Some(fresh), Some(typical));
        Ok((BaselineSet(baselines), baseline::LENGTH))
    }

    /// Reads suspicious windows by turns with the baselines, round by round, so that the turns of one
    /// window lie apart in time.
    fn take_turns(
        &mut self,
        baselines: &mut BaselineSet,
        fresh: f64,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        let mut order: Vec<usize> = (0..self.evidence.len()).collect();
        for round in 0..TURNS_MAX {
            // A random order, so that a periodic disturbance does not hit the same window in each round.
            order.shuffle(&mut generator);
            for (done, &at) in order.iter().enumerate() {
                if self.evidence[at].verdict(fresh).is_some() {
                    continue;
                }
                let step =
                    format!("rereading windows {RECHECK_THRESHOLD} times slower than fresh data");
                report_progress(
                    observer,
                    &step,
                    round * order.len() + done,
                    TURNS_MAX * order.len(),
                )?;
                let span = self.evidence[at].span;
                // Window and baselines are read with the same length: less than a request would reach fewer dies.
                let length = span.length.min(TURN);
                let read: ReadWindow<'_, Vec<f64>> = &|probe, window, generator, limiter| {
                    Ok(probe.read_part(window, length, generator, limiter)?.seconds_per_byte())
                };
                let mut fresh = Vec::with_capacity(baselines.0.len());
                for baseline in &mut baselines.0 {
                    let (probe, limiter) = (&mut self.probe, &mut self.limiter);
                    // The same place of the baseline in all turns of a window: otherwise the fastest reading of several
                    // places would be compared with the fastest of one.
                    fresh.push(baseline.read(at, probe, &mut generator, limiter, read)?);
                }
                let own = read(&mut self.probe, span, &mut generator, &mut self.limiter)?;
                self.evidence[at].turns.push(Turn { own, fresh });
            }
        }
        Ok(())
    }

    /// Does small reads of slow windows, which show the cause of the slowness, if flash is visible.
    fn read_small_requests(
        &mut self,
        baselines: &mut BaselineSet,
        fresh: f64,
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), DriveError> {
        if self.survey.hidden_flash.is_some() {
            return Ok(());
        }
        let mut generator = Pcg64Mcg::seed_from_u64(3);
        for at in 0..self.evidence.len() {
            if !matches!(self.evidence[at].verdict(fresh), Some(Verdict::Slow(_))) {
                continue;
            }
            report_progress(observer, "finding the cause", at, self.evidence.len())?;
            let span = self.evidence[at].span;
            for turn in 0..SMALL_READS {
                let count = baselines.0.len();
                let other = baselines.0[turn % count].read(
                    at + turn / count,
                    &mut self.probe,
                    &mut generator,
                    &mut self.limiter,
                    &Probe::read_small,
                )?;
                let own = self.probe.read_small(span, &mut generator, &mut self.limiter)?;
                self.evidence[at].small.push((own, other));
            }
        }
        Ok(())
    }

    fn new_plan(&self, rewrite: Vec<Span>, found: BytesByVerdict) -> Plan {
        let bytes_to_write = rewrite.iter().map(|it| it.length).sum();
        let now = plan::speed(self.evidence.iter().map(|it| (it.span, it.time_without_load())));
        let fresh = self.typical.or(self.fresh.map(FreshReadTime::even));
        Plan {
            schema: SCHEMA,
            path: self.survey.path.clone(),
            lies_on: self.survey.lies_on.clone(),
            way: self.survey.method,
            way_words: describe_method(self.survey.method),
            length: self.survey.length,
            data: self.survey.data(),
            windows: self.windows.len(),
            found,
            bytes_to_write,
            yardstick_bytes: 0,
            speed_now: now,
            speed_fresh: fresh.map(|it| 1.0 / it.following),
            speed_expected: fresh.map(|it| plan::expected_speed(&self.evidence, &rewrite, it)),
            slowdown: self.fresh.and_then(|it| plan::slowdown(&self.evidence, &rewrite, it)),
            share_of_life: self.survey.disks.read_health().share_of_life(bytes_to_write),
            rewrite,
            resumed: false,
            notes: self.notes.clone(),
        }
    }
}

/// Returns windows that an earlier rewrite has made fast, and that still are fast: they serve as
/// baselines, and nothing has to be written. `None` if they have less than a quarter of the bytes of
/// written baselines (8 MiB), which a cache could hold.
fn fresh_windows(evidence: &[Evidence], fresh: f64) -> Option<Vec<Span>> {
    let is_fresh = |it: &&Evidence| it.after_rewrite.is_some() && !it.is_suspicious(fresh);
    let windows: Vec<Span> = evidence.iter().filter(is_fresh).map(|it| it.span).collect();
    let bytes: u64 = windows.iter().map(|it| it.length).sum();
    (bytes >= baseline::LENGTH / 4).then_some(windows)
}

fn describe_method(method: RewriteMethod) -> &'static str {
    match method {
        RewriteMethod::MoveExtents => "moved by ext4 to new blocks while it stays in use",
        RewriteMethod::Defragment => "rewritten by btrfs without compression while it stays in use",
        RewriteMethod::CommitRange => "exchanged by xfs for a copy while it stays in use",
        RewriteMethod::Frozen => {
            "rewritten in place, with the file system frozen for moments (fsfreeze)"
        }
        RewriteMethod::Alone => "rewritten in place, on a device that nobody else uses",
    }
}

/// A way to read a window of a file.
type ReadWindow<'a, T> =
    &'a dyn Fn(&mut Probe, Span, &mut Pcg64Mcg, &mut RateLimiter) -> Result<T, DriveError>;

impl BaselineSet {
    /// Makes baselines of windows of the file itself, dealt out in turn. If there is only one window,
    /// each baseline consists of it.
    fn of_own(windows: Vec<Span>) -> BaselineSet {
        let part = |first: usize| {
            let own = windows.iter().skip(first % windows.len()).step_by(BASELINES_MIN);
            Baseline::Own(own.copied().collect())
        };
        BaselineSet((0..BASELINES_MIN).map(part).collect())
    }
}

impl Baseline {
    /// Reads the window of the baseline with this number, counted around.
    fn read<T>(
        &mut self,
        number: usize,
        own: &mut Probe,
        generator: &mut Pcg64Mcg,
        limiter: &mut RateLimiter,
        read: ReadWindow<'_, T>,
    ) -> Result<T, DriveError> {
        match self {
            Baseline::Written(baseline) => {
                let (probe, window) = baseline.window(number);
                read(probe, window, generator, limiter)
            }
            Baseline::Own(windows) => {
                read(own, windows[number % windows.len()], generator, limiter)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_its_own_are_baselines_in_different_places() {
        let spans = |baselines: BaselineSet| -> Vec<Vec<Span>> {
            let of = |it| match it {
                Baseline::Own(windows) => windows,
                Baseline::Written(_) => panic!("nothing was written"),
            };
            baselines.0.into_iter().map(of).collect()
        };
        let all: Vec<Span> = (0..5).map(|at| Span::new(at * 10, 10)).collect();
        let found = spans(BaselineSet::of_own(all.clone()));
        assert_eq!(found, [vec![all[0], all[2], all[4]], vec![all[1], all[3]]]);
        assert_eq!(spans(BaselineSet::of_own(all[..1].to_vec())), vec![vec![all[0]]; 2]);
    }

    #[test]
    fn what_was_rewritten_and_is_still_fresh_is_a_baseline() {
        const MIB: u64 = 1 << 20;
        let evidence = |at: u64, first: f64, after: Option<f64>| {
            let mut evidence = Evidence::new(Span::new(at * 4 * MIB, 4 * MIB), 1, vec![first]);
            evidence.after_rewrite = after;
            evidence
        };
        let mut all = vec![
            evidence(0, 1.0, None),
            evidence(1, 1.1, Some(1.0)),
            evidence(2, 5.0, Some(1.0)),
            evidence(3, 1.0, Some(1.0)),
        ];
        let windows = fresh_windows(&all, 1.0).expect("two windows are enough");
        assert_eq!(windows, [all[1].span, all[3].span]);
        all.pop();
        assert_eq!(fresh_windows(&all, 1.0), None, "a cache may hold so little");
        // The data was scattered again: no window serves as a baseline.
        let all: Vec<Evidence> = (0..8).map(|at| evidence(at, 5.0, Some(1.0))).collect();
        assert_eq!(fresh_windows(&all, 1.0), None);
    }
}
