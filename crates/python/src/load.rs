//! Reports from the store of runs, and from results of fio.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use pyo3::prelude::*;
use ssdlab_interchange::fio::json::{self as fio, FioRun};
use ssdlab_lab::store::Store;
use ssdlab_lab::{import, script_export};

use crate::failure::Failure;
use crate::report::Report;

/// Returns where the program keeps runs: `$SSDLAB_STORE`, or a file in the user's data directory.
#[pyfunction]
pub fn store_path() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("SSDLAB_STORE").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let strategy = etcetera::choose_base_strategy().map_err(|_| {
        Failure::usage(
            "there is no home directory to keep runs in; name a file, or set SSDLAB_STORE",
        )
    })?;
    Ok(strategy.data_dir().join("ssdlab").join("runs.sqlite"))
}

/// The report of a run that was kept, by its number, `last`, or `last~1`.
#[pyfunction]
pub fn from_store(py: Python<'_>, run: &str, store: PathBuf) -> PyResult<Report> {
    let report = py.detach(|| {
        let store = Store::open_read_only(store)?;
        store.get(store.resolve(run)?)
    });
    Ok(Report::new(report.map_err(Failure::from)?))
}

/// Keeps a report; returns the number of the run.
#[pyfunction]
pub fn keep(py: Python<'_>, report: &Report, store: PathBuf) -> PyResult<i64> {
    let kept = py.detach(|| Store::open(store).and_then(|mut it| it.insert(report.report())));
    Ok(kept.map_err(Failure::from)?.number())
}

/// The runs that were kept, the newest first, as JSON.
#[pyfunction]
pub fn kept(py: Python<'_>, store: PathBuf) -> PyResult<String> {
    let runs = py.detach(|| Store::open_read_only(store).and_then(|it| it.list()));
    let runs = runs.map_err(Failure::from)?;
    Ok(serde_json::to_string(&runs).expect("its keys are strings"))
}

/// The report of what fio measured; `texts` are its results, `origin` names their files.
#[pyfunction]
pub fn from_fio(py: Python<'_>, texts: Vec<String>, origin: &str) -> PyResult<Report> {
    let report = py.detach(|| -> Result<_, Failure> {
        let read = |text: &String| {
            fio::parse(text).map_err(|error| {
                let words = crate::failure::chain(&error);
                Failure::usage(format!("{origin}: {words}"))
            })
        };
        let runs: Vec<FioRun> = texts.iter().map(read).collect::<Result<_, _>>()?;
        let report = import::report(&runs, origin);
        match script_export::tag_of(&runs) {
            Some(tag) => Ok(script_export::report_from_results(&tag, &runs, report)?),
            None => Ok(report),
        }
    })?;
    Ok(Report::new(report))
}
