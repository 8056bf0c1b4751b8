//! `doctor`: finds what makes this machine's SSDs slow, short-lived or unsafe, and fixes some of it.

#[cfg(target_os = "linux")]
mod fix;
mod proof;

use std::io::Write;
use std::path::Path;

use ssdlab_host::doctor::{self, Diagnosis, Options, Verdict};
use ssdlab_host::{Captured, Live};

use super::layers::machine;
use crate::cli::DoctorArguments;
use crate::failure::{Exit, Failure};
use crate::output_file::{refuse_foreign_file, refuse_foreign_metrics};
use crate::terminal::Terminal;

/// Examines a machine, captures it, or applies or undoes a fix.
pub fn doctor(arguments: &DoctorArguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let target = arguments.target.as_deref();
    if arguments.yes && arguments.fix.is_none() && !arguments.undo {
        return Err(Failure::usage(
            "--yes agrees to a change: give --fix or --undo with it".to_owned(),
        ));
    }
    if let Some(path) = &arguments.prometheus {
        refuse_foreign_metrics(path)?;
    }
    if let Some(path) = &arguments.capture {
        refuse_foreign_file(path, "--capture", "captured machine", |_| {
            Captured::open(path).is_ok()
        })?;
        return capture(path, target, terminal);
    }
    #[cfg(not(target_os = "linux"))]
    if arguments.undo || arguments.fix.is_some() {
        let message = "--fix and --undo work on Linux only".to_owned();
        return Err(Failure::new(Exit::Unsupported, anyhow::Error::msg(message)));
    }
    #[cfg(target_os = "linux")]
    if arguments.undo {
        return fix::undo(arguments.yes, terminal);
    }
    #[cfg(target_os = "linux")]
    if let Some(check) = &arguments.fix {
        fix::fix(check, target, arguments.yes, terminal)?;
    }
    let facts = machine(arguments.from.as_deref())?;
    let mut diagnosis = doctor::examine(&*facts, target)?;
    if arguments.proof {
        proof::prove(&mut diagnosis, terminal)?;
    }
    if let Some(path) = &arguments.prometheus {
        ssdlab_rundir::write_atomic(path, &diagnosis.prometheus()).map_err(|source| {
            Failure::system(Exit::Failed, format!("cannot write {}", path.display()), source)
        })?;
    }
    show(&diagnosis, arguments, terminal)?;
    Ok(match diagnosis.worst {
        Verdict::Fine | Verdict::Unknown => Exit::Done,
        Verdict::Notice => Exit::Notice,
        Verdict::Warning => Exit::Warning,
        Verdict::Problem => Exit::Problem,
    })
}

fn show(
    diagnosis: &Diagnosis,
    arguments: &DoctorArguments,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if arguments.json {
        return terminal.print(&super::json(diagnosis));
    }
    let options = Options { width: terminal.width, ascii: terminal.ascii, all: arguments.all };
    terminal.print(&diagnosis.to_text(&options))
}

fn capture(path: &Path, target: Option<&str>, terminal: &Terminal) -> Result<Exit, Failure> {
    let captured = ssdlab_host::capture(&Live, target)?;
    let failed =
        |source| Failure::system(Exit::Failed, format!("cannot write {}", path.display()), source);
    if path == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        captured.write(&mut stdout).and_then(|()| stdout.flush()).map_err(failed)?;
        return Ok(Exit::Done);
    }
    ssdlab_rundir::write_atomic_with(path, true, |file| captured.write(file)).map_err(failed)?;
    terminal.note(&format!(
        "Wrote {}, which only you can read. It holds names, serial numbers, mount points, \
         /etc/fstab and cron's lines about fstrim: look through it before sharing it (tar -xOzf \
         {0} capture.json).",
        path.display()
    ));
    Ok(Exit::Done)
}
