//! Timed reads past the page cache (`O_DIRECT`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::buffer::Buffer;
use crate::priority::RealTimeScheduling;
use crate::rate_limit::RateLimiter;
use crate::window::Span;
use crate::{DriveError, io};

/// Bytes of a request: as in the published protocol, and large enough to reach a flash page on each die.
pub const REQUEST: u64 = 1 << 20;

/// Bytes of a small request, which reaches one flash page.
pub const SMALL: u64 = 4096;

/// Times of the requests that a window was read with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Time of each request in seconds.
    pub seconds: Vec<f64>,
    /// Bytes of all requests together.
    pub bytes: u64,
}

impl Reading {
    /// Returns the time of each request divided by the bytes of the whole reading. The sum is in seconds
    /// per byte.
    pub fn seconds_per_byte(&self) -> Vec<f64> {
        self.seconds.iter().map(|it| it / self.bytes as f64).collect()
    }
}

/// A file or device that is read with direct I/O.
#[derive(Debug)]
pub struct Probe {
    file: File,
    buffer: Buffer,
    /// Bytes read so far.
    pub bytes: u64,
}

impl Probe {
    /// Reads from a file that was opened for direct I/O.
    pub fn new(file: File) -> Probe {
        Probe { file, buffer: Buffer::new(REQUEST as usize), bytes: 0 }
    }

    /// Reads one request. Returns its time.
    fn read_request(
        &mut self,
        span: Span,
        limiter: &mut RateLimiter,
    ) -> Result<Duration, DriveError> {
        // Direct reads are of whole blocks; the system cuts off the last one of a file.
        let length = span.length.next_multiple_of(SMALL) as usize;
        let start = Instant::now();
        let mut done = 0;
        while (done as u64) < span.length {
            let at = span.offset + done as u64;
            let read = self
                .file
                .read_at(&mut self.buffer[done..length], at)
                .map_err(|error| io(format!("cannot read at byte {at}"), error))?;
            if read == 0 {
                // The file became shorter meanwhile.
                break;
            }
            done += read;
        }
        let took = start.elapsed();
        self.bytes += span.length;
        limiter.throttle(span.length);
        Ok(took)
    }

    /// Reads a window from beginning to end, one request at a time. Returns the time of each request.
    ///
    /// # Errors
    /// Returns an error if the window cannot be read.
    pub fn read_window(
        &mut self,
        window: Span,
        limiter: &mut RateLimiter,
    ) -> Result<Reading, DriveError> {
        self.read_requests(window.chunks(REQUEST), window.length, limiter)
    }

    /// Reads `length` bytes, or the whole window if it is shorter, at a random place of a window, one
    /// request at a time and the last request first. Returns the time of each request.
    ///
    /// No request continues the one before it, so that no drive reads ahead. In ascending order a drive
    /// does, and how soon depends on what happened to be read before: the same sequentially written
    /// window of a simulated Toshiba XG5 takes 26 or 52 ms then.
    ///
    /// # Errors
    /// Returns an error if the window cannot be read.
    pub fn read_part(
        &mut self,
        window: Span,
        length: u64,
        generator: &mut Pcg64Mcg,
        limiter: &mut RateLimiter,
    ) -> Result<Reading, DriveError> {
        let length = length.min(window.length);
        // Requests begin where those of a sequential reading begin: a request that lies across two of
        // them may reach a die twice.
        let places = (window.length - length) / REQUEST;
        let offset = window.offset + generator.random_range(0..=places) * REQUEST;
        let mut requests: Vec<Span> = Span::new(offset, length).chunks(REQUEST).collect();
        requests.reverse();
        self.read_requests(requests.into_iter(), length, limiter)
    }

    /// Reads these requests one after the other, `bytes` in all. Returns the time of each.
    fn read_requests(
        &mut self,
        requests: impl Iterator<Item = Span>,
        bytes: u64,
        limiter: &mut RateLimiter,
    ) -> Result<Reading, DriveError> {
        // The thread sleeps nearly all of the time; a wait for a processor would look like a slow drive.
        let _real_time = RealTimeScheduling::begin();
        let seconds: Result<Vec<f64>, DriveError> = requests
            .map(|request| Ok(self.read_request(request, limiter)?.as_secs_f64()))
            .collect();
        Ok(Reading { seconds: seconds?, bytes })
    }

    /// Reads a small request at a random place of a window. Returns its time in seconds.
    ///
    /// # Errors
    /// Returns an error if the window cannot be read.
    pub fn read_small(
        &mut self,
        window: Span,
        generator: &mut Pcg64Mcg,
        limiter: &mut RateLimiter,
    ) -> Result<f64, DriveError> {
        let places = (window.length / SMALL).max(1);
        let offset = window.offset + generator.random_range(0..places) * SMALL;
        let length = SMALL.min(window.end() - offset);
        let _real_time = RealTimeScheduling::begin();
        Ok(self.read_request(Span::new(offset, length), limiter)?.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::io::Write;

    #[test]
    fn a_window_is_read_whole_also_where_it_ends_within_a_block() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; (2 << 20) + 777]).unwrap();
        let mut probe = Probe::new(file);
        let mut limiter = RateLimiter::new(None);
        let window = Span::new(0, (2 << 20) + 777);
        let reading = probe.read_window(window, &mut limiter).unwrap();
        assert_eq!(reading.seconds_per_byte().len(), 3);
        assert!(reading.seconds_per_byte().iter().all(|&it| it > 0.0));
        assert_eq!(probe.bytes, window.length);
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        for _ in 0..20 {
            let part = probe.read_part(window, 2 << 20, &mut generator, &mut limiter).unwrap();
            assert_eq!((part.seconds.len(), part.bytes), (2, 2 << 20));
            probe.read_small(window, &mut generator, &mut limiter).unwrap();
        }
        // The file has become shorter since: no error, and no endless loop.
        assert!(probe.read_window(Span::new(0, 8 << 20), &mut limiter).unwrap().bytes > 0);
    }
}
