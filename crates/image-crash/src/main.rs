//! The explorers as a command, for any number of images.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};
use ssdlab_image_crash::corruption::{Case, Verdict};
use ssdlab_image_crash::explore::{Plan, explore};
use ssdlab_image_crash::faults::Fault;
use ssdlab_image_crash::history::History;
use ssdlab_image_crash::setup::{SETUPS, Setup};

/// Explores what crashes of the host, or damage, leave of the images of attached drives.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open images that a crash of the host may leave.
    Crash {
        /// Images to open.
        #[arg(long, default_value_t = 100_000)]
        images: u64,
        /// Number of the first history.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only this kind of drive.
        #[arg(long)]
        drive: Option<String>,
        /// Images of one history, at most.
        #[arg(long, default_value_t = 2000)]
        most: u64,
        /// Open only this image, of history --seed of drive --drive.
        #[arg(long, requires = "drive")]
        only: Option<u64>,
        /// Save the image of --only here if it is wrong.
        #[arg(long, requires = "only")]
        save: Option<PathBuf>,
        /// Plant this mistake before.
        #[arg(long)]
        fault: Option<Fault>,
        /// Go on after an image that is wrong.
        #[arg(long)]
        keep_going: bool,
    },
    /// Print the steps of a history.
    Steps {
        /// The kind of drive.
        #[arg(long)]
        drive: String,
        /// Number of the history.
        #[arg(long)]
        seed: u64,
    },
    /// Print what a history did to its image.
    Log {
        /// The kind of drive.
        #[arg(long)]
        drive: String,
        /// Number of the history.
        #[arg(long)]
        seed: u64,
    },
    /// Open images that were damaged.
    Flip {
        /// Damages to try.
        #[arg(long, default_value_t = 10_000)]
        flips: u64,
        /// Number of the first history.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only this kind of drive.
        #[arg(long)]
        drive: Option<String>,
        /// Damages of one image, at most.
        #[arg(long, default_value_t = 500)]
        most: u64,
        /// Try only this one, of history --seed of drive --drive.
        #[arg(long, requires = "drive")]
        only: Option<u64>,
        /// Go on after an image that is wrong.
        #[arg(long)]
        keep_going: bool,
    },
}

/// Progress of all threads.
struct Progress {
    began: Instant,
    wanted: u64,
    done: AtomicU64,
    wrong: AtomicU64,
    next: AtomicU64,
    is_over: AtomicBool,
    said: Mutex<Instant>,
}

impl Progress {
    fn new(wanted: u64, first: u64) -> Progress {
        let now = Instant::now();
        Progress {
            began: now,
            wanted,
            done: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            next: AtomicU64::new(first),
            is_over: AtomicBool::new(false),
            said: Mutex::new(now),
        }
    }

    /// Adds `done` images; prints the progress every ten seconds.
    fn add(&self, done: u64, seed: u64) {
        let all = self.done.fetch_add(done, Ordering::Relaxed) + done;
        if all >= self.wanted {
            self.is_over.store(true, Ordering::Relaxed);
        }
        let Ok(mut said) = self.said.try_lock() else { return };
        if said.elapsed() > Duration::from_secs(10) {
            *said = Instant::now();
            let wrong = self.wrong.load(Ordering::Relaxed);
            let time = self.began.elapsed().as_secs();
            eprintln!("{all} of {} images in {time} s, {wrong} wrong, seed {seed}", self.wanted);
        }
    }

    fn found(&self, message: &str, keep_going: bool) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        // A closed output must not end the run.
        let _ = writeln!(std::io::stdout(), "{message}");
        if !keep_going {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Calls `each` with numbers of histories, on all processors, until enough images were examined.
    fn run(&self, each: impl Fn(u64) -> Result<()> + Sync) -> Result<ExitCode> {
        let threads = std::thread::available_parallelism().map_or(1, |it| it.get());
        let outcome = Mutex::new(Ok(()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !self.is_over.load(Ordering::Relaxed) {
                        let seed = self.next.fetch_add(1, Ordering::Relaxed);
                        if let Err(error) = each(seed) {
                            *outcome.lock().expect("nobody has panicked") = Err(error);
                            self.is_over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        outcome.into_inner().expect("nobody has panicked")?;
        let (done, wrong) = (self.done.load(Ordering::Relaxed), self.wrong.load(Ordering::Relaxed));
        println!("{done} images in {:.0} s, {wrong} wrong", self.began.elapsed().as_secs_f64());
        Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn setups(drive: Option<&str>) -> Result<Vec<Setup>> {
    Ok(match drive {
        Some(name) => vec![Setup::named(name)?],
        None => SETUPS.to_vec(),
    })
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Crash { images, seed, drive, most, only, save, fault, keep_going } => {
            let setups = setups(drive.as_deref())?;
            let progress = Progress::new(if only.is_some() { 1 } else { images }, seed);
            progress.run(|seed| {
                for setup in &setups {
                    let name = setup.name;
                    let mut history = match History::numbered(*setup, seed) {
                        Ok(history) => history,
                        Err(error) => {
                            let message = format!("--drive {name} --seed {seed}: {error:#}");
                            progress.found(&message, keep_going);
                            continue;
                        }
                    };
                    if let Some(fault) = fault {
                        history = history.with_fault(fault);
                    }
                    let plan = if seed.is_multiple_of(4) { Plan::SHORT } else { Plan::LONG };
                    let outcome = explore(&history, &plan, seed, most, only);
                    if let Some(found) = outcome.finding {
                        if let Some(path) = &save {
                            found.pages.save(path)?;
                        }
                        let (image, event, what) = (found.image, found.event, found.what);
                        let case = format!("--drive {name} --seed {seed} --only {image}");
                        progress.found(&format!("{case}: after event {event}: {what}"), keep_going);
                    }
                    progress.add(outcome.images, seed);
                }
                Ok(())
            })
        }
        Command::Steps { drive, seed } => {
            for (index, step) in Setup::named(&drive)?.steps(seed)?.iter().enumerate() {
                println!("{index} {step:?}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Log { drive, seed } => {
            let history = History::numbered(Setup::named(&drive)?, seed)?;
            for (event, number) in history.log.iter().zip(1..) {
                println!("{number} {}", event.describe(&history.layout));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Flip { flips, seed, drive, most, only, keep_going } => {
            let setups = setups(drive.as_deref())?;
            let progress = Progress::new(if only.is_some() { 1 } else { flips }, seed);
            progress.run(|seed| {
                for setup in &setups {
                    let name = setup.name;
                    let case = match Case::numbered(*setup, seed) {
                        Ok(case) => case,
                        Err(error) => {
                            let message = format!("--drive {name} --seed {seed}: {error:#}");
                            progress.found(&message, keep_going);
                            continue;
                        }
                    };
                    let chosen = case.sample(most);
                    for (number, damage) in chosen.iter().enumerate() {
                        if only.is_some_and(|only| only != number as u64) {
                            continue;
                        }
                        let message = match case.examine(*damage) {
                            Verdict::Right | Verdict::Reported => continue,
                            Verdict::Unreported(what) => format!("check says nothing: {what}"),
                            Verdict::WrongData { what, is_reported: false } => {
                                format!("check says nothing, and {what}")
                            }
                            Verdict::WrongData { what, is_reported: true } => format!("wrong data: {what}"),
                        };
                        let region = case.region(*damage);
                        progress.found(
                            &format!(
                                "--drive {name} --seed {seed} --only {number}: {region:?}, {damage:?}: {message}"
                            ),
                            keep_going,
                        );
                        if !keep_going {
                            break;
                        }
                    }
                    progress.add(chosen.len() as u64, seed);
                }
                Ok(())
            })
        }
    }
}
