//! Gate before a block device is overwritten: checks, warnings and the user's consent.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use ssdlab_blockio::{
    Candidate, Engine, Permit, PurgeMethod, RealDrive, RealOptions, is_block_device,
};
use ssdlab_drive::simulated;
use ssdlab_drive::{Drive, DriveError, ErrorKind};
use ssdlab_lab::experiment::{self, Experiment, Settings};
use ssdlab_lab::{LabError, Target};

use crate::cli::{EngineArgument, PurgeArgument};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Consent that the user gave on the command line.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    /// True if the user accepts the loss of all data.
    pub destroy_data: bool,
    /// Serial number or path of the device, if the user has typed it to confirm.
    pub confirm: Option<String>,
}

/// Result of the check of a target before a run.
pub enum Gate {
    /// The target is not a block device.
    NotADevice,
    /// The target is a block device that is only read.
    ReadOnly(Box<RealDrive>),
    /// The target is a block device, and the user has confirmed its destruction.
    Passed(Box<Permit>),
}

/// Refuses options for a block device that is written if the run writes none: the user expects something else.
pub fn refuse_unused_options(
    gate: &Gate,
    target: &Target,
    method: Option<PurgeArgument>,
    consent: &Consent,
) -> Result<(), Failure> {
    let what = match gate {
        Gate::Passed(_) => return Ok(()),
        Gate::ReadOnly(_) => "this run only reads it",
        Gate::NotADevice if target.is_simulated() => "a simulated drive holds nobody's data",
        Gate::NotADevice => "this run writes only a new file of its own",
    };
    let option = if consent.destroy_data {
        "--destroy-data"
    } else if consent.confirm.is_some() {
        "--confirm"
    } else if method.is_some() && !target.is_simulated() {
        "--purge"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{option} is for a block device that is written, and {what}; leave it out, or name the \
         device"
    )))
}

/// Refuses `--create-file` if the run creates no file.
pub fn refuse_unused_create_file(
    gate: &Gate,
    target: &Target,
    create_file: bool,
) -> Result<(), Failure> {
    let what = match gate {
        _ if !create_file => return Ok(()),
        Gate::Passed(_) | Gate::ReadOnly(_) => "a block device",
        Gate::NotADevice if target.is_simulated() => "a simulated drive",
        Gate::NotADevice => return Ok(()),
    };
    Err(Failure::usage(format!(
        "--create-file is for a new file on a real drive, and the target is {what}; leave it out"
    )))
}

/// Returns the purge method for a block device.
pub fn purge_method(
    argument: Option<PurgeArgument>,
    target: &Target,
) -> Result<PurgeMethod, Failure> {
    match argument {
        Some(PurgeArgument::Format) if !target.is_simulated() => Err(Failure::usage(
            "--purge format is for simulated drives; nvme-format formats a real one and erases \
             it"
            .to_owned(),
        )),
        None | Some(PurgeArgument::Discard | PurgeArgument::Format) => Ok(PurgeMethod::Discard),
        Some(PurgeArgument::NvmeFormat) => Ok(PurgeMethod::NvmeFormat),
        Some(PurgeArgument::AtaSecureErase) => Ok(PurgeMethod::AtaSecureErase),
        Some(PurgeArgument::None) => Ok(PurgeMethod::Nothing),
    }
}

/// Returns the I/O engine. For a simulated drive only the default is accepted.
pub fn engine(argument: EngineArgument, target: &Target) -> Result<Engine, Failure> {
    if argument != EngineArgument::Auto && target.is_simulated() {
        return Err(Failure::usage(
            "--engine is for real drives, and this one is simulated; leave it out".to_owned(),
        ));
    }
    Ok(match argument {
        EngineArgument::Auto => Engine::Auto,
        EngineArgument::IoUring => Engine::IoUring,
        EngineArgument::Libaio => Engine::LinuxAio,
        EngineArgument::Psync => Engine::Synchronous,
        EngineArgument::Threads => Engine::Threads,
    })
}

/// Returns the purge method for a simulated drive.
pub fn simulated_purge_method(argument: Option<PurgeArgument>) -> simulated::PurgeMethod {
    match argument {
        None => simulated::PurgeMethod::Factory,
        Some(PurgeArgument::Discard) => simulated::PurgeMethod::Discard,
        Some(PurgeArgument::Format) => simulated::PurgeMethod::Format,
        Some(PurgeArgument::NvmeFormat | PurgeArgument::AtaSecureErase) => {
            simulated::PurgeMethod::SecureErase
        }
        Some(PurgeArgument::None) => simulated::PurgeMethod::Nothing,
    }
}

/// Checks the block device at `path` and the user's consent; may ask a question. Returns an error if the run is
/// refused.
pub fn gate(
    experiment: &dyn Experiment,
    settings: &Settings,
    path: &Path,
    options: &RealOptions,
    consent: &Consent,
) -> Result<Gate, Failure> {
    if !is_block_device(path) {
        return Ok(Gate::NotADevice);
    }
    if !experiment.accepts_block_devices() {
        // If the device is in use, report that first.
        Candidate::examine(path).map_err(LabError::from)?;
        return Err(LabError::Unsupported(format!(
            "{} does not run on a raw block device (only {} do); name a directory of a file system \
             on {}",
            experiment.name(),
            experiment::names_for_block_devices().join(", "),
            path.display()
        ))
        .into());
    }
    // The plan needs the description of an open drive.
    let planned = match RealDrive::open_device_to_read(path, options.clone()) {
        Ok(drive) => match experiment.plan(settings, &drive.description()) {
            Ok(plan) if !plan.is_writing() => return Ok(Gate::ReadOnly(Box::new(drive))),
            planned => planned.map(|_| ()),
        },
        // The check below reports why the device cannot be opened.
        Err(_) => Ok(()),
    };
    let candidate = Candidate::examine(path).map_err(LabError::from)?;
    planned?;
    if !consent.destroy_data {
        return Err(refusal(candidate.consent_message()));
    }
    print_lines(&candidate.words());
    let typed = match &consent.confirm {
        Some(typed) => typed.clone(),
        None => ask_confirmation(&candidate)?,
    };
    let permit = candidate.confirm(consent.destroy_data, &typed).map_err(LabError::from)?;
    Ok(Gate::Passed(Box::new(permit)))
}

fn refusal(why: String) -> Failure {
    LabError::from(DriveError::new(ErrorKind::Refused, why)).into()
}

/// Asks on the terminal for the serial number or the path; returns the answer.
fn ask_confirmation(candidate: &Candidate) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return Err(refusal(format!(
            "cannot ask for confirmation of {candidate}: stdin is not a terminal; give {} with \
             --confirm",
            candidate.expected_confirmation()
        )));
    }
    print_lines(&[
        "ALL OF IT WILL BE DESTROYED.".to_owned(),
        format!("To go on, type {}:", candidate.expected_confirmation()),
    ]);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|source| {
        Failure::system(Exit::Refused, "cannot read the answer".to_owned(), source)
    })?;
    Ok(line)
}

/// Prints lines on stderr, even with `--quiet`: the question is about them.
fn print_lines(lines: &[String]) {
    let mut stderr = anstream::stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "{line}");
    }
}

/// Opens the confirmed device. If the erase that was requested by name is not possible, returns an error before
/// anything is written.
pub fn open(
    permit: Permit,
    options: RealOptions,
    terminal: &Terminal,
) -> Result<RealDrive, Failure> {
    let method = options.purge;
    let drive = RealDrive::open_device(permit, options).map_err(LabError::from)?;
    let how = match method {
        PurgeMethod::Discard | PurgeMethod::Nothing => return Ok(drive),
        PurgeMethod::NvmeFormat => "NVMe Format with user data erase",
        PurgeMethod::AtaSecureErase => {
            "ATA Security Erase. It first sets the password 'ssdlab', which the erase removes; if \
             power fails in between, remove it with hdparm --security-disable ssdlab"
        }
    };
    drive.check_purge().map_err(LabError::from)?;
    terminal.note(&format!(
        "Where the protocol calls for a new drive, it is purged by {how}. That may take minutes to \
         hours, and cannot and must not be interrupted: leave the machine on."
    ));
    Ok(drive)
}
