//! Control of an attached drive by other processes: records that name the drives, and a socket for each.
//!
//! Each attached drive has two files in the user's run directory ([`ssdlab_rundir`]): a record and a socket. A
//! request is one line (`status`, `blocks`, `detach`, `power-cut`), the answer is one line; both are JSON.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ssdlab_rundir::directory;

use crate::engine::Outcome;
use crate::error::AttachError;
use crate::socket::listen_privately;
use crate::stale_mounts;

/// Record of an attached drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Process that has the drive attached.
    pub pid: u32,
    /// Path of the image.
    pub image: PathBuf,
    /// Place of the drive: device, file or address.
    pub place: String,
    /// The loop device; `None` on other routes.
    pub device: Option<String>,
    /// Directory on which the drive's file is mounted; `None` if it is not.
    pub directory: Option<PathBuf>,
}

/// A request to an attached drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Returns the drive's status.
    Status,
    /// Returns the drive's status in the text format of Prometheus.
    Prometheus,
    /// Returns a picture of the blocks ([`crate::status::Blocks`]).
    Blocks,
    /// Detaches the drive in order, unless it is in use; answered when that is done ([`Detached`]).
    Detach,
    /// Cuts the drive's power.
    PowerCut,
}

/// Outcome of a request to detach a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detached {
    /// The drive is detached, and its image was closed like this.
    Done(Outcome),
    /// The drive is in use and stays attached. Names its users, as text.
    InUse(String),
    /// The drive is detached, and something failed, as text.
    Failed(String),
}

/// Returns the directory in `run` on which process `pid` mounts its file for a loop device.
pub(crate) fn directory_for_file(run: &Path, pid: u32) -> PathBuf {
    run.join(format!("{pid}.file"))
}

/// The control socket of an attached drive, and its record.
#[derive(Debug)]
pub struct Control {
    socket: PathBuf,
    record: PathBuf,
    is_closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Writes the record, and answers requests on the socket with `answer`.
    ///
    /// # Errors
    /// Returns an error if the record or the socket cannot be created.
    pub fn start(
        record: &Record,
        answer: impl Fn(ControlRequest) -> String + Send + 'static,
    ) -> Result<Control, AttachError> {
        let directory = directory()?;
        let socket = directory.join(format!("{}.sock", record.pid));
        let path = directory.join(format!("{}.json", record.pid));
        // A killed process with the same number may have left it.
        let _ = fs::remove_file(&socket);
        let listener = listen_privately(&socket)
            .map_err(|error| AttachError::io("listen at", &socket, error))?;
        write_record(&path, record).map_err(|error| AttachError::io("write", &path, error))?;
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = is_closing.clone();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                for stream in listener.incoming() {
                    if closing.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Ok(stream) = stream {
                        // A client with an invalid request, or one that has gone, gets no answer.
                        let _ = serve(stream, &answer);
                    }
                }
            })
            .map_err(|error| AttachError::io("start a thread for", &socket, error))?;
        Ok(Control { socket, record: path, is_closing, thread: Some(thread) })
    }

    /// Ends the thread and removes the record and the socket.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_closing.store(true, Ordering::Relaxed);
        // The thread waits in `accept`: a connection lets it see that it has to end.
        let _ = UnixStream::connect(&self.socket);
        let _ = thread.join();
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.record);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(stream: UnixStream, answer: &impl Fn(ControlRequest) -> String) -> io::Result<()> {
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let mut line = String::new();
    BufReader::new((&stream).take(256)).read_line(&mut line)?;
    let ask: ControlRequest = serde_json::from_str(&line)?;
    let mut text = answer(ask);
    text.push('\n');
    (&stream).write_all(text.as_bytes())
}

/// Writes a record that only this user may read.
fn write_record(path: &Path, record: &Record) -> io::Result<()> {
    // A killed process with the same number may have left it.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let text = serde_json::to_string(record)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Reads the record at `path`; `None` if it is gone or half written.
///
/// # Errors
/// Returns an error if the record cannot be read, or somebody else may have written it.
fn read_record(path: &Path) -> Result<Option<Record>, AttachError> {
    let untrusted = |why: String| {
        let path = path.to_owned();
        Err(AttachError::Untrusted { path, why: format!("{why}; remove it") })
    };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return untrusted("is a symbolic link and not a record".to_owned());
        }
        Err(error) => return Err(AttachError::io("read", path, error)),
    };
    let cannot = |error| AttachError::io("read", path, error);
    let found = file.metadata().map_err(cannot)?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_file() || found.uid() != user {
        return untrusted(format!("is not a record of user {user}"));
    }
    if found.mode() & 0o022 != 0 {
        return untrusted(format!("can be written by others (mode {:o})", found.mode() & 0o777));
    }
    let mut text = String::new();
    if file.read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let Ok(record) = serde_json::from_str::<Record>(&text) else { return Ok(None) };
    if path.file_stem().is_none_or(|stem| *stem != *record.pid.to_string()) {
        return untrusted(format!("says that it is the record of process {}", record.pid));
    }
    Ok(Some(record))
}

/// Returns all records, by process number.
///
/// # Errors
/// Returns an error if a record cannot be read, or somebody else may have written it.
pub fn records() -> Result<Vec<Record>, AttachError> {
    let directory = directory()?;
    let cannot = |error| AttachError::io("read", &directory, error);
    let mut records = Vec::new();
    for entry in fs::read_dir(&directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|it| it == "json") {
            records.extend(read_record(&path)?);
        }
    }
    records.sort_by_key(|record| record.pid);
    Ok(records)
}

/// Returns the record of the drive that `name` means: its device, file, address or image; without a name, that
/// of the only drive. A drive whose program runs precedes records of killed programs.
///
/// # Errors
/// Returns an error if there is none, or without a name if there is more than one.
pub fn find(name: Option<&str>) -> Result<Record, AttachError> {
    let records = records()?;
    let Some(name) = name else {
        // There may also be records of killed programs.
        let alive: Vec<Record> =
            records.iter().filter(|record| is_alive(record)).cloned().collect();
        let records = if alive.is_empty() { records } else { alive };
        return match records.as_slice() {
            [record] => Ok(record.clone()),
            [] => Err(AttachError::Usage(
                "no drive is attached; 'ssdlab attach IMAGE' attaches one".to_owned(),
            )),
            several => {
                let places: Vec<&str> = several.iter().map(|it| it.place.as_str()).collect();
                let message =
                    format!("several drives are attached; name one: {}", places.join(", "));
                Err(AttachError::Usage(message))
            }
        };
    };
    let full = fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name));
    let is_it = |record: &Record| {
        record.place == name
            || record.device.as_deref() == Some(name)
            || record.image == full
            || Path::new(&record.place) == full
    };
    let (alive, dead): (Vec<Record>, Vec<Record>) =
        records.into_iter().rev().filter(is_it).partition(is_alive);
    // Records of killed programs come after attached drives.
    alive.into_iter().chain(dead).next().ok_or_else(|| {
        AttachError::Usage(format!("{name} is neither an attached drive nor the image of one"))
    })
}

/// Maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for detaching: unmounting, flushing and closing the image.
pub(crate) const DETACH_TIMEOUT: Duration = Duration::from_secs(300);
/// Time by which a client waits longer for a detach than the drive allows it, so that the drive itself reports
/// its timeout.
const DETACH_MARGIN: Duration = Duration::from_secs(60);

/// Timeouts are counted in pieces of this length. While the whole machine stands still, clocks go on and nobody
/// can answer: such a pause counts as one piece.
const TIMEOUT_SLICE: Duration = Duration::from_secs(5);

/// Number of tries if the drive hangs up before it has read the request.
const TRIES_MAX: u32 = 3;

/// Asks the drive of `record` to detach; returns the outcome.
///
/// # Errors
/// Returns an error if no process answers for the drive, or the answer cannot be decoded.
pub fn detach(record: &Record) -> Result<Detached, AttachError> {
    let answer = ask(record, ControlRequest::Detach)?;
    serde_json::from_str(&answer).map_err(|_| {
        let message = if answer.is_empty() { "nothing" } else { &answer };
        AttachError::System(format!(
            "process {}, which has {} attached, answered {message} to the request to detach it",
            record.pid,
            record.image.display()
        ))
    })
}

/// Sends a request to the drive of `record`; returns the line that it answers.
///
/// # Errors
/// Returns an error if no process answers for the drive, or not in time.
pub fn ask(record: &Record, ask: ControlRequest) -> Result<String, AttachError> {
    let socket = directory()?.join(format!("{}.sock", record.pid));
    let cannot = |error| AttachError::io("ask the drive at", &socket, error);
    let patience =
        if ask == ControlRequest::Detach { DETACH_TIMEOUT + DETACH_MARGIN } else { TIMEOUT };
    let question = serde_json::to_string(&ask).map_err(|error| cannot(error.into()))?;
    let mut answer = String::new();
    for _ in 0..TRIES_MAX {
        let stream = UnixStream::connect(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => AttachError::System(format!(
                "the program that had {0} attached, process {1}, has ended without detaching it; \
                 'ssdlab detach {0}' cleans up what it left",
                record.image.display(),
                record.pid
            )),
            io::ErrorKind::NotFound => {
                AttachError::System(format!("{} was detached", record.image.display()))
            }
            _ => cannot(error),
        })?;
        let asked = (&stream).write_all(format!("{question}\n").as_bytes());
        let outcome = asked.and_then(|()| read_answer(&stream, TIMEOUT_SLICE, patience));
        answer = match outcome {
            Ok(line) => line,
            // The drive hung up before it had read the request, as it does after two seconds.
            Err(error) if has_hung_up(&error) => String::new(),
            Err(error) if is_timeout(&error) => {
                return Err(AttachError::System(format!(
                    "process {}, which has {} attached, has not answered for {} seconds; it still \
                     runs, and carries out the request when it can. 'ssdlab status' shows whether \
                     the drive is still attached",
                    record.pid,
                    record.image.display(),
                    patience.as_secs()
                )));
            }
            Err(error) => return Err(cannot(error)),
        };
        if !answer.is_empty() {
            break;
        }
    }
    Ok(answer)
}

/// Reads a line within `patience`, counted in pieces.
fn read_answer(stream: &UnixStream, piece: Duration, patience: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(piece))?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    let mut waited = Duration::ZERO;
    loop {
        // Bytes that came before a timeout stay in `answer`.
        match reader.read_line(&mut answer) {
            Ok(_) => return Ok(answer.trim_end().to_owned()),
            Err(error) if is_timeout(&error) && waited + piece < patience => waited += piece,
            Err(error) => return Err(error),
        }
    }
}

/// Returns true for a socket's timeout (socket(7), SO_RCVTIMEO).
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Returns true if a process answers for the drive of `record`.
pub fn is_alive(record: &Record) -> bool {
    let Ok(directory) = directory() else { return false };
    UnixStream::connect(directory.join(format!("{}.sock", record.pid))).is_ok()
}

/// Removes what the killed process of `record` has left: its loop device and its mount, if the system shows
/// that they are its own (the record alone is not trusted), and the record.
/// # Errors
/// Returns an error if the loop device or the mount is still in use.
pub fn clean_up(record: &Record) -> Result<(), AttachError> {
    let run = directory()?;
    if let Some(mounted) = &record.directory {
        let own_directory = directory_for_file(&run, record.pid);
        if let Some(device) = record.device.as_ref().filter(|_| *mounted == own_directory) {
            stale_mounts::detach_loop(device, &own_directory)?;
        }
        let cannot = |error| AttachError::io("clean up", mounted, error);
        stale_mounts::unmount_stale(mounted).map_err(cannot)?;
        if *mounted == own_directory {
            remove(&own_directory, |path| fs::remove_dir(path))?;
        }
    }
    for extension in ["sock", "json"] {
        remove(&run.join(format!("{}.{extension}", record.pid)), |path| fs::remove_file(path))?;
    }
    Ok(())
}

/// Removes `path` with `how`; it may be gone already.
fn remove(path: &Path, how: impl Fn(&Path) -> io::Result<()>) -> Result<(), AttachError> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AttachError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes what killed processes that had `image` have left; returns descriptions for the user. What is still
/// in use stays, with its record.
///
/// # Errors
/// Returns an error if the records cannot be read or trusted.
pub(crate) fn clean_up_after_image(image: &Path) -> Result<Vec<String>, AttachError> {
    let mut said = Vec::new();
    for record in records()? {
        if record.image != image || is_alive(&record) {
            continue;
        }
        let (pid, place) = (record.pid, &record.place);
        said.push(match clean_up(&record) {
            Ok(()) => {
                format!(
                    "Process {pid}, which had it at {place}, was killed; cleaned up what it left."
                )
            }
            Err(error) => format!(
                "Process {pid} was killed, and {place}, which it left, cannot be cleaned up: \
                 {error}"
            ),
        });
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn record(pid: u32) -> Record {
        let image = PathBuf::from("/a/disk.ssd");
        Record { pid, image, place: "nbd://".to_owned(), device: None, directory: None }
    }

    #[test]
    fn a_record_is_believed_that_nobody_else_can_have_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("17.json");
        assert!(read_record(&path).unwrap().is_none());
        write_record(&path, &record(17)).unwrap();
        let mode = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_record(&path).unwrap(), Some(record(17)));
        for open in [0o620, 0o602, 0o666] {
            mode(open);
            let error = read_record(&path).unwrap_err().to_string();
            assert!(error.contains("written by others") && error.contains("17.json"), "{error}");
        }
        mode(0o644);
        assert_eq!(read_record(&path).unwrap(), Some(record(17)));
        // The record carries the number of another process.
        let other = directory.path().join("18.json");
        fs::copy(&path, &other).unwrap();
        assert!(read_record(&other).unwrap_err().to_string().contains("process 17"));
        fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(&path, &other).unwrap();
        assert!(read_record(&other).unwrap_err().to_string().contains("is a symbolic link"));
        fs::write(&path, "half of a rec").unwrap();
        assert!(read_record(&path).unwrap().is_none());
        if rustix::process::geteuid().is_root() {
            write_record(&path, &record(17)).unwrap();
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            assert!(read_record(&path).unwrap_err().to_string().contains("not a record of user 0"));
        }
    }

    const BRIEFLY: Duration = Duration::from_millis(20);

    #[test]
    fn who_answers_late_is_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for part in ["\"do", "ne\"\n"] {
                    std::thread::sleep(BRIEFLY * 3);
                    (&theirs).write_all(part.as_bytes()).unwrap();
                }
            });
            let answer = read_answer(&ours, BRIEFLY, Duration::from_secs(60));
            assert_eq!(answer.unwrap(), "\"done\"");
        });
    }

    #[test]
    fn who_never_answers_is_not_waited_for_for_ever() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let began = std::time::Instant::now();
        let error = read_answer(&ours, BRIEFLY, BRIEFLY * 3).unwrap_err();
        assert!(is_timeout(&error), "{error}");
        assert!(began.elapsed() >= BRIEFLY * 3);
    }

    #[test]
    fn who_hangs_up_has_answered_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(read_answer(&ours, BRIEFLY, BRIEFLY).unwrap(), "");
    }
}
