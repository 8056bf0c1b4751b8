//! Diagnosis of this machine, or of a captured one, by `ssdlab doctor`; it is cached, because it reads from the drives.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ssdlab_host::doctor::{self, Diagnosis, DriveDiagnosis};
use ssdlab_host::{Captured, HostError, Live};
use ssdlab_lab::store::DriveFigures;

/// Time for which a diagnosis is cached.
const CACHE_TIME: Duration = Duration::from_secs(60);

/// Machine to examine, and the latest diagnosis.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Path of a captured machine; `None` for this one.
    captured: Option<PathBuf>,
    latest: Mutex<Option<(Instant, Arc<Diagnosis>)>>,
}

impl Machine {
    pub(crate) fn new(captured: Option<PathBuf>) -> Machine {
        Machine { captured, latest: Mutex::default() }
    }

    /// Returns the diagnosis of the last minute, or makes a new one. Other callers wait meanwhile.
    pub(crate) fn diagnosis(&self) -> Result<Arc<Diagnosis>, HostError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, diagnosis)) = &*latest
            && when.elapsed() < CACHE_TIME
        {
            return Ok(diagnosis.clone());
        }
        let diagnosis = Arc::new(match &self.captured {
            Some(path) => doctor::examine(&Captured::open(path)?, None)?,
            None => doctor::examine(&Live, None)?,
        });
        *latest = Some((Instant::now(), diagnosis.clone()));
        Ok(diagnosis)
    }
}

/// Returns the wear and temperature of all drives that report any.
pub(crate) fn drive_figures(diagnosis: &Diagnosis) -> Vec<DriveFigures> {
    let time = i64::try_from(diagnosis.machine.time).unwrap_or(i64::MAX);
    diagnosis.drives.iter().map(|drive| figures_of_drive(drive, time)).filter(has_any).collect()
}

fn figures_of_drive(drive: &DriveDiagnosis, time: i64) -> DriveFigures {
    let values = &drive.values;
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let model = values.model.as_deref().unwrap_or("drive");
    DriveFigures {
        time,
        drive: format!("{model} ({})", drive.drive),
        temperature_celsius: values.temperature_celsius.map(|degrees| degrees as f64),
        used_percent: number(values.used_percent),
        spare_percent: number(values.spare_percent),
        written_bytes: number(values.written_bytes),
    }
}

fn has_any(figures: &DriveFigures) -> bool {
    let all = [figures.temperature_celsius, figures.used_percent, figures.spare_percent];
    all.iter().chain([&figures.written_bytes]).any(Option::is_some)
}
