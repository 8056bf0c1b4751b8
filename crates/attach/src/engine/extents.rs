//! What is mapped, without reading it.

use super::{Engine, Errno};

/// Units that are looked at in one go, so that nobody waits long for it.
const UNITS_MAX: u64 = 1 << 16;

/// A stretch of the drive that is mapped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its bytes.
    pub length: u64,
    /// True if nothing is mapped there.
    pub is_hole: bool,
    /// True if it is known to read as zeros: a hole, where the profile does not have those read as
    /// anything else.
    pub is_zero: bool,
}

impl Engine {
    /// Returns which of the `length` bytes from `offset` are holes; at least the first of them, and no more than can be
    /// told soon. The drive is not asked for anything: this takes none of its time.
    ///
    /// # Errors
    /// Behind the end of the drive; after a power cut.
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
                    let is_zero = is_hole && self.holes_are_zeros();
                    extents.push(Extent { length: until - at, is_hole, is_zero });
                }
            }
            at = until;
        }
        Ok(extents)
    }
}
