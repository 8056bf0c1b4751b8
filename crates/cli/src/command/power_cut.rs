//! `power-cut explore`: cuts power at every moment at which it can make a difference.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ssdlab_lab::Target;
use ssdlab_lab::power_cut::{Broken, Exploration, Histories, Request, explore};
use ssdlab_units::Nanoseconds;

use super::json;
use crate::cli::ExploreArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::OutputFile;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Explores power cuts, and prints the result.
pub fn power_cut(arguments: &ExploreArguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let target = &arguments.target;
    let Target::Simulated { name, profile } = Target::seeded(target, arguments.seed.number)? else {
        return Err(Failure::usage(format!(
            "'{target}' is not a new simulated drive, which power cuts need; name a profile, as in \
             sim:toshiba-xg5"
        )));
    };
    let request = Request {
        histories: match &arguments.history {
            Some(path) => Histories::Given(read(path)?),
            None => Histories::Random { count: arguments.histories, requests: arguments.requests },
        },
        seed: arguments.seed.number,
        is_new: arguments.new,
        lies: arguments.lie_about_flush,
        fault: arguments.fault.map(Into::into),
    };
    let page = arguments.output.as_deref().map(OutputFile::history).transpose()?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    let mut progress = Progress::new(terminal, interrupt, None);
    let outcome = explore(&name, &profile, &request, &mut progress);
    progress.finish();
    let exploration = outcome?;
    let text =
        if arguments.json { json(&exploration) } else { exploration_text(&exploration, arguments) };
    terminal.print(&text)?;
    if let (Some(broken), Some(page)) = (&exploration.broken, page) {
        page.write(&history_text(&exploration, broken))?;
    }
    Ok(match (&exploration.broken, exploration.interrupted) {
        (Some(_), _) => Exit::Failed,
        (None, true) => Exit::Interrupted,
        (None, false) => Exit::Done,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| {
        Failure::system(Exit::Usage, format!("cannot read {}", path.display()), source)
    })
}

/// Returns the shortest history that breaks a rule, as a file for `--history`.
fn history_text(exploration: &Exploration, broken: &Broken) -> String {
    let mut text = format!(
        "# {}: power cut {} after the first request,\n# {}\n",
        exploration.target,
        Nanoseconds::new(broken.cut_after_ns),
        broken.finding
    );
    for line in &broken.history {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the description of the power cuts and their result, for people.
fn exploration_text(exploration: &Exploration, arguments: &ExploreArguments) -> String {
    let Exploration { target, drive, .. } = exploration;
    let mut text = format!("Power cuts on {target}\n\n");
    let state = if exploration.is_new { "new" } else { "used: full, then as much again written" };
    let buffer = if drive.is_protected { "protected by capacitors" } else { "volatile" };
    let _ = writeln!(
        text,
        "Drive     a small one of its kind, {state}\n          {}; {} blocks of {} units of {} B on \
         {} dies\n          {} units for the host, write buffer {buffer}",
        drive.mapping,
        drive.blocks,
        drive.units_per_block,
        drive.unit_bytes,
        drive.dies,
        drive.logical_units,
    );
    if exploration.lies_about_flush {
        text.push_str("          answers flush and FUA at once, durable or not\n");
    }
    if let Some(fault) = &exploration.fault {
        let _ = writeln!(text, "          with an injected defect: {fault}");
    }
    if exploration.cuts > 0 {
        let what = match (&arguments.history, exploration.histories) {
            (Some(path), _) => format!("the history in {}", path.display()),
            (None, 1) => format!("1 history of {} requests", arguments.requests),
            (None, count) => format!(
                "{count} histories of {} requests (seeds from {})",
                arguments.requests, exploration.seed
            ),
        };
        let _ = writeln!(
            text,
            "Tried     {what}: {} cuts,\n          at the beginning and end of each program and \
             erase, and between each\n          two; each time once more after further writes; and \
             {} cuts\n          more while the drive recovered from one of these",
            exploration.cuts, exploration.cuts_in_recovery
        );
    }
    if let Some(times) = exploration.recovery {
        let _ = writeln!(
            text,
            "Recovery  {} to {}, {} on average; at most {} pages'\n          out-of-band areas read, {} programs and \
             {} erases of its own",
            Nanoseconds::new(times.least_ns),
            Nanoseconds::new(times.most_ns),
            Nanoseconds::new(times.mean_ns),
            times.program_units_read_most,
            times.own_programs_most,
            times.own_erases_most
        );
    }
    if let Some(times) = exploration.recovery.filter(|times| times.map_pages_read_most > 0) {
        let _ = writeln!(
            text,
            "          {} pages of the saved map and its journal at most",
            times.map_pages_read_most
        );
    }
    text.push('\n');
    match &exploration.broken {
        Some(broken) => text.push_str(&failure_text(exploration, broken, arguments)),
        None if exploration.interrupted => {
            text.push_str("Interrupted; no rule was broken so far.\n");
        }
        None => text.push_str(
            "No rule was broken: what was flushed or written with FUA was there, no unit\nheld \
             anything but what was written to it, and the drive worked on.\n",
        ),
    }
    text
}

fn failure_text(
    exploration: &Exploration,
    broken: &Broken,
    arguments: &ExploreArguments,
) -> String {
    let of = match broken.seed {
        Some(seed) => format!("of {} with seed {seed}", broken.requests),
        None => format!("of {}", broken.requests),
    };
    let shows = match broken.history.len() {
        0 => format!("No request at all shows it ({of})"),
        1 => format!("The shortest history that shows it has 1 request ({of})"),
        count => format!("The shortest history that shows it has {count} requests ({of})"),
    };
    let mut text = format!("A rule is broken.\n{shows}:\n\n");
    for (line, number) in broken.history.iter().zip(1..) {
        let _ = writeln!(text, "  {number:3}  {line}");
    }
    let _ = writeln!(
        text,
        "       power is cut {} after the first request",
        Nanoseconds::new(broken.cut_after_ns)
    );
    if let Some(after) = broken.cut_again_after_ns {
        let _ = writeln!(
            text,
            "       power returns, and is cut again after {}, while the drive recovers",
            Nanoseconds::new(after)
        );
    }
    if broken.went_on {
        text.push_str("       the drive is opened again, and its data is still right; then\n");
        let units = exploration.drive.logical_units;
        for (unit, number) in [0, units / 2, units - 1].iter().zip(broken.history.len() + 1..) {
            let _ = writeln!(text, "  {number:3}  write unit {unit}, at once");
        }
        let _ = writeln!(text, "  {:3}  flush", broken.history.len() + 4);
        text.push_str("       power is cut when that is answered\n");
    }
    text.push_str(&wrapped(&format!("\nThen {}.", broken.finding)));
    match &arguments.output {
        Some(path) => {
            let (new, lie) = (exploration.is_new, exploration.lies_about_flush);
            let options = format!(
                "{}{}{}",
                if new { " --new" } else { "" },
                if lie { " --lie-about-flush" } else { "" },
                exploration.fault.as_ref().map(|it| format!(" --fault {it}")).unwrap_or_default()
            );
            let _ = writeln!(
                text,
                "\nTo see it again:\n  ssdlab power-cut explore '{}' --seed {}{options} \\\n    \
                 --history {}",
                exploration.target,
                exploration.seed,
                path.display()
            );
        }
        None => {
            text.push_str("\nWith --output FILE the history is written to a file, for --history.\n")
        }
    }
    text
}

/// Returns text wrapped at 78 columns.
fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words.split(' ') {
        if column + word.len() > 77 {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
    text
}
