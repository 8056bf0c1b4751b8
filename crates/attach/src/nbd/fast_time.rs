//! Requests and replies in fast time.
//!
//! Input is read in large pieces, and replies are collected until there is no input left: so a deep queue costs
//! few system calls. Two threads take turns at reading: while one carries out a large request, the other goes
//! on. Data of large reads goes from the image to the socket without a copy if possible ([`crate::pipe`]).

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::carry_out::carry_out;
use super::protocol::*;
use super::reply::Negotiated;
use super::request::{HEADER, LARGE, Request};
use super::{Shared, Stream};
use crate::pipe::Pipe;

/// Size of the input buffer in bytes.
const INPUT: usize = 1 << 18;

/// Maximum bytes of collected replies.
const OUTPUT_MAX: usize = 1 << 20;

/// Received bytes that were not taken yet.
struct Input {
    stream: Stream,
    bytes: Box<[u8]>,
    from: usize,
    until: usize,
    /// Bytes that are read at a time: after a large write only a request, so that data behind it need not be
    /// copied from this buffer.
    read_size: usize,
    /// True if nothing more is read.
    is_over: bool,
}

impl Input {
    fn new(stream: Stream) -> Input {
        let bytes = vec![0; INPUT].into();
        Input { stream, bytes, from: 0, until: 0, read_size: INPUT, is_over: false }
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
            if rest >= LARGE as usize || self.read_size < INPUT {
                // The rest is read into its place directly.
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

    /// Reads more bytes, when all were taken.
    fn fill(&mut self) -> io::Result<()> {
        (self.from, self.until) = (0, 0);
        self.until = loop {
            match self.stream.read(&mut self.bytes[..self.read_size]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        Ok(())
    }
}

/// State that the threads of a connection share.
struct Connection<'a> {
    shared: &'a Shared,
    negotiated: Negotiated,
    input: Mutex<Input>,
    writer: Mutex<Stream>,
}

/// State of one thread.
#[derive(Default)]
struct ThreadBuffers {
    /// Replies that are not sent yet.
    output: Vec<u8>,
    data: Vec<u8>,
    pipe: Option<Pipe>,
}

/// Serves requests until the client disconnects.
pub(super) fn serve(stream: Stream, negotiated: Negotiated, shared: &Shared) -> io::Result<()> {
    let writer = Mutex::new(stream.try_clone()?);
    let connection =
        Connection { shared, negotiated, input: Mutex::new(Input::new(stream)), writer };
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new().name("nbd client".to_owned());
        // If no second thread can be started, one does all of it.
        let _ = helper.spawn_scoped(scope, || connection.work());
        connection.work()
    })
}

impl Connection<'_> {
    fn work(&self) -> io::Result<()> {
        let mut buffers = ThreadBuffers::default();
        loop {
            match self.serve_turn(&mut buffers) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    // The other thread may be reading: this ends its read.
                    lock(&self.writer).shut_down();
                    return Err(error);
                }
            }
        }
    }

    /// Carries out small requests up to a large one, and that one while the other thread reads on. Returns
    /// false at the end of the connection.
    fn serve_turn(&self, buffers: &mut ThreadBuffers) -> io::Result<bool> {
        let mut input = lock(&self.input);
        if input.is_over {
            return Ok(false);
        }
        let Some(request) = self.carry_out_small(&mut input, buffers)? else {
            input.is_over = true;
            send(&self.writer, &mut buffers.output)?;
            return Ok(false);
        };
        drop(input);
        send(&self.writer, &mut buffers.output)?;
        if request.kind == CMD_READ {
            self.read_large(&request, buffers)?;
        } else {
            self.carry_out(&request, buffers);
            send(&self.writer, &mut buffers.output)?;
        }
        Ok(true)
    }

    /// Carries out requests until there is a large one; returns that, with its data in `buffers`. `None` if the
    /// client disconnects.
    fn carry_out_small(
        &self,
        input: &mut Input,
        buffers: &mut ThreadBuffers,
    ) -> io::Result<Option<Request>> {
        loop {
            if input.left() < HEADER || buffers.output.len() >= OUTPUT_MAX {
                send(&self.writer, &mut buffers.output)?;
            }
            let mut header = [0; HEADER];
            input.take(&mut header)?;
            let request = Request::decode(&header)?;
            if request.kind == CMD_DISC {
                return Ok(None);
            }
            let is_large = request.is_large();
            if request.kind == CMD_WRITE {
                if input.left() < request.length as usize {
                    send(&self.writer, &mut buffers.output)?;
                }
                buffers.data.resize(request.length as usize, 0);
                input.take(&mut buffers.data)?;
            }
            let next_is_large = is_large && request.kind == CMD_WRITE;
            input.read_size = if next_is_large { HEADER } else { INPUT };
            if is_large {
                return Ok(Some(request));
            }
            self.carry_out(&request, buffers);
        }
    }

    /// Carries out a request, and appends its reply to `buffers`.
    fn carry_out(&self, request: &Request, buffers: &mut ThreadBuffers) {
        let ThreadBuffers { output, data, .. } = buffers;
        let engine = &self.shared.engine;
        // In fast time there is no deadline to wait for.
        let _ = carry_out(engine, self.negotiated, request, Instant::now(), data, output);
    }

    /// Carries out a large read and sends its reply.
    fn read_large(&self, request: &Request, buffers: &mut ThreadBuffers) -> io::Result<()> {
        if self.negotiated.may_leave_out_holes(request) && self.has_holes(request) {
            self.carry_out(request, buffers);
            return send(&self.writer, &mut buffers.output);
        }
        let ThreadBuffers { data, pipe, output } = buffers;
        data.resize(request.length as usize, 0);
        let pipe = match pipe {
            Some(pipe) => pipe,
            None => pipe.insert(Pipe::new()?),
        };
        let engine = &self.shared.engine;
        if let Err(error) = engine.read_into_pipe(Instant::now(), request.offset, data, pipe) {
            self.negotiated.failed(request, error, output);
            return send(&self.writer, output);
        }
        let head = self.negotiated.before_data(request);
        let mut writer = lock(&self.writer);
        if pipe.filled() > 0 {
            writer.write_all(head.bytes())?;
            return pipe.send(writer.as_fd());
        }
        write_both(&mut *writer, head.bytes(), data)
    }

    /// Returns true if the range of a read has holes that read as zeros, or cannot be examined.
    fn has_holes(&self, request: &Request) -> bool {
        let extents = self.shared.engine.extents(request.offset, request.length.into());
        extents.map_or(true, |extents| extents.iter().any(|it| it.is_zero))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes `head` and `data`, with as few system calls as possible.
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

fn send(writer: &Mutex<Stream>, output: &mut Vec<u8>) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    let outcome = lock(writer).write_all(output);
    output.clear();
    outcome
}
