//! A queue of a ublk device: a thread that fetches requests, carries them out and commits their results.
//!
//! Only the thread that fetched a request may complete it. So the timer hands results that are due back to that
//! thread, and wakes it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abi::{self, Descriptor};
use crate::engine::{Answer, Engine, Errno, Submitted, Time};
use crate::timer::Timer;

/// Maximum number of requests in flight in a queue.
pub(super) const DEPTH: u16 = 64;

/// Maximum bytes in a request.
pub(super) const BYTES_MAX: u32 = 1 << 20;

/// Bytes in a sector of the driver.
pub(super) const SECTOR: u64 = 512;

/// User data of the wake-up in the ring, distinct from all tags.
const WAKE: u64 = u64::MAX;

/// Results of requests whose deadline has come.
struct Done {
    results: Mutex<Vec<(u16, i32)>>,
    wake: OwnedFd,
}

impl Done {
    fn add(&self, tag: u16, result: i32) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push((tag, result));
        // The write fails only if the eventfd is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A queue of a device.
pub(super) struct Queue {
    number: u16,
    file: File,
    descriptors: NonNull<Descriptor>,
    mapped: usize,
    ring: IoUring,
    done: Arc<Done>,
    engine: Arc<Engine>,
    timer: Arc<Timer>,
    jobs: Sender<Job>,
    buffer: Vec<u8>,
    /// Number of requests that are not fetched again, because the device is being stopped.
    stopped_tags: u16,
}

// SAFETY: the mapping belongs to the queue, and is only read.
unsafe impl Send for Queue {}

impl Queue {
    /// Opens queue `number` of the device `file`.
    pub(super) fn open(
        file: File,
        number: u16,
        engine: Arc<Engine>,
        timer: Arc<Timer>,
    ) -> io::Result<Queue> {
        // SAFETY: the call only reads.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes_of = |depth: usize| (depth * size_of::<Descriptor>()).next_multiple_of(page);
        let mapped = bytes_of(usize::from(DEPTH));
        // The driver reserves space for the maximum queue depth.
        let from = u64::from(number) * bytes_of(4096) as u64;
        // SAFETY: a new mapping, at a place that the system chooses.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), mapped, ProtFlags::READ, flags, &file, from)?
        };
        let descriptors = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let done = Done { results: Mutex::default(), wake: eventfd(0, EventfdFlags::NONBLOCK)? };
        let queue = Queue {
            number,
            file,
            descriptors,
            mapped,
            ring: IoUring::new(2 * u32::from(DEPTH))?,
            done: Arc::new(done),
            engine,
            timer,
            jobs: start_worker()?,
            buffer: vec![0; BYTES_MAX as usize],
            stopped_tags: 0,
        };
        Ok(queue)
    }

    /// Fetches requests for all tags; the device can be started when all its queues have. Must be called by the
    /// thread that serves them.
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        for tag in 0..DEPTH {
            self.queue_command(abi::FETCH, tag, 0)?;
        }
        self.wait_for_wake()?;
        self.ring.submit().map(drop)
    }

    /// Serves requests until the device is stopped.
    pub(super) fn serve(mut self) -> io::Result<()> {
        while self.stopped_tags < DEPTH {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let ended: Vec<(u64, i32)> =
                self.ring.completion().map(|it| (it.user_data(), it.result())).collect();
            for (what, result) in ended {
                match (what, result) {
                    (WAKE, _) => self.commit_results()?,
                    (tag, 0) => self.begin(tag as u16)?,
                    // The request was cancelled, because the device is being stopped.
                    _ => self.stopped_tags += 1,
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the files stay open as long as the ring, and commands contain their data.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn queue_command(&mut self, command: u32, tag: u16, result: i32) -> io::Result<()> {
        let file = types::Fd(self.file.as_raw_fd());
        let fields = abi::io_command(self.number, tag, result);
        let entry = opcode::UringCmd16::new(file, command).cmd(fields).build();
        self.push(&entry.user_data(u64::from(tag)))
    }

    fn wait_for_wake(&mut self) -> io::Result<()> {
        let wake = types::Fd(self.done.wake.as_raw_fd());
        self.push(&opcode::PollAdd::new(wake, libc::POLLIN as u32).build().user_data(WAKE))
    }

    fn commit_results(&mut self) -> io::Result<()> {
        // The count in the eventfd does not matter.
        let _ = rustix::io::read(&self.done.wake, &mut [0; 8]);
        let results =
            std::mem::take(&mut *self.done.results.lock().unwrap_or_else(PoisonError::into_inner));
        for (tag, result) in results {
            self.queue_command(abi::COMMIT_AND_FETCH, tag, result)?;
        }
        self.wait_for_wake()
    }

    /// Carries out request `tag`, and completes it or leaves that to the drive and the timer.
    fn begin(&mut self, tag: u16) -> io::Result<()> {
        // SAFETY: there are as many descriptors as the queue is deep; the driver wrote this one before it
        // passed the request on.
        let request = unsafe { self.descriptors.add(usize::from(tag)).read_volatile() };
        let bytes = u64::from(request.sectors) * SECTOR;
        match self.carry_out(tag, request, bytes) {
            Err(error) => self.queue_command(abi::COMMIT_AND_FETCH, tag, -error.raw_os_error()),
            Ok(None) => Ok(()),
            Ok(Some(Submitted::Answered(answer))) if self.engine.deadline(answer).is_none() => {
                self.queue_command(abi::COMMIT_AND_FETCH, tag, bytes as i32)
            }
            Ok(Some(submitted)) => {
                let (done, timer) = (self.done.clone(), self.timer.clone());
                let completion = move |outcome: Result<Instant, Errno>| match outcome {
                    Ok(deadline) => {
                        timer.at(Some(deadline), move || done.add(tag, bytes as i32));
                    }
                    Err(error) => done.add(tag, -error.raw_os_error()),
                };
                self.engine.when_answered(submitted, Box::new(completion));
                Ok(())
            }
        }
    }

    /// Carries out a request; returns `None` if the worker thread does that and completes it.
    fn carry_out(
        &mut self,
        tag: u16,
        request: Descriptor,
        bytes: u64,
    ) -> Result<Option<Submitted>, Errno> {
        let data_at = abi::data_at(self.number, tag);
        // A flush has no offset; the engine refuses one behind the end.
        let offset = request.first.saturating_mul(SECTOR);
        let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let (host_arrival, what) = (Instant::now(), request.what);
        if what & 0xff == abi::READ {
            let data = self.buffer.get_mut(..bytes as usize).ok_or(Errno::INVAL)?;
            let submitted = self.engine.submit_read(host_arrival, offset, data)?;
            self.file.write_all_at(data, data_at).map_err(errno)?;
            return Ok(Some(submitted));
        }
        let data = match what & 0xff {
            abi::WRITE => {
                let data = self.buffer.get_mut(..bytes as usize).ok_or(Errno::INVAL)?;
                self.file.read_exact_at(data, data_at).map_err(errno)?;
                &data[..]
            }
            _ => &[],
        };
        let (fua, is_real_time) = (what & abi::FUA != 0, self.engine.time() == Time::Real);
        match what & 0xff {
            abi::WRITE if is_real_time && !self.engine.makes_durable(fua) => {
                return self.engine.submit_write(host_arrival, offset, data.into(), fua).map(Some);
            }
            abi::DISCARD => return self.engine.submit_trim(host_arrival, offset, bytes).map(Some),
            _ => {}
        }
        if !is_real_time {
            let answer = execute(&self.engine, host_arrival, what, offset, data, bytes)?;
            return Ok(Some(Submitted::Answered(answer)));
        }
        let (data, engine): (Box<[u8]>, _) = (data.into(), self.engine.clone());
        let (done, timer) = (self.done.clone(), self.timer.clone());
        let job = move || match execute(&engine, host_arrival, what, offset, &data, bytes) {
            Ok(answer) => {
                timer.at(engine.deadline(answer), move || done.add(tag, bytes as i32));
            }
            Err(error) => done.add(tag, -error.raw_os_error()),
        };
        self.jobs.send(Box::new(job)).map_err(|_| Errno::IO)?;
        Ok(None)
    }
}

/// A job for the worker thread.
type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread for requests that wait for the disk, so that others go on meanwhile.
fn start_worker() -> io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("ublk flushes".to_owned());
    thread.spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(sender)
}

/// Carries out a request and waits for it.
fn execute(
    engine: &Engine,
    host_arrival: Instant,
    what: u32,
    offset: u64,
    data: &[u8],
    bytes: u64,
) -> Result<Answer, Errno> {
    match what & 0xff {
        abi::WRITE => engine.write(host_arrival, offset, data, what & abi::FUA != 0),
        abi::FLUSH => engine.flush(host_arrival),
        abi::WRITE_ZEROES => engine.zero(host_arrival, offset, bytes, what & abi::NO_UNMAP == 0),
        _ => Err(Errno::OPNOTSUPP),
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to the queue. A mapping that stays costs nothing.
        let _ = unsafe { munmap(self.descriptors.as_ptr().cast(), self.mapped) };
    }
}
