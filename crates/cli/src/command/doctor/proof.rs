//! `doctor --proof`: writes a marker, deletes and trims it, and looks for it below the file system.

use std::path::Path;

use ssdlab_blockio::{RealDrive, RealOptions};
use ssdlab_drive::Drive;
use ssdlab_host::doctor::{Diagnosis, TrimProof};
use ssdlab_lab::experiment::{self, Settings};
use ssdlab_lab::{LabError, Outcome};
use ssdlab_units::ByteLength;

use crate::cli::SEED_DEFAULT;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Tests TRIM on the file system of the only target.
pub fn prove(diagnosis: &mut Diagnosis, terminal: &Terminal) -> Result<(), Failure> {
    let found = diagnosis.targets.first().and_then(|target| {
        let mount = target.layers.mount.as_ref()?;
        Some((target.target.clone(), mount.point.clone()))
    });
    let Some((target, point)) = found else {
        return Err(Failure::usage(
            "--proof needs a file system to write a file to: name a directory".to_owned(),
        ));
    };
    // Use a directory that the user named, who may not be allowed to write to the mount point.
    let directory = if Path::new(&target).is_dir() { target.clone() } else { point };
    let outcome = run(Path::new(&directory), terminal)?;
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    // The first finding is the verdict of the experiment.
    let Some(finding) = outcome.report.findings.first() else {
        let message = "trim-check reported no finding".to_owned();
        return Err(Failure::new(Exit::Failed, anyhow::Error::msg(message)));
    };
    let proof = match finding.code.as_str() {
        "trim-works" => TrimProof::Gone,
        "trim-does-not-work" => TrimProof::StillThere,
        _ => TrimProof::Inconclusive,
    };
    diagnosis.prove(&target, proof, &finding.text);
    Ok(())
}

/// Space that stays free beside the marker of a few MiB. It is less than for experiments, so that small boot file
/// systems can be tested, too.
const RESERVE: ByteLength = ByteLength::new(64 << 20);

fn run(directory: &Path, terminal: &Terminal) -> Result<Outcome, Failure> {
    let experiment = experiment::named("trim-check")?;
    let settings = Settings::new(experiment, true, &[])?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    let options = RealOptions { reserve: Some(RESERVE), ..RealOptions::default() };
    let mut drive = RealDrive::open(directory, options).map_err(LabError::from)?;
    let plan = experiment.plan(&settings, &drive.description())?;
    drive.prepare(plan.space).map_err(LabError::from)?;
    terminal.note(&format!(
        "Writing a file to {}, deleting it, trimming, and reading its old place: some seconds.",
        directory.display()
    ));
    let mut progress = Progress::new(terminal, interrupt, None);
    let outcome = ssdlab_lab::run(experiment, &settings, SEED_DEFAULT, &mut drive, &mut progress);
    progress.finish();
    Ok(outcome)
}
