//! Opening a drive from its flash after a crash of the host.
//!
//! Recovery in the model finds room after a cut of power, which tears only the programs under way. A crash
//! of the host takes any part of all that was written to the image since it was synced: it may leave block
//! after block with a few program units and nothing in front of them. Flash pages are programmed in order,
//! so the places between are lost until the block is erased, and on a full drive nothing may be left to copy
//! to. A flash never comes to that.
//!
//! So where there is no room, the program unit that was written last counts as never written, then the one
//! before, until there is. When all are gone that came after the last sync, the image is what a cut of power
//! would have left at that moment; so what a sync has made durable, and a flush promised, stays. Programs
//! given up are written as erased, durably before anything else is.

use ssdlab_model::recovery::{Recovery, RecoveryError};
use ssdlab_units::Instant;

use crate::drive::{self, Model};
use crate::error::AttachError;
use crate::image::Image;
use crate::store::{Store, Survey};

/// A drive that has recovered; nothing was written yet.
pub(crate) struct Recovered {
    pub(crate) model: Box<dyn Model>,
    pub(crate) recovery: Recovery,
    /// What it has recovered from; [`Store::mend`] takes it.
    pub(crate) survey: Survey,
}

/// Opens the drive in `image` from what its flash holds: from `store`, which found `survey`, or from less
/// where that leaves no room. Nothing is written.
///
/// # Errors
/// Returns an error if the flash holds what this drive cannot have written, has no room however much is given
/// up, or cannot be read.
pub(crate) fn recover(
    image: &Image,
    mut store: Store,
    mut survey: Survey,
) -> Result<Recovered, AttachError> {
    let mut earlier = survey.earlier().into_iter();
    loop {
        match drive::recover(image.configuration(), store, Instant::START) {
            Ok((model, recovery)) => return Ok(Recovered { model, recovery, survey }),
            Err(source) => {
                let is_full = matches!(source, RecoveryError::NoRoom { .. });
                let Some(last) = earlier.next().filter(|_| is_full) else {
                    return Err(AttachError::Recovery { path: image.path().to_owned(), source });
                };
                store = Store::new(image.clone());
                let found = store.survey_until(last);
                survey = found.map_err(|error| AttachError::io("read", image.path(), error))?;
            }
        }
    }
}
