//! Store of runs: its path, and warnings when a run cannot be kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use ssdlab_lab::report::Report;
use ssdlab_lab::store::{RunId, Store, StoreError};

use crate::failure::{Failure, error_chain};
use crate::terminal::Terminal;

/// Environment variable with the path of the store.
pub const STORE_VARIABLE: &str = "SSDLAB_STORE";

/// Returns the path of the store: from the option, from the environment, or in the user's data directory.
pub fn path(option: Option<&Path>) -> Result<PathBuf, Failure> {
    let named =
        option.map(Path::to_owned).or_else(|| non_empty_path(std::env::var_os(STORE_VARIABLE)));
    if let Some(path) = named {
        return Ok(path);
    }
    let strategy = etcetera::choose_base_strategy().map_err(|_| {
        Failure::usage(format!(
            "there is no home directory to keep runs in; name a file with --store or {STORE_VARIABLE}"
        ))
    })?;
    Ok(strategy.data_dir().join("ssdlab").join("runs.sqlite"))
}

/// Returns the path in the variable, or `None` if it is empty.
fn non_empty_path(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Warns before a long run if the store cannot be opened, so that the run could not be kept.
pub fn warn_if_unusable(path: &Path, terminal: &Terminal) {
    if let Err(error) = Store::open(path) {
        warn("as things are, this run will not be kept", &error, terminal);
    }
}

/// Keeps a report in the store, and returns its number. An error is only a warning, because the report is printed in
/// any case.
pub fn save(path: &Path, report: &Report, terminal: &Terminal) -> Option<RunId> {
    match Store::open(path).and_then(|mut store| store.insert(report)) {
        Ok(id) => Some(id),
        Err(error) => {
            warn("the run was not kept", &error, terminal);
            None
        }
    }
}

/// Returns the newest earlier run that can be compared with `report`, which was kept as `id`.
pub fn earlier_run(path: &Path, id: RunId, report: &Report) -> Option<RunId> {
    let runs = Store::open_read_only(path).and_then(|store| store.list()).ok()?;
    runs.iter()
        .find(|run| {
            run.id < id
                && run.experiment == report.experiment
                && run.shortened == report.shortened
                && !run.interrupted
        })
        .map(|run| run.id)
}

fn warn(what: &str, error: &StoreError, terminal: &Terminal) {
    let mut sentences = vec![what.to_owned()];
    sentences.extend(error_chain(error));
    let way_out = "--store PATH keeps runs in another file, --no-store keeps none; \
                   --json > FILE saves a report by itself";
    terminal.warn(&sentences, way_out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_goes_before_everything() {
        assert_eq!(path(Some(Path::new("here"))).unwrap(), Path::new("here"));
        assert_eq!(non_empty_path(Some(OsString::new())), None);
        assert_eq!(non_empty_path(Some("there".into())), Some("there".into()));
    }
}
