//! Talking to a drive that is attached: who has which image, and what is wanted of it.
//!
//! Each attached drive has two files in a directory of the user's ([`ssdlab_rundir`]): a record of what
//! it is, and a socket. One line asks (`status`, `blocks`, `detach`, `power-cut`), one line answers: JSON.

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
use crate::leftovers;
use crate::socket::listen_privately;

/// What is known of an attached drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its process.
    pub pid: u32,
    /// Its image.
    pub image: PathBuf,
    /// The device, file or address.
    pub place: String,
    /// The loop device, if there is one.
    pub device: Option<String>,
    /// Where its file is mounted, if it is.
    pub directory: Option<PathBuf>,
}

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// For its figures.
    Status,
    /// For its figures as Prometheus reads them.
    Prometheus,
    /// For a picture of its blocks ([`crate::status::Blocks`]).
    Blocks,
    /// To be detached in order, unless somebody uses it; answered when it is ([`Detached`]).
    Detach,
    /// To lose power.
    PowerCut,
}

/// What became of a drive that was to be detached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detached {
    /// It is, and this is how its image was closed.
    Done(Outcome),
    /// Somebody uses it: it stays attached. Who, in words.
    InUse(String),
    /// It is detached, and something failed, in words.
    Failed(String),
}

/// Returns the directory in `run` on which process `pid` mounts its file, where it makes a loop device of it.
pub(crate) fn directory_for_file(run: &Path, pid: u32) -> PathBuf {
    run.join(format!("{pid}.file"))
}

/// A socket that answers for an attached drive, and its record.
#[derive(Debug)]
pub struct Control {
    socket: PathBuf,
    record: PathBuf,
    is_closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Records the drive, and has `answer` answer what is asked.
    ///
    /// # Errors
    /// Returns an error if the record or the socket cannot be made.
    pub fn start(
        record: &Record,
        answer: impl Fn(Ask) -> String + Send + 'static,
    ) -> Result<Control, AttachError> {
        let directory = directory()?;
        let socket = directory.join(format!("{}.sock", record.pid));
        let path = directory.join(format!("{}.json", record.pid));
        // Of a process that had this number before.
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
                        // Who asks nonsense, or goes away, gets no answer.
                        let _ = serve(stream, &answer);
                    }
                }
            })
            .map_err(|error| AttachError::io("start a thread for", &socket, error))?;
        Ok(Control { socket, record: path, is_closing, thread: Some(thread) })
    }

    /// Ends it and removes its files.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_closing.store(true, Ordering::Relaxed);
        // Somebody has to knock for the thread to look.
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

fn serve(stream: UnixStream, answer: &impl Fn(Ask) -> String) -> io::Result<()> {
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let mut line = String::new();
    BufReader::new((&stream).take(256)).read_line(&mut line)?;
    let ask: Ask = serde_json::from_str(&line)?;
    let mut text = answer(ask);
    text.push('\n');
    (&stream).write_all(text.as_bytes())
}

/// Writes a record that nobody else may read.
fn write_record(path: &Path, record: &Record) -> io::Result<()> {
    // Of a process that had this number before.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let text = serde_json::to_string(record)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Reads the record at `path`; nothing where it is gone or half written.
///
/// # Errors
/// Returns an error if it cannot be read, or somebody else may have written it.
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
            return untrusted("is a link, and no record".to_owned());
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
        return untrusted(format!("is the record of process {}, by what it says", record.pid));
    }
    Ok(Some(record))
}

/// Returns all records, by process.
///
/// # Errors
/// Returns an error if they cannot be read, or somebody else may have written one of them.
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

/// The drive that `name` means: its device, file, address or image; the only one where there is no
/// name. One whose program runs comes before what others have left that were killed.
///
/// # Errors
/// Returns an error if there is none, or more than one.
pub fn find(name: Option<&str>) -> Result<Record, AttachError> {
    let records = records()?;
    let Some(name) = name else {
        // Of programs that were killed there may be records beside.
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
                let words = format!("several drives are attached; name one: {}", places.join(", "));
                Err(AttachError::Usage(words))
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
    // What a killed program has left comes after what is attached.
    alive.into_iter().chain(dead).next().ok_or_else(|| {
        AttachError::Usage(format!("{name} is no drive that is attached, nor the image of one"))
    })
}

/// How long a drive has for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one that is to be detached has for what has to be flushed and unmounted.
pub(crate) const PATIENCE_AT_END: Duration = Duration::from_secs(300);
/// How much longer one waits who has asked for that: the drive says so itself when its time is up.
const LONGER: Duration = Duration::from_secs(60);

/// Patience is counted in pieces of this: while the whole machine stands still, all clocks go on and
/// nobody can answer, and that counts as one of them.
const PIECE: Duration = Duration::from_secs(5);

/// How often it is asked again when who had no time to read the question has hung up.
const ASKS: u32 = 3;

/// Asks the drive of `record` to be detached; returns what became of it.
///
/// # Errors
/// Returns an error if nobody answers for it, or nothing that makes sense.
pub fn detach(record: &Record) -> Result<Detached, AttachError> {
    let answer = ask(record, Ask::Detach)?;
    serde_json::from_str(&answer).map_err(|_| {
        let words = if answer.is_empty() { "nothing" } else { &answer };
        AttachError::System(format!(
            "process {}, which has {}, answered {words} when it was to detach it",
            record.pid,
            record.image.display()
        ))
    })
}

/// Asks the drive of `record`; returns the line it answers with.
///
/// # Errors
/// Returns an error if nobody answers for it, or not in time.
pub fn ask(record: &Record, ask: Ask) -> Result<String, AttachError> {
    let socket = directory()?.join(format!("{}.sock", record.pid));
    let cannot = |error| AttachError::io("ask the drive at", &socket, error);
    let patience = if ask == Ask::Detach { PATIENCE_AT_END + LONGER } else { PATIENCE };
    let question = serde_json::to_string(&ask).map_err(|error| cannot(error.into()))?;
    let mut answer = String::new();
    for _ in 0..ASKS {
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
        let outcome = asked.and_then(|()| read_answer(&stream, PIECE, patience));
        answer = match outcome {
            Ok(line) => line,
            // It hung up before it had read the question, as it does after two seconds.
            Err(error) if has_hung_up(&error) => String::new(),
            Err(error) if is_late(&error) => {
                return Err(AttachError::System(format!(
                    "process {}, which has {}, has not answered for {} seconds; it is there, and \
                     does what it was asked for when it can. 'ssdlab status' says whether it still \
                     has it",
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

/// The line that somebody answers with within `patience`, which is counted in pieces.
fn read_answer(stream: &UnixStream, piece: Duration, patience: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(piece))?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    let mut waited = Duration::ZERO;
    loop {
        // What has come before the time was up stays in the answer.
        match reader.read_line(&mut answer) {
            Ok(_) => return Ok(answer.trim_end().to_owned()),
            Err(error) if is_late(&error) && waited + piece < patience => waited += piece,
            Err(error) => return Err(error),
        }
    }
}

/// Returns what a socket says when its time is up (socket(7), SO_RCVTIMEO).
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Returns true if somebody answers for the drive of `record`.
pub fn is_alive(record: &Record) -> bool {
    let Ok(directory) = directory() else { return false };
    UnixStream::connect(directory.join(format!("{}.sock", record.pid))).is_ok()
}

/// Removes what the process of `record` has left, which was killed: its loop device and its mount, as far
/// as they are seen to be left by it, whatever the record says, and the record.
///
/// # Errors
/// Returns an error if something is still in use.
pub fn clean_up(record: &Record) -> Result<(), AttachError> {
    let run = directory()?;
    if let Some(mounted) = &record.directory {
        let its_own = directory_for_file(&run, record.pid);
        if let Some(device) = record.device.as_ref().filter(|_| *mounted == its_own) {
            leftovers::detach_loop(device, &its_own)?;
        }
        let cannot = |error| AttachError::io("clean up", mounted, error);
        leftovers::unmount_dead(mounted).map_err(cannot)?;
        if *mounted == its_own {
            remove(&its_own, |path| fs::remove_dir(path))?;
        }
    }
    for extension in ["sock", "json"] {
        remove(&run.join(format!("{}.{extension}", record.pid)), |path| fs::remove_file(path))?;
    }
    Ok(())
}

/// Removes `path` in some way; it may be gone already.
fn remove(path: &Path, how: impl Fn(&Path) -> io::Result<()>) -> Result<(), AttachError> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AttachError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes what processes have left that were killed while they had `image`; describes what, for the user.
/// What is still in use stays, and so does its record.
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
                format!("Process {pid} had it at {place} and was killed; removed what it left.")
            }
            Err(error) => format!("Process {pid}, which was killed, has left {place}: {error}"),
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
        // Under the number of another process.
        let other = directory.path().join("18.json");
        fs::copy(&path, &other).unwrap();
        assert!(read_record(&other).unwrap_err().to_string().contains("process 17"));
        fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(&path, &other).unwrap();
        assert!(read_record(&other).unwrap_err().to_string().contains("is a link"));
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
        assert!(is_late(&error), "{error}");
        assert!(began.elapsed() >= BRIEFLY * 3);
    }

    #[test]
    fn who_hangs_up_has_answered_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(read_answer(&ours, BRIEFLY, BRIEFLY).unwrap(), "");
    }
}
