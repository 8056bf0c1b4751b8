//! Talking to a drive that is attached: who has which image, and what is wanted of it.
//!
//! Each attached drive has two files in a directory of the user's ([`directory`]): a record of what
//! it is, and a socket. One line asks (`status`, `detach`, `power-cut`), one line answers: JSON.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::device;
use crate::engine::Outcome;
use crate::error::AttachError;

/// The variable that names the directory of the records; for tests, and for several users of one
/// system.
pub const VARIABLE: &str = "SSDLAB_RUN";

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
    /// Where its file is mounted, if it is, when that directory is ours.
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

/// The directory of the records; it is made where there is none.
///
/// # Errors
/// When it cannot be made, or belongs to somebody else.
pub fn directory() -> Result<PathBuf, AttachError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let user = rustix::process::geteuid();
    let path = if let Some(path) = named(VARIABLE) {
        PathBuf::from(path)
    } else if user.is_root() {
        PathBuf::from("/run/ssdlab")
    } else if let Some(runtime) = named("XDG_RUNTIME_DIR") {
        Path::new(&runtime).join("ssdlab")
    } else {
        std::env::temp_dir().join(format!("ssdlab-{}", user.as_raw()))
    };
    let cannot = |error| AttachError::io("make", &path, error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(cannot)?;
    let owner = fs::symlink_metadata(&path).map_err(cannot)?.uid();
    if owner != user.as_raw() {
        let words = format!("{} belongs to another user; set {VARIABLE}", path.display());
        return Err(AttachError::System(words));
    }
    Ok(path)
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
    /// When the record or the socket cannot be made.
    pub fn start(
        record: &Record,
        answer: impl Fn(Ask) -> String + Send + 'static,
    ) -> Result<Control, AttachError> {
        let directory = directory()?;
        let socket = directory.join(format!("{}.sock", record.pid));
        let path = directory.join(format!("{}.json", record.pid));
        // Of a process that had this number before.
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .map_err(|error| AttachError::io("listen at", &socket, error))?;
        let text = serde_json::to_string(record).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text))
            .map_err(|error| AttachError::io("write", &path, error))?;
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

/// All records, with whether somebody answers for them.
///
/// # Errors
/// When they cannot be read.
pub fn records() -> Result<Vec<Record>, AttachError> {
    let directory = directory()?;
    let cannot = |error| AttachError::io("read", &directory, error);
    let mut records = Vec::new();
    for entry in fs::read_dir(&directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|it| it == "json") {
            let record = fs::read_to_string(&path).ok();
            records.extend(record.and_then(|text| serde_json::from_str::<Record>(&text).ok()));
        }
    }
    records.sort_by_key(|record| record.pid);
    Ok(records)
}

/// The drive that `name` means: its device, file, address or image; the only one where there is no
/// name. One whose program runs comes before what others have left that were killed.
///
/// # Errors
/// When there is none, or more than one.
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
/// When nobody answers for it, or nothing that makes sense.
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
/// When nobody answers for it, or not in time.
pub fn ask(record: &Record, ask: Ask) -> Result<String, AttachError> {
    let socket = directory()?.join(format!("{}.sock", record.pid));
    let cannot = |error| AttachError::io("ask the drive at", &socket, error);
    let patience = if ask == Ask::Detach { PATIENCE_AT_END + LONGER } else { PATIENCE };
    let question = serde_json::to_string(&ask).map_err(|error| cannot(error.into()))?;
    let mut answer = String::new();
    for _ in 0..ASKS {
        let stream = UnixStream::connect(&socket).map_err(cannot)?;
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

/// What a socket says when its time is up (socket(7), SO_RCVTIMEO).
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Whether somebody answers for the drive of `record`.
pub fn is_alive(record: &Record) -> bool {
    let Ok(directory) = directory() else { return false };
    UnixStream::connect(directory.join(format!("{}.sock", record.pid))).is_ok()
}

/// Removes what the process of `record` has left, which was killed.
///
/// # Errors
/// When something is still in use.
pub fn clean_up(record: &Record) -> Result<(), AttachError> {
    device::clean_up(record.device.as_deref(), record.directory.as_deref())?;
    let directory = directory()?;
    for extension in ["sock", "json"] {
        let path = directory.join(format!("{}.{extension}", record.pid));
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(AttachError::io("remove", &path, error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
