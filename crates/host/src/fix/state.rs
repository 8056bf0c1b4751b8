//! What was fixed, in order, so that it can be taken back.

use serde::{Deserialize, Serialize};

use super::{Fix, Place, read, write};
use crate::error::HostError;

/// Where it is noted, below the root.
const PATH: &str = "var/lib/ssdlab/fixes.json";

#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct State {
    pub(super) done: Vec<Fix>,
}

impl State {
    pub(super) fn open(place: &Place) -> Result<State, HostError> {
        let Some(text) = read(place, PATH)? else { return Ok(State::default()) };
        serde_json::from_str(&text).map_err(|error| {
            HostError::Refused(format!("/{PATH} holds no notes of fixes ({error}): look at it"))
        })
    }

    pub(super) fn save(&self, place: &Place) -> Result<(), HostError> {
        let text = serde_json::to_string_pretty(self).expect("it has no maps");
        // It holds what was in the files that were changed: nobody else's business.
        write(&place.path(PATH), &text, None)
    }
}
