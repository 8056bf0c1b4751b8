//! `detach` and `power-cut`: ending what is attached, in order and out of it.

use std::time::{Duration, Instant};

use ssdlab_attach::control::{self, Ask, Record};

use crate::cli::AttachedArguments;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// How long a drive has to flush and unmount.
const PATIENCE: Duration = Duration::from_secs(120);

/// Detaches a drive in order.
pub fn detach(arguments: &AttachedArguments, terminal: &Terminal) -> Result<(), Failure> {
    let record = control::find(arguments.drive.as_deref())?;
    if !control::is_alive(&record) {
        control::clean_up(&record)?;
        terminal.note(&format!(
            "The program that had {} had ended; cleaned up what it left. The drive recovers when it \
             is attached again.",
            record.image.display()
        ));
        return Ok(());
    }
    if control::ask(&record, Ask::Detach)?.contains("in use") {
        let words = format!("{} is mounted; unmount it first", record.place);
        return Err(Failure::new(Exit::Refused, anyhow::Error::msg(words)));
    }
    wait_for_end(&record)?;
    terminal.note(&format!("Detached {}.", record.image.display()));
    Ok(())
}

fn wait_for_end(record: &Record) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    while control::is_alive(record) {
        if Instant::now() > until {
            let words = format!("{} does not end; process {} has it", record.place, record.pid);
            return Err(Failure::new(Exit::Failed, anyhow::Error::msg(words)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Cuts the power of a drive.
pub fn power_cut(arguments: &AttachedArguments, terminal: &Terminal) -> Result<(), Failure> {
    let record = control::find(arguments.drive.as_deref())?;
    control::ask(&record, Ask::PowerCut)?;
    terminal.note(&format!(
        "Cut the power of {}; ssdlab detach {} and attach it again.",
        record.place,
        record.image.display()
    ));
    Ok(())
}
