//! `check`: verifies that an image holds what was written to it.

use ssdlab_attach::check::{self, Report};

use crate::cli::CheckArguments;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Checks an image, and repairs it if asked to.
pub fn check(arguments: &CheckArguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut report = check::check(&arguments.image)?;
    if arguments.repair && (!report.is_clean || !report.problems.is_empty()) {
        check::repair(&arguments.image)?;
        terminal.note("The drive has recovered, and the image was closed in order.");
        report = check::check(&arguments.image)?;
    }
    if arguments.json {
        terminal.print(&super::json(&report))?;
    } else {
        terminal.print(&report_text(&report))?;
    }
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

fn report_text(report: &Report) -> String {
    let mut text = format!("{}: a drive of profile {}, ", report.image, report.profile);
    text += match (report.attached, report.is_clean) {
        (0, _) => "never attached\n",
        (_, true) => "closed in order\n",
        (_, false) => "not closed in order: it recovers when it is attached\n",
    };
    if report.attached > 0 {
        text += &format!(
            "  {} program units written, {} units mapped, {} records of trims\n",
            report.program_units, report.units_mapped, report.trims
        );
    }
    if report.unreadable > 0 {
        text += &format!(
            "  {} program units were being written or erased at the end: nothing in them was \
             reported as durable\n",
            report.unreadable
        );
    }
    if report.saved > 0 {
        text += &format!("  {} units of the write buffer saved\n", report.saved);
    }
    for problem in &report.problems {
        text += &format!("PROBLEM  {problem}\n");
    }
    if report.problems.is_empty() {
        text += "  all written data is there\n";
    }
    text
}
