//! Choice of the I/O engine for a phase, and the reason for it.

use std::io;

use ssdlab_units::{Instant, Nanoseconds};

use super::course::{Clock, Course, Watch};
use super::handle::Access;
use super::medium::Medium;
use super::payload::Payload;
use super::threads::Senders;
use super::{RealDrive, synchronous, threads};
use ssdlab_drive::phase::{Mix, Phase};
use ssdlab_drive::{Drive, Observer};
use ssdlab_error::{DriveError, ErrorKind};

#[cfg(target_os = "linux")]
use super::{aio, uring};
use crate::data::BlockData;

/// I/O engine, named as in fio where fio has the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The cheapest one: positioned I/O or io_uring at depth 1, above it io_uring, Linux AIO or threads.
    #[default]
    Auto,
    /// io_uring at every depth.
    IoUring,
    /// Linux AIO at every depth, from one thread.
    LinuxAio,
    /// Positioned reads and writes, one at a time whatever the depth.
    Synchronous,
    /// Positioned I/O from a thread for each request in flight.
    Threads,
}

/// Sender of the requests of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    One,
    Threads,
    LinuxAio,
    IoUring,
}

impl RealDrive {
    /// Describes the engines that send requests, in words.
    pub(super) fn engines(&self) -> String {
        match self.options.engine {
            Engine::Auto => {}
            Engine::IoUring => return "io_uring, as asked for".to_owned(),
            Engine::LinuxAio => return "Linux AIO, as asked for".to_owned(),
            Engine::Synchronous => return "positioned I/O, as asked for".to_owned(),
            Engine::Threads => return "threads, as asked for".to_owned(),
        }
        let above = match (&self.no_uring, self.without_workers) {
            (None, false) => "io_uring, polled where that pays",
            (None, true) => "Linux AIO (requests to it may wait, so io_uring would need threads)",
            (Some(_), _) => "threads",
        };
        match self.looks_for_one(Mix::READ) {
            true => format!("positioned writes at depth 1, else {above}"),
            false => format!("positioned I/O at depth 1, above it {above}"),
        }
    }

    /// Returns the engine for a phase.
    ///
    /// # Errors
    /// Returns an error if the engine that the user asked for is not available.
    fn sender(&self, phase: &Phase) -> Result<Sender, DriveError> {
        Ok(match self.options.engine {
            Engine::Auto if phase.depth == 1 && !self.looks_for_one(phase.mix) => Sender::One,
            Engine::Auto if self.no_uring.is_some() => Sender::Threads,
            Engine::Auto if self.without_workers => Sender::LinuxAio,
            Engine::Auto => Sender::IoUring,
            Engine::IoUring => match &self.no_uring {
                None => Sender::IoUring,
                Some(why) => {
                    let what = format!("{why}; choose another engine, such as --engine threads");
                    return Err(DriveError::new(ErrorKind::Unsupported, what));
                }
            },
            Engine::LinuxAio if cfg!(target_os = "linux") => Sender::LinuxAio,
            Engine::LinuxAio => {
                let what =
                    "there is no Linux AIO here; choose another engine, such as --engine threads";
                return Err(DriveError::new(ErrorKind::Unsupported, what));
            }
            Engine::Synchronous => Sender::One,
            Engine::Threads if phase.depth == 1 => Sender::One,
            Engine::Threads => Sender::Threads,
        })
    }

    /// Returns true if requests at depth 1 go through io_uring as well, which can busy-poll for their
    /// completion. False for the page cache and for drives that execute requests within the call: there
    /// is nothing to wait for. False for writes as well: a write sometimes has to update the time of the
    /// file, for which io_uring would hand the write to a worker thread, which runs late on a busy
    /// machine.
    pub(super) fn looks_for_one(&self, mix: Mix) -> bool {
        let is_direct = matches!(self.access, Access::Direct { .. });
        mix == Mix::READ && is_direct && self.no_uring.is_none() && !self.without_workers
    }

    /// Runs the phase with the engine for its depth. Returns the moment at which it began and its
    /// duration, without setting up and tearing down the engine.
    pub(super) fn run_course(
        &mut self,
        course: &mut Course,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<(Instant, Nanoseconds), DriveError> {
        let mut caveat = None;
        let file = self.handle()?;
        let data = BlockData::new(phase.seed);
        let mut watch = Watch::new(observer);
        let end = |clock: &Clock| {
            if phase.flush_at_end {
                file.sync_data()?;
            }
            Ok(clock.now())
        };
        let started;
        let elapsed;
        let sender = self.sender(phase)?;
        if sender == Sender::One {
            if phase.depth > 1 {
                caveat = Some(ONE_AT_A_TIME.to_owned());
            }
            let mut payload = Payload::new(&data, phase, self.sequence)?;
            let mut transfer = file;
            started = self.now();
            let clock = Clock::start();
            synchronous::run(course, &mut watch, &clock, &mut payload, &mut transfer)?;
            elapsed = end(&clock)?;
        } else if sender == Sender::Threads {
            caveat = match (&self.no_uring, self.options.engine) {
                (Some(why), Engine::Auto) => Some(threads_caveat(why, phase.depth)),
                _ => (phase.depth > threads::MOST_THREADS)
                    .then(|| threads_caveat("as asked for", phase.depth)),
            };
            let Senders { threads, together } = Senders::one_a_request(phase.depth);
            let payloads = Payload::for_threads(&data, phase, self.sequence, threads)?;
            started = self.now();
            let clock = Clock::start();
            threads::run(course, &mut watch, &clock, file, payloads, together)?;
            elapsed = end(&clock)?;
        } else {
            #[cfg(target_os = "linux")]
            {
                let payload = Payload::new(&data, phase, self.sequence)?;
                if sender == Sender::LinuxAio {
                    let mut queue = aio::Queue::new(file, phase.depth, payload)?;
                    started = self.now();
                    let clock = Clock::start();
                    // If the user asked for this engine, it keeps its one thread, as in fio.
                    let senders = (self.options.engine == Engine::Auto)
                        .then(|| Senders::one_a_processor(phase.depth))
                        .flatten();
                    let outcome = queue.run(course, &mut watch, &clock, senders.is_some())?;
                    if let (aio::Outcome::WantsSenders, Some(senders)) = (outcome, senders) {
                        drop(queue);
                        caveat = Some(in_call_caveat(senders.threads));
                        let Senders { threads, together } = senders;
                        let next = course.sequence();
                        let payloads = Payload::for_threads(&data, phase, next, threads)?;
                        threads::run(course, &mut watch, &clock, file, payloads, together)?;
                    }
                    elapsed = end(&clock)?;
                } else {
                    let mut ring =
                        uring::Ring::new(file, phase.depth, payload, self.awake.is_kept())?;
                    if !ring.is_registered() {
                        caveat = Some(UNREGISTERED.to_owned());
                    }
                    started = self.now();
                    let clock = Clock::start();
                    ring.run(course, &mut watch, &clock)?;
                    elapsed = end(&clock)?;
                }
            }
            #[cfg(not(target_os = "linux"))]
            unreachable!("there is always a reason for the lack of io_uring here");
        }
        if let Some(caveat) = caveat {
            self.add_caveat(caveat);
        }
        Ok((started, elapsed))
    }
}

const ONE_AT_A_TIME: &str =
    "positioned I/O sends one request at a time, whatever depth is asked for";

#[cfg(target_os = "linux")]
const UNREGISTERED: &str = "the limit on locked memory is too low to register the buffers with io_uring: requests cost \
     a little more processor time";

fn threads_caveat(why: &str, depth: u32) -> String {
    let most = threads::MOST_THREADS;
    let capped = if depth > most {
        format!(", so that a depth above {most} counts as {most}")
    } else {
        String::new()
    };
    format!("{why}: above depth 1 requests are sent by at most {most} threads{capped}")
}

#[cfg(target_os = "linux")]
fn in_call_caveat(threads: u32) -> String {
    format!(
        "the drive carries requests out within the call that sends them, so that no more of them \
         are under way than there are processors to send them: {threads} at depths above that"
    )
}

/// Returns true if direct I/O to the device makes io_uring hand each request to a worker thread.
#[cfg(target_os = "linux")]
pub(super) fn is_without_workers(medium: &Medium, access: Access) -> bool {
    match (access, medium.handle()) {
        (Access::Direct { alignment }, Ok(handle)) => aio::is_better_for(handle, alignment),
        _ => false,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_without_workers(_: &Medium, _: Access) -> bool {
    false
}

/// Returns the reason why io_uring is not available, or `None`.
pub(super) fn why_no_uring() -> Option<String> {
    #[cfg(target_os = "linux")]
    let available = uring::available();
    #[cfg(not(target_os = "linux"))]
    let available: io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    let error: io::Error = available.err()?;
    Some(format!("io_uring is not available ({error})"))
}

#[cfg(test)]
mod tests {
    use ssdlab_drive::phase::{Amount, Pattern, Region};
    use ssdlab_units::{ByteLength, KIB, MIB};

    use super::*;
    use crate::RealOptions;

    /// Returns the engine for 4 KiB writes at a depth.
    fn sender(drive: &RealDrive, depth: u32) -> Sender {
        let phase = Phase {
            name: "test".into(),
            pattern: Pattern::Random,
            block_size: KIB * 4,
            depth,
            mix: Mix::WRITE,
            region: Region::first(MIB),
            amount: Amount::Bytes(MIB),
            rate: None,
            seed: 1,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        };
        drive.sender(&phase).unwrap()
    }

    #[test]
    fn the_engine_that_was_asked_for_sends_at_every_depth() {
        let directory = tempfile::tempdir_in(".").unwrap();
        for (engine, expected) in [
            (Engine::Synchronous, [Sender::One, Sender::One]),
            (Engine::Threads, [Sender::One, Sender::Threads]),
            (Engine::LinuxAio, [Sender::LinuxAio; 2]),
            (Engine::IoUring, [Sender::IoUring; 2]),
        ] {
            let options = RealOptions {
                engine,
                require_direct: false,
                reserve: Some(ByteLength::ZERO),
                ..RealOptions::default()
            };
            let drive = RealDrive::open(directory.path(), options).unwrap();
            if engine == Engine::IoUring && drive.no_uring.is_some() {
                continue;
            }
            assert_eq!([1, 16].map(|depth| sender(&drive, depth)), expected, "{engine:?}");
            assert!(drive.engines().ends_with("as asked for"), "{}", drive.engines());
        }
    }
}
