//! Live state of runs, which other processes can read.
//!
//! A run writes its state to a file of its own, in the directory for records of attached drives
//! ([`ssdlab_rundir::directory`]), which only its user can enter. The whole file is replaced each time; its size is
//! limited. It is removed when the run has ended.

mod ratio_curve;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use ssdlab_drive::recording::Recorder;
use ssdlab_lab::experiment::Sample;
use ssdlab_lab::report::Series;
use ssdlab_lab::store::RunId;
use ssdlab_rundir::{RunDirectoryError, directory, write_atomic};

pub use ratio_curve::RatioCurve;

/// Extension of the files; the name is the number of the process.
const EXTENSION: &str = "run";
/// Time after which a run writes its first file; shorter runs write none.
const FIRST_WRITE_TIME: Duration = Duration::from_millis(400);
/// Time between two writes of the file.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which the file of a run that has ended is kept.
const RETENTION_TIME: Duration = Duration::from_secs(600);

/// Experiment and drive of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Name of the experiment.
    pub experiment: String,
    /// Drive, as the user named it.
    pub target: String,
    /// Random seed.
    pub seed: u64,
    /// True if the protocol is shortened.
    pub shortened: bool,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The run is in progress.
    Running,
    /// The run has ended, and was kept in the store under this number.
    Kept(i64),
    /// The process ended without a result.
    Lost,
}

/// Live state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Number of the process.
    pub pid: u32,
    /// Start of the process, in clock ticks since the system's start; it distinguishes the process from a later one
    /// with the same number.
    process_start: Option<u64>,
    /// Experiment and drive.
    pub subject: Subject,
    /// State of the run.
    pub state: State,
    /// Name of the current step.
    pub step: String,
    /// Share of the run that is done, from 0 to 1.
    pub share: f64,
    /// Seconds since the run's start.
    pub elapsed: f64,
    /// Estimated seconds until the run's end; `None` if there is no estimate yet.
    pub left: Option<f64>,
    /// Seconds of the drive's time that the run has taken.
    pub drive_time: f64,
    /// Drive's time in seconds up to which write amplification is known.
    programmed_until: f64,
    /// Throughput over the drive's time.
    throughput: RatioCurve,
    /// Write amplification over the drive's time.
    amplification: RatioCurve,
    /// Blocks of the drive, if they are recorded.
    pub blocks: Option<LiveBlocks>,
}

/// Latest picture of a simulated SSD's blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveBlocks {
    /// Number of blocks of the drive.
    pub blocks: u32,
    /// Number of free blocks.
    pub free_blocks: u32,
    /// Number of neighbouring blocks that a cell stands for.
    pub blocks_per_cell: u32,
    /// Cells of four bytes each, as [`ssdlab_model::ftl::Ssd::fill_cells`] describes them, in base64.
    pub cells: String,
}

impl LiveBlocks {
    fn newest_of(recorder: &Recorder) -> Option<LiveBlocks> {
        let track = recorder.newest()?;
        let picture = track.pictures.last()?;
        Some(LiveBlocks {
            blocks: track.blocks,
            free_blocks: picture.free_blocks,
            blocks_per_cell: track.blocks_per_cell,
            cells: STANDARD.encode(&picture.cells),
        })
    }
}

impl LiveRun {
    fn new(subject: Subject) -> LiveRun {
        let pid = std::process::id();
        LiveRun {
            pid,
            process_start: process_start(pid),
            subject,
            state: State::Running,
            step: String::new(),
            share: 0.0,
            elapsed: 0.0,
            left: None,
            drive_time: 0.0,
            programmed_until: 0.0,
            throughput: RatioCurve::default(),
            amplification: RatioCurve::default(),
            blocks: None,
        }
    }

    fn add(&mut self, sample: Sample) {
        match sample {
            Sample::Transferred { bytes, time } => {
                self.drive_time += time.seconds();
                let megabytes = bytes.bytes() as f64 / 1e6;
                self.throughput.add(self.drive_time, time.seconds(), megabytes, time.seconds());
            }
            Sample::Programmed { host_units, flash_units } => {
                let (over, under) = (flash_units as f64, host_units as f64);
                let length = self.drive_time - self.programmed_until;
                self.programmed_until = self.drive_time;
                self.amplification.add(self.drive_time, length, over, under);
            }
        }
    }

    /// Returns the curves of throughput and write amplification so far.
    pub fn series(&self) -> Vec<Series> {
        let minutes = self.drive_time >= 600.0;
        let (unit_x, by) = if minutes { ("min", 60.0) } else { ("s", 1.0) };
        let curve = |name: &str, unit_y: &str, curve: &RatioCurve| {
            let (x, y) = curve.points().map(|(x, y)| (x / by, y)).unzip();
            let (unit_x, unit_y) = (unit_x.to_owned(), unit_y.to_owned());
            Series { name: name.to_owned(), unit_x, unit_y, x, y }
        };
        let all = [
            curve("throughput", "MB/s", &self.throughput),
            curve("write_amplification", "", &self.amplification),
        ];
        all.into_iter().filter(|series| series.x.len() > 1).collect()
    }
}

/// Writer of this process' run file, which others can watch.
#[derive(Debug)]
pub struct Publisher {
    run: LiveRun,
    recorder: Option<Recorder>,
    began: Instant,
    written: Option<Instant>,
    path: Option<PathBuf>,
}

impl Publisher {
    /// Creates the writer before the run begins. A run that is over in less than 0.4 s writes no file. The blocks of
    /// the drive are shown if a recorder takes pictures of them.
    pub fn new(subject: Subject, recorder: Option<Recorder>) -> Publisher {
        Publisher {
            run: LiveRun::new(subject),
            recorder,
            began: Instant::now(),
            written: None,
            path: None,
        }
    }

    /// Adds a sample of what the drive has done.
    pub fn add(&mut self, sample: Sample) {
        self.run.add(sample);
    }

    /// Sets the progress of the run and the estimated time left, if known.
    pub fn progress(&mut self, step: &str, share: f64, left: Option<Duration>) {
        let elapsed = self.began.elapsed();
        let is_due = match self.written {
            None => elapsed >= FIRST_WRITE_TIME,
            Some(written) => written.elapsed() >= WRITE_INTERVAL,
        };
        if is_due {
            step.clone_into(&mut self.run.step);
            self.run.share = share;
            self.run.elapsed = elapsed.as_secs_f64();
            self.run.left = left.map(|left| left.as_secs_f64());
            self.run.blocks = self.recorder.as_ref().and_then(LiveBlocks::newest_of);
            self.written = Some(Instant::now());
            self.write();
        }
    }

    /// Ends the run. `id` is its number in the store, or `None` if it was not kept.
    pub fn end(mut self, id: Option<RunId>) {
        if let (Some(id), Some(_)) = (id, &self.path) {
            self.run.state = State::Kept(id.number());
            (self.run.share, self.run.left) = (1.0, None);
            self.write();
            self.path = None;
        }
    }

    /// Writes the file. Errors are ignored: the run does not depend on watchers.
    fn write(&mut self) {
        if self.path.is_none() {
            let Ok(directory) = directory() else { return };
            remove_expired(&directory);
            self.path = Some(directory.join(format!("{}.{EXTENSION}", self.run.pid)));
        }
        if let Some(path) = &self.path {
            let text = serde_json::to_string(&self.run).expect("it has no maps");
            let _ = write_atomic(path, &text);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the runs in progress, and those that ended within the last ten minutes, ordered by process.
///
/// # Errors
/// Returns an error if the directory of the files is not usable.
pub fn runs() -> Result<Vec<LiveRun>, RunDirectoryError> {
    let directory = directory()?;
    let Ok(entries) = std::fs::read_dir(&directory) else { return Ok(Vec::new()) };
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_run_file(path));
    let mut runs: Vec<LiveRun> = paths.filter_map(|path| read(&path)).collect();
    runs.sort_by_key(|run| run.pid);
    Ok(runs)
}

/// Returns the run of process `pid`, or `None`.
///
/// # Errors
/// Returns an error if the directory of the files is not usable.
pub fn run(pid: u32) -> Result<Option<LiveRun>, RunDirectoryError> {
    Ok(read(&directory()?.join(format!("{pid}.{EXTENSION}"))))
}

fn is_run_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn read(path: &Path) -> Option<LiveRun> {
    let mut run: LiveRun = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    if run.state == State::Running && !is_alive(&run) {
        run.state = State::Lost;
    }
    Some(run)
}

fn is_alive(run: &LiveRun) -> bool {
    process_start(run.pid).is_some_and(|start| Some(start) == run.process_start)
}

/// Returns the start of a process, in clock ticks since the system's start (proc(5), field 22 of `stat`).
#[cfg(not(windows))]
fn process_start(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, before this bracket, may contain any characters.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Returns the start of a process, in units of 100 ns since 1601; `None` if the process has ended.
#[cfg(windows)]
fn process_start(pid: u32) -> Option<u64> {
    use windows_sys::Win32::Foundation::{CloseHandle, FILETIME, STILL_ACTIVE};
    use windows_sys::Win32::System::Threading::{
        GetExitCodeProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
    };

    let mut times = [FILETIME::default(); 4];
    let [started, ended, kernel, user] = &mut times;
    let mut code = 0;
    // SAFETY: the handle is open until it is closed here, once, and all that is written to outlives the calls.
    let is_known = unsafe {
        let process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid);
        if process.is_null() {
            return None;
        }
        let is_known = GetProcessTimes(process, started, ended, kernel, user) != 0
            && GetExitCodeProcess(process, &raw mut code) != 0;
        CloseHandle(process);
        is_known
    };
    let start = u64::from(started.dwHighDateTime) << 32 | u64::from(started.dwLowDateTime);
    (is_known && code == STILL_ACTIVE as u32).then_some(start)
}

/// Removes the files of runs that ended, or were lost, more than ten minutes ago.
fn remove_expired(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_run_file(path)) {
        let modified = std::fs::metadata(&path).and_then(|found| found.modified());
        let age = modified.ok().and_then(|it| it.elapsed().ok()).unwrap_or_default();
        if age > RETENTION_TIME && read(&path).is_none_or(|run| run.state != State::Running) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_units::{ByteLength, Nanoseconds};

    use super::*;

    fn subject() -> Subject {
        let (experiment, target) = ("steady".to_owned(), "sim:".to_owned());
        Subject { experiment, target, seed: 1, shortened: true }
    }

    #[test]
    fn curves_are_over_the_time_of_the_drive() {
        let mut run = LiveRun::new(subject());
        for _ in 0..2 {
            let (bytes, time) = (ByteLength::new(200_000_000), Nanoseconds::from_secs(2));
            run.add(Sample::Transferred { bytes, time });
            run.add(Sample::Programmed { host_units: 10, flash_units: 25 });
        }
        let series = run.series();
        assert_eq!(series[0].name, "throughput");
        assert_eq!((&*series[0].x, &*series[0].y), (&[2.0, 4.0][..], &[100.0, 100.0][..]));
        assert_eq!(series[1].y, [2.5, 2.5]);
        let (bytes, time) = (ByteLength::new(0), Nanoseconds::from_secs(596));
        run.add(Sample::Transferred { bytes, time });
        assert_eq!(run.series()[0].unit_x, "min");
        assert_eq!(run.series()[0].x[2], 10.0);
    }

    #[test]
    fn a_run_of_a_process_that_is_gone_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.run");
        let mut run = LiveRun::new(subject());
        std::fs::write(&path, serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap().state, State::Running);
        // Another process has its number now.
        run.process_start = run.process_start.map(|start| start + 1);
        std::fs::write(&path, serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap().state, State::Lost);
        std::fs::write(&path, "half of a rec").unwrap();
        assert_eq!(read(&path), None);
    }

    #[test]
    fn only_what_ended_long_ago_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, run: &LiveRun, age: Duration| {
            let path = directory.path().join(name);
            std::fs::write(&path, serde_json::to_string(run).unwrap()).unwrap();
            let time = std::time::SystemTime::now() - age;
            std::fs::File::open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let running = LiveRun::new(subject());
        let ended = LiveRun { state: State::Kept(7), ..running.clone() };
        let slow = file("1.run", &running, RETENTION_TIME * 2);
        let fresh = file("2.run", &ended, Duration::ZERO);
        let old = file("3.run", &ended, RETENTION_TIME * 2);
        let drive = file("4.json", &ended, RETENTION_TIME * 2);
        remove_expired(directory.path());
        assert!(slow.exists() && fresh.exists() && drive.exists() && !old.exists());
    }
}
