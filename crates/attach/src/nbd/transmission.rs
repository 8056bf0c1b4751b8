//! Requests and replies.
//!
//! What a client has sent is read in large pieces, and replies that need not wait are collected
//! until there is nothing left to read: so a deep queue costs few system calls. Two threads take turns
//! at reading: who meets a large request carries it out while the other goes on. Data of large reads goes
//! from the image to the socket without a copy where that is possible ([`crate::pipe`]).

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::protocol::*;
use super::{Shared, Stream};
use crate::engine::{Answer, Errno};
use crate::pipe::Pipe;

/// Bytes of a request without data.
const HEADER: usize = 28;

/// Bytes of a reply without data.
const REPLY: usize = 16;

/// Bytes that are read at a time.
const INPUT: usize = 1 << 18;

/// Bytes of replies that are collected at most.
const OUTPUT_MAX: usize = 1 << 20;

/// Bytes of data from which on a request is large.
const LARGE: u32 = 1 << 16;

/// A request.
#[derive(Clone, Copy, Debug)]
struct Request {
    flags: u16,
    kind: u16,
    cookie: [u8; 8],
    offset: u64,
    length: u32,
}

impl Request {
    fn decode(bytes: &[u8; HEADER]) -> io::Result<Request> {
        let (magic, rest) = bytes.split_at(4);
        if magic != REQUEST.to_be_bytes() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let number = |from: usize, length: usize| {
            rest[from..from + length].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let mut cookie = [0; 8];
        cookie.copy_from_slice(&rest[4..12]);
        Ok(Request {
            flags: number(0, 2) as u16,
            kind: number(2, 2) as u16,
            cookie,
            offset: number(12, 8),
            length: number(20, 4) as u32,
        })
    }

    fn is_fua(&self) -> bool {
        self.flags & CMD_FLAG_FUA != 0
    }
}

/// What was read from a client and not yet taken.
struct Input {
    stream: Stream,
    bytes: Box<[u8]>,
    from: usize,
    until: usize,
    /// Bytes that are read at a time: after a large write no more than a request, so that what comes
    /// behind it need not be copied from here.
    at_a_time: usize,
    /// Whether nothing more is to be read.
    is_over: bool,
}

impl Input {
    fn new(stream: Stream) -> Input {
        let bytes = vec![0; INPUT].into();
        Input { stream, bytes, from: 0, until: 0, at_a_time: INPUT, is_over: false }
    }

    fn left(&self) -> usize {
        self.until - self.from
    }

    fn take(&mut self, into: &mut [u8]) -> io::Result<()> {
        let ready = self.left().min(into.len());
        into[..ready].copy_from_slice(&self.bytes[self.from..self.from + ready]);
        self.from += ready;
        let mut filled = ready;
        while filled < into.len() {
            let rest = into.len() - filled;
            if rest >= LARGE as usize || self.at_a_time < INPUT {
                // It goes where it belongs at once.
                self.stream.read_exact(&mut into[filled..])?;
                return Ok(());
            }
            self.fill()?;
            let ready = self.left().min(rest);
            into[filled..filled + ready].copy_from_slice(&self.bytes[self.from..self.from + ready]);
            self.from += ready;
            filled += ready;
        }
        Ok(())
    }

    /// Reads more, when everything was taken.
    fn fill(&mut self) -> io::Result<()> {
        (self.from, self.until) = (0, 0);
        self.until = loop {
            match self.stream.read(&mut self.bytes[..self.at_a_time]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        Ok(())
    }
}

/// What the threads of a connection share.
struct Connection<'a> {
    shared: &'a Arc<Shared>,
    input: Mutex<Input>,
    writer: Arc<Mutex<Stream>>,
}

/// What each of them has for itself.
#[derive(Default)]
struct Own {
    /// Replies that are not sent yet.
    output: Vec<u8>,
    data: Vec<u8>,
    pipe: Option<Pipe>,
}

/// Serves requests until the client goes.
pub(super) fn serve(stream: Stream, shared: &Arc<Shared>) -> io::Result<()> {
    let writer = Arc::new(Mutex::new(stream.try_clone()?));
    let connection = Connection { shared, input: Mutex::new(Input::new(stream)), writer };
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new().name("nbd client".to_owned());
        // One can do it alone, too.
        let _ = helper.spawn_scoped(scope, || connection.work());
        connection.work()
    })
}

impl Connection<'_> {
    fn work(&self) -> io::Result<()> {
        let mut own = Own::default();
        loop {
            match self.take_turn(&mut own) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    // The other one may be reading.
                    lock(&self.writer).shut_down();
                    return Err(error);
                }
            }
        }
    }

    /// Carries out requests up to a large one, and that one while others are read. Returns whether
    /// there may be more.
    fn take_turn(&self, own: &mut Own) -> io::Result<bool> {
        let mut input = lock(&self.input);
        if input.is_over {
            return Ok(false);
        }
        let Some(request) = self.carry_out_small(&mut input, own)? else {
            input.is_over = true;
            send(&self.writer, &mut own.output)?;
            return Ok(false);
        };
        drop(input);
        send(&self.writer, &mut own.output)?;
        if request.kind == CMD_READ {
            self.read_large(&request, own)?;
        } else {
            self.carry_out(&request, own);
            send(&self.writer, &mut own.output)?;
        }
        Ok(true)
    }

    /// Carries out requests until there is a large one, which is returned with its data in `own`;
    /// nothing when the client wants to go.
    fn carry_out_small(&self, input: &mut Input, own: &mut Own) -> io::Result<Option<Request>> {
        loop {
            if input.left() < HEADER || own.output.len() >= OUTPUT_MAX {
                send(&self.writer, &mut own.output)?;
            }
            let mut header = [0; HEADER];
            input.take(&mut header)?;
            let request = Request::decode(&header)?;
            if request.kind == CMD_DISC {
                return Ok(None);
            }
            let is_large = request.length >= LARGE && request.kind <= CMD_WRITE;
            if request.kind == CMD_WRITE {
                if request.length > PAYLOAD_MAX {
                    // Its data would have to be read to find the next request.
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if input.left() < request.length as usize {
                    send(&self.writer, &mut own.output)?;
                }
                own.data.resize(request.length as usize, 0);
                input.take(&mut own.data)?;
            }
            let next_is_large = is_large && request.kind == CMD_WRITE;
            input.at_a_time = if next_is_large { HEADER } else { INPUT };
            if is_large && request.length <= PAYLOAD_MAX {
                return Ok(Some(request));
            }
            self.carry_out(&request, own);
        }
    }

    /// Carries out a request; its reply is in `own` or with the timer then.
    fn carry_out(&self, request: &Request, own: &mut Own) {
        let Own { output, data, .. } = own;
        let began = output.len();
        match carry_out(self.shared, request, data, output) {
            Ok(answer) => {
                if let Some(deadline) = self.shared.engine.deadline(answer) {
                    let late = output.split_off(began);
                    send_at(self.shared, &self.writer, late, deadline);
                }
            }
            Err(error) => {
                output.truncate(began);
                output.extend(reply(request, number_of(error)));
            }
        }
    }

    /// Carries out a large read and sends its reply, or leaves that to the timer.
    fn read_large(&self, request: &Request, own: &mut Own) -> io::Result<()> {
        let Own { data, pipe, .. } = own;
        data.resize(request.length as usize, 0);
        let pipe = match pipe {
            Some(pipe) => pipe,
            None => pipe.insert(Pipe::new()?),
        };
        let answer = match self.shared.engine.read_to(request.offset, data, pipe) {
            Ok(answer) => answer,
            Err(error) => {
                return lock(&self.writer).write_all(&reply(request, number_of(error)));
            }
        };
        let reply = reply(request, 0);
        if let Some(deadline) = self.shared.engine.deadline(answer) {
            let late = [&reply[..], data.as_slice()].concat();
            send_at(self.shared, &self.writer, late, deadline);
            return Ok(());
        }
        let mut writer = lock(&self.writer);
        if pipe.filled() > 0 {
            writer.write_all(&reply)?;
            return pipe.send(writer.as_fd());
        }
        write_both(&mut *writer, &reply, data)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes one after the other, with as few calls as possible.
fn write_both(writer: &mut impl Write, head: &[u8], data: &[u8]) -> io::Result<()> {
    let mut pieces = [IoSlice::new(head), IoSlice::new(data)];
    let mut rest = &mut pieces[..];
    while !rest.is_empty() {
        match writer.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn reply(request: &Request, error: u32) -> [u8; REPLY] {
    let mut bytes = [0; REPLY];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&request.cookie);
    bytes
}

/// Does what is asked, and puts the reply behind `output`.
fn carry_out(
    shared: &Shared,
    request: &Request,
    data: &[u8],
    output: &mut Vec<u8>,
) -> Result<Answer, Errno> {
    let engine = &shared.engine;
    let (offset, length) = (request.offset, u64::from(request.length));
    if request.length == 0 && request.kind != CMD_FLUSH {
        return Err(Errno::INVAL);
    }
    output.extend(reply(request, 0));
    let answer = match request.kind {
        CMD_READ => {
            if request.length > PAYLOAD_MAX {
                return Err(Errno::INVAL);
            }
            let from = output.len();
            output.resize(from + request.length as usize, 0);
            engine.read(offset, &mut output[from..])?
        }
        CMD_WRITE => return engine.write(offset, data, request.is_fua()).map_err(no_space),
        CMD_FLUSH => engine.flush()?,
        CMD_TRIM => engine.trim(offset, length, false)?,
        CMD_WRITE_ZEROES => {
            engine.zero(offset, length, request.flags & CMD_FLAG_NO_HOLE == 0).map_err(no_space)?
        }
        _ => return Err(Errno::INVAL),
    };
    if request.is_fua() && matches!(request.kind, CMD_TRIM | CMD_WRITE_ZEROES) {
        return engine.flush();
    }
    Ok(answer)
}

/// A write behind the end of the drive is told so.
fn no_space(error: Errno) -> Errno {
    if error == Errno::INVAL { Errno::NOSPC } else { error }
}

/// The protocol's number of an error.
fn number_of(error: Errno) -> u32 {
    match error {
        Errno::PERM | Errno::NOMEM | Errno::INVAL | Errno::NOSPC | Errno::OVERFLOW => {
            error.raw_os_error() as u32
        }
        Errno::DQUOT => Errno::NOSPC.raw_os_error() as u32,
        _ => Errno::IO.raw_os_error() as u32,
    }
}

fn send(writer: &Mutex<Stream>, output: &mut Vec<u8>) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    let outcome = lock(writer).write_all(output);
    output.clear();
    outcome
}

fn send_at(shared: &Shared, writer: &Arc<Mutex<Stream>>, bytes: Vec<u8>, deadline: Instant) {
    let writer = writer.clone();
    shared.timer.at(Some(deadline), move || {
        let mut stream = lock(&writer);
        if stream.write_all(&bytes).is_err() {
            // It has gone, or does not read: others must not wait for it.
            stream.shut_down();
        }
    });
}
