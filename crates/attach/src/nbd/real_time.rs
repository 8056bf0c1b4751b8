//! Requests and replies in real time, at the drive's time.
//!
//! One thread receives requests, submits them to the drive, lets the drive's time pass ([`Engine::advance`])
//! and sends replies that are due, several in one system call. It blocks only to wait for the next of these
//! events ([`crate::reply_queue`]). Threads take turns: while the thread that has the turn carries out a request
//! that takes long, another thread takes over.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use super::carry_out::carry_out;
use super::protocol::*;
use super::reply::Negotiated;
use super::request::{HEADER, LARGE, Request};
use super::{SEND_TIMEOUT, Stream};
use crate::completion_lateness::LatenessHistogram;
use crate::engine::Engine;
use crate::reply_queue::{Poller, ReplyQueue};
use crate::scheduling::Scheduling;

/// Number of threads of a connection: one has the turn, the others may wait for the disk.
const THREADS: usize = 8;

/// Size of the input buffer in bytes.
const INPUT: usize = 1 << 18;

/// Limit in bytes from which on no more requests are taken from a client. It covers replies that wait for their
/// deadline or that the client does not read, and data of unanswered writes. Requests in the hands of the
/// connection's threads come on top.
const MEMORY_MAX: usize = 64 << 20;

/// Approximate memory of a reply beside its data, in bytes: it bounds the number of small replies.
const REPLY_COST: usize = 128;

/// Maximum number of replies in one system call.
const REPLIES_PER_CALL: usize = 64;

/// Received bytes that were not taken yet.
struct Input {
    bytes: Box<[u8]>,
    from: usize,
    until: usize,
    /// Arrival of the latest bytes.
    host_arrival: Instant,
    /// A write whose data has not all arrived, and the number of its bytes in `data`.
    partial_write: Option<(Request, usize)>,
    /// Data of the latest write.
    data: Vec<u8>,
}

impl Input {
    fn new() -> Input {
        let bytes = vec![0; INPUT].into();
        Input {
            bytes,
            from: 0,
            until: 0,
            host_arrival: Instant::now(),
            partial_write: None,
            data: Vec::new(),
        }
    }

    /// Returns the next request; `None` if it has not arrived completely.
    fn next(&mut self) -> io::Result<Option<Request>> {
        if self.partial_write.is_none() {
            let Some(header) = self.bytes[self.from..self.until].first_chunk::<HEADER>() else {
                return Ok(None);
            };
            let request = Request::decode(header)?;
            self.from += HEADER;
            if request.kind != CMD_WRITE {
                return Ok(Some(request));
            }
            self.data.resize(request.length as usize, 0);
            self.partial_write = Some((request, 0));
        }
        let Some((request, filled)) = &mut self.partial_write else { return Ok(None) };
        let ready = (self.until - self.from).min(self.data.len() - *filled);
        let received = &self.bytes[self.from..self.from + ready];
        self.data[*filled..*filled + ready].copy_from_slice(received);
        self.from += ready;
        *filled += ready;
        if *filled < self.data.len() {
            return Ok(None);
        }
        let request = *request;
        self.partial_write = None;
        Ok(Some(request))
    }

    /// Receives more bytes, if there is no complete request; returns true if there were any.
    fn receive(&mut self, stream: &Stream) -> io::Result<bool> {
        let Input { bytes, from, until, partial_write, data, .. } = self;
        let (into, filled) = match partial_write {
            // Data of a large write is received in its place.
            Some((_, filled)) if data.len() - *filled >= LARGE as usize => {
                (&mut data[*filled..], filled)
            }
            _ => {
                bytes.copy_within(*from..*until, 0);
                (*from, *until) = (0, *until - *from);
                (&mut bytes[*until..], until)
            }
        };
        match recv(stream.as_fd(), into, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, count)) => {
                *filled += count;
                self.host_arrival = Instant::now();
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Replies that are being sent to the client.
struct Sending {
    stream: Stream,
    replies: VecDeque<Vec<u8>>,
    /// Number of bytes of the first reply that are sent.
    first_sent: usize,
    /// Number of bytes in all replies.
    bytes: usize,
    /// Latest moment at which the client took bytes, or had nothing to take.
    moved: Instant,
}

impl Sending {
    fn add(&mut self, reply: Vec<u8>) {
        if self.replies.is_empty() {
            self.moved = Instant::now();
        }
        self.bytes += reply.len();
        self.replies.push_back(reply);
    }

    /// Returns the memory of all replies, in bytes.
    fn cost(&self) -> usize {
        self.bytes + self.replies.len() * REPLY_COST
    }

    /// Sends as much as the socket takes.
    fn send(&mut self) -> io::Result<()> {
        while !self.replies.is_empty() {
            let mut pieces = [IoSlice::new(&[]); REPLIES_PER_CALL];
            let count = self.replies.len().min(REPLIES_PER_CALL);
            for (piece, reply) in pieces.iter_mut().zip(&self.replies) {
                *piece = IoSlice::new(reply);
            }
            pieces[0].advance(self.first_sent);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let mut nothing = SendAncillaryBuffer::default();
            match sendmsg(self.stream.as_fd(), &pieces[..count], &mut nothing, flags) {
                Ok(sent) => self.note(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.moved.elapsed() < SEND_TIMEOUT => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn note(&mut self, sent: usize) {
        self.moved = Instant::now();
        self.first_sent += sent;
        while self.replies.front().is_some_and(|first| first.len() <= self.first_sent) {
            if let Some(first) = self.replies.pop_front() {
                self.first_sent -= first.len();
                self.bytes -= first.len();
            }
        }
    }
}

/// A reply; `is_drive_timed` is true if the drive determined its deadline.
struct Reply {
    bytes: Vec<u8>,
    is_drive_timed: bool,
    /// Memory until it is sent, in bytes. Data of a write counts, because the simulated drive's buffer is
    /// memory of this program.
    cost: usize,
}

/// State of the thread that has the turn.
struct Turn {
    input: Input,
    sending: Sending,
    poller: Poller,
    due: Vec<(Instant, Reply)>,
    is_over: bool,
}

/// State that the threads of a connection share.
struct Connection<'a> {
    engine: &'a Engine,
    lateness: &'a LatenessHistogram,
    negotiated: Negotiated,
    stream: Stream,
    reply_queue: Arc<ReplyQueue<Reply>>,
    /// Memory of replies in `reply_queue` and of requests in flight, in bytes.
    bytes_in_flight: Arc<AtomicUsize>,
    turn: Mutex<Turn>,
}

/// Serves requests until the client disconnects.
pub(super) fn serve(
    stream: Stream,
    negotiated: Negotiated,
    engine: &Engine,
    lateness: &LatenessHistogram,
) -> io::Result<()> {
    let sending = Sending {
        stream: stream.try_clone()?,
        replies: VecDeque::new(),
        first_sent: 0,
        bytes: 0,
        moved: Instant::now(),
    };
    let (input, poller) = (Input::new(), Poller::default());
    let turn = Mutex::new(Turn { input, sending, poller, due: Vec::new(), is_over: false });
    let (reply_queue, bytes_in_flight) =
        (Arc::new(ReplyQueue::new()?), Arc::new(AtomicUsize::new(0)));
    let connection =
        Connection { engine, lateness, negotiated, stream, reply_queue, bytes_in_flight, turn };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            let helper = std::thread::Builder::new().name("nbd client".to_owned());
            // If no further thread can be started, one does all of it.
            let _ = helper.spawn_scoped(scope, || connection.run());
        }
        connection.run()
    })
}

impl Connection<'_> {
    fn run(&self) -> io::Result<()> {
        let scheduling = Scheduling::request();
        loop {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if turn.is_over {
                return Ok(());
            }
            turn.poller.begin(&scheduling);
            let outcome = self.serve_turn(&mut turn);
            let Ok(Some(request)) = outcome else {
                turn.is_over = true;
                self.stream.shut_down();
                return outcome.map(drop);
            };
            let (host_arrival, data) =
                (turn.input.host_arrival, std::mem::take(&mut turn.input.data));
            turn.poller.end();
            drop(turn);
            match scheduling.without_priority(|| self.carry_out(&request, host_arrival, &data)) {
                Some(reply) => self.queue_reply(Instant::now(), reply),
                None => self.reply_queue.recheck_drive(),
            }
        }
    }

    /// Serves requests and due replies until a request takes long, because it is large or waits for the disk;
    /// returns that request. `None` if the client disconnects.
    fn serve_turn(&self, turn: &mut Turn) -> io::Result<Option<Request>> {
        loop {
            let due = self.engine.advance();
            self.send_due(turn)?;
            let may_take =
                self.bytes_in_flight.load(Ordering::Relaxed) + turn.sending.cost() < MEMORY_MAX;
            // Input that was received counts too: replies are larger than requests.
            let next = if may_take { turn.input.next()? } else { None };
            if let Some(request) = next {
                if request.kind == CMD_DISC {
                    return Ok(None);
                }
                if self.takes_long(&request) {
                    return Ok(Some(request));
                }
                if let Some(reply) =
                    self.carry_out(&request, turn.input.host_arrival, &turn.input.data)
                {
                    turn.sending.add(reply.bytes);
                }
                continue;
            }
            if may_take && turn.input.receive(&self.stream)? {
                continue;
            }
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, may_take);
            wanted.set(PollFlags::OUT, turn.sending.bytes > 0);
            let at_most = (turn.sending.bytes > 0).then_some(SEND_TIMEOUT);
            let due = due.filter(|_| self.bytes_in_flight.load(Ordering::Relaxed) > 0);
            self.reply_queue.wait(self.stream.as_fd(), wanted, at_most, due, &mut turn.poller)?;
        }
    }

    /// Sends replies that are due, and those that could not be sent before.
    fn send_due(&self, turn: &mut Turn) -> io::Result<()> {
        let Turn { sending, due, .. } = turn;
        self.reply_queue.take_due(due);
        if due.is_empty() {
            return sending.send();
        }
        let theirs = due.iter().filter(|(_, reply)| reply.is_drive_timed);
        self.lateness.record(Instant::now(), theirs.map(|(deadline, _)| *deadline));
        for (_, reply) in due.drain(..) {
            self.bytes_in_flight.fetch_sub(reply.cost, Ordering::Relaxed);
            sending.add(reply.bytes);
        }
        sending.send()
    }

    /// Queues a reply to be sent at `deadline`.
    fn queue_reply(&self, deadline: Instant, reply: Reply) {
        self.bytes_in_flight.fetch_add(reply.cost, Ordering::Relaxed);
        self.reply_queue.add(deadline, reply);
    }

    /// Returns true if other requests should be served while this one is carried out.
    fn takes_long(&self, request: &Request) -> bool {
        let fua = request.has(CMD_FLAG_FUA);
        let writes = request.kind == CMD_WRITE && self.engine.makes_durable(fua);
        let waits = matches!(request.kind, CMD_FLUSH | CMD_WRITE_ZEROES);
        request.is_large() || waits || writes || fua
    }

    /// Carries out a request. Returns its reply if it can be sent at once; otherwise the reply is queued when
    /// the drive has answered.
    fn carry_out(&self, request: &Request, host_arrival: Instant, data: &[u8]) -> Option<Reply> {
        let mut bytes = Vec::new();
        let submitted =
            carry_out(self.engine, self.negotiated, request, host_arrival, data, &mut bytes);
        let written = if request.kind == CMD_WRITE { data.len() } else { 0 };
        let cost = REPLY_COST + bytes.len() + written;
        let Some(submitted) = submitted else {
            return Some(Reply { bytes, is_drive_timed: false, cost });
        };
        self.bytes_in_flight.fetch_add(cost, Ordering::Relaxed);
        let (reply_queue, negotiated, request) =
            (self.reply_queue.clone(), self.negotiated, *request);
        let completion = move |outcome: Result<Instant, Errno>| {
            let is_drive_timed = outcome.is_ok();
            let deadline = outcome.unwrap_or_else(|error| {
                bytes.clear();
                negotiated.failed(&request, error, &mut bytes);
                Instant::now()
            });
            reply_queue.add(deadline, Reply { bytes, is_drive_timed, cost });
        };
        self.engine.when_answered(submitted, Box::new(completion));
        None
    }
}
