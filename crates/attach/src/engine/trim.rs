//! Trim and write zeroes.

use std::time::Instant as HostInstant;

use ssdlab_units::Instant;

use super::in_flight::Request;
use super::requests::sectors;
use super::{Answer, Engine, Errno, Kind, Submitted, Time, errno};

impl Engine {
    /// Trims all whole units in the `length` bytes from `offset`: they read from then on as the profile says.
    /// With `exact` all bytes read as zeros, the parts of units at both ends included: bytes that a trim does
    /// not leave as zeros are written.
    ///
    /// # Errors
    /// Returns an error if the range ends behind the drive, if the image cannot be written, and after a power
    /// cut.
    pub fn trim(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        length: u64,
        exact: bool,
    ) -> Result<Answer, Errno> {
        self.check_writable()?;
        self.check_range(offset, length)?;
        if length == 0 {
            return Ok(Answer { at: self.lock().busy_until });
        }
        if exact && !self.trims_read_zeros() {
            return self.zero(host_arrival, offset, length, false);
        }
        let end = offset + length;
        let whole = offset.next_multiple_of(self.unit)..end - end % self.unit;
        let mut answer = None;
        if !whole.is_empty() || !exact {
            answer = Some(self.trim_units(host_arrival, offset, length)?);
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
                    answer = Some(self.write(host_arrival, part.start, &zeros, false)?);
                }
            }
        }
        Ok(answer.unwrap_or(Answer { at: Instant::START }))
    }

    /// Trims the whole units in a range.
    fn trim_units(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        length: u64,
    ) -> Result<Answer, Errno> {
        if self.clock.time() == Time::Real {
            let submitted = self.submit_trim(host_arrival, offset, length)?;
            return self.wait_for(submitted);
        }
        let mut inner = self.lock();
        let arrived = inner.begin_request(self, host_arrival)?;
        inner.admit_write(self, arrived)?;
        inner.record(Kind::Trim, offset, length);
        let (mut at, mut left) = (arrived, Some(sectors(offset, length)));
        while let Some((first, count)) = left {
            let (command, behind) = inner.model.trim_command(first, count);
            at = inner.execute(at, command, None, None)?;
            left = behind;
        }
        let answer = inner.record_answer(Kind::Trim, length, arrived, at);
        if inner.model.store().needs_trim_compaction() {
            inner.compact_trims().map_err(|error| errno(&error))?;
        }
        Ok(answer)
    }

    /// Submits a trim of all whole units in the `length` bytes from `offset`.
    ///
    /// # Errors
    /// As [`Engine::trim`].
    pub fn submit_trim(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        length: u64,
    ) -> Result<Submitted, Errno> {
        if self.clock.time() == Time::Fast || length == 0 {
            return Ok(Submitted::Answered(self.trim(host_arrival, offset, length, false)?));
        }
        self.check_writable()?;
        self.check_range(offset, length)?;
        self.at_arrival(host_arrival, |inner, arrived| {
            inner.admit_write(self, arrived)?;
            inner.record(Kind::Trim, offset, length);
            if inner.model.store().needs_trim_compaction() {
                inner.compact_trims().map_err(|error| errno(&error))?;
            }
            let (first, count) = sectors(offset, length);
            let (command, left) = inner.model.trim_command(first, count);
            let request = Request { left, ..Request::new(Kind::Trim, length, arrived) };
            let tag = inner.send(request, command);
            Ok(Submitted::Waiting(inner.in_flight.ticket(tag)))
        })
    }

    /// Makes the `length` bytes from `offset` read as zeros: by a trim, if `may_trim` is set and the drive's
    /// trimmed data reads as zeros; otherwise by writing.
    ///
    /// # Errors
    /// As [`Engine::trim`] and [`Engine::write`].
    pub fn zero(
        &self,
        host_arrival: HostInstant,
        offset: u64,
        length: u64,
        may_trim: bool,
    ) -> Result<Answer, Errno> {
        if may_trim && self.trims_read_zeros() {
            return self.trim(host_arrival, offset, length, true);
        }
        self.check_writable()?;
        self.check_range(offset, length)?;
        let zeros = vec![0; length.min(1 << 20) as usize];
        let (mut at, end) = (offset, offset + length);
        let mut answer = Answer { at: Instant::START };
        while at < end {
            let count = (end - at).min(zeros.len() as u64);
            answer = self.write(host_arrival, at, &zeros[..count as usize], false)?;
            at += count;
        }
        Ok(answer)
    }
}
