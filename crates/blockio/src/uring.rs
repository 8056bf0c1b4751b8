//! The engine for many requests at a time: io_uring, with the file and the buffers registered,
//! and a few requests handed over per call.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::course::{Clock, Course, Request, Step, Watch};
use super::handle::{Handle, io_error};
use super::look::Look;
use super::payload::{Carried, Payload};

/// The most requests that are handed over in one call while others are due.
///
/// The kernel passes what comes in one call to the drive together, when the last of it has been
/// prepared. Answers that come together are then followed by requests that go together, until the
/// drive works in bursts: a virtio disk at depth 32 did 0.85 of the reads a second that it does
/// with four, at an equal processor time of a request. One by one costs a tenth to a quarter more
/// processor time, and is no faster.
const HANDED_OVER: usize = 4;

/// `IORING_ENTER_GETEVENTS` of io_uring_enter(2).
const GET_EVENTS: u32 = 1;

/// Returns true if the kernel has what this engine needs, and lets this process use it.
pub(super) fn available() -> io::Result<()> {
    if build(4)?.params().is_feature_ext_arg() {
        Ok(())
    } else {
        Err(io::Error::other("the kernel is older than 5.11"))
    }
}

fn build(entries: u32) -> io::Result<IoUring> {
    // One thread sends and reaps, so the kernel need not interrupt it for every answer. Older
    // kernels do not know these flags, and do as well without.
    // The last flag shows in memory that there is an answer to be asked for.
    let mut tuned = IoUring::builder();
    tuned.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    tuned.build(entries).or_else(|_| IoUring::builder().build(entries))
}

/// A ring with its requests in flight, each in a slot of its own.
pub(super) struct Ring<'a> {
    ring: IoUring,
    /// `None` only while the ring is dropped.
    payload: Option<Payload>,
    file: &'a Handle,
    block_size: ByteLength,
    registered: bool,
    /// What is in flight, by slot, and when it was handed over.
    slots: Vec<Option<(Request, Nanoseconds)>>,
    /// What the writes in flight carry, by slot.
    carried: Vec<Carried>,
    free: Vec<u32>,
    /// Slots that are queued and not handed over yet.
    fresh: Vec<u32>,
    in_flight: u32,
    /// `None` where it always sleeps.
    look: Option<Look>,
}

impl<'a> Ring<'a> {
    /// A ring for `depth` requests to `file` with what `payload` holds, made for that depth.
    pub(super) fn new(
        file: &'a Handle,
        depth: u32,
        payload: Payload,
        are_awake: bool,
    ) -> Result<Self, DriveError> {
        let failed = |error| io_error(format!("cannot set up io_uring at depth {depth}"), error);
        let ring = build(depth).map_err(failed)?;
        (ring.submitter().register_files(&[file.file.as_raw_fd()])).map_err(failed)?;
        let (start, length) = payload.whole();
        let memory = libc::iovec { iov_base: start.cast(), iov_len: length };
        // Users without privileges may lock little memory; without, requests do as well.
        // SAFETY: the buffers outlive what is in flight, see `drop`.
        let registered = unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok();
        Ok(Ring {
            ring,
            block_size: payload.length(),
            payload: Some(payload),
            file,
            registered,
            slots: vec![None; depth as usize],
            carried: vec![Carried::default(); depth as usize],
            free: (0..depth).rev().collect(),
            fresh: Vec::with_capacity(depth as usize),
            in_flight: 0,
            look: Look::new(depth, are_awake),
        })
    }

    /// Returns true if the kernel took the buffers in advance.
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// Runs a course to its end; `clock` started with the phase.
    pub(super) fn run(
        &mut self,
        course: &mut Course,
        watch: &mut Watch<'_>,
        clock: &Clock,
    ) -> Result<(), DriveError> {
        let mut outcome = Ok(());
        let mut now = clock.now();
        loop {
            let next_due = self.queue_due(course, clock, now)?;
            if self.in_flight > 0 {
                self.hand_over_and_wait(clock, next_due)?;
            } else if let Some(until) = next_due {
                clock.wait(until);
            } else {
                return outcome;
            }
            now = clock.now();
            let reaped = self.reap(course, now);
            let told = watch.tell(now, || course.progress(now));
            if let Err(error) = reaped.and(told)
                && outcome.is_ok()
            {
                // The first failure counts, and waits until what is in flight has come home.
                course.stop();
                outcome = Err(error);
            }
        }
    }

    /// Queues the requests that are due and find a slot, and hands over all but the last few.
    /// Returns when the next one is due, where time is what it waits for.
    fn queue_due(
        &mut self,
        course: &mut Course,
        clock: &Clock,
        now: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, DriveError> {
        while let Some(&slot) = self.free.last() {
            if self.fresh.len() == HANDED_OVER {
                self.note_sent(clock.now());
                self.check(self.ring.submitter().submit())?;
            }
            match course.next(now) {
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
        let (buffer, carried) = payload.of(&request, slot);
        self.carried[slot as usize] = carried;
        let entry = entry(&request, buffer, self.registered).user_data(u64::from(slot));
        // SAFETY: nothing else uses the buffer until the answer is reaped and the buffer given
        // back; the buffers outlive what is in flight.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the queue has as many entries as there are slots");
        self.slots[slot as usize] = Some((request, Nanoseconds::ZERO));
        self.fresh.push(slot);
        self.in_flight += 1;
    }

    /// Hands over what is queued and waits for an answer, or until the next request is due: looks
    /// for it for a while where that pays, and then sleeps.
    fn hand_over_and_wait(
        &mut self,
        clock: &Clock,
        next_due: Option<Nanoseconds>,
    ) -> Result<(), DriveError> {
        let now = clock.now();
        self.note_sent(now);
        let at_most = self.look.as_ref().map_or(Nanoseconds::ZERO, |look| look.at_most(now));
        let found =
            at_most > Nanoseconds::ZERO && self.look_for_answer(clock, at_most, next_due)?;
        if !found {
            self.sleep(clock.now(), next_due)?;
        }
        if let Some(look) = &mut self.look {
            look.note(clock.now().saturating_sub(now));
        }
        Ok(())
    }

    /// Hands over what is queued and looks for an answer for so long, or until the next request
    /// is due.
    fn look_for_answer(
        &mut self,
        clock: &Clock,
        at_most: Nanoseconds,
        next_due: Option<Nanoseconds>,
    ) -> Result<bool, DriveError> {
        self.check(self.ring.submitter().submit())?;
        let until = clock.now() + at_most;
        let until = next_due.map_or(until, |due| due.min(until));
        let Some(mut look) = self.look.take() else { return Ok(false) };
        let found = look.until(clock, until, || self.has_answer());
        self.look = Some(look);
        found
    }

    /// Returns true if there is an answer. The kernel puts it into the ring when it is asked to,
    /// and says in memory that it could be.
    #[inline]
    fn has_answer(&mut self) -> Result<bool, DriveError> {
        if self.ring.submission().taskrun() {
            let submitter = self.ring.submitter();
            // SAFETY: nothing is handed over, and there is no argument.
            self.check(unsafe { submitter.enter::<libc::sigset_t>(0, 0, GET_EVENTS, None) })?;
        }
        Ok(!self.ring.completion().is_empty())
    }

    /// Hands over what is queued, and sleeps until there is an answer or the next request is
    /// nearly due.
    fn sleep(&self, now: Nanoseconds, next_due: Option<Nanoseconds>) -> Result<(), DriveError> {
        let until = next_due.unwrap_or(now + Watch::PAUSE * 2);
        let asleep = Clock::sleepable(now, until);
        let timeout = Timespec::new()
            .sec(asleep.nanos() / 1_000_000_000)
            .nsec((asleep.nanos() % 1_000_000_000) as u32);
        let arguments = SubmitArgs::new().timespec(&timeout);
        self.check(self.ring.submitter().submit_with_args(1, &arguments))
    }

    /// Notes that what is queued is handed over at `now`.
    fn note_sent(&mut self, now: Nanoseconds) {
        for slot in self.fresh.drain(..) {
            if let Some((_, sent)) = &mut self.slots[slot as usize] {
                *sent = now;
            }
        }
    }

    /// Fails where a call that hands over has failed for good. What it did not take stays queued
    /// for the next one.
    fn check(&self, handed_over: io::Result<usize>) -> Result<(), DriveError> {
        match handed_over {
            Err(error) if !is_passing(&error) => {
                Err(io_error(format!("io_uring on {}", self.file.shown.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Takes in the answers that have come. Returns the first failure among them.
    fn reap(&mut self, course: &mut Course, now: Nanoseconds) -> Result<(), DriveError> {
        let mut outcome = Ok(());
        let payload = self.payload.as_mut().expect("the ring is not dropped yet");
        for answer in self.ring.completion() {
            // First of all, or a panic below would leave `drop` waiting for this one.
            self.in_flight -= 1;
            let slot = answer.user_data() as u32;
            let (request, sent) =
                self.slots[slot as usize].take().expect("an answer belongs to what is in flight");
            self.free.push(slot);
            payload.give_back(self.carried[slot as usize]);
            let length = self.block_size.bytes() as usize;
            let done = match answer.result() {
                code @ ..0 => Err(io::Error::from_raw_os_error(-code)),
                done => Ok(done as usize),
            };
            match done {
                Ok(done) if done == length => course.answered(&request, sent, now),
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
    /// Waits for what is in flight, because the drive still writes to its buffers. After a phase
    /// there is nothing; after a panic or a failure of the ring itself there may be.
    ///
    /// Then gives up the file. The kernel takes a ring apart after the call that closes it, and
    /// would hold the file, with all its space, a while longer than this process does.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            match self.ring.submitter().submit_and_wait(1) {
                Err(error) if !is_passing(&error) => {
                    // It cannot be known when the kernel lets go of them, so they stay for good.
                    std::mem::forget(self.payload.take());
                    return;
                }
                _ => self.in_flight -= self.ring.completion().count() as u32,
            }
        }
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Returns what the kernel is asked for. A registered buffer has the index 0: all are one piece.
fn entry(request: &Request, buffer: &mut [u8], registered: bool) -> squeue::Entry {
    let (start, length) = (buffer.as_mut_ptr(), buffer.len() as u32);
    let offset = request.offset.bytes();
    let file = Fixed(0);
    match (request.read, registered) {
        (true, true) => opcode::ReadFixed::new(file, start, length, 0).offset(offset).build(),
        (true, false) => opcode::Read::new(file, start, length).offset(offset).build(),
        (false, true) => opcode::WriteFixed::new(file, start, length, 0).offset(offset).build(),
        (false, false) => opcode::Write::new(file, start, length).offset(offset).build(),
    }
}

/// Returns true if a call that hands over and waits ended for a reason that passes: the time was
/// up, a signal came, or the kernel first wants its answers taken in.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::TIME, Errno::INTR, Errno::AGAIN, Errno::BUSY];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
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
        let (mut course, clock) = (Course::new(&phase, 0), Clock::start());
        ring.queue_due(&mut course, &clock, clock.now()).unwrap();
        assert_eq!(ring.in_flight, phase.depth);
        assert!(ring.fresh.len() <= HANDED_OVER, "{} wait to go together", ring.fresh.len());
        let sent = |slot: &Option<(Request, Nanoseconds)>| slot.unwrap().1;
        let (first, later) = (sent(&ring.slots[0]), sent(&ring.slots[HANDED_OVER]));
        assert!(Nanoseconds::ZERO < first && first < later, "each group has a time of its own");
        ring.run(&mut course, &mut Watch::new(&mut Unobserved), &clock).unwrap();
        drop(ring);
        assert_eq!(course.sequence(), 256);
    }
}
