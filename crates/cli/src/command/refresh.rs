//! `refresh`: finds data that has become slow to read, and rewrites only that.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use etcetera::BaseStrategy;
use ssdlab_attach::control;
use ssdlab_drive::Control;
use ssdlab_lab::LabError;
use ssdlab_lab::experiment::Watcher;
use ssdlab_refresh::interval::Estimate;
use ssdlab_refresh::plan::{Plan, Summary};
use ssdlab_refresh::run::{Options, ProgressObserver, Refresh};
use ssdlab_refresh::stall::Callback;
use ssdlab_refresh::survey::{Consents, RequiredFile};
use ssdlab_units::ByteLength;
use ssdlab_units::text::parse_length;

use super::json;
use crate::cli::RefreshArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Smallest and largest window, in bytes.
const WINDOW_SIZES: [u64; 2] = [1 << 20, 64 << 20];

/// Measures, plans, asks for consent, rewrites, and prints the result.
pub fn refresh(arguments: &RefreshArguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for signals".to_owned(), source)
    })?;
    let options = options(arguments, terminal)?;
    let mut watch = ProgressDisplay::new(terminal, interrupt);
    let mut refresh = Refresh::of(&arguments.path, options).map_err(LabError::from)?;
    let plan = refresh.plan(&mut watch).map_err(LabError::from)?;
    watch.clear();
    if plan.rewrite.is_empty() || arguments.dry_run {
        return show_plan(&plan, arguments, terminal);
    }
    if !arguments.yes {
        terminal.note(&plan_text(&plan));
        if !ask_consent()? {
            if arguments.json {
                terminal.print(&json(&plan))?;
            }
            terminal.note("Nothing was rewritten; --yes rewrites without this question.");
            return Ok(Exit::Done);
        }
    } else if !arguments.json {
        terminal.note(&plan_text(&plan));
    }
    let summary = refresh.execute(&plan, &mut watch).map_err(LabError::from)?;
    watch.clear();
    let text = if arguments.json { json(&summary) } else { summary_text(&summary) };
    terminal.print(&text)?;
    if summary.is_interrupted {
        let more = if summary.windows_left > 0 { "; --resume continues" } else { "" };
        terminal.note(&format!("Interrupted{more}."));
        return Ok(Exit::Interrupted);
    }
    Ok(if summary.stopped.is_some() { Exit::Failed } else { Exit::Done })
}

fn show_plan(
    plan: &Plan,
    arguments: &RefreshArguments,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let text = if arguments.json { json(plan) } else { format!("{}\n", plan_text(plan)) };
    terminal.print(&text)?;
    if plan.rewrite.is_empty() {
        terminal.note("There is nothing that a rewrite would make faster; nothing was rewritten.");
    } else {
        terminal.note("Nothing was rewritten.");
    }
    Ok(Exit::Done)
}

/// Returns the callback that reports an operation which takes far longer than it should, while it lasts. The progress
/// bar may be visible then, and cannot be removed: the thread that draws it is waiting.
fn stall_callback(terminal: &Terminal) -> Callback {
    let terminal = terminal.clone();
    Callback::new(move |stall| {
        if io::stderr().is_terminal() && !terminal.quiet {
            let _ = writeln!(anstream::stderr());
        }
        let seconds = stall.since.as_secs();
        match &stall.advice {
            Some(way_out) => {
                let message = format!("waiting for {seconds} s for {}", stall.what);
                terminal.warn(&[message], way_out);
            }
            None => terminal.note(&format!("The refresh continues after {seconds} s.")),
        }
    })
}

fn options(arguments: &RefreshArguments, terminal: &Terminal) -> Result<Options, Failure> {
    let length = |option: &str, text: &str| {
        parse_length(text).map_err(|error| Failure::usage(format!("{option}: {error}")))
    };
    let window = length("--window", &arguments.window)?;
    let [least, most] = WINDOW_SIZES;
    if !(least..=most).contains(&window.bytes()) || !window.bytes().is_multiple_of(least) {
        return Err(Failure::usage(format!(
            "--window: {window} is not a multiple of {} up to {}",
            ByteLength::new(least),
            ByteLength::new(most)
        )));
    }
    let rate = arguments.rate.as_deref().map(|it| length("--rate", it)).transpose()?;
    if rate == Some(ByteLength::ZERO) {
        return Err(Failure::usage(
            "--rate: 0 would never rewrite anything; leave --rate out for no limit".to_owned(),
        ));
    }
    let images = control::records().unwrap_or_default().into_iter().map(|record| RequiredFile {
        what: format!("the image of the attached drive {}", record.place),
        path: record.image,
        advice: "detach it first",
    });
    Ok(Options {
        consents: Consents {
            shared: arguments.shared,
            sparse: arguments.sparse,
            frozen: arguments.frozen,
        },
        window,
        rate,
        max_freeze: arguments.max_freeze,
        all: arguments.all,
        resume: arguments.resume,
        journals: journal_directory(arguments)?,
        required_files: images.collect(),
        temperature_max: arguments.heat,
        on_stall: stall_callback(terminal),
    })
}

fn journal_directory(arguments: &RefreshArguments) -> Result<PathBuf, Failure> {
    if let Some(directory) = &arguments.journal {
        return Ok(directory.clone());
    }
    let strategy = etcetera::choose_base_strategy().map_err(|_| {
        Failure::usage("there is no home directory for the journal; name one with --journal".into())
    })?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(state.join("ssdlab").join("refresh"))
}

/// Asks for consent on a terminal; without a terminal the answer is no.
fn ask_consent() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let _ = write!(anstream::stderr(), "Rewrite that? [y/N] ");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|source| {
        Failure::system(Exit::Refused, "cannot read the answer".to_owned(), source)
    })?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Progress of a refresh on the terminal.
struct ProgressDisplay<'a> {
    terminal: &'a Terminal,
    interrupt: Interrupt,
    progress: Option<Progress<'a>>,
    step: String,
}

impl<'a> ProgressDisplay<'a> {
    fn new(terminal: &'a Terminal, interrupt: Interrupt) -> ProgressDisplay<'a> {
        ProgressDisplay { terminal, interrupt, progress: None, step: String::new() }
    }

    /// Removes the progress bar before text is printed.
    fn clear(&mut self) {
        self.progress = None;
    }
}

impl ProgressObserver for ProgressDisplay<'_> {
    fn progress(&mut self, step: &str, share: f64) -> bool {
        let progress = self
            .progress
            .get_or_insert_with(|| Progress::new(self.terminal, self.interrupt.clone(), None));
        if self.step != step {
            self.step = step.to_owned();
            // The steps differ too much in length for one bar over all of them.
            *progress = Progress::new(self.terminal, self.interrupt.clone(), None);
            progress.step(step, 1.0);
        }
        progress.progress(share) == Control::Continue
    }
}

fn mb_per_second(speed: f64) -> String {
    format!("{:.0} MB/s", speed / 1e6)
}

fn interval_text(it: &Estimate) -> String {
    format!("{:.2} (95 %: {:.2} to {:.2})", it.middle, it.low, it.high)
}

/// Returns the plan in words.
fn plan_text(plan: &Plan) -> String {
    let bytes = ByteLength::new;
    let mut output =
        format!("{}: {} on {}\n", plan.path.display(), bytes(plan.length), plan.lies_on);
    let mut line = |text: String| {
        output.push_str("  ");
        output.push_str(&text);
        output.push('\n');
    };
    line(format!("read at {} in {} windows", mb_per_second(plan.speed_now), plan.windows));
    if let Some(fresh) = plan.speed_fresh {
        line(format!("fresh data reads at {}", mb_per_second(fresh)));
    }
    for (cause, found) in &plan.found.slow {
        line(format!("slow: {}, {}", bytes(*found), cause.description()));
    }
    if let Some(slowdown) = &plan.slowdown {
        line(format!("slow data takes {} times as long as fresh data", interval_text(slowdown)));
    }
    for (found, text) in [
        (plan.found.fine, "fast enough"),
        (plan.found.first_only, "slow at the first reading only: left as it is"),
        (plan.found.not_told, "undecided, the machine is too busy: left as it is"),
        (
            plan.found.contradicted,
            "undecided, slow against one baseline but not another: left as it is",
        ),
    ] {
        if found > 0 {
            line(format!("{} {text}", bytes(found)));
        }
    }
    if !plan.rewrite.is_empty() {
        let resumed = if plan.resumed { ", the rest of an earlier plan" } else { "" };
        line(format!(
            "to write: {} in {} windows{resumed}, {}",
            bytes(plan.bytes_to_write),
            plan.rewrite.len(),
            plan.way_words
        ));
        if let Some(expected) = plan.speed_expected {
            line(format!("expected after the rewrite: {}", mb_per_second(expected)));
        }
        line(match plan.share_of_life {
            Some(share) => format!("share of the drive's life: {share:.4} %"),
            None => "share of the drive's life: not known from its SMART data".to_owned(),
        });
    }
    if plan.yardstick_bytes > 0 {
        let yardstick = bytes(plan.yardstick_bytes);
        line(format!("written as a baseline of fresh data: {yardstick}"));
    }
    for note in &plan.notes {
        line(note.clone());
    }
    output.truncate(output.trim_end().len());
    output
}

/// Returns the result in words.
fn summary_text(summary: &Summary) -> String {
    let bytes = ByteLength::new;
    let mut output = format!("{}\n", summary.plan.path.display());
    let mut line = |text: String| {
        output.push_str("  ");
        output.push_str(&text);
        output.push('\n');
    };
    line(format!(
        "written: {} of {} planned",
        bytes(summary.bytes_written),
        bytes(summary.plan.bytes_to_write)
    ));
    for (left, found) in &summary.left {
        line(format!("left: {}, {}", bytes(*found), left.description()));
    }
    if let Some(why) = &summary.stopped {
        let more = if summary.windows_left > 0 { "; --resume continues" } else { "" };
        line(format!("ended early: {why}{more}"));
    }
    if let Some(after) = summary.speed_after {
        line(format!(
            "read at {} before, {} after",
            mb_per_second(summary.speed_before),
            mb_per_second(after)
        ));
    }
    if let Some(gain) = &summary.gain {
        line(format!("{} times as fast as before", interval_text(gain)));
    }
    if let (Some(count), Some(longest), Some(allowed)) =
        (summary.freezes, summary.longest_freeze_ms, summary.allowed_freeze_ms)
    {
        let too_long = match summary.freezes_too_long.unwrap_or(0) {
            0 => format!("none longer than the {allowed:.0} ms allowed"),
            count => format!(
                "{count} longer than the {allowed:.0} ms allowed, by up to {:.1} ms",
                longest - allowed
            ),
        };
        line(format!("frozen {count} times, {longest:.1} ms at the longest, {too_long}"));
    }
    if let Some(hold) = summary.longest_hold_ms {
        line(format!("writers to the file were blocked for {hold:.1} ms at most"));
    }
    if summary.plan.way.is_live() {
        line("run fstrim to tell the drive that the old blocks are free".to_owned());
    }
    output
}
