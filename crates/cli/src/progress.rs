//! Progress of a run on stderr, and the passing on of Ctrl-C to it.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ssdlab_drive::Control;
use ssdlab_drive::recording::Recorder;
use ssdlab_lab::experiment::{Sample, Watcher};
use ssdlab_serve::live::{Publisher, Subject};

use crate::interrupt::Interrupt;
use crate::terminal::Terminal;

/// Least time before the first line and between lines if stderr is not a terminal, since logs are read afterwards.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Least time after which the time left is estimated.
const MIN_ESTIMATE_TIME: Duration = Duration::from_secs(2);
/// Number of positions of the bar.
const BAR_LENGTH: u64 = 10_000;

/// Form in which progress is shown.
#[derive(Debug)]
enum Display {
    Hidden,
    Bar(ProgressBar),
    Lines { last: Instant },
}

/// Progress of a run, which shows it and watches for Ctrl-C.
#[derive(Debug)]
pub struct Progress<'a> {
    display: Display,
    terminal: &'a Terminal,
    interrupt: Interrupt,
    /// Publisher that tells other processes about the run, if any.
    publisher: Option<Publisher>,
    started: Instant,
    /// Expected time of the run, if there is an estimate.
    expected: Option<Duration>,
    step: String,
    /// Share of the run before this step; `weight` is the share of this step.
    before: f64,
    weight: f64,
}

impl<'a> Progress<'a> {
    /// Creates the progress display: a bar on a terminal, otherwise lines at intervals.
    pub fn new(terminal: &'a Terminal, interrupt: Interrupt, expected: Option<Duration>) -> Self {
        let started = Instant::now();
        let display = if terminal.quiet {
            Display::Hidden
        } else if std::io::stderr().is_terminal() {
            Display::Bar(bar(terminal.ascii))
        } else {
            Display::Lines { last: started }
        };
        Progress {
            display,
            terminal,
            interrupt,
            publisher: None,
            started,
            expected,
            step: String::new(),
            before: 0.0,
            weight: 0.0,
        }
    }

    /// Publishes the run, so that `ssdlab serve` shows it as well, with the blocks that `recorder` takes pictures of.
    pub fn with_publisher(mut self, subject: Subject, recorder: Option<Recorder>) -> Self {
        self.publisher = Some(Publisher::new(subject, recorder));
        self
    }

    /// Removes the bar before the report is printed; returns the publisher, which is to be told how the run ended.
    pub fn finish(self) -> Option<Publisher> {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
        self.publisher
    }

    /// Shows that `share` of the whole is done, in the step called `name`. Returns `Cancel` if Ctrl-C was pressed.
    pub fn update(&mut self, name: String, share: f64) -> Control {
        (self.step, self.before, self.weight) = (name, 0.0, 1.0);
        self.progress(share)
    }

    fn redraw(&mut self, done: f64) {
        let share = (self.before + self.weight * done).clamp(0.0, 1.0);
        let left = time_left(self.started.elapsed(), share, self.expected);
        if let Some(publisher) = &mut self.publisher {
            publisher.progress(&self.step, share, left);
        }
        let left =
            left.map_or(String::new(), |left| format!("{} left", approximate_duration(left)));
        match &mut self.display {
            Display::Hidden => {}
            Display::Bar(bar) => {
                bar.set_position((share * BAR_LENGTH as f64) as u64);
                bar.set_message(self.step.clone());
                bar.set_prefix(left);
            }
            Display::Lines { last } => {
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    let percent = share * 100.0;
                    let line = format!("{percent:3.0} %  {}  {left}", self.step);
                    self.terminal.note(line.trim_end());
                }
            }
        }
    }
}

impl Watcher for Progress<'_> {
    fn step(&mut self, name: &str, weight: f64) {
        self.before += self.weight;
        self.weight = weight;
        self.step = name.to_owned();
        self.redraw(0.0);
    }

    fn progress(&mut self, done: f64) -> Control {
        self.redraw(done);
        if self.interrupt.is_requested() { Control::Cancel } else { Control::Continue }
    }

    fn sample(&mut self, sample: Sample) {
        if let Some(publisher) = &mut self.publisher {
            publisher.add(sample);
        }
    }
}

fn bar(ascii: bool) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:28!} {wide_bar} {percent:>3} %  {prefix:14!}")
        .expect("the template is right")
        .progress_chars(if ascii { "=> " } else { "\u{2588}\u{2592}\u{2591}" });
    ProgressBar::new(BAR_LENGTH).with_style(style)
}

/// Returns the estimated time left, or `None` at the beginning. Early in a run the estimate relies on the expected
/// time, later on the progress so far, because the weights of steps are rough and idle times of an hour may lie ahead.
/// An expected time that has passed is ignored.
fn time_left(elapsed: Duration, share: f64, expected: Option<Duration>) -> Option<Duration> {
    if elapsed < MIN_ESTIMATE_TIME || share < 0.005 {
        return None;
    }
    let by_share = elapsed.mul_f64((1.0 - share) / share);
    Some(match expected {
        Some(expected) if elapsed < expected => {
            let trust = share.max(elapsed.div_duration_f64(expected));
            by_share.mul_f64(trust) + (expected - elapsed).mul_f64(1.0 - trust)
        }
        _ => by_share,
    })
}

/// Returns a duration with the precision of an estimate, rounded up: `40s`, `12m`, `1h 10m`.
pub fn approximate_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let steps = [(120.0, 1.0), (6_000.0, 60.0), (f64::INFINITY, 600.0)];
    let (_, step) = steps.into_iter().find(|(below, _)| seconds < *below).expect("one is endless");
    let rounded = Duration::from_secs(((seconds / step).ceil() * step) as u64);
    humantime::format_duration(rounded).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_as_precise_as_they_can_be() {
        assert_eq!(approximate_duration(Duration::from_millis(1_400)), "2s");
        assert_eq!(approximate_duration(Duration::from_secs(200)), "4m");
        assert_eq!(approximate_duration(Duration::from_secs(4_150)), "1h 10m");
        assert_eq!(approximate_duration(Duration::from_secs(7_201)), "2h 10m");
        assert_eq!(approximate_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn nothing_is_guessed_from_nothing_and_expectations_fade() {
        let seconds = Duration::from_secs;
        assert_eq!(time_left(Duration::from_millis(10), 0.5, None), None);
        assert_eq!(time_left(seconds(30), 0.25, None), Some(seconds(90)));
        // A quarter is done in half of the expected time: 90 s by progress, 30 s by expectation.
        assert_eq!(time_left(seconds(30), 0.25, Some(seconds(60))), Some(seconds(60)));
        // Three quarters are done in half of the expected time.
        let left = time_left(seconds(30), 0.75, Some(seconds(60)));
        assert_eq!(left, Some(Duration::from_secs(15)));
        assert_eq!(time_left(seconds(60), 0.25, Some(seconds(60))), Some(seconds(180)));
        assert_eq!(time_left(seconds(600), 0.06, Some(seconds(60))), Some(seconds(9_400)));
    }
}
