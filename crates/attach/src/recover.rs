//! Recovery of a drive from its flash after a crash of the host.
//!
//! Recovery in the model finds free space after a power cut, which tears only the programs in flight. A crash
//! of the host takes any part of all that was written to the image since the last sync: block after block may
//! be left with a few program units behind missing ones. Flash pages are programmed in order, so the places
//! between are lost until the block is erased, and a full drive may have no place left to copy to. Real flash
//! never gets into that state.
//!
//! So if there is no free space, the program unit that was written last counts as never written, then the one
//! before, until there is enough. When all program units after the last sync are given up, the image is as a
//! power cut would have left it at that moment; so what a sync has made durable, and a flush promised, stays.
//! Program units that are given up are written as erased, durably before anything else is written.

use ssdlab_model::recovery::{Recovery, RecoveryError};
use ssdlab_units::Instant;

use crate::drive::{self, Model};
use crate::error::AttachError;
use crate::image::Image;
use crate::store::{Store, Survey};

/// A drive that has recovered; nothing was written to the image yet.
pub(crate) struct Recovered {
    pub(crate) model: Box<dyn Model>,
    pub(crate) recovery: Recovery,
    /// Survey that the drive has recovered from; [`Store::repair`] takes it.
    pub(crate) survey: Survey,
}

/// Opens the drive in `image` from its flash: from `store`, which found `survey`, or with fewer program units
/// if those leave no free space. Nothing is written.
///
/// # Errors
/// Returns an error if the flash holds what this drive cannot have written, if there is no free space however
/// many program units are given up, or if the image cannot be read.
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
