//! The map of allocated and trimmed stretches (NBD `base:allocation`), without reading data.

use super::{Engine, Errno};

/// Maximum number of units in one query, because the query holds the lock.
const UNITS_MAX: u64 = 1 << 16;

/// A stretch of the drive that is either mapped or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the stretch in bytes.
    pub length: u64,
    /// True if the stretch is unmapped.
    pub is_hole: bool,
    /// True if the stretch is known to read as zeros: a hole, on a drive whose holes always read as zeros.
    pub is_zero: bool,
}

impl Engine {
    /// Returns the extents of the `length` bytes from `offset`: at least one, and no more than the first 65,536
    /// units. This takes none of the drive's time.
    ///
    /// # Errors
    /// Returns an error if the range ends behind the drive, and after a power cut.
    pub fn extents(&self, offset: u64, length: u64) -> Result<Vec<Extent>, Errno> {
        self.check_range(offset, length)?;
        let inner = self.lock();
        if inner.is_cut || inner.is_closed {
            return Err(Errno::IO);
        }
        let begin = offset - offset % self.unit;
        let end = (offset + length).min(begin + UNITS_MAX * self.unit);
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < end {
            let until = (at - at % self.unit + self.unit).min(end);
            let is_hole = inner.model.place_of(self.unit_of(at)).is_none();
            match extents.last_mut() {
                Some(last) if last.is_hole == is_hole => last.length += until - at,
                _ => {
                    let is_zero = is_hole && self.unmapped_reads_zeros();
                    extents.push(Extent { length: until - at, is_hole, is_zero });
                }
            }
            at = until;
        }
        Ok(extents)
    }
}
