//! State file of fixes: the fixes that were made, in order, so that they can be undone.

use serde::{Deserialize, Serialize};

use super::{Fix, SystemRoot, read, write};
use crate::error::HostError;

/// Path of the state file, below the root.
const PATH: &str = "var/lib/ssdlab/fixes.json";

#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct State {
    pub(super) done: Vec<Fix>,
}

impl State {
    pub(super) fn open(system: &SystemRoot) -> Result<State, HostError> {
        let Some(text) = read(system, PATH)? else { return Ok(State::default()) };
        serde_json::from_str(&text).map_err(|error| {
            HostError::Refused(format!("/{PATH} holds no notes of fixes ({error}): look at it"))
        })
    }

    pub(super) fn save(&self, system: &SystemRoot) -> Result<(), HostError> {
        let text = serde_json::to_string_pretty(self).expect("it has no maps");
        // The file contains the former content of changed files, so only our user may read it.
        write(&system.path(PATH), &text, None)
    }
}
