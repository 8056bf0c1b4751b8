//! Threads that serve the kernel's FUSE requests.
//!
//! In fast time each thread receives a request, carries it out and replies. In real time one thread does all of
//! that and also sends replies that are due ([`crate::answers`]); while it carries out a request that takes
//! long, another thread takes its turn.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, writev};

use super::file::{Drive, Outcome};
use super::protocol::{OUT_HEADER, Request, header};
use crate::answers::{Answers, Watch};
use crate::engine::Time;
use crate::lateness::Recorder;
use crate::prompt::Prompt;

/// Number of threads in fast time.
const THREADS: usize = 2;

/// Number of threads in real time: one has the turn, the others may wait for the disk.
const THREADS_IN_TIME: usize = 8;

/// A reply that waits for its deadline.
struct Reply {
    unique: u64,
    outcome: Result<Vec<u8>, Errno>,
}

/// State of the thread that has the turn.
struct Turn {
    buffer: Vec<u8>,
    watch: Watch,
    due: Vec<(Instant, Reply)>,
    is_over: bool,
}

/// State that the threads share.
struct Serving {
    drive: Drive,
    connection: OwnedFd,
    lateness: Arc<Recorder>,
    answers: Arc<Answers<Reply>>,
    /// Number of requests that wait for the drive or for their deadline.
    waiting: Arc<AtomicUsize>,
    turn: Mutex<Turn>,
    /// Maximum bytes in a request.
    most: usize,
}

/// Starts threads that serve requests of `connection`, of at most `most` bytes each, until the file system
/// ends.
pub(super) fn start(
    drive: Drive,
    connection: OwnedFd,
    lateness: Arc<Recorder>,
    most: usize,
) -> io::Result<Vec<JoinHandle<()>>> {
    let in_time = drive.engine.time() == Time::Real;
    if in_time {
        fcntl_setfl(&connection, fcntl_getfl(&connection)? | OFlags::NONBLOCK)?;
    }
    let turn =
        Turn { buffer: vec![0; most], watch: Watch::default(), due: Vec::new(), is_over: false };
    let (answers, turn) = (Arc::new(Answers::new()?), Mutex::new(turn));
    let waiting = Arc::new(AtomicUsize::new(0));
    let serving = Serving { drive, connection, lateness, answers, waiting, turn, most };
    let serving = Arc::new(serving);
    let count = if in_time { THREADS_IN_TIME } else { THREADS };
    let mut threads = Vec::new();
    for _ in 0..count {
        let serving = serving.clone();
        let thread = std::thread::Builder::new().name("fuse".to_owned());
        threads.push(thread.spawn(move || {
            // An error ends the connection: later requests fail.
            let _ = if in_time { serving.serve_in_time() } else { serving.serve() };
        })?);
    }
    Ok(threads)
}

/// Outcome of receiving.
enum Next {
    /// A request of this many bytes is in the buffer.
    Request(usize),
    /// There is no request now.
    Nothing,
    /// The file system has ended.
    Over,
}

impl Serving {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Next> {
        match read(&self.connection, buffer) {
            Ok(length) => Ok(Next::Request(length)),
            // The request was interrupted before it was received.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(Next::Nothing),
            Err(Errno::NODEV) => Ok(Next::Over),
            Err(error) => Err(error.into()),
        }
    }

    fn serve(&self) -> io::Result<()> {
        let (mut buffer, mut data) = (vec![0; self.most], Vec::new());
        loop {
            let length = match self.receive(&mut buffer)? {
                Next::Request(length) => length,
                Next::Nothing => continue,
                Next::Over => return Ok(()),
            };
            let request = Request::decode(&buffer[..length]).ok_or(io::ErrorKind::InvalidData)?;
            let unique = request.unique;
            let mut is_sent = Ok(false);
            let mut send =
                |pieces: &[IoSlice<'_>]| is_sent = self.send(unique, pieces).map(|()| true);
            let outcome =
                self.drive.carry_out(&request, Instant::now(), &mut data, Some(&mut send));
            if is_sent? {
                continue;
            }
            match outcome {
                Outcome::Done(_) => self.send(unique, &[IoSlice::new(&data)])?,
                Outcome::Failed(error) => self.fail(unique, error)?,
                Outcome::Silent => {}
                Outcome::Over => return self.send(unique, &[]),
            }
        }
    }

    fn serve_in_time(&self) -> io::Result<()> {
        let prompt = Prompt::ask();
        let mut buffer = vec![0; self.most];
        loop {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if turn.is_over {
                return Ok(());
            }
            turn.watch.begin(&prompt);
            let outcome = self.take_turn(&mut turn);
            let Ok(Some((length, came))) = outcome else {
                turn.is_over = true;
                return outcome.map(drop);
            };
            std::mem::swap(&mut buffer, &mut turn.buffer);
            turn.watch.end();
            drop(turn);
            prompt.meanwhile(|| self.carry_out(&buffer[..length], came))?;
            self.answers.look();
        }
    }

    /// Serves requests and due replies until a request takes long; returns its length and its arrival. `None`
    /// if the file system has ended.
    fn take_turn(&self, turn: &mut Turn) -> io::Result<Option<(usize, Instant)>> {
        loop {
            let due = self.drive.engine.advance();
            self.answers.take_due(&mut turn.due);
            for (deadline, Reply { unique, outcome }) in turn.due.drain(..) {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                match outcome {
                    Ok(data) => {
                        self.lateness.note(Instant::now(), [deadline]);
                        self.send(unique, &[IoSlice::new(&data)])?;
                    }
                    Err(error) => self.fail(unique, error)?,
                }
            }
            match self.receive(&mut turn.buffer)? {
                Next::Over => return Ok(None),
                Next::Nothing => {
                    let connection = self.connection.as_fd();
                    let due = due.filter(|_| self.waiting.load(Ordering::Relaxed) > 0);
                    let watch = &mut turn.watch;
                    self.answers.wait(connection, PollFlags::IN, None, due, watch)?;
                }
                Next::Request(length) => {
                    let came = Instant::now();
                    let bytes = &turn.buffer[..length];
                    if Request::decode(bytes).is_some_and(|it| self.drive.takes_long(&it)) {
                        return Ok(Some((length, came)));
                    }
                    if !self.carry_out(bytes, came)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Carries out a request; returns false if the file system has ended.
    fn carry_out(&self, bytes: &[u8], came: Instant) -> io::Result<bool> {
        let request = Request::decode(bytes).ok_or(io::ErrorKind::InvalidData)?;
        let (unique, mut data) = (request.unique, Vec::new());
        match self.drive.carry_out(&request, came, &mut data, None) {
            Outcome::Done(Some(submitted)) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let answers = self.answers.clone();
                let completion = move |outcome: Result<Instant, Errno>| {
                    let deadline = outcome.unwrap_or_else(|_| Instant::now());
                    answers.add(deadline, Reply { unique, outcome: outcome.map(|_| data) });
                };
                self.drive.engine.when_answered(submitted, Box::new(completion));
            }
            Outcome::Done(None) => self.send(unique, &[IoSlice::new(&data)])?,
            Outcome::Failed(error) => self.fail(unique, error)?,
            Outcome::Silent => {}
            Outcome::Over => {
                self.send(unique, &[])?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fail(&self, unique: u64, error: Errno) -> io::Result<()> {
        self.reply(&[IoSlice::new(&header(unique, error.raw_os_error(), 0))])
    }

    fn send(&self, unique: u64, data: &[IoSlice<'_>]) -> io::Result<()> {
        let header: [u8; OUT_HEADER] = header(unique, 0, data.iter().map(|it| it.len()).sum());
        let one_piece = [IoSlice::new(&header), data.first().copied().unwrap_or(IoSlice::new(&[]))];
        if data.len() <= 1 {
            return self.reply(&one_piece);
        }
        let mut pieces = Vec::with_capacity(1 + data.len());
        pieces.push(IoSlice::new(&header));
        pieces.extend_from_slice(data);
        self.reply(&pieces)
    }

    /// Hands a reply to the kernel, which takes it as a whole or not at all.
    fn reply(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        match writev(&self.connection, pieces) {
            // `ENOENT`: the requesting process was interrupted meanwhile.
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
