//! Threads that serve the kernel's FUSE requests.
//!
//! In fast time each thread receives a request, carries it out and replies. In real time one thread does all of
//! that and also sends replies that are due ([`crate::reply_queue`]); while it carries out a request that takes
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
use crate::completion_lateness::LatenessHistogram;
use crate::engine::Time;
use crate::reply_queue::{Poller, ReplyQueue};
use crate::scheduling::Scheduling;

/// Number of threads in fast time.
const THREADS_FAST: usize = 2;

/// Number of threads in real time: one has the turn, the others may wait for the disk.
const THREADS_REAL_TIME: usize = 8;

/// A reply that waits for its deadline.
struct Reply {
    unique: u64,
    outcome: Result<Vec<u8>, Errno>,
}

/// State of the thread that has the turn.
struct Turn {
    buffer: Vec<u8>,
    poller: Poller,
    due: Vec<(Instant, Reply)>,
    is_over: bool,
}

/// State that the threads share.
struct Serving {
    drive: Drive,
    connection: OwnedFd,
    lateness: Arc<LatenessHistogram>,
    reply_queue: Arc<ReplyQueue<Reply>>,
    /// Number of requests that wait for the drive or for their deadline.
    requests_in_flight: Arc<AtomicUsize>,
    turn: Mutex<Turn>,
    /// Maximum bytes in a request.
    request_max: usize,
}

/// Starts threads that serve requests of `connection`, of at most `request_max` bytes each, until the file system
/// ends.
pub(super) fn start(
    drive: Drive,
    connection: OwnedFd,
    lateness: Arc<LatenessHistogram>,
    request_max: usize,
) -> io::Result<Vec<JoinHandle<()>>> {
    let is_real_time = drive.engine.time() == Time::Real;
    if is_real_time {
        fcntl_setfl(&connection, fcntl_getfl(&connection)? | OFlags::NONBLOCK)?;
    }
    let turn = Turn {
        buffer: vec![0; request_max],
        poller: Poller::default(),
        due: Vec::new(),
        is_over: false,
    };
    let (reply_queue, turn) = (Arc::new(ReplyQueue::new()?), Mutex::new(turn));
    let requests_in_flight = Arc::new(AtomicUsize::new(0));
    let serving =
        Serving { drive, connection, lateness, reply_queue, requests_in_flight, turn, request_max };
    let serving = Arc::new(serving);
    let count = if is_real_time { THREADS_REAL_TIME } else { THREADS_FAST };
    let mut threads = Vec::new();
    for _ in 0..count {
        let serving = serving.clone();
        let thread = std::thread::Builder::new().name("fuse".to_owned());
        threads.push(thread.spawn(move || {
            // An error ends the connection: later requests fail.
            let _ = if is_real_time { serving.serve_real_time() } else { serving.serve() };
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
        let (mut buffer, mut data) = (vec![0; self.request_max], Vec::new());
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
                Outcome::NoReply => {}
                Outcome::Over => return self.send(unique, &[]),
            }
        }
    }

    fn serve_real_time(&self) -> io::Result<()> {
        let scheduling = Scheduling::request();
        let mut buffer = vec![0; self.request_max];
        loop {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if turn.is_over {
                return Ok(());
            }
            turn.poller.begin(&scheduling);
            let outcome = self.serve_turn(&mut turn);
            let Ok(Some((length, host_arrival))) = outcome else {
                turn.is_over = true;
                return outcome.map(drop);
            };
            std::mem::swap(&mut buffer, &mut turn.buffer);
            turn.poller.end();
            drop(turn);
            scheduling.without_priority(|| self.carry_out(&buffer[..length], host_arrival))?;
            self.reply_queue.recheck_drive();
        }
    }

    /// Serves requests and due replies until a request takes long; returns its length and its arrival. `None`
    /// if the file system has ended.
    fn serve_turn(&self, turn: &mut Turn) -> io::Result<Option<(usize, Instant)>> {
        loop {
            let due = self.drive.engine.advance();
            self.reply_queue.take_due(&mut turn.due);
            for (deadline, Reply { unique, outcome }) in turn.due.drain(..) {
                self.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
                match outcome {
                    Ok(data) => {
                        self.lateness.record(Instant::now(), [deadline]);
                        self.send(unique, &[IoSlice::new(&data)])?;
                    }
                    Err(error) => self.fail(unique, error)?,
                }
            }
            match self.receive(&mut turn.buffer)? {
                Next::Over => return Ok(None),
                Next::Nothing => {
                    let connection = self.connection.as_fd();
                    let due = due.filter(|_| self.requests_in_flight.load(Ordering::Relaxed) > 0);
                    let poller = &mut turn.poller;
                    self.reply_queue.wait(connection, PollFlags::IN, None, due, poller)?;
                }
                Next::Request(length) => {
                    let host_arrival = Instant::now();
                    let bytes = &turn.buffer[..length];
                    if Request::decode(bytes).is_some_and(|it| self.drive.takes_long(&it)) {
                        return Ok(Some((length, host_arrival)));
                    }
                    if !self.carry_out(bytes, host_arrival)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Carries out a request; returns false if the file system has ended.
    fn carry_out(&self, bytes: &[u8], host_arrival: Instant) -> io::Result<bool> {
        let request = Request::decode(bytes).ok_or(io::ErrorKind::InvalidData)?;
        let (unique, mut data) = (request.unique, Vec::new());
        match self.drive.carry_out(&request, host_arrival, &mut data, None) {
            Outcome::Done(Some(submitted)) => {
                self.requests_in_flight.fetch_add(1, Ordering::Relaxed);
                let reply_queue = self.reply_queue.clone();
                let completion = move |outcome: Result<Instant, Errno>| {
                    let deadline = outcome.unwrap_or_else(|_| Instant::now());
                    reply_queue.add(deadline, Reply { unique, outcome: outcome.map(|_| data) });
                };
                self.drive.engine.when_answered(submitted, Box::new(completion));
            }
            Outcome::Done(None) => self.send(unique, &[IoSlice::new(&data)])?,
            Outcome::Failed(error) => self.fail(unique, error)?,
            Outcome::NoReply => {}
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
