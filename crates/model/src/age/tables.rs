//! The tables of a new drive, which are filled as those of a used one are.

use crate::flash::Flash;
use crate::geometry::Geometry;
use crate::slc::SlcCache;
use crate::stream::{FreePool, WriteStream};
use crate::streams::Streams;

/// What preconditioning fills, whichever drive it belongs to.
pub(crate) struct Tables<'a, M> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) map: &'a mut M,
    pub(crate) flash: &'a mut Flash,
    pub(crate) free: &'a mut FreePool,
    /// The write frontiers of the host and of copies.
    pub(crate) host: &'a mut WriteStream,
    pub(crate) copies: &'a mut WriteStream,
    pub(crate) streams: Option<&'a mut Streams>,
    pub(crate) slc: Option<&'a mut SlcCache>,
}
