//! Interleavings of threads: all of them, up to a number of preemptions.
//!
//! A thread that waits is always switched from. A thread that could go on is preempted, up to a limit in one
//! execution; nearly all mistakes show with two preemptions (Musuvathi and Qadeer: Iterative context bounding
//! for systematic testing of multithreaded programs, PLDI 2007).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, MaxSteps, Runner, thread};
use ssdlab_attach::engine::{Engine, Time};

use crate::explore::{Outcome, Plan, explore};
use crate::history::{History, Step, UNIT, far_ahead};
use crate::memory_storage::{Event, MemoryStorage};
use crate::oracle::{Change, Mark, fill};
use crate::pages::SECTOR;
use crate::setup::{Setup, open};

/// Scheduler that goes through all interleavings, depth first.
#[derive(Debug)]
struct BoundedScheduler {
    switches_max: usize,
    /// Index of the chosen thread at each point of the execution, and the number of threads that could run.
    choices: Vec<(usize, usize)>,
    point: usize,
    switches: usize,
    executions: usize,
}

impl BoundedScheduler {
    fn new(switches_max: usize) -> BoundedScheduler {
        BoundedScheduler { switches_max, choices: Vec::new(), point: 0, switches: 0, executions: 0 }
    }
}

impl Scheduler for BoundedScheduler {
    fn new_execution(&mut self) -> Option<Schedule> {
        (self.point, self.switches) = (0, 0);
        self.executions += 1;
        if self.executions > 1 {
            while self.choices.pop_if(|(chosen, count)| *chosen + 1 == *count).is_some() {}
            self.choices.last_mut()?.0 += 1;
        }
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let mut tasks: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        if is_yielding && tasks.len() > 1 {
            // A yielding thread waits for others, which take turns.
            let next = tasks.iter().position(|&task| Some(task) > current).unwrap_or(0);
            tasks = vec![tasks[next]];
        }
        let goes_on = tasks.iter().position(|&task| Some(task) == current);
        if let Some(goes_on) = goes_on {
            tasks.swap(0, goes_on);
            if self.switches == self.switches_max {
                tasks.truncate(1);
            }
        }
        if self.point == self.choices.len() {
            self.choices.push((0, tasks.len()));
        }
        let (chosen, count) = self.choices[self.point];
        assert_eq!(count, tasks.len(), "an execution is repeatable");
        self.point += 1;
        self.switches += usize::from(goes_on.is_some() && chosen > 0);
        Some(tasks[chosen])
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// Concurrent requests of two or more hosts to one drive.
#[derive(Clone, Debug)]
pub struct Race {
    /// The kind of drive.
    pub setup: Setup,
    /// Steps of one host before the others begin.
    pub before: Vec<Step>,
    /// Steps of each host: writes, trims and flushes of sectors that no other host touches.
    pub hosts: Vec<Vec<Step>>,
    /// True if a helper thread carries out flash operations on the image.
    pub has_helper: bool,
}

/// Outcome of trying interleavings.
#[derive(Clone, Debug, Default)]
pub struct InterleavingReport {
    /// Number of executions.
    pub executions: u64,
    /// Number of different orders of events of the image.
    pub orders: u64,
    /// Number of images that were opened.
    pub images: u64,
    /// Description of the first mistake; `None` if there is none.
    pub finding: Option<String>,
}

impl Race {
    /// Returns hosts that write, trim and flush random sectors, each in its own part of a drive that is full.
    ///
    /// # Panics
    /// Panics if no such drive is possible.
    pub fn random(setup: Setup, hosts: u32, count: usize, seed: u64) -> Race {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let capacity = setup.profile().and_then(|it| Ok(it.configuration()?.geometry.capacity()));
        let units = (capacity.expect("a drive").bytes() / u64::from(UNIT) / SECTOR as u64) as u32;
        let part = units / hosts;
        let mut step = |host: u32| {
            let length = [1, 1, 2, 5, part / 2][generator.random_range(0..5)];
            let first = (host * part + generator.random_range(0..=part - length)) * UNIT;
            match generator.random_range(0..10) {
                0..5 => Step::Write(first, length * UNIT, false),
                5 => Step::Write(first, length * UNIT, true),
                6 => Step::Trim(first, length * UNIT),
                _ => Step::Flush,
            }
        };
        let hosts = (0..hosts).map(|host| (0..count).map(|_| step(host)).collect()).collect();
        let before = vec![Step::Write(0, units * UNIT, false), Step::Flush];
        Race { setup, before, hosts, has_helper: setup.time == Time::Real }
    }

    /// Tries all interleavings with at most `switches` preemptions, and explores by `plan` the crashes of each
    /// resulting order.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub fn try_all(&self, switches: usize, plan: Plan, most: u64) -> InterleavingReport {
        self.try_with(BoundedScheduler::new(switches), plan, most)
    }

    /// Tries `executions` random interleavings.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub fn try_some(
        &self,
        executions: usize,
        seed: u64,
        plan: Plan,
        most: u64,
    ) -> InterleavingReport {
        self.try_with(RandomScheduler::new_from_seed(seed, executions), plan, most)
    }

    fn try_with(
        &self,
        scheduler: impl Scheduler + 'static,
        plan: Plan,
        most: u64,
    ) -> InterleavingReport {
        let tried = Arc::new(Mutex::new((InterleavingReport::default(), HashSet::new())));
        let (race, outcome) = (Arc::new((self.clone(), self.history_before())), tried.clone());
        Runner::new(scheduler, config()).run(move || {
            let mut guard = outcome.lock().expect("nobody has panicked");
            guard.0.executions += 1;
            if guard.0.finding.is_some() {
                return;
            }
            drop(guard);
            let history = race.0.run(&race.1);
            let mut guard = outcome.lock().expect("nobody has panicked");
            if !guard.1.insert(order(&history.log)) {
                return;
            }
            guard.0.orders += 1;
            let Outcome { images, finding } = explore(&history, &plan, 1, most, None);
            guard.0.images += images;
            let execution = guard.0.executions;
            guard.0.finding = finding.map(|it| format!("execution {execution}: {}", it.what));
        });
        let tried = tried.lock().expect("nobody has panicked");
        tried.0.clone()
    }

    /// Returns the history before the hosts begin.
    fn history_before(&self) -> History {
        let (race, lived) = (self.clone(), Arc::new(Mutex::new(None)));
        let outcome = lived.clone();
        Runner::new(BoundedScheduler::new(0), config()).run(move || {
            let history =
                History::record(race.setup, &race.before).expect("a life without crashes");
            *outcome.lock().expect("nobody has panicked") = Some(history);
        });
        let history = lived.lock().expect("nobody has panicked").take();
        history.expect("it was lived")
    }

    /// Runs one execution; returns its history.
    fn run(&self, before: &History) -> History {
        let storage = Arc::new(MemoryStorage::stepped(before.end.clone()));
        let now = far_ahead();
        let (engine, _) = open(storage.clone(), self.setup.time, now).expect("a drive");
        let engine = Arc::new(engine);
        let hosts: Vec<_> = self.hosts.iter().cloned().zip(1..).collect();
        let helper = self.has_helper.then(|| {
            let engine = engine.clone();
            thread::spawn(move || engine.run_helper())
        });
        let threads: Vec<_> = hosts
            .into_iter()
            .map(|(steps, host)| {
                let (engine, storage) = (engine.clone(), storage.clone());
                thread::spawn(move || run_host(&engine, &storage, &steps, host * 1000, now))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a host"));
        if let Some(helper) = helper {
            engine.close().expect("it is closed");
            helper.join().expect("a helper");
        }
        drop(engine);
        History {
            setup: self.setup,
            layout: before.layout.clone(),
            fault: None,
            begin: before.end.clone(),
            initial_oracle: before.final_oracle(),
            log: storage.take_log(),
            end: storage.pages(),
        }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    // Recovery in the model needs a deep stack, and exploring takes many steps.
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::None;
    config
}

/// Carries out the steps of one host.
fn run_host(
    engine: &Engine,
    storage: &MemoryStorage,
    steps: &[Step],
    first_change: u64,
    now: std::time::Instant,
) {
    let mut promised: Vec<(u32, Vec<Change>)> = Vec::new();
    for (&step, number) in steps.iter().zip(first_change..) {
        match step {
            Step::Write(first, count, fua) => {
                let change = Change::write(number);
                let mut data = vec![0; count as usize * SECTOR];
                fill(&mut data, first, change);
                storage.mark(Mark::Begun { sectors: first..first + count, change });
                let offset = u64::from(first) * SECTOR as u64;
                let _ = engine.write(now, offset, &data, fua).expect("a write");
                let changes = vec![change; count as usize];
                if fua {
                    storage.mark(Mark::Promised { first, changes: changes.clone().into() });
                }
                promised.push((first, changes));
            }
            Step::Trim(first, count) => {
                let change = Change::trim(number);
                storage.mark(Mark::Begun { sectors: first..first + count, change });
                let (offset, length) = (u64::from(first), u64::from(count));
                let (offset, length) = (offset * SECTOR as u64, length * SECTOR as u64);
                let _ = engine.trim(now, offset, length, true).expect("a trim");
                promised.push((first, vec![change; count as usize]));
            }
            Step::Flush => {
                let _ = engine.flush(now).expect("a flush");
                for (first, changes) in promised.drain(..) {
                    storage.mark(Mark::Promised { first, changes: changes.into() });
                }
            }
            other => panic!("hosts at the same time do not {other:?}"),
        }
    }
}

/// Returns the events of an image, reduced to what distinguishes orders.
fn order(log: &[Event]) -> Vec<(u8, u64, u64)> {
    let of = |event: &Event| match event {
        Event::Write { at, data } => (0, *at, u64::from(crc32fast::hash(data))),
        Event::Punch { at, length } => (1, *at, *length),
        Event::SyncBegun { .. } => (2, 0, 0),
        Event::SyncDone { .. } => (3, 0, 0),
        Event::Host(Mark::Begun { sectors, .. }) => (4, sectors.start.into(), 0),
        Event::Host(Mark::Promised { first, .. }) => (5, (*first).into(), 0),
        Event::Host(Mark::Found(_)) => (6, 0, 0),
        Event::Crashed(_) => (7, 0, 0),
    };
    log.iter().map(of).collect()
}
