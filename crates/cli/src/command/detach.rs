//! `detach` and `power-cut`: detach a drive cleanly, and cut its power.

use std::time::{Duration, Instant};

use ssdlab_attach::control::{self, ControlRequest, Detached, Record};
use ssdlab_attach::engine::Outcome;

use crate::cli::AttachedArguments;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Longest time for a drive to flush and unmount.
const DETACH_TIMEOUT: Duration = Duration::from_secs(120);

/// Detaches a drive cleanly.
pub fn detach(arguments: &AttachedArguments, terminal: &Terminal) -> Result<(), Failure> {
    let record = control::find(arguments.drive.as_deref())?;
    if !control::is_alive(&record) {
        control::clean_up(&record)?;
        terminal.note(&format!(
            "The program that had {} attached had ended; cleaned up what it left. The drive \
             recovers when it is attached again.",
            record.image.display()
        ));
        return Ok(());
    }
    let outcome = match control::detach(&record)? {
        Detached::Done(outcome) => outcome,
        Detached::InUse(users) => {
            let message = format!(
                "{} is in use: {users}; it stays attached, and nothing is lost. End that first",
                record.place
            );
            return Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)));
        }
        Detached::Failed(message) => {
            let message = format!("detaching {}: {message}", record.image.display());
            return Err(Failure::new(Exit::Failed, anyhow::Error::msg(message)));
        }
    };
    wait_for_end(&record)?;
    let image = record.image.display();
    terminal.note(&match outcome {
        Outcome::Clean => format!("Detached {image}."),
        Outcome::Unchanged => format!("Detached {image}, which is as it was."),
        Outcome::Complete | Outcome::Cut => {
            format!("Detached {image}; the drive will recover when it is attached again.")
        }
    });
    Ok(())
}

fn wait_for_end(record: &Record) -> Result<(), Failure> {
    let until = Instant::now() + DETACH_TIMEOUT;
    while control::is_alive(record) {
        if Instant::now() > until {
            let message = format!(
                "{} is not detached yet; process {} still has it",
                record.place, record.pid
            );
            return Err(Failure::new(Exit::Failed, anyhow::Error::msg(message)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Cuts the power of a drive.
pub fn power_cut(arguments: &AttachedArguments, terminal: &Terminal) -> Result<(), Failure> {
    let record = control::find(arguments.drive.as_deref())?;
    control::ask(&record, ControlRequest::PowerCut)?;
    terminal.note(&format!(
        "Cut the power of {}; ssdlab detach {} and attach it again.",
        record.place,
        record.image.display()
    ));
    Ok(())
}
