//! Carrying a plan out, and reading again.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Refresh, Watch, go_on};
use crate::freeze::Freezer;
use crate::health::{COOLER, Health, Thermometer};
use crate::interval::ratio_of_sums;
use crate::journal::Earlier;
use crate::plan::{Plan, Summary, speed, stretches};
use crate::strategy::btrfs::Defragment;
use crate::strategy::ext4::MoveExtents;
use crate::strategy::frozen::Rewrite;
use crate::strategy::xfs::CommitRange;
use crate::strategy::{Left, Strategy};
use crate::survey::Way;
use crate::window::Span;
use crate::{DriveError, ErrorKind, io};

/// How long a drive has to cool before we give up.
const COOLING_MAX: Duration = Duration::from_secs(600);

/// How often the drive is asked how it is.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// How often is looked who has a device open that is rewritten in place; that costs some milliseconds.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why it ended before its end.
enum Stop {
    /// Something went wrong.
    Error(DriveError),
    /// It is better not to go on now.
    Reason(String),
}

impl From<DriveError> for Stop {
    fn from(error: DriveError) -> Stop {
        Stop::Error(error)
    }
}

/// What has been done so far.
#[derive(Default)]
struct Done {
    written: u64,
    left: BTreeMap<Left, u64>,
    spans: Vec<Span>,
}

impl Refresh {
    /// Rewrites what is planned, and reads everything again.
    ///
    /// # Errors
    /// When the file system or the drive fails. The journal then knows what is done.
    pub fn carry_out(&mut self, plan: &Plan, watch: &mut dyn Watch) -> Result<Summary, DriveError> {
        self.open_journal(plan)?;
        let mut strategy = self.strategy()?;
        let mut done = Done::default();
        let outcome = self.rewrite_all(plan, strategy.as_mut(), &mut done, watch);
        let freezes = strategy.freezes();
        // What was read before it lies elsewhere now; nothing of it is needed any more.
        drop(strategy);
        let (stopped, is_interrupted) = match outcome {
            Ok(()) => (None, false),
            Err(Stop::Reason(why)) => (Some(why), false),
            Err(Stop::Error(error)) if error.kind() == ErrorKind::Cancelled => {
                (Some("interrupted".to_owned()), true)
            }
            Err(Stop::Error(error)) => return Err(error),
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
            stopped,
            is_interrupted,
        };
        if summary.stopped.is_none() {
            self.read_again(&done, &mut summary, watch)?;
        }
        Ok(summary)
    }

    fn open_journal(&mut self, plan: &Plan) -> Result<(), DriveError> {
        if plan.resumed {
            return self.journal.go_on();
        }
        self.begin_journal(&plan.rewrite)
    }

    /// Begins the journal of a plan.
    pub(super) fn begin_journal(&mut self, planned: &[Span]) -> Result<(), DriveError> {
        let found = Earlier {
            planned: planned.to_vec(),
            done: Vec::new(),
            fresh: self.fresh,
            before: self.evidence.iter().map(|it| (it.span, it.first)).collect(),
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
                Box::new(MoveExtents::new(file()?, directory, survey.block, survey.reserve))
            }
            Way::CommitRange => {
                let directory = directory.expect("a file is in a directory");
                Box::new(CommitRange::new(file()?, directory, survey.block, survey.reserve)?)
            }
            Way::Defragment => Box::new(Defragment::new(file()?)),
            Way::Alone | Way::Frozen => Box::new(self.in_place()?),
        })
    }

    /// A rewrite in place. What was proved when it was looked at is proved again: the user may have
    /// taken his time to answer.
    fn in_place(&self) -> Result<Rewrite, DriveError> {
        let ground = self.survey.ground.as_ref().expect("what is rewritten in place has a ground");
        ground.prove()?;
        let cannot = |error| io("cannot use the device", error);
        let device = ground.device().map_err(cannot)?;
        let Some(held) = ground.frozen() else { return Ok(Rewrite::alone(device)) };
        let freezer = Freezer::new(held.file.try_clone().map_err(cannot)?)?;
        let is_device = self.survey.identity.inode == 0;
        let file = (!is_device).then(|| self.survey.file.try_clone()).transpose();
        Ok(Rewrite::frozen(device, file.map_err(cannot)?, freezer, self.options.max_freeze))
    }

    /// Who may have begun to write past us, in words.
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
        let thermometer = self.thermometer();
        for (stretch, windows) in stretches(&plan.rewrite) {
            strategy.announce(stretch);
            for window in windows {
                go_on(watch, "rewriting", count, plan.rewrite.len())?;
                self.wait_for_cool(thermometer.as_ref(), watch)?;
                if asked.elapsed() > ASK_AGAIN {
                    asked = Instant::now();
                    let device = self.survey.device.as_deref();
                    if let Some(why) = device.map(Health::ask).and_then(|it| it.obstacle()) {
                        return Err(Stop::Reason(why));
                    }
                }
                if let Some(why) = self.writer(&mut looked) {
                    return Err(Stop::Reason(why));
                }
                let outcome = strategy.rewrite(*window, &mut self.pace)?;
                done.written += outcome.written;
                done.spans.push(*window);
                if let Some(left) = outcome.left {
                    *done.left.entry(left).or_default() += window.length - outcome.written;
                }
                self.journal.done(*window, outcome.written, outcome.left)?;
                if outcome.left == Some(Left::NoRoom) {
                    return Err(Stop::Reason(
                        "there is no room on the file system to write data anew".to_owned(),
                    ));
                }
                if outcome.left == Some(Left::Freeze) {
                    return Err(Stop::Reason(
                        "the file system cannot be frozen as briefly as --max-freeze says; when \
                         less goes on it may be"
                            .to_owned(),
                    ));
                }
                count += 1;
            }
        }
        Ok(())
    }

    fn thermometer(&self) -> Option<Thermometer> {
        let name = self.survey.device.as_deref()?.file_name()?.to_string_lossy().into_owned();
        // A partition has no sensor, its disk has.
        let link = std::fs::canonicalize(Path::new("/sys/class/block").join(&name)).ok()?;
        let disk = if link.join("partition").exists() { link.parent()? } else { &link };
        Thermometer::of(&disk.file_name()?.to_string_lossy(), Path::new("/sys"))
    }

    /// Leaves a drive that is hot alone until it is not.
    fn wait_for_cool(
        &self,
        thermometer: Option<&Thermometer>,
        watch: &mut dyn Watch,
    ) -> Result<(), Stop> {
        let max = self.options.heat_max;
        let degrees = |it: &Thermometer| it.read().filter(|degrees| degrees.is_finite());
        let Some(mut now) = thermometer.and_then(degrees) else { return Ok(()) };
        if now < max {
            return Ok(());
        }
        let since = Instant::now();
        while now > max - COOLER {
            if since.elapsed() > COOLING_MAX {
                return Err(Stop::Reason(format!("the drive stays at {now} degrees Celsius")));
            }
            go_on(watch, &format!("letting the drive cool ({now} degrees)"), 0, 1)?;
            std::thread::sleep(Duration::from_secs(1));
            now = thermometer.and_then(degrees).unwrap_or(0.0);
        }
        Ok(())
    }

    fn read_again(
        &mut self,
        done: &Done,
        summary: &mut Summary,
        watch: &mut dyn Watch,
    ) -> Result<(), DriveError> {
        let mut after = Vec::new();
        for at in 0..self.evidence.len() {
            go_on(watch, "reading again", at, self.evidence.len())?;
            let span = self.evidence[at].span;
            after.push((span, self.probe.window(span, &mut self.pace)?));
        }
        summary.speed_after = Some(speed(after.iter().copied()));
        let times: Vec<(f64, f64)> = self
            .evidence
            .iter()
            .zip(&after)
            .map(|(before, (span, now))| {
                let bytes = span.length as f64;
                (before.first * bytes, now * bytes)
            })
            .collect();
        summary.gain = ratio_of_sums(&times);
        let mut known: HashMap<Span, f64> = HashMap::new();
        known.extend(self.evidence.iter().filter_map(|it| Some((it.span, it.after_rewrite?))));
        known.extend(after.into_iter().filter(|(span, _)| done.spans.contains(span)));
        let mut known: Vec<(Span, f64)> = known.into_iter().collect();
        known.sort_by_key(|(span, _)| *span);
        self.journal.over(known)
    }
}
