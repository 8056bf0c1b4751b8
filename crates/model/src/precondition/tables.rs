//! Borrowed tables of a new drive, which preconditioning fills.

use crate::block_table::BlockTable;
use crate::free_block_pool::FreeBlockPool;
use crate::geometry::Geometry;
use crate::slc::SlcCache;
use crate::streams::Streams;
use crate::write_frontier::WriteFrontier;

/// Tables that preconditioning fills, independent of the type of drive that they belong to.
pub(crate) struct Tables<'a, M> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) map: &'a mut M,
    pub(crate) block_table: &'a mut BlockTable,
    pub(crate) free: &'a mut FreeBlockPool,
    /// The write frontiers of the host and of copies.
    pub(crate) host: &'a mut WriteFrontier,
    pub(crate) copies: &'a mut WriteFrontier,
    pub(crate) streams: Option<&'a mut Streams>,
    pub(crate) slc: Option<&'a mut SlcCache>,
}
