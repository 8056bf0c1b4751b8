//! Power-cut test: cuts power at every instant that can make a difference, on a small drive with the
//! mechanisms of a profile.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::Serialize;
use ssdlab_drive::Control;
use ssdlab_model::Configuration;
use ssdlab_model::flush::FlushHandling;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::power_cut::explore::{Explored, Finding, shortest_failure};
use ssdlab_model::power_cut::faults::Fault;
use ssdlab_model::power_cut::history::Step;
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_model::power_cut::text::parse_history;
use ssdlab_model::profile::Profile;
use ssdlab_model::recovery::RecoveryError;
use ssdlab_units::Nanoseconds;

use crate::error::LabError;
use crate::experiment::Watcher;

/// Schema of the JSON output.
pub const SCHEMA: &str = "ssdlab.power-cut/1";

/// Requests of the host before the power cut.
#[derive(Clone, Debug)]
pub enum Histories {
    /// One history as text.
    Given(String),
    /// Random histories.
    Random {
        /// Number of histories.
        count: u32,
        /// Requests in each history.
        requests: u32,
    },
}

/// Parameters of the test.
#[derive(Clone, Debug)]
pub struct Request {
    /// Requests of the host.
    pub histories: Histories,
    /// Seed of the preconditioning and of the first random history; each further history has the next number
    /// as its seed.
    pub seed: u64,
    /// True for a new drive, false for a preconditioned one.
    pub is_new: bool,
    /// True if the drive completes flushes and FUA writes without making data durable.
    pub lies: bool,
    /// Fault injected into the drive and its recovery.
    pub fault: Option<Fault>,
}

/// The drive that was cut from power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SmallDrive {
    /// Mapping scheme.
    pub mapping: String,
    /// Channels.
    pub channels: u32,
    /// Dies.
    pub dies: u32,
    /// Collection units, metadata aside.
    pub blocks: u32,
    /// Units of one of them.
    pub units_per_block: u32,
    /// Units that the host can address.
    pub logical_units: u32,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// True if capacitors protect its buffer.
    pub is_protected: bool,
}

/// Time of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryTimes {
    /// The quickest, in nanoseconds.
    pub least_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The slowest.
    pub most_ns: u64,
    /// Most program units whose out-of-band area (OOB) was read.
    pub program_units_read_most: u64,
    /// Most pages of a saved map and of its journal that were read.
    pub map_pages_read_most: u64,
    /// Most programs that one has made by itself.
    pub own_programs_most: u64,
    /// Most collection units that one has erased by itself.
    pub own_erases_most: u64,
}

/// A cut after which a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Broken {
    /// The seed of the history, where it was random.
    pub seed: Option<u64>,
    /// Its requests.
    pub requests: u32,
    /// The history reduced to the requests that are needed, a request a line.
    pub history: Vec<String>,
    /// Moment of the power cut, in nanoseconds from the first request on.
    pub cut_after_ns: u64,
    /// Moment of a second power cut, in nanoseconds from the return of power, while the drive was recovering
    /// and nothing was wrong so far; nothing when it was cut once.
    pub cut_again_after_ns: Option<u64>,
    /// True if that did no harm, and something was wrong only after the drive had been written to
    /// (its first, middle and last unit), flushed, and cut once more when that was answered.
    pub went_on: bool,
    /// The broken promise or rule.
    pub finding: String,
}

/// Histories that were tried, and the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exploration {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The drive's name.
    pub target: String,
    /// The small drive that stands for it.
    pub drive: SmallDrive,
    /// True if it was new; otherwise it was full and had been collected.
    pub is_new: bool,
    /// True if it lied about flush and FUA.
    pub lies_about_flush: bool,
    /// The mistake that was planted.
    pub fault: Option<String>,
    /// The seed.
    pub seed: u64,
    /// Histories gone through to the end.
    pub histories: u32,
    /// Cuts; after each the drive was written to, flushed, and cut once more.
    pub cuts: u64,
    /// Further cuts while it recovered from one of those; used and cut once more as well.
    pub cuts_in_recovery: u64,
    /// Time of the recovery; absent if there was none.
    pub recovery: Option<RecoveryTimes>,
    /// The first history that broke a rule.
    pub broken: Option<Broken>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
}

/// Returns the name of an injected fault on the command line.
pub fn name_of(fault: Fault) -> &'static str {
    match fault {
        Fault::IgnoreNumbers => "ignore-numbers",
        Fault::ForgetUnreadable => "forget-unreadable",
        Fault::ForgetTrims => "forget-trims",
        Fault::ForgetBadBlocks => "forget-bad-blocks",
        Fault::ForgetSaved => "forget-saved",
        Fault::KeepUnfinished => "keep-unfinished",
        Fault::EraseEarly => "erase-early",
    }
}

/// Tests power cuts on a small drive with the mechanisms of `profile`, named `target`, wherever a cut can
/// make a difference.
///
/// # Errors
/// Returns an error if the profile has no small drive, if the request does not apply to it, or if the history
/// cannot be parsed.
pub fn explore(
    target: &str,
    profile: &Profile,
    request: &Request,
    watcher: &mut dyn Watcher,
) -> Result<Exploration, LabError> {
    let configuration = small_drive(target, profile, request)?;
    let tested = prepare_drive(target, &configuration, request)?;
    let histories = histories(&request.histories, &configuration, request.seed)?;
    let mut exploration = Exploration {
        schema: SCHEMA.to_owned(),
        target: target.to_owned(),
        drive: describe(&configuration),
        is_new: request.is_new,
        lies_about_flush: request.lies,
        fault: request.fault.map(|fault| name_of(fault).to_owned()),
        seed: request.seed,
        histories: 0,
        cuts: 0,
        cuts_in_recovery: 0,
        recovery: None,
        broken: None,
        interrupted: false,
    };
    let mut explored = Explored::default();
    let all = histories.len() as f64;
    watcher.step("power cuts", 1.0);
    for (seed, history) in histories {
        if watcher.progress(f64::from(exploration.histories) / all) == Control::Cancel {
            exploration.interrupted = true;
            break;
        }
        match tested.explore(&history) {
            Ok(found) => explored = explored.and(found),
            Err(failure) => {
                if let Finding::Recovery(RecoveryError::Unsupported { .. }) = &failure.finding {
                    return Err(target_error(target, failure.finding.to_string()));
                }
                watcher.step("the shortest history", 0.0);
                exploration.broken = Some(shortest_broken(&tested, seed, &history));
                break;
            }
        }
        exploration.histories += 1;
    }
    exploration.cuts = explored.cuts;
    exploration.cuts_in_recovery = explored.cuts_in_recovery;
    exploration.recovery = (explored.cuts > 0).then(|| RecoveryTimes {
        least_ns: explored.recovery_least.nanos(),
        mean_ns: explored.recovery_all.nanos() / explored.cuts,
        most_ns: explored.recovery_most.nanos(),
        program_units_read_most: explored.program_units_read_most,
        map_pages_read_most: explored.map_pages_read_most,
        own_programs_most: explored.own_programs_most,
        own_erases_most: explored.own_erases_most,
    });
    Ok(exploration)
}

/// Returns the drive before the history.
fn prepare_drive(
    target: &str,
    configuration: &Configuration,
    request: &Request,
) -> Result<Tested, LabError> {
    let mut tested = Tested::new(configuration, request.fault)
        .map_err(|error| target_error(target, error.to_string()))?;
    if !request.is_new {
        tested.age(&mut Pcg64Mcg::seed_from_u64(request.seed));
    }
    Ok(tested)
}

fn target_error(target: &str, why: String) -> LabError {
    LabError::Target { text: target.to_owned(), why }
}

fn small_drive(
    target: &str,
    profile: &Profile,
    request: &Request,
) -> Result<Configuration, LabError> {
    let mut configuration = profile.configuration()?.miniature().map_err(|error| {
        target_error(target, format!("it cannot be made small enough: {error}"))
    })?;
    let flush = &mut configuration.mechanisms.flush;
    if request.lies && configuration.buffer.protected {
        return Err(target_error(
            target,
            "its power-loss protection saves all acknowledged writes, so an ignored flush loses \
             nothing; add controller.power_loss_protection=off"
                .to_owned(),
        ));
    }
    if request.lies {
        flush.handling = FlushHandling::Ignored;
    }
    Ok(configuration)
}

/// A history, with its seed if it is random.
type SeededHistory = (Option<u64>, Vec<Step>);

/// Returns the histories.
fn histories(
    histories: &Histories,
    configuration: &Configuration,
    seed: u64,
) -> Result<Vec<SeededHistory>, LabError> {
    let units = configuration.geometry.logical_units();
    match histories {
        Histories::Given(text) => {
            let history =
                parse_history(text, units).map_err(|error| LabError::History(error.to_string()))?;
            Ok(vec![(None, history)])
        }
        &Histories::Random { count, requests } => Ok((0..u64::from(count))
            .map(|number| {
                let seed = seed.wrapping_add(number);
                let mut generator = Pcg64Mcg::seed_from_u64(seed);
                let history = (0..requests).map(|_| Step::random(&mut generator, units));
                (Some(seed), history.collect())
            })
            .collect()),
    }
}

fn shortest_broken(tested: &Tested, seed: Option<u64>, history: &[Step]) -> Broken {
    let (shortest, failure) = shortest_failure(tested, history);
    Broken {
        seed,
        requests: history.len() as u32,
        history: shortest.iter().map(ToString::to_string).collect(),
        cut_after_ns: failure.at.nanos(),
        cut_again_after_ns: failure.again_after.map(Nanoseconds::nanos),
        went_on: failure.went_on,
        finding: failure.finding.to_string(),
    }
}

fn describe(configuration: &Configuration) -> SmallDrive {
    let (geometry, mechanisms) = (&configuration.geometry, &configuration.mechanisms);
    let mapping = match mechanisms.mapping {
        MappingScheme::Page if mechanisms.slc.is_some() => "page map and pseudo-SLC cache",
        MappingScheme::Page => "page map",
        MappingScheme::Cached => "map on flash",
        MappingScheme::Extent => "map of extents",
        MappingScheme::LogBlock => "log blocks",
    };
    SmallDrive {
        mapping: mapping.to_owned(),
        channels: geometry.channels(),
        dies: geometry.dies(),
        blocks: geometry.blocks(),
        units_per_block: geometry.units_per_block(),
        logical_units: geometry.logical_units(),
        unit_bytes: geometry.unit_size().bytes(),
        is_protected: configuration.buffer.protected,
    }
}
