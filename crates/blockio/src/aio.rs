//! Linux AIO engine (aio_abi.h of the kernel, io_submit(2)), for many requests at a time where io_uring
//! would hand each to a worker thread.
//!
//! Block devices that cannot tell in advance whether a request would block (zram, loop devices, some
//! stacks) make io_uring give every request to a worker, which costs two thread switches. With AIO the
//! thread that submits carries the request to the driver itself.
//!
//! A drive in memory then executes the request within that call. All requests of a call are answered when
//! it returns, one after the other by the one processor that sends them, whatever the requested depth:
//! nothing is ever in flight, and the other processors are idle. If the engine detects that, the phase
//! continues with more sending threads ([`super::threads`]).

use std::io;
use std::os::fd::AsRawFd;

use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::buffers::Buffers;
use super::handle::{Handle, io_error};
use super::payload::{Payload, WriteBlock};
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter, Request, Step};

/// `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, in an order that depends on the byte order of the machine; both are
    /// zero.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

const READ: u16 = 0;
const WRITE: u16 = 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

/// Number of calls in a row that return with all requests answered, after which the drive is taken to
/// execute them within the call. A drive that works asynchronously may have finished a few requests by
/// then, but not the one it has just been given.
const INLINE_CALLS_MIN: u32 = 16;

/// Knowledge on whether requests are executed within the call that submits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InlineCompletion {
    /// Every request was executed within the call, in this number of calls, which is all calls so far.
    Perhaps(u32),
    /// At least one request was not executed within the call.
    No,
}

/// End of a run with this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The phase is over.
    Over,
    /// Nothing is in flight, and the drive executes requests within the call that submits them: more
    /// sending threads would have more requests under way.
    WantsThreads,
}

/// Returns true if io_uring would need a worker for each request to `handle`: the kernel refuses to read
/// from the file without blocking.
pub(super) fn needs_uring_workers(handle: &Handle, block: ByteLength) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let Ok(mut buffers) = Buffers::new(1, block) else { return false };
    let mut pieces = [io::IoSliceMut::new(buffers.get(0))];
    let tried = preadv2(&handle.file, &mut pieces, 0, ReadWriteFlags::NOWAIT);
    tried == Err(Errno::OPNOTSUPP) && Context::new(1).is_ok()
}

/// An AIO context of the kernel.
struct Context(u64);

impl Context {
    fn new(depth: u32) -> io::Result<Context> {
        let mut context: u64 = 0;
        // SAFETY: the call writes one word, which is zero as it has to be.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        if done == 0 { Ok(Context(context)) } else { Err(io::Error::last_os_error()) }
    }

    /// Submits blocks. Returns the number that the kernel has accepted.
    ///
    /// # Safety
    /// The blocks must be complete, and their buffers must stay valid and untouched until they are
    /// answered.
    unsafe fn submit(&self, iocbs: &[*const Iocb]) -> io::Result<usize> {
        let count = iocbs.len() as libc::c_long;
        // SAFETY: as the caller promises.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.0, count, iocbs.as_ptr()) };
        usize::try_from(done).map_err(|_| io::Error::last_os_error())
    }

    /// Waits for at least one answer, but not longer than `timeout`. Returns the number of answers.
    fn wait(&self, events: &mut [IoEvent], timeout: Nanoseconds) -> io::Result<usize> {
        let time = libc::timespec {
            tv_sec: (timeout.nanos() / 1_000_000_000) as _,
            tv_nsec: (timeout.nanos() % 1_000_000_000) as libc::c_long,
        };
        let most = events.len() as libc::c_long;
        // SAFETY: there is space for as many answers, and the time outlives the call.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                1 as libc::c_long,
                most,
                events.as_mut_ptr(),
                &raw const time,
            )
        };
        usize::try_from(done).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Context {
    /// Waits for requests in flight.
    fn drop(&mut self) {
        // SAFETY: the context is this value's own.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Requests in flight, each in its own slot.
pub(super) struct Queue<'a> {
    // Dropped first: after that the kernel does not use the buffers any more.
    context: Context,
    handle: &'a Handle,
    payload: Payload,
    iocbs: Vec<Iocb>,
    events: Vec<IoEvent>,
    /// Requests in flight and the moments at which they were submitted, by slot.
    slots: Vec<Option<(Request, Nanoseconds)>>,
    /// Data of the writes in flight, by slot.
    write_blocks: Vec<WriteBlock>,
    free: Vec<u32>,
    /// Slots that are filled and not submitted yet.
    unsubmitted: Vec<u32>,
    pointers: Vec<*const Iocb>,
    in_flight: usize,
    inline_completion: InlineCompletion,
}

impl<'a> Queue<'a> {
    /// Creates a queue for `depth` requests. `payload` must have been made for that depth.
    pub(super) fn new(
        handle: &'a Handle,
        depth: u32,
        payload: Payload,
    ) -> Result<Self, DriveError> {
        let context = Context::new(depth).map_err(|error| {
            io_error(format!("cannot set up asynchronous I/O at depth {depth}"), error)
        })?;
        let iocbs = (0..depth).map(|slot| Iocb {
            data: u64::from(slot),
            file: handle.file.as_raw_fd() as u32,
            length: payload.length().bytes(),
            ..Iocb::default()
        });
        Ok(Queue {
            context,
            handle,
            iocbs: iocbs.collect(),
            payload,
            events: vec![IoEvent::default(); depth as usize],
            slots: vec![None; depth as usize],
            write_blocks: vec![WriteBlock::default(); depth as usize],
            free: (0..depth).rev().collect(),
            unsubmitted: Vec::with_capacity(depth as usize),
            pointers: Vec::with_capacity(depth as usize),
            in_flight: 0,
            inline_completion: InlineCompletion::Perhaps(0),
        })
    }

    /// Runs a phase to its end, or, if `may_share` is true, until it is clear that more sending threads
    /// would be faster. `clock` started with the phase.
    pub(super) fn run(
        &mut self,
        runner: &mut PhaseRunner,
        reporter: &mut ProgressReporter<'_>,
        clock: &Clock,
        may_use_threads: bool,
    ) -> Result<Outcome, DriveError> {
        if !may_use_threads {
            self.inline_completion = InlineCompletion::No;
        }
        let mut outcome = Ok(());
        let mut now = clock.now();
        loop {
            let next_due = self.fill_due(runner, now);
            if !self.unsubmitted.is_empty() {
                now = if self.has_writes() { clock.now() } else { now };
                self.submit(now)?;
            }
            if self.in_flight > 0 {
                now = self.wait(runner, clock, next_due, &mut outcome)?;
            } else if let Some(until) = next_due {
                clock.wait_until(until);
                now = clock.now();
            } else if self.unsubmitted.is_empty() {
                return outcome.map(|()| Outcome::Over);
            }
            let told = reporter.report(now, || runner.progress(now));
            if let Err(error) = told
                && outcome.is_ok()
            {
                outcome = Err(error);
            }
            if outcome.is_err() {
                // The first error counts; it is returned once nothing is in flight.
                runner.stop();
            } else if self.completes_inline() && self.unsubmitted.is_empty() {
                return Ok(Outcome::WantsThreads);
            }
        }
    }

    /// Returns true if enough calls have shown that the drive executes requests within them.
    fn completes_inline(&self) -> bool {
        matches!(self.inline_completion, InlineCompletion::Perhaps(calls) if calls >= INLINE_CALLS_MIN)
    }

    /// Returns true if a write is about to be submitted, whose data took time to generate.
    fn has_writes(&self) -> bool {
        self.unsubmitted.iter().any(|&slot| self.iocbs[slot as usize].opcode == WRITE)
    }

    /// Fills slots with the requests that are due. Returns the moment at which the next one is due, if it
    /// is time that the phase waits for.
    fn fill_due(&mut self, runner: &mut PhaseRunner, now: Nanoseconds) -> Option<Nanoseconds> {
        while let Some(&slot) = self.free.last() {
            match runner.next(now) {
                Step::Send(request) => {
                    self.free.pop();
                    let (buffer, write_block) = self.payload.take_buffer(&request, slot);
                    self.write_blocks[slot as usize] = write_block;
                    let iocb = &mut self.iocbs[slot as usize];
                    iocb.opcode = if request.is_read { READ } else { WRITE };
                    iocb.offset = request.offset.bytes() as i64;
                    iocb.buffer = buffer.as_mut_ptr() as u64;
                    self.slots[slot as usize] = Some((request, Nanoseconds::ZERO));
                    self.unsubmitted.push(slot);
                }
                Step::Wait(until) => return Some(until),
                Step::Done => return None,
            }
        }
        None
    }

    fn submit(&mut self, now: Nanoseconds) -> Result<(), DriveError> {
        self.pointers.clear();
        for &slot in &self.unsubmitted {
            self.pointers.push(&raw const self.iocbs[slot as usize]);
            if let Some((_, sent)) = &mut self.slots[slot as usize] {
                *sent = now;
            }
        }
        // SAFETY: each slot has its own block, and its request a buffer, which nothing touches until it
        // is answered; the context is dropped before them and waits for requests in flight.
        let taken = match unsafe { self.context.submit(&self.pointers) } {
            Ok(taken) => taken,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                let what = format!("asynchronous I/O on {}", self.handle.shown.display());
                return Err(io_error(what, error));
            }
        };
        self.unsubmitted.drain(..taken);
        self.in_flight += taken;
        Ok(())
    }

    /// Processes the answers that arrive before the next request is due. Returns the time afterwards.
    fn wait(
        &mut self,
        runner: &mut PhaseRunner,
        clock: &Clock,
        next_due: Option<Nanoseconds>,
        outcome: &mut Result<(), DriveError>,
    ) -> Result<Nanoseconds, DriveError> {
        let mut count = self.poll_events()?;
        if count == 0 {
            let timeout = match next_due {
                Some(until) => Clock::sleep_time(clock.now(), until),
                None => ProgressReporter::INTERVAL,
            };
            count = self.wait_for_events(timeout)?;
        }
        let now = clock.now();
        self.in_flight -= count;
        for event in &self.events[..count] {
            let slot = event.data as u32;
            let (request, sent) =
                self.slots[slot as usize].take().expect("an answer belongs to what is in flight");
            self.free.push(slot);
            self.payload.release(self.write_blocks[slot as usize]);
            let length = self.iocbs[slot as usize].length;
            let done = match event.result {
                code @ ..0 => Err(io::Error::from_raw_os_error(-code as i32)),
                done => Ok(done as usize),
            };
            match done {
                Ok(done) if done as u64 == length => runner.record_completion(&request, sent, now),
                failed if outcome.is_ok() => {
                    *outcome = Err(self.handle.transfer_error(&request, length as usize, failed));
                }
                _ => {}
            }
        }
        Ok(now)
    }

    /// Takes the answers that are there already, as long as every call so far was answered completely.
    fn poll_events(&mut self) -> Result<usize, DriveError> {
        let InlineCompletion::Perhaps(calls) = self.inline_completion else { return Ok(0) };
        let count = self.wait_for_events(Nanoseconds::ZERO)?;
        self.inline_completion = if count == self.in_flight {
            InlineCompletion::Perhaps(calls + 1)
        } else {
            InlineCompletion::No
        };
        Ok(count)
    }

    /// Waits for an answer, but not longer than `timeout`. Returns the number of answers.
    fn wait_for_events(&mut self, timeout: Nanoseconds) -> Result<usize, DriveError> {
        match self.context.wait(&mut self.events, timeout) {
            Ok(count) => Ok(count),
            Err(error) if is_transient(&error) => Ok(0),
            Err(error) => {
                let what = format!("asynchronous I/O on {}", self.handle.shown.display());
                Err(io_error(what, error))
            }
        }
    }
}

/// Returns true if a call ended for a passing reason: a signal came, or the queue is full.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::phase::{Amount, Mix, Pattern, Phase, Rate, Region};
    use ssdlab_drive::{Control, Drive, ErrorKind, Observer, Progress, Unobserved};
    use ssdlab_units::{KIB, MIB};

    use super::*;
    use crate::{RealDrive, RealOptions};

    const AREA: ByteLength = ByteLength::new(MIB.bytes() * 4);

    /// Opens a file that this engine is used for above depth 1.
    fn drive(directory: &tempfile::TempDir) -> RealDrive {
        let options = RealOptions {
            require_direct: false,
            reserve: Some(ByteLength::ZERO),
            ..RealOptions::default()
        };
        let mut drive = RealDrive::open(directory.path(), options).unwrap();
        drive.prefers_aio = true;
        drive.prepare(AREA).unwrap();
        drive
    }

    fn phase(mix: Mix, depth: u32) -> Phase {
        Phase {
            name: "test".into(),
            pattern: Pattern::RandomOnce,
            block_size: KIB * 4,
            depth,
            mix,
            region: Region::first(AREA),
            amount: Amount::Bytes(AREA),
            rate: None,
            seed: 3,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    /// Returns the outcome of a phase of reads through the page cache, which executes them within the
    /// call.
    fn outcome(bytes: ByteLength, may_use_threads: bool) -> (Outcome, u64) {
        // A file system in memory executes requests within the call.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut drive = drive(&directory);
        drive.run_phase(&phase(Mix::WRITE, 1), &mut Unobserved).unwrap();
        let read = Phase { amount: Amount::Bytes(bytes), ..phase(Mix::READ, 8) };
        let payload = Payload::new(&crate::data::BlockData::new(3), &read, 0).unwrap();
        let mut queue = Queue::new(drive.handle().unwrap(), read.depth, payload).unwrap();
        let (mut runner, clock) = (PhaseRunner::new(&read, 0), Clock::start());
        let mut unobserved = Unobserved;
        let mut reporter = ProgressReporter::new(&mut unobserved);
        let outcome = queue.run(&mut runner, &mut reporter, &clock, may_use_threads).unwrap();
        assert_eq!(queue.in_flight, 0);
        let requests = runner.finish(ssdlab_units::Instant::START, clock.now()).requests;
        (outcome, requests)
    }

    #[test]
    fn a_drive_that_works_within_the_call_is_told_and_nothing_is_left_in_flight() {
        let few = u64::from(INLINE_CALLS_MIN) * 8;
        assert_eq!(outcome(AREA, true), (Outcome::WantsThreads, few));
        assert_eq!(outcome(AREA, false), (Outcome::Over, 1024));
        assert_eq!(outcome(KIB * 64, true), (Outcome::Over, 16));
    }

    #[test]
    fn what_is_written_at_any_depth_is_there() {
        let directory = tempfile::tempdir_in(".").unwrap();
        for depth in [2, 32, 128] {
            let mut drive = drive(&directory);
            let result = drive.run_phase(&phase(Mix::WRITE, depth), &mut Unobserved).unwrap();
            assert_eq!(result.write_latencies.count(), 1024);
            drive.verify(Region::first(AREA), 3).unwrap();
            let read = drive.run_phase(&phase(Mix::READ, depth), &mut Unobserved).unwrap();
            assert_eq!((read.bytes_read, read.read_latencies.count()), (AREA, 1024));
        }
    }

    #[test]
    fn latencies_of_an_open_loop_count_from_the_arrivals() {
        let directory = tempfile::tempdir_in(".").unwrap();
        let mut drive = drive(&directory);
        let mut phase = phase(Mix::WRITE, 4);
        phase.rate = Some(Rate::Open(2000.0));
        phase.amount = Amount::Time(Nanoseconds::from_millis(200));
        let result = drive.run_phase(&phase, &mut Unobserved).unwrap();
        assert!((250..600).contains(&result.requests), "{}", result.requests);
        assert!(result.elapsed >= Nanoseconds::from_millis(150), "{}", result.elapsed);
    }

    #[test]
    fn whoever_watches_may_end_it() {
        struct Impatient;
        impl Observer for Impatient {
            fn progress(&mut self, _: &Progress) -> Control {
                Control::Cancel
            }
        }
        let directory = tempfile::tempdir_in(".").unwrap();
        let mut endless = phase(Mix::WRITE, 8);
        endless.amount = Amount::Time(Nanoseconds::from_secs(3600));
        let error = drive(&directory).run_phase(&endless, &mut Impatient).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
