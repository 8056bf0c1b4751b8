//! Trimming, and writing zeros.

use std::time::Instant as HostInstant;

use ssdlab_units::Instant;

use super::requests::sectors;
use super::{Answer, Engine, Errno, Kind, errno};

impl Engine {
    /// Forgets what the `length` bytes from `offset` held, in all whole units: they read from then on
    /// as the profile says. With `exact` all of them read as zeros, also the parts of units at both
    /// ends; what a trim does not leave as zeros is written.
    ///
    /// # Errors
    /// Behind the end of the drive; when the image cannot be written; after a power cut.
    pub fn trim(
        &self,
        came: HostInstant,
        offset: u64,
        length: u64,
        exact: bool,
    ) -> Result<Answer, Errno> {
        self.check_writable()?;
        self.check_range(offset, length)?;
        if length == 0 {
            return Ok(Answer { at: self.lock().busy_until });
        }
        if exact && !self.trims_to_zeros() {
            return self.zero(came, offset, length, false);
        }
        let end = offset + length;
        let whole = offset.next_multiple_of(self.unit)..end - end % self.unit;
        let mut answer = None;
        if !whole.is_empty() || !exact {
            let mut inner = self.lock();
            let arrived = inner.begin(self, came)?;
            inner.admit_write(self, arrived)?;
            inner.record(Kind::Trim, offset, length);
            let (first, count) = sectors(offset, length);
            let at = inner.model.trim(arrived, first, count);
            answer = Some(inner.end(Kind::Trim, length, arrived, at));
            if inner.model.store().trims_need_room() {
                inner.condense_trims().map_err(|error| errno(&error))?;
            }
        }
        if exact {
            let parts = if whole.is_empty() {
                [offset..end, end..end]
            } else {
                [offset..whole.start, whole.end..end]
            };
            for part in parts {
                if !part.is_empty() {
                    let zeros = vec![0; (part.end - part.start) as usize];
                    answer = Some(self.write(came, part.start, &zeros, false)?);
                }
            }
        }
        Ok(answer.unwrap_or(Answer { at: Instant::START }))
    }

    /// Has the `length` bytes from `offset` read as zeros: by a trim where the drive carries those
    /// out, with zeros as their outcome, and `may_trim` says so; by writing otherwise.
    ///
    /// # Errors
    /// As [`Engine::trim`] and [`Engine::write`].
    pub fn zero(
        &self,
        came: HostInstant,
        offset: u64,
        length: u64,
        may_trim: bool,
    ) -> Result<Answer, Errno> {
        if may_trim && self.trims_to_zeros() {
            return self.trim(came, offset, length, true);
        }
        self.check_writable()?;
        self.check_range(offset, length)?;
        let zeros = vec![0; length.min(1 << 20) as usize];
        let (mut at, end) = (offset, offset + length);
        let mut answer = Answer { at: Instant::START };
        while at < end {
            let count = (end - at).min(zeros.len() as u64);
            answer = self.write(came, at, &zeros[..count as usize], false)?;
            at += count;
            if at < end {
                self.let_pass(answer);
            }
        }
        Ok(answer)
    }

    /// Waits until the drive has room for what was written, where that is in the host's time: what it has
    /// no room for is in our memory. The drive's time is none the longer for it.
    fn let_pass(&self, answer: Answer) {
        let left = self.deadline(answer).map(|it| it.saturating_duration_since(HostInstant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }
}
