//! `doctor --fix` and `--undo`: show the changes first, and ask for consent.

use std::io::{self, BufRead, IsTerminal, Write};

use ssdlab_host::fix::{self, Change, SystemRoot};
use ssdlab_host::{Live, layers};

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Fixes the problem that a check has found.
pub fn fix(
    check: &str,
    target: Option<&str>,
    yes: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let stacks = match target {
        Some(target) => vec![layers::stack_of(&Live, target)?],
        None => layers::all_stacks(&Live),
    };
    let system = SystemRoot::of_this_machine();
    let fix = fix::plan(check, &Live, &stacks, &system)?;
    let changes: String = fix.changes.iter().map(Change::describe).collect();
    ask_consent("This is going to be changed:", &changes, yes, terminal)?;
    fix.apply(&system)?;
    terminal.note("Done. 'ssdlab doctor --undo' reverts it.");
    for command in &fix.then {
        terminal.note(&format!("It takes effect at the next boot; to apply it now: {command}"));
    }
    Ok(())
}

/// Undoes the newest fix.
pub fn undo(yes: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    let system = SystemRoot::of_this_machine();
    let last = fix::newest_fix(&system)?;
    let head = format!("The fix of {} is going to be undone:", last.check);
    // Changes are undone in reverse order.
    let changes: String = last.changes.iter().rev().map(Change::describe_undo).collect();
    ask_consent(&head, &changes, yes, terminal)?;
    let undone = fix::undo(&system)?;
    match undone.left.is_empty() {
        true => terminal.note("The fix was undone."),
        false => terminal.note(&format!("The fix was undone, but {}.", undone.left.join("; "))),
    }
    Ok(Exit::Done)
}

fn ask_consent(head: &str, changes: &str, yes: bool, terminal: &Terminal) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        let message = "only root may change this: run it as root".to_owned();
        return Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)));
    }
    if yes {
        terminal.note(&format!("{head}\n{}", changes.trim_end()));
        return Ok(());
    }
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{head}\n{changes}");
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "cannot ask, because stdin is not a terminal: agree with --yes".to_owned(),
        ));
    }
    let _ = write!(stderr, "Go on? [y/N] ");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|source| {
        Failure::system(Exit::Failed, "cannot read the answer".to_owned(), source)
    })?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => {
            let message = "nothing was changed".to_owned();
            Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)))
        }
    }
}
