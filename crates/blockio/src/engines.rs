//! Choice of the I/O engine for a phase, and the reason for it.

use std::io;

use ssdlab_units::{Instant, Nanoseconds};

use super::handle::Access;
use super::medium::Medium;
use super::payload::Payload;
use super::phase_runner::{Clock, PhaseRunner, ProgressReporter};
use super::threads::ThreadPlan;
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

/// Engine that runs one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseEngine {
    Synchronous,
    Threads,
    LinuxAio,
    IoUring,
}

impl RealDrive {
    /// Describes the engines that send requests, in words.
    pub(super) fn describe_engines(&self) -> String {
        match self.options.engine {
            Engine::Auto => {}
            Engine::IoUring => return "io_uring, as asked for".to_owned(),
            Engine::LinuxAio => return "Linux AIO, as asked for".to_owned(),
            Engine::Synchronous => return "positioned I/O, as asked for".to_owned(),
            Engine::Threads => return "threads, as asked for".to_owned(),
        }
        let above = match (&self.no_uring, self.prefers_aio) {
            (None, false) => "io_uring, polled where that pays",
            (None, true) => "Linux AIO (io_uring would hand requests to worker threads here)",
            (Some(_), _) => "threads",
        };
        match self.polls_at_depth_one(Mix::READ) {
            true => format!("positioned writes at depth 1, else {above}"),
            false => format!("positioned I/O at depth 1, above it {above}"),
        }
    }

    /// Returns the engine for a phase.
    ///
    /// # Errors
    /// Returns an error if the engine that the user asked for is not available.
    fn choose_engine(&self, phase: &Phase) -> Result<PhaseEngine, DriveError> {
        Ok(match self.options.engine {
            Engine::Auto if phase.depth == 1 && !self.polls_at_depth_one(phase.mix) => {
                PhaseEngine::Synchronous
            }
            Engine::Auto if self.no_uring.is_some() => PhaseEngine::Threads,
            Engine::Auto if self.prefers_aio => PhaseEngine::LinuxAio,
            Engine::Auto => PhaseEngine::IoUring,
            Engine::IoUring => match &self.no_uring {
                None => PhaseEngine::IoUring,
                Some(why) => {
                    let what = format!("{why}; choose another engine, such as --engine threads");
                    return Err(DriveError::new(ErrorKind::Unsupported, what));
                }
            },
            Engine::LinuxAio if cfg!(target_os = "linux") => PhaseEngine::LinuxAio,
            Engine::LinuxAio => {
                let what =
                    "there is no Linux AIO here; choose another engine, such as --engine threads";
                return Err(DriveError::new(ErrorKind::Unsupported, what));
            }
            Engine::Synchronous => PhaseEngine::Synchronous,
            Engine::Threads if phase.depth == 1 => PhaseEngine::Synchronous,
            Engine::Threads => PhaseEngine::Threads,
        })
    }

    /// Returns true if requests at depth 1 go through io_uring as well, which can busy-poll for their
    /// completion. False for the page cache and for drives that execute requests within the call: there
    /// is nothing to wait for. False for writes as well: a write sometimes has to update the time of the
    /// file, for which io_uring would hand the write to a worker thread, which runs late on a busy
    /// machine.
    pub(super) fn polls_at_depth_one(&self, mix: Mix) -> bool {
        let is_direct = matches!(self.access, Access::Direct { .. });
        mix == Mix::READ && is_direct && self.no_uring.is_none() && !self.prefers_aio
    }

    /// Runs the phase with the engine for its depth. Returns the moment at which it began and its
    /// duration, without setting up and tearing down the engine.
    pub(super) fn run_with_engine(
        &mut self,
        runner: &mut PhaseRunner,
        phase: &Phase,
        observer: &mut dyn Observer,
    ) -> Result<(Instant, Nanoseconds), DriveError> {
        let mut caveat = None;
        let file = self.handle()?;
        let data = BlockData::new(phase.seed);
        let mut reporter = ProgressReporter::new(observer);
        let end = |clock: &Clock| {
            if phase.flush_at_end {
                file.sync_data()?;
            }
            Ok(clock.now())
        };
        let started;
        let elapsed;
        let engine = self.choose_engine(phase)?;
        if engine == PhaseEngine::Synchronous {
            if phase.depth > 1 {
                caveat = Some(DEPTH_IS_ONE.to_owned());
            }
            let mut payload = Payload::new(&data, phase, self.sequence)?;
            let mut transfer = file;
            started = self.now();
            let clock = Clock::start();
            synchronous::run(runner, &mut reporter, &clock, &mut payload, &mut transfer)?;
            elapsed = end(&clock)?;
        } else if engine == PhaseEngine::Threads {
            caveat = match (&self.no_uring, self.options.engine) {
                (Some(why), Engine::Auto) => Some(threads_caveat(why, phase.depth)),
                _ => (phase.depth > threads::THREADS_MAX)
                    .then(|| threads_caveat("as asked for", phase.depth)),
            };
            let ThreadPlan { threads, batch } = ThreadPlan::per_request(phase.depth);
            let payloads = Payload::for_threads(&data, phase, self.sequence, threads)?;
            started = self.now();
            let clock = Clock::start();
            threads::run(runner, &mut reporter, &clock, file, payloads, batch)?;
            elapsed = end(&clock)?;
        } else {
            #[cfg(target_os = "linux")]
            {
                let payload = Payload::new(&data, phase, self.sequence)?;
                if engine == PhaseEngine::LinuxAio {
                    let mut queue = aio::Queue::new(file, phase.depth, payload)?;
                    started = self.now();
                    let clock = Clock::start();
                    // If the user asked for this engine, it keeps its one thread, as in fio.
                    let plan = (self.options.engine == Engine::Auto)
                        .then(|| ThreadPlan::per_processor(phase.depth))
                        .flatten();
                    let outcome = queue.run(runner, &mut reporter, &clock, plan.is_some())?;
                    if let (aio::Outcome::WantsThreads, Some(plan)) = (outcome, plan) {
                        drop(queue);
                        caveat = Some(inline_completion_caveat(plan.threads));
                        let ThreadPlan { threads, batch } = plan;
                        let next = runner.sequence();
                        let payloads = Payload::for_threads(&data, phase, next, threads)?;
                        threads::run(runner, &mut reporter, &clock, file, payloads, batch)?;
                    }
                    elapsed = end(&clock)?;
                } else {
                    let mut ring =
                        uring::Ring::new(file, phase.depth, payload, self.idle_hold.is_held())?;
                    if !ring.is_registered() {
                        caveat = Some(BUFFERS_NOT_REGISTERED.to_owned());
                    }
                    started = self.now();
                    let clock = Clock::start();
                    ring.run(runner, &mut reporter, &clock)?;
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

const DEPTH_IS_ONE: &str =
    "positioned I/O sends one request at a time, whatever depth is asked for";

#[cfg(target_os = "linux")]
const BUFFERS_NOT_REGISTERED: &str = "the limit on locked memory is too low to register the buffers with io_uring: requests cost \
     a little more processor time";

fn threads_caveat(why: &str, depth: u32) -> String {
    let most = threads::THREADS_MAX;
    let capped = if depth > most {
        format!(", so that a depth above {most} counts as {most}")
    } else {
        String::new()
    };
    format!("{why}: above depth 1 requests are sent by at most {most} threads{capped}")
}

#[cfg(target_os = "linux")]
fn inline_completion_caveat(threads: u32) -> String {
    format!(
        "the drive executes each request within the call that submits it, so that no more are in \
         flight than there are processors: {threads} at depths above that"
    )
}

/// Returns true if direct I/O to the device makes io_uring hand each request to a worker thread.
#[cfg(target_os = "linux")]
pub(super) fn prefers_aio(medium: &Medium, access: Access) -> bool {
    match (access, medium.handle()) {
        (Access::Direct { alignment }, Ok(handle)) => aio::needs_uring_workers(handle, alignment),
        _ => false,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn prefers_aio(_: &Medium, _: Access) -> bool {
    false
}

/// Returns the reason why io_uring is not available, or `None`.
pub(super) fn uring_unavailable_reason() -> Option<String> {
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
    fn choose_engine(drive: &RealDrive, depth: u32) -> PhaseEngine {
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
        drive.choose_engine(&phase).unwrap()
    }

    #[test]
    fn the_engine_that_was_asked_for_sends_at_every_depth() {
        let directory = tempfile::tempdir_in(".").unwrap();
        for (engine, expected) in [
            (Engine::Synchronous, [PhaseEngine::Synchronous, PhaseEngine::Synchronous]),
            (Engine::Threads, [PhaseEngine::Synchronous, PhaseEngine::Threads]),
            (Engine::LinuxAio, [PhaseEngine::LinuxAio; 2]),
            (Engine::IoUring, [PhaseEngine::IoUring; 2]),
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
            assert_eq!([1, 16].map(|depth| choose_engine(&drive, depth)), expected, "{engine:?}");
            assert!(
                drive.describe_engines().ends_with("as asked for"),
                "{}",
                drive.describe_engines()
            );
        }
    }
}
