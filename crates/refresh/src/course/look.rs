//! Looking: the survey, the readings, the verdicts and the plan.

use std::collections::HashMap;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{Options, Refresh, Watch, go_on};
use crate::health::Health;
use crate::journal::Journal;
use crate::judge::{Evidence, SUSPICIOUS, TURNS_MAX, Verdict, WORTH};
use crate::pace::Pace;
use crate::plan::{self, Found, Plan, SCHEMA};
use crate::probe::Probe;
use crate::survey::{Needed, Survey, Way, refuse_deadlock};
use crate::window::{Span, divide};
use crate::yardstick::{self, Yardstick};
use crate::{DriveError, ErrorKind, refused, system};

/// Small reads of a slow window, each with one of the yardstick.
const SMALL_READS: usize = 9;

/// What windows are held against.
enum Standard {
    /// A file of ours.
    Written(Box<Yardstick>),
    /// The fastest windows of its own.
    Own { windows: Vec<Span>, next: usize },
}

impl Refresh {
    /// Looks at what is to be refreshed, and whether it may be.
    ///
    /// # Errors
    /// With the reason where it may not or cannot be; nothing was changed then.
    pub fn of(path: &std::path::Path, options: Options) -> Result<Refresh, DriveError> {
        let survey = Survey::of(path, options.agreed)?;
        if survey.way == Way::Frozen {
            let directory = survey.directory.as_deref().expect("what is frozen is mounted");
            let journal = Needed { what: "the journal".to_owned(), path: options.journals.clone() };
            refuse_deadlock(directory, &[&options.needed[..], &[journal]].concat())?;
        }
        if let Some(why) = survey.device.as_deref().map(Health::ask).and_then(|it| it.obstacle()) {
            return Err(refused(format!("{why}; nothing was changed")));
        }
        let journal = Journal::open(&options.journals, &survey.identity)?;
        let mut notes = survey.notes.clone();
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
            notes,
        })
    }

    /// Reads, judges and says what a refresh would do. Nothing is rewritten; to know what fresh
    /// data reads like, a file may be written that is gone afterwards.
    ///
    /// # Errors
    /// When it cannot be read, or whoever looks on ends it.
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
        }
        let mut plan = self.plan_of(rewrite, found);
        plan.yardstick_bytes = yardstick_bytes;
        Ok(plan)
    }

    /// The plan of an earlier refresh, as far as it is not done.
    fn resumed(&mut self, watch: &mut dyn Watch) -> Result<Plan, DriveError> {
        let earlier = self.journal.earlier.clone().unwrap_or_default();
        let now: Vec<Span> = earlier.open().into_iter().filter(|it| self.is_data(*it)).collect();
        self.fresh = earlier.fresh;
        let before: HashMap<Span, f64> = earlier.before.into_iter().collect();
        self.windows.retain(|it| before.contains_key(it));
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
            .map(|it| Evidence::new(*it, survey.pieces_in(*it), before[it]))
            .collect();
        let found = Found { not_judged: self.survey.data(), ..Found::default() };
        let mut plan = self.plan_of(now, found);
        plan.resumed = true;
        Ok(plan)
    }

    /// Whether a span is still data from end to end.
    fn is_data(&self, span: Span) -> bool {
        self.survey.runs.iter().any(|run| run.overlap(span) == Some(span))
    }

    fn read_all(&mut self, watch: &mut dyn Watch, step: &str) -> Result<(), DriveError> {
        let after = self.journal.earlier.as_ref().and_then(|it| it.after.clone());
        let after: HashMap<Span, f64> = after.unwrap_or_default().into_iter().collect();
        self.evidence.clear();
        for (done, window) in self.windows.iter().enumerate() {
            go_on(watch, step, done, self.windows.len())?;
            let first = self.probe.window(*window, &mut self.pace)?;
            let mut evidence = Evidence::new(*window, self.survey.pieces_in(*window), first);
            evidence.after_rewrite = after.get(window).copied();
            self.evidence.push(evidence);
        }
        Ok(())
    }

    /// Judges all windows; returns what was found, what to rewrite, and how much was written for
    /// that.
    fn judge(&mut self, watch: &mut dyn Watch) -> Result<(Found, Vec<Span>, u64), DriveError> {
        let known = self.journal.earlier.as_ref().and_then(|it| it.fresh);
        if let Some(fresh) = known
            && !self.evidence.iter().any(|it| it.is_suspicious(fresh))
        {
            self.fresh = Some(fresh);
            let judged: Vec<_> = self.evidence.iter().map(|it| (it, Verdict::Fine)).collect();
            return Ok((plan::found(&judged), Vec::new(), 0));
        }
        let (mut standard, written) = self.standard(watch)?;
        let fresh = self.fresh.expect("the standard was measured");
        self.limit_handicaps(fresh);
        self.take_turns(&mut standard, fresh, watch)?;
        self.read_small(&mut standard, fresh, watch)?;
        let judged: Vec<(&Evidence, Verdict)> = self
            .evidence
            .iter()
            .map(|it| (it, it.verdict(fresh).expect("enough turns were taken")))
            .collect();
        let is_slow = |verdict: &Verdict| matches!(verdict, Verdict::Slow(_));
        let rewrite = judged.iter().filter(|it| is_slow(&it.1)).map(|it| it.0.span).collect();
        Ok((plan::found(&judged), rewrite, written))
    }

    /// What an earlier rewrite did not mend counts, but a reading on a busy day must not keep a
    /// window from being mended for ever.
    fn limit_handicaps(&mut self, fresh: f64) {
        for evidence in &mut self.evidence {
            evidence.after_rewrite = evidence.after_rewrite.map(|it| it.min(WORTH * fresh));
        }
    }

    /// What fresh data reads like: a file of ours where there is room for one.
    fn standard(&mut self, watch: &mut dyn Watch) -> Result<(Standard, u64), DriveError> {
        go_on(watch, "writing a yardstick", 0, 1)?;
        let window = self.options.window.bytes();
        let made = match self.survey.directory.as_deref() {
            Some(directory) => {
                Yardstick::write(directory, yardstick::LENGTH, window, &mut self.pace)
                    .map_err(|error| error.to_string())
            }
            None => Err("there is no file system to write one to".to_owned()),
        };
        match made {
            Ok(made) => {
                self.fresh = Some(made.fresh);
                Ok((Standard::Written(Box::new(made)), yardstick::LENGTH))
            }
            Err(why) => {
                self.notes.push(format!(
                    "There is no yardstick ({why}), so windows are held against the fastest tenth \
                     of their own; where all are equally slow, none is found slow. --all rewrites \
                     everything."
                ));
                let mut by_time: Vec<&Evidence> = self.evidence.iter().collect();
                by_time.sort_by(|a, b| a.first.total_cmp(&b.first));
                let fastest = &by_time[..by_time.len().div_ceil(10)];
                self.fresh = Some(fastest[fastest.len() - 1].first);
                let windows = fastest.iter().map(|it| it.span).collect();
                Ok((Standard::Own { windows, next: 0 }, 0))
            }
        }
    }

    /// Reads suspicious windows by turns with the standard, round after round, so that the turns of
    /// one window lie apart in time.
    fn take_turns(
        &mut self,
        standard: &mut Standard,
        fresh: f64,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        for round in 0..TURNS_MAX {
            for at in 0..self.evidence.len() {
                if self.evidence[at].verdict(fresh).is_some() {
                    continue;
                }
                let step = format!("looking again at what is {SUSPICIOUS} times slower than fresh");
                go_on(
                    watch,
                    &step,
                    round * self.evidence.len() + at,
                    TURNS_MAX * self.evidence.len(),
                )?;
                let span = self.evidence[at].span;
                let other = standard.read(
                    &mut self.probe,
                    &mut generator,
                    &mut self.pace,
                    Probe::request,
                )?;
                let own = self.probe.request(span, &mut generator, &mut self.pace)?;
                self.evidence[at].turns.push((own, other));
            }
        }
        Ok(())
    }

    /// Small reads of what is slow tell why.
    fn read_small(
        &mut self,
        standard: &mut Standard,
        fresh: f64,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let mut generator = Pcg64Mcg::seed_from_u64(3);
        for at in 0..self.evidence.len() {
            if !matches!(self.evidence[at].verdict(fresh), Some(Verdict::Slow(_))) {
                continue;
            }
            go_on(watch, "finding out why", at, self.evidence.len())?;
            let span = self.evidence[at].span;
            for _ in 0..SMALL_READS {
                let other =
                    standard.read(&mut self.probe, &mut generator, &mut self.pace, Probe::small)?;
                let own = self.probe.small(span, &mut generator, &mut self.pace)?;
                self.evidence[at].small.push((own, other));
            }
        }
        Ok(())
    }

    fn plan_of(&self, rewrite: Vec<Span>, found: Found) -> Plan {
        let bytes_to_write = rewrite.iter().map(|it| it.length).sum();
        let now = plan::speed(self.evidence.iter().map(|it| (it.span, it.first)));
        let health = self.survey.device.as_deref().map(Health::ask);
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
            speed_fresh: self.fresh.map(|fresh| 1.0 / fresh),
            speed_expected: self
                .fresh
                .map(|fresh| plan::expected_speed(&self.evidence, &rewrite, fresh)),
            slowdown: self.fresh.and_then(|it| plan::slowdown(&self.evidence, &rewrite, it)),
            share_of_life: health.and_then(|it| it.share_of_life(bytes_to_write)),
            rewrite,
            resumed: false,
            notes: self.notes.clone(),
        }
    }
}

fn way_words(way: Way) -> &'static str {
    match way {
        Way::MoveExtents => "moved by ext4 to new blocks, while others go on using it",
        Way::Defragment => "written anew by btrfs, not compressed, while others go on using it",
        Way::Frozen => "written back to where it lies, with the file system frozen for moments",
        Way::Alone => "written back to where it lies, on a device that nobody else uses",
    }
}

/// A way to read a window of something.
type Read = fn(&mut Probe, Span, &mut Pcg64Mcg, &mut Pace) -> Result<f64, DriveError>;

impl Standard {
    /// Reads the next window of it.
    fn read(
        &mut self,
        own: &mut Probe,
        generator: &mut Pcg64Mcg,
        pace: &mut Pace,
        read: Read,
    ) -> Result<f64, DriveError> {
        match self {
            Standard::Written(yardstick) => {
                let (probe, window) = yardstick.next_window();
                read(probe, window, generator, pace)
            }
            Standard::Own { windows, next } => {
                *next += 1;
                read(own, windows[*next % windows.len()], generator, pace)
            }
        }
    }
}
