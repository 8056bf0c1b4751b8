//! Borrowed tables of a new drive, which preconditioning fills.

use crate::flash::Flash;
use crate::geometry::Geometry;
use crate::slc::SlcCache;
use crate::stream::{FreePool, WriteStream};
use crate::streams::Streams;

/// Tables that preconditioning fills, independent of the type of drive that they belong to.
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
