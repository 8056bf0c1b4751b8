//! The first half of a refresh: survey, reads, verdicts and the plan.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use ssdlab_units::ByteLength;

use super::{Options, Refresh, Watch, go_on};
use crate::ground::Ground;
use crate::journal::{Earlier, Journal};
use crate::judge::{BASELINES_MIN, Evidence, SUSPICIOUS, TURNS_MAX, Turn, Verdict, WORTH};
use crate::pace::Pace;
use crate::plan::{self, Found, FreshPace, Plan, SCHEMA};
use crate::probe::Probe;
use crate::survey::{Needed, Survey, Way, refuse_deadlock};
use crate::window::{Span, divide};
use crate::yardstick::{self, Yardstick};
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
    Written(Box<Yardstick>),
    /// Windows of the file itself.
    Own(Vec<Span>),
}

/// Baselines that lie in different places.
struct Standard(Vec<Baseline>);

impl Refresh {
    /// Surveys the file or device at `path`, and opens its journal.
    ///
    /// # Errors
    /// Returns the reason if it must not or cannot be refreshed; nothing was changed then.
    pub fn of(path: &std::path::Path, options: Options) -> Result<Refresh, DriveError> {
        let survey = Survey::of(path, options.agreed)?;
        if let Some(held) = survey.ground.as_ref().and_then(Ground::frozen) {
            let needed = [&options.needed[..], &[Needed::journal(options.journals.clone())]];
            refuse_deadlock(path, held.super_block, &needed.concat())?;
        }
        let checkup = survey.disks.ask();
        if let Some(why) = checkup.obstacle() {
            return Err(refused(format!("{why}; nothing was changed")));
        }
        let journal = Journal::open(&options.journals, &survey.identity)?;
        let mut notes = survey.notes.clone();
        notes.extend(checkup.notes());
        let open = journal.earlier.as_ref().map_or(0, |it| it.open().len());
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
                "An earlier refresh ended with {open} windows left; --resume goes on with them."
            ));
        }
        system::yield_to_others();
        Ok(Refresh {
            probe: Probe::new(survey.open_direct()?),
            pace: Pace::new(options.rate),
            windows: divide(&survey.runs, options.window.bytes().max(1 << 16)),
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
    /// Returns an error if the data cannot be read, or the callback `watch` cancels.
    pub fn plan(&mut self, watch: &mut dyn Watch) -> Result<Plan, DriveError> {
        if self.options.resume {
            return self.resumed(watch);
        }
        self.read_all(watch, "reading")?;
        let mut found = Found { not_judged: self.survey.data(), ..Found::default() };
        let mut yardstick_bytes = 0;
        let mut rewrite = self.windows.clone();
        if !self.options.all {
            (found, rewrite, yardstick_bytes) = self.judge(watch)?;
            if rewrite.is_empty() && yardstick_bytes > 0 {
                self.journal_of_nothing()?;
            }
        }
        let mut plan = self.plan_of(rewrite, found);
        plan.yardstick_bytes = yardstick_bytes;
        Ok(plan)
    }

    /// Starts and ends a journal without windows, so that the next refresh knows the speed of fresh data
    /// without writing baselines. A journal with windows still to rewrite is left as it is.
    fn journal_of_nothing(&mut self) -> Result<(), DriveError> {
        if self.journal.earlier.as_ref().is_some_and(|it| !it.open().is_empty()) {
            return Ok(());
        }
        let after: Vec<(Span, f64)> =
            self.evidence.iter().filter_map(|it| Some((it.span, it.after_rewrite?))).collect();
        self.begin_journal(&[])?;
        self.journal.over(after)
    }

    /// Returns the rest of the plan of an earlier refresh.
    fn resumed(&mut self, watch: &mut dyn Watch) -> Result<Plan, DriveError> {
        let earlier = self.journal.earlier.clone().unwrap_or_default();
        let now: Vec<Span> = earlier.open().into_iter().filter(|it| self.is_data(*it)).collect();
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
                    "the earlier plan has windows of {}; say --window {} to go on with it, or leave \
                     --resume out",
                    ByteLength::new(planned),
                    planned
                ),
            ));
        }
        if self.windows.is_empty() {
            return Err(DriveError::new(
                ErrorKind::Usage,
                "it has changed so much that nothing of the earlier plan holds; leave --resume out",
            ));
        }
        go_on(watch, "resuming", 1, 1)?;
        let survey = &self.survey;
        self.evidence = self
            .windows
            .iter()
            .map(|it| Evidence::new(*it, survey.pieces_in(*it), vec![before[it]]))
            .collect();
        let found = Found { not_judged: self.survey.data(), ..Found::default() };
        let mut plan = self.plan_of(now, found);
        plan.resumed = true;
        Ok(plan)
    }

    /// Returns true if a span is still data from end to end.
    fn is_data(&self, span: Span) -> bool {
        self.survey.runs.iter().any(|run| run.overlap(span) == Some(span))
    }

    fn read_all(&mut self, watch: &mut dyn Watch, step: &str) -> Result<(), DriveError> {
        let after = self.journal.earlier.as_ref().and_then(|it| it.after.clone());
        let after: HashMap<Span, f64> = after.unwrap_or_default().into_iter().collect();
        self.evidence.clear();
        for (done, window) in self.windows.iter().enumerate() {
            go_on(watch, step, done, self.windows.len())?;
            let first = self.probe.window(*window, &mut self.pace)?.shares();
            let mut evidence = Evidence::new(*window, self.survey.pieces_in(*window), first);
            evidence.after_rewrite = after.get(window).copied();
            self.evidence.push(evidence);
        }
        Ok(())
    }

    /// Judges all windows. Returns the bytes by verdict, the windows to rewrite, and the bytes written as
    /// baselines.
    fn judge(&mut self, watch: &mut dyn Watch) -> Result<(Found, Vec<Span>, u64), DriveError> {
        let known = self.journal.earlier.as_ref().and_then(Earlier::known_fresh);
        if let Some(fresh) = known {
            self.fresh = Some(fresh);
            self.read_suspicious_again(fresh, watch)?;
        }
        if let Some(fresh) = known
            && !self.evidence.iter().any(|it| it.is_suspicious(fresh))
        {
            return Ok((self.found(fresh), Vec::new(), 0));
        }
        let (mut standard, written) =
            match known.and_then(|fresh| fresh_windows(&self.evidence, fresh)) {
                Some(windows) => {
                    self.typical = Some(FreshPace::even(self.mean_of(&windows)));
                    (Standard::of_own(windows), 0)
                }
                None => self.standard(watch)?,
            };
        let fresh = self.fresh.expect("the standard was measured");
        self.limit_handicaps(fresh);
        self.take_turns(&mut standard, fresh, watch)?;
        self.read_small(&mut standard, fresh, watch)?;
        let is_slow = |it: &&Evidence| matches!(it.verdict(fresh), Some(Verdict::Slow(_)));
        let rewrite: Vec<Span> = self.evidence.iter().filter(is_slow).map(|it| it.span).collect();
        if let Some(why) = self.survey.hidden_flash.as_ref().filter(|_| !rewrite.is_empty()) {
            self.notes.push(format!("{why}, so nothing is said of flash."));
        }
        Ok((self.found(fresh), rewrite, written))
    }

    fn found(&self, fresh: f64) -> Found {
        let verdict = |it: &Evidence| it.verdict(fresh).expect("enough turns were taken");
        let judged: Vec<_> = self.evidence.iter().map(|it| (it, verdict(it))).collect();
        plan::found(&judged)
    }

    /// Reads suspicious windows again, if the speed of fresh data is known. A window that other load
    /// disturbed is fast the next time; scattered data is slow each time. If none stays slow, no baseline
    /// has to be written.
    fn read_suspicious_again(
        &mut self,
        fresh: f64,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        for round in 0..READ_AGAIN {
            for at in 0..self.evidence.len() {
                if !self.evidence[at].is_suspicious(fresh) {
                    continue;
                }
                let done = round * self.evidence.len() + at;
                go_on(watch, "reading again", done, READ_AGAIN * self.evidence.len())?;
                let again = self.probe.window(self.evidence[at].span, &mut self.pace)?;
                self.evidence[at].read_again(again.shares());
            }
        }
        Ok(())
    }

    /// Limits the speeds after an earlier rewrite that windows are compared with: such a speed counts,
    /// but one from a busy day must not keep a window from ever being rewritten.
    fn limit_handicaps(&mut self, fresh: f64) {
        for evidence in &mut self.evidence {
            evidence.after_rewrite = evidence.after_rewrite.map(|it| it.min(WORTH * fresh));
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
    fn standard(&mut self, watch: &mut dyn Watch) -> Result<(Standard, u64), DriveError> {
        go_on(watch, "writing files to compare with", 0, 1)?;
        let window = self.options.window.bytes();
        let made: Result<Vec<Yardstick>, String> = match self.survey.directory.as_deref() {
            Some(directory) => (0..yardstick::FILES)
                .map(|_| {
                    let length = yardstick::LENGTH / yardstick::FILES;
                    Yardstick::write(directory, length, window, &mut self.pace)
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
                    "There is no yardstick ({why}), so windows are held against the fastest tenth \
                     of their own; where all are equally slow, none is found slow. --all rewrites \
                     everything."
                ));
                let typical = FreshPace::even(self.mean_of(&own));
                (self.fresh, self.typical) = (Some(own_fresh), Some(typical));
                return Ok((Standard::of_own(own), 0));
            }
        };
        // A window that is not slower than the slowest baseline is not slow.
        let mut fresh = made.iter().map(|it| it.fresh).fold(0.0, f64::max);
        let paces: Vec<FreshPace> = made.iter().map(|it| it.pace).collect();
        let typical = FreshPace::mean(&paces);
        let mut baselines: Vec<Baseline> =
            made.into_iter().map(|it| Baseline::Written(Box::new(it))).collect();
        if let Some(why) = &self.survey.hidden_flash {
            if own_fresh > WORTH * fresh {
                self.notes.push(format!(
                    "{why}, and what was written just now is read {:.1} times as fast as the fastest \
                     tenth of this: a cache below may be why, so that alone counts for nothing.",
                    own_fresh / fresh
                ));
            }
            fresh = fresh.max(own_fresh);
            baselines.push(Baseline::Own(own));
        }
        (self.fresh, self.typical) = (Some(fresh), Some(typical));
        Ok((Standard(baselines), yardstick::LENGTH))
    }

    /// Reads suspicious windows by turns with the baselines, round by round, so that the turns of one
    /// window lie apart in time.
    fn take_turns(
        &mut self,
        standard: &mut Standard,
        fresh: f64,
        watch: &mut dyn Watch,
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
                let step = format!("looking again at what is {SUSPICIOUS} times slower than fresh");
                go_on(watch, &step, round * order.len() + done, TURNS_MAX * order.len())?;
                let span = self.evidence[at].span;
                // Window and baselines are read with the same length: less than a request would reach fewer dies.
                let length = span.length.min(TURN);
                let read: Read<'_, Vec<f64>> = &|probe, window, generator, pace| {
                    Ok(probe.part(window, length, generator, pace)?.shares())
                };
                let mut fresh = Vec::with_capacity(standard.0.len());
                for baseline in &mut standard.0 {
                    let (probe, pace) = (&mut self.probe, &mut self.pace);
                    // The same place of the baseline in all turns of a window: otherwise the fastest reading of several
                    // places would be compared with the fastest of one.
                    fresh.push(baseline.read(at, probe, &mut generator, pace, read)?);
                }
                let own = read(&mut self.probe, span, &mut generator, &mut self.pace)?;
                self.evidence[at].turns.push(Turn { own, fresh });
            }
        }
        Ok(())
    }

    /// Does small reads of slow windows, which show the cause of the slowness, if flash is visible.
    fn read_small(
        &mut self,
        standard: &mut Standard,
        fresh: f64,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        if self.survey.hidden_flash.is_some() {
            return Ok(());
        }
        let mut generator = Pcg64Mcg::seed_from_u64(3);
        for at in 0..self.evidence.len() {
            if !matches!(self.evidence[at].verdict(fresh), Some(Verdict::Slow(_))) {
                continue;
            }
            go_on(watch, "finding out why", at, self.evidence.len())?;
            let span = self.evidence[at].span;
            for turn in 0..SMALL_READS {
                let baselines = standard.0.len();
                let other = standard.0[turn % baselines].read(
                    at + turn / baselines,
                    &mut self.probe,
                    &mut generator,
                    &mut self.pace,
                    &Probe::small,
                )?;
                let own = self.probe.small(span, &mut generator, &mut self.pace)?;
                self.evidence[at].small.push((own, other));
            }
        }
        Ok(())
    }

    fn plan_of(&self, rewrite: Vec<Span>, found: Found) -> Plan {
        let bytes_to_write = rewrite.iter().map(|it| it.length).sum();
        let now = plan::speed(self.evidence.iter().map(|it| (it.span, it.now())));
        let fresh = self.typical.or(self.fresh.map(FreshPace::even));
        Plan {
            schema: SCHEMA,
            path: self.survey.path.clone(),
            lies_on: self.survey.lies_on.clone(),
            way: self.survey.way,
            way_words: way_words(self.survey.way),
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
            share_of_life: self.survey.disks.ask().share_of_life(bytes_to_write),
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
    (bytes >= yardstick::LENGTH / 4).then_some(windows)
}

fn way_words(way: Way) -> &'static str {
    match way {
        Way::MoveExtents => "moved by ext4 to new blocks, while others go on using it",
        Way::Defragment => "written anew by btrfs, not compressed, while others go on using it",
        Way::CommitRange => "exchanged by xfs for a copy, while others go on using it",
        Way::Frozen => "written back to where it lies, with the file system frozen for moments",
        Way::Alone => "written back to where it lies, on a device that nobody else uses",
    }
}

/// A way to read a window of a file.
type Read<'a, T> = &'a dyn Fn(&mut Probe, Span, &mut Pcg64Mcg, &mut Pace) -> Result<T, DriveError>;

impl Standard {
    /// Makes baselines of windows of the file itself, dealt out in turn. If there is only one window,
    /// each baseline consists of it.
    fn of_own(windows: Vec<Span>) -> Standard {
        let part = |first: usize| {
            let own = windows.iter().skip(first % windows.len()).step_by(BASELINES_MIN);
            Baseline::Own(own.copied().collect())
        };
        Standard((0..BASELINES_MIN).map(part).collect())
    }
}

impl Baseline {
    /// Reads the window of the baseline with this number, counted around.
    fn read<T>(
        &mut self,
        number: usize,
        own: &mut Probe,
        generator: &mut Pcg64Mcg,
        pace: &mut Pace,
        read: Read<'_, T>,
    ) -> Result<T, DriveError> {
        match self {
            Baseline::Written(yardstick) => {
                let (probe, window) = yardstick.window(number);
                read(probe, window, generator, pace)
            }
            Baseline::Own(windows) => read(own, windows[number % windows.len()], generator, pace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_its_own_are_baselines_in_different_places() {
        let spans = |standard: Standard| -> Vec<Vec<Span>> {
            let of = |it| match it {
                Baseline::Own(windows) => windows,
                Baseline::Written(_) => panic!("nothing was written"),
            };
            standard.0.into_iter().map(of).collect()
        };
        let all: Vec<Span> = (0..5).map(|at| Span::new(at * 10, 10)).collect();
        let found = spans(Standard::of_own(all.clone()));
        assert_eq!(found, [vec![all[0], all[2], all[4]], vec![all[1], all[3]]]);
        assert_eq!(spans(Standard::of_own(all[..1].to_vec())), vec![vec![all[0]]; 2]);
    }

    #[test]
    fn what_was_rewritten_and_is_still_fresh_is_a_yardstick() {
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
