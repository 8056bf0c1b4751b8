//! io_uring engine, for many requests at a time: the file and the buffers are registered, and a few
//! requests are submitted per call.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::busy_poll::BusyPoll;
use super::handle::{Handle, io_error};
use super::payload::{Payload, WriteBlock};
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter, Request, Step};

/// Largest number of requests submitted in one call while others are due.
///
/// The kernel passes the requests of one call to the drive together, once the last of them has been
/// prepared. Completions that come together are then followed by requests that go together, until the
/// drive works in bursts: a virtio disk at depth 32 did 0.85 of the reads per second that it does with
/// four per call, at equal processor time per request. One per call costs a tenth to a quarter more
/// processor time, and is no faster.
const SUBMIT_BATCH: usize = 4;

/// `IORING_ENTER_GETEVENTS` of io_uring_enter(2).
const GET_EVENTS: u32 = 1;

/// Returns an error if the kernel lacks what this engine needs, or does not let this process use it.
pub(super) fn available() -> io::Result<()> {
    if build(4)?.params().is_feature_ext_arg() {
        Ok(())
    } else {
        Err(io::Error::other("the kernel is older than 5.11"))
    }
}

fn build(entries: u32) -> io::Result<IoUring> {
    // One thread submits and reaps, so the kernel need not interrupt it for every completion. Older
    // kernels do not know these flags, and work without them. The last flag makes the kernel show in
    // memory that a completion can be fetched.
    let mut tuned = IoUring::builder();
    tuned.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    tuned.build(entries).or_else(|_| IoUring::builder().build(entries))
}

/// A ring with its requests in flight, each in its own slot.
pub(super) struct Ring<'a> {
    ring: IoUring,
    /// `None` only while the ring is dropped.
    payload: Option<Payload>,
    file: &'a Handle,
    block_size: ByteLength,
    registered: bool,
    /// Requests in flight and the moments at which they were submitted, by slot.
    slots: Vec<Option<(Request, Nanoseconds)>>,
    /// Blocks of the writes in flight, by slot.
    write_blocks: Vec<WriteBlock>,
    free: Vec<u32>,
    /// Slots that are queued and not submitted yet.
    unsubmitted: Vec<u32>,
    in_flight: u32,
    /// State of busy polling; `None` if the thread always sleeps.
    busy_poll: Option<BusyPoll>,
}

impl<'a> Ring<'a> {
    /// Creates a ring for `depth` requests to `file`. `payload` must have been made for that depth.
    pub(super) fn new(
        file: &'a Handle,
        depth: u32,
        payload: Payload,
        has_idle_hold: bool,
    ) -> Result<Self, DriveError> {
        let failed = |error| io_error(format!("cannot set up io_uring at depth {depth}"), error);
        let ring = build(depth).map_err(failed)?;
        (ring.submitter().register_files(&[file.file.as_raw_fd()])).map_err(failed)?;
        let (start, length) = payload.whole();
        let memory = libc::iovec { iov_base: start.cast(), iov_len: length };
        // Users without privileges may lock little memory; requests also work with unregistered buffers.
        // SAFETY: the buffers outlive the requests in flight, see `drop`.
        let registered = unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok();
        Ok(Ring {
            ring,
            block_size: payload.length(),
            payload: Some(payload),
            file,
            registered,
            slots: vec![None; depth as usize],
            write_blocks: vec![WriteBlock::default(); depth as usize],
            free: (0..depth).rev().collect(),
            unsubmitted: Vec::with_capacity(depth as usize),
            in_flight: 0,
            busy_poll: BusyPoll::new(depth, has_idle_hold),
        })
    }

    /// Returns true if the buffers are registered.
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// Runs a phase to its end; `clock` started with the phase.
    pub(super) fn run(
        &mut self,
        runner: &mut PhaseRunner,
        reporter: &mut ProgressReporter<'_>,
        clock: &Clock,
    ) -> Result<(), DriveError> {
        let mut outcome = Ok(());
        let mut now = clock.now();
        loop {
            let next_due = self.queue_due(runner, clock, now)?;
            if self.in_flight > 0 {
                self.submit_and_wait(clock, next_due)?;
            } else if let Some(until) = next_due {
                clock.wait_until(until);
            } else {
                return outcome;
            }
            now = clock.now();
            let reaped = self.reap(runner, now);
            let told = reporter.report(now, || runner.progress(now));
            if let Err(error) = reaped.and(told)
                && outcome.is_ok()
            {
                // The first error counts; it is returned once nothing is in flight.
                runner.stop();
                outcome = Err(error);
            }
        }
    }

    /// Queues requests that are due, as long as slots are free, and submits all but the last few. Returns
    /// the moment at which the next one is due, if it is time that the phase waits for.
    fn queue_due(
        &mut self,
        runner: &mut PhaseRunner,
        clock: &Clock,
        now: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, DriveError> {
        while let Some(&slot) = self.free.last() {
            if self.unsubmitted.len() == SUBMIT_BATCH {
                self.note_submitted(clock.now());
                self.check(self.ring.submitter().submit())?;
            }
            match runner.next(now) {
                Step::Send(request) => {
                    self.free.pop();
                    self.queue(slot, request);
                }
                Step::Wait(until) => return Ok(Some(until)),
                Step::Done => return Ok(None),
            }
        }
        Ok(None)
    }

    fn queue(&mut self, slot: u32, request: Request) {
        let payload = self.payload.as_mut().expect("the ring is not dropped yet");
        let (buffer, write_block) = payload.take_buffer(&request, slot);
        self.write_blocks[slot as usize] = write_block;
        let entry = entry(&request, buffer, self.registered).user_data(u64::from(slot));
        // SAFETY: nothing else uses the buffer until the completion is reaped and the buffer given back;
        // the buffers outlive the requests in flight.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the queue has as many entries as there are slots");
        self.slots[slot as usize] = Some((request, Nanoseconds::ZERO));
        self.unsubmitted.push(slot);
        self.in_flight += 1;
    }

    /// Submits the queued requests and waits for a completion, or until the next request is due: polls
    /// for a while if that pays, and then sleeps.
    fn submit_and_wait(
        &mut self,
        clock: &Clock,
        next_due: Option<Nanoseconds>,
    ) -> Result<(), DriveError> {
        let now = clock.now();
        self.note_submitted(now);
        let poll_time =
            self.busy_poll.as_ref().map_or(Nanoseconds::ZERO, |busy_poll| busy_poll.poll_time(now));
        let found = poll_time > Nanoseconds::ZERO
            && self.poll_for_completion(clock, poll_time, next_due)?;
        if !found {
            self.sleep(clock.now(), next_due)?;
        }
        if let Some(busy_poll) = &mut self.busy_poll {
            busy_poll.note_wait(clock.now().saturating_sub(now));
        }
        Ok(())
    }

    /// Submits the queued requests and polls for a completion for up to `at_most`, or until the next
    /// request is due.
    fn poll_for_completion(
        &mut self,
        clock: &Clock,
        poll_time: Nanoseconds,
        next_due: Option<Nanoseconds>,
    ) -> Result<bool, DriveError> {
        self.check(self.ring.submitter().submit())?;
        let until = clock.now() + poll_time;
        let until = next_due.map_or(until, |due| due.min(until));
        let Some(mut busy_poll) = self.busy_poll.take() else { return Ok(false) };
        let found = busy_poll.poll_until(clock, until, || self.has_completion());
        self.busy_poll = Some(busy_poll);
        found
    }

    /// Returns true if there is a completion. The kernel puts completions into the ring when it is
    /// entered, and shows in memory that there are some.
    #[inline]
    fn has_completion(&mut self) -> Result<bool, DriveError> {
        if self.ring.submission().taskrun() {
            let submitter = self.ring.submitter();
            // SAFETY: nothing is submitted, and there is no argument.
            self.check(unsafe { submitter.enter::<libc::sigset_t>(0, 0, GET_EVENTS, None) })?;
        }
        Ok(!self.ring.completion().is_empty())
    }

    /// Submits the queued requests, and sleeps until there is a completion or the next request is nearly
    /// due.
    fn sleep(&self, now: Nanoseconds, next_due: Option<Nanoseconds>) -> Result<(), DriveError> {
        let until = next_due.unwrap_or(now + ProgressReporter::INTERVAL * 2);
        let asleep = Clock::sleep_time(now, until);
        let timeout = Timespec::new()
            .sec(asleep.nanos() / 1_000_000_000)
            .nsec((asleep.nanos() % 1_000_000_000) as u32);
        let arguments = SubmitArgs::new().timespec(&timeout);
        self.check(self.ring.submitter().submit_with_args(1, &arguments))
    }

    /// Records `now` as the moment at which the queued requests are submitted.
    fn note_submitted(&mut self, now: Nanoseconds) {
        for slot in self.unsubmitted.drain(..) {
            if let Some((_, sent)) = &mut self.slots[slot as usize] {
                *sent = now;
            }
        }
    }

    /// Returns an error if a submitting call has failed for good. Requests that the kernel has not
    /// accepted stay queued for the next call.
    fn check(&self, submitted: io::Result<usize>) -> Result<(), DriveError> {
        match submitted {
            Err(error) if !is_transient(&error) => {
                Err(io_error(format!("io_uring on {}", self.file.shown.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Processes the completions that have come. Returns the first error among them.
    fn reap(&mut self, runner: &mut PhaseRunner, now: Nanoseconds) -> Result<(), DriveError> {
        let mut outcome = Ok(());
        let payload = self.payload.as_mut().expect("the ring is not dropped yet");
        for completion in self.ring.completion() {
            // Counted first: after a panic below, `drop` would wait for this request otherwise.
            self.in_flight -= 1;
            let slot = completion.user_data() as u32;
            let (request, sent) =
                self.slots[slot as usize].take().expect("an answer belongs to what is in flight");
            self.free.push(slot);
            payload.release(self.write_blocks[slot as usize]);
            let length = self.block_size.bytes() as usize;
            let done = match completion.result() {
                code @ ..0 => Err(io::Error::from_raw_os_error(-code)),
                done => Ok(done as usize),
            };
            match done {
                Ok(done) if done == length => runner.record_completion(&request, sent, now),
                failed if outcome.is_ok() => {
                    outcome = Err(self.file.transfer_error(&request, length, failed));
                }
                _ => {}
            }
        }
        outcome
    }
}

impl Drop for Ring<'_> {
    /// Waits for requests in flight, because the drive still writes to their buffers. After a phase there
    /// are none; after a panic or a failure of the ring itself there may be.
    ///
    /// Then releases the file. The kernel tears a ring down after the call that closes it, and would hold
    /// the file, with all its space, a while longer than this process does.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            match self.ring.submitter().submit_and_wait(1) {
                Err(error) if !is_transient(&error) => {
                    // It cannot be known when the kernel releases the buffers, so they are leaked.
                    std::mem::forget(self.payload.take());
                    return;
                }
                _ => self.in_flight -= self.ring.completion().count() as u32,
            }
        }
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Returns the submission entry of a request. A registered buffer has the index 0: all buffers are one
/// piece.
fn entry(request: &Request, buffer: &mut [u8], registered: bool) -> squeue::Entry {
    let (start, length) = (buffer.as_mut_ptr(), buffer.len() as u32);
    let offset = request.offset.bytes();
    let file = Fixed(0);
    match (request.is_read, registered) {
        (true, true) => opcode::ReadFixed::new(file, start, length, 0).offset(offset).build(),
        (true, false) => opcode::Read::new(file, start, length).offset(offset).build(),
        (false, true) => opcode::WriteFixed::new(file, start, length, 0).offset(offset).build(),
        (false, false) => opcode::Write::new(file, start, length).offset(offset).build(),
    }
}

/// Returns true if a call ended for a passing reason: the timeout, a signal, or completions that have to
/// be reaped first.
fn is_transient(error: &io::Error) -> bool {
    let transient = [Errno::TIME, Errno::INTR, Errno::AGAIN, Errno::BUSY];
    Errno::from_io_error(error).is_some_and(|errno| transient.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ssdlab_drive::phase::{Amount, Mix, Pattern, Phase, Region};
    use ssdlab_drive::{Drive, Unobserved};
    use ssdlab_units::{KIB, MIB};

    use super::*;
    use crate::data::BlockData;
    use crate::{RealDrive, RealOptions};

    #[test]
    fn requests_go_to_the_drive_in_small_groups() {
        if let Err(error) = available() {
            let _ = writeln!(io::stderr(), "\nSKIPPED: no io_uring: {error}");
            return;
        }
        let directory = tempfile::tempdir_in(".").unwrap();
        let options = RealOptions {
            require_direct: false,
            reserve: Some(ByteLength::ZERO),
            ..RealOptions::default()
        };
        let mut drive = RealDrive::open(directory.path(), options).unwrap();
        drive.prepare(MIB).unwrap();
        let phase = Phase {
            name: "test".into(),
            pattern: Pattern::RandomOnce,
            block_size: KIB * 4,
            depth: 32,
            mix: Mix::WRITE,
            region: Region::first(MIB),
            amount: Amount::Bytes(MIB),
            rate: None,
            seed: 3,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        let payload = Payload::new(&BlockData::new(phase.seed), &phase, 0).unwrap();
        let mut ring = Ring::new(drive.handle().unwrap(), phase.depth, payload, false).unwrap();
        let (mut runner, clock) = (PhaseRunner::new(&phase, 0), Clock::start());
        ring.queue_due(&mut runner, &clock, clock.now()).unwrap();
        assert_eq!(ring.in_flight, phase.depth);
        assert!(
            ring.unsubmitted.len() <= SUBMIT_BATCH,
            "{} wait to go together",
            ring.unsubmitted.len()
        );
        let sent = |slot: &Option<(Request, Nanoseconds)>| slot.unwrap().1;
        let (first, later) = (sent(&ring.slots[0]), sent(&ring.slots[SUBMIT_BATCH]));
        assert!(Nanoseconds::ZERO < first && first < later, "each group has a time of its own");
        ring.run(&mut runner, &mut ProgressReporter::new(&mut Unobserved), &clock).unwrap();
        drop(ring);
        assert_eq!(runner.sequence(), 256);
    }
}
