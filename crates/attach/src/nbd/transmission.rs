//! Requests and replies.
//!
//! What a client has sent is read in large pieces, and replies that need not wait are collected
//! until there is nothing left to read: so a deep queue costs few system calls.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::protocol::*;
use super::{Shared, Stream};
use crate::engine::{Answer, Errno};

/// Bytes of a request without data.
const HEADER: usize = 28;

/// Bytes of a reply without data.
const REPLY: usize = 16;

/// Bytes that are read at a time.
const INPUT: usize = 1 << 18;

/// Bytes of replies that are collected at most.
const OUTPUT_MAX: usize = 1 << 20;

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
}

impl Input {
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
            if rest >= self.bytes.len() {
                // Large data goes where it belongs at once.
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
            match self.stream.read(&mut self.bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        Ok(())
    }
}

/// Serves requests until the client goes.
pub(super) fn serve(stream: Stream, shared: &Arc<Shared>) -> io::Result<()> {
    let writer = Arc::new(Mutex::new(stream.try_clone()?));
    let mut input = Input { stream, bytes: vec![0; INPUT].into(), from: 0, until: 0 };
    let mut output: Vec<u8> = Vec::with_capacity(1 << 16);
    let mut data: Vec<u8> = Vec::new();
    loop {
        if input.left() < HEADER || output.len() >= OUTPUT_MAX {
            send(&writer, &mut output)?;
        }
        let mut header = [0; HEADER];
        input.take(&mut header)?;
        let request = Request::decode(&header)?;
        if request.kind == CMD_DISC {
            return send(&writer, &mut output);
        }
        if request.kind == CMD_WRITE {
            if request.length > PAYLOAD_MAX {
                // Its data would have to be read to find the next request.
                return Err(io::ErrorKind::InvalidData.into());
            }
            if input.left() < request.length as usize {
                send(&writer, &mut output)?;
            }
            data.resize(request.length as usize, 0);
            input.take(&mut data)?;
        }
        let began = output.len();
        let outcome = carry_out(shared, &request, &data, &mut output);
        let deadline = match outcome {
            Ok(answer) => shared.engine.deadline(answer),
            Err(_) => None,
        };
        if let Err(error) = outcome {
            output.truncate(began);
            output.extend(reply(&request, number_of(error)));
        }
        if let Some(deadline) = deadline {
            let late = output.split_off(began);
            send_at(shared, &writer, late, deadline);
        }
    }
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
    let outcome = writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(output);
    output.clear();
    outcome
}

fn send_at(shared: &Shared, writer: &Arc<Mutex<Stream>>, bytes: Vec<u8>, deadline: Instant) {
    let writer = writer.clone();
    shared.timer.at(Some(deadline), move || {
        let mut stream = writer.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.write_all(&bytes).is_err() {
            // It has gone, or does not read: others must not wait for it.
            stream.shut_down();
        }
    });
}
