//! Baselines: freshly written files on the same file system, which show how fast fresh data is read here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{Mode, OFlags};
use ssdlab_units::ByteLength;

use crate::buffer::Buffer;
use crate::interval::{readings_agree, time_without_load};
use crate::plan::FreshReadTime;
use crate::probe::{Probe, REQUEST};
use crate::rate_limit::RateLimiter;
use crate::window::{Span, split_into_windows};
use crate::{DriveError, ErrorKind, io};

/// Bytes of all baselines together: a few requests on each die of a large drive, and little wear.
pub const LENGTH: u64 = 32 << 20;

/// Number of files.
pub const FILES: u64 = 2;

/// Least number of readings of each window of a baseline.
pub const PASSES_MIN: usize = 6;

/// Largest number of readings, which end once two readings of each request agree.
const PASSES_MAX: usize = 50;

/// A freshly written file without a name (`O_TMPFILE`), which the system removes however the process
/// ends.
#[derive(Debug)]
pub struct WrittenBaseline {
    probe: Probe,
    windows: Vec<Span>,
    /// Seconds per byte without other load, read from end to end: the second fastest reading of each
    /// request. In a stream that the drive reads ahead of, the fastest times of all requests never come
    /// together.
    pub fresh: f64,
    /// Seconds per byte of the first window, and of the others.
    pub read_time: FreshReadTime,
}

/// Creates a file without a name in a directory.
pub(crate) fn create_unnamed(directory: &Path, direct: bool) -> Result<File, DriveError> {
    let mut flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    if direct {
        flags |= OFlags::DIRECT;
    }
    let opened = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    let file = opened
        .map_err(|error| io(format!("cannot make a file in {}", directory.display()), error))?;
    Ok(File::from(file))
}

/// Returns the bytes that must stay free on a file system of `total` bytes: 1 %, but at least 16 MiB and
/// at most 1 GiB.
pub(crate) fn reserve_of(total: u64) -> u64 {
    (total / 100).clamp(16 << 20, 1 << 30)
}

/// Returns an error if a file of `length` bytes would leave less than the reserve free.
fn check_free_space(directory: &Path, length: u64) -> Result<(), DriveError> {
    let found = rustix::fs::statvfs(directory).map_err(|error| {
        io(format!("cannot see the free space of {}", directory.display()), error)
    })?;
    let free = found.f_bavail * found.f_frsize;
    let reserve = reserve_of(found.f_blocks * found.f_frsize);
    if free >= length + reserve {
        return Ok(());
    }
    Err(DriveError::new(
        ErrorKind::NoSpace,
        format!(
            "only {} of {} free would be left, and {} must stay free",
            ByteLength::new(free.saturating_sub(length)),
            ByteLength::new(free),
            ByteLength::new(reserve)
        ),
    ))
}

impl WrittenBaseline {
    /// Writes a baseline of `length` bytes, which must not be 0, in `directory`, with incompressible
    /// data, and reads it in windows of `window` bytes.
    ///
    /// # Errors
    /// Returns an error if there is no space, or the file system does not support such files or direct
    /// I/O.
    pub fn write(
        directory: &Path,
        length: u64,
        window: u64,
        limiter: &mut RateLimiter,
    ) -> Result<WrittenBaseline, DriveError> {
        check_free_space(directory, length)?;
        let file = create_unnamed(directory, true)?;
        let cannot = |error| io(format!("cannot write in {}", directory.display()), error);
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)
            .or_else(|error| {
                let is_missing = error == rustix::io::Errno::OPNOTSUPP;
                if is_missing { Ok(()) } else { Err(error) }
            })
            .map_err(cannot)?;
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let mut buffer = Buffer::new(REQUEST as usize);
        for piece in Span::new(0, length).chunks(REQUEST) {
            generator.fill_bytes(&mut buffer);
            file.write_all_at(&buffer[..piece.length as usize], piece.offset)
                .map_err(|error| io(format!("cannot write in {}", directory.display()), error))?;
            limiter.throttle(piece.length);
        }
        rustix::fs::fsync(&file).map_err(cannot)?;
        let windows = split_into_windows(&[Span::new(0, length)], window);
        let mut baseline = WrittenBaseline {
            probe: Probe::new(file),
            windows,
            fresh: 0.0,
            read_time: FreshReadTime::even(0.0),
        };
        // Read from end to end, as the windows that are compared with it: for a window that is read by
        // itself, a drive begins to read ahead later than for one that follows another.
        let mut passes: Vec<Vec<Vec<f64>>> = vec![Vec::new(); baseline.windows.len()];
        for pass in 0..PASSES_MAX {
            let is_settled = passes.iter().all(|it| readings_agree(it.iter().map(Vec::as_slice)));
            if pass >= PASSES_MIN && is_settled {
                break;
            }
            for (window, passes) in baseline.windows.iter().zip(&mut passes) {
                passes.push(baseline.probe.read_window(*window, limiter)?.seconds);
            }
        }
        let seconds: Vec<f64> =
            passes.iter().map(|it| time_without_load(it.iter().map(Vec::as_slice))).collect();
        baseline.fresh = seconds.iter().sum::<f64>() / length as f64;
        baseline.read_time = FreshReadTime::even(baseline.fresh);
        let first = baseline.windows[0].length;
        if first < length {
            let following = seconds[1..].iter().sum::<f64>() / (length - first) as f64;
            baseline.read_time = FreshReadTime { first: seconds[0] / first as f64, following };
        }
        Ok(baseline)
    }

    /// Returns the probe, and the window with this number, counted around.
    pub fn window(&mut self, number: usize) -> (&mut Probe, Span) {
        (&mut self.probe, self.windows[number % self.windows.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_mount::LoopMount;

    #[test]
    fn it_is_not_written_where_others_could_meet_a_full_file_system() {
        let Some(mounted) = LoopMount::new("ext4", "yardsticks without room") else { return };
        let (point, length) = (mounted.point(), 4 << 20);
        let found = rustix::fs::statvfs(&point).unwrap();
        // One MiB less than the reserve would stay free.
        let rest = length + reserve_of(found.f_blocks * found.f_frsize) - (1 << 20);
        let other = File::create(point.join("other")).unwrap();
        let room = found.f_bavail * found.f_frsize - rest;
        rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), 0, room).unwrap();
        let write = || WrittenBaseline::write(&point, length, 1 << 20, &mut RateLimiter::new(None));
        let error = write().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("stay free"), "{error}");
        other.set_len(room - (2 << 20)).unwrap();
        assert!(write().is_ok());
    }

    #[test]
    fn it_has_no_name_and_all_its_windows_are_read() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut limiter = RateLimiter::new(None);
        let baseline = WrittenBaseline::write(directory.path(), 4 << 20, 1 << 20, &mut limiter);
        // Not every file system supports direct I/O; this test is for those that do.
        let Ok(mut baseline) = baseline else { return };
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(baseline.fresh > 0.0);
        let windows: std::collections::HashSet<Span> =
            (0..50).map(|number| baseline.window(number).1).collect();
        assert_eq!(windows.len(), 4);
    }
}
