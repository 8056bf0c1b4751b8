//! Which engine sends requests, and why not another one.

use std::io;

use ssdlab_model::units::{Instant, Nanoseconds};

use super::course::{Clock, Course, Watch};
use super::handle::Access;
use super::medium::Medium;
use super::payload::Payload;
use super::threads::Senders;
use super::{RealDrive, RealOptions, synchronous, threads};
#[cfg(target_os = "linux")]
use super::{aio, uring};
use crate::data::BlockData;
use crate::error::DriveError;
use crate::phase::{Mix, Phase};
use crate::{Drive, Observer};

impl RealDrive {
    /// What sends requests, in words.
    pub(super) fn engines(&self) -> String {
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

    /// Whether a request that is alone goes through the engine for many as well, which can look
    /// for its answer. Through the page cache, and to a drive that works within the call, nothing
    /// is waited for. A write has to note the file's time now and then, and io_uring would hand it
    /// to a thread for that, which takes its time to run on a busy machine.
    pub(super) fn looks_for_one(&self, mix: Mix) -> bool {
        let is_direct = matches!(self.access, Access::Direct { .. });
        mix == Mix::READ && is_direct && self.no_uring.is_none() && !self.without_workers
    }

    /// Runs the course with the engine for its depth; returns when it began and how long it
    /// took. Setting an engine up and taking it apart is not part of that.
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
        if phase.depth == 1 && !self.looks_for_one(phase.mix) {
            let mut payload = Payload::new(&data, phase, self.sequence)?;
            let mut transfer = file;
            started = self.now();
            let clock = Clock::start();
            synchronous::run(course, &mut watch, &clock, &mut payload, &mut transfer)?;
            elapsed = end(&clock)?;
        } else if let Some(why) = &self.no_uring {
            caveat = Some(threads_caveat(why, phase.depth));
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
                if self.without_workers {
                    let mut queue = aio::Queue::new(file, phase.depth, payload)?;
                    started = self.now();
                    let clock = Clock::start();
                    let senders = Senders::one_a_processor(phase.depth);
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

/// Whether a device that is reached past the page cache makes io_uring hand each request to a
/// thread.
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

pub(super) fn why_no_uring(options: &RealOptions) -> Option<String> {
    if !options.io_uring {
        return Some("io_uring is switched off".to_owned());
    }
    #[cfg(target_os = "linux")]
    let available = uring::available();
    #[cfg(not(target_os = "linux"))]
    let available: io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    let error: io::Error = available.err()?;
    Some(format!("io_uring is not available ({error})"))
}
