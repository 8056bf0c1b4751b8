//! Measures one amount of over-provisioning: creates a drive with it, scaled down if it is large, brings the
//! drive into the steady state of the workload, and measures the workload there.

use ssdlab_drive::{Amount, Drive, Phase};
use ssdlab_model::precondition::Workload;
use ssdlab_model::profile::Profile;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::Request;
use super::load::Sizes;
use crate::error::LabError;
use crate::experiment::{PhaseObserver, Watcher};
use crate::precondition::{self, Preconditioning, State, WriteAmount};
use crate::target::Target;
use crate::target::scaled::{MAX_SCALED_CAPACITY, is_representative};

/// Capacities that a workload without a closed form writes before it is measured.
const WARM_UP_CAPACITIES: u64 = 2;

/// Results for one amount of over-provisioning.
#[derive(Clone, Debug)]
pub(super) struct SpareResult {
    /// Over-provisioning in percent of physical capacity.
    pub(super) spare: f64,
    /// Logical capacity of the full-size drive in bytes.
    pub(super) capacity: f64,
    pub(super) write_amplification: f64,
    /// Write amplification without metadata, which is what `theory` predicts.
    pub(super) of_data: f64,
    pub(super) theory: Option<f64>,
    pub(super) iops: f64,
    pub(super) mean_us: f64,
    /// Scatter of latencies; `None` if the drive was scaled down.
    pub(super) scatter: Option<LatencyScatter>,
    /// Bytes that the host can write until the rated cycles are used up.
    pub(super) life: f64,
    pub(super) simulated: f64,
    pub(super) requests: u64,
}

/// Scatter of latencies. It depends on the time that GC spends on one block, and so on the size of blocks: at
/// scales from 1/4 to 1/64 the 99th percentile of one drive varied irregularly between 5 and 13 ms, while
/// rates, means and write amplification agreed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyScatter {
    pub(super) deviation_us: f64,
    pub(super) p99_us: f64,
}

pub(super) fn profile_of(text: &str, seed: u64) -> Result<(Box<Profile>, String), LabError> {
    match Target::seeded(text, seed)? {
        Target::Simulated { name, profile } => Ok((profile, name)),
        _ => Err(LabError::Target {
            text: text.to_owned(),
            why: "advice needs a simulated drive that is new, such as sim:toshiba-xg5".to_owned(),
        }),
    }
}

/// Returns the target with a change.
fn with(text: &str, change: &str) -> String {
    format!("{text},{change}")
}

/// A drive to be simulated.
struct Simulated {
    profile: Box<Profile>,
    name: String,
    /// True if the drive was scaled down.
    is_scaled_down: bool,
}

/// Returns the drive with this over-provisioning, scaled down if it is large. If a scale leaves too few
/// blocks, or too small ones, the next larger scale is used.
fn scaled_if_large(text: &str, spare: f64, seed: u64) -> Result<Simulated, LabError> {
    let changed = with(text, &format!("spare={spare}%"));
    let (whole, name) = profile_of(&changed, seed)?;
    let capacity = whole.configuration()?.geometry.capacity().bytes();
    let mut divisor = capacity.div_ceil(MAX_SCALED_CAPACITY.bytes());
    while divisor > 1 && !text.contains("scale=") {
        let scaled = with(text, &format!("scale=1/{divisor},spare={spare}%"));
        if let Ok((profile, name)) = profile_of(&scaled, seed)
            && profile.configuration().is_ok_and(|it| is_representative(&it.geometry))
        {
            return Ok(Simulated { profile, name, is_scaled_down: true });
        }
        divisor /= 2;
    }
    Ok(Simulated { profile: whole, name, is_scaled_down: false })
}

pub(super) fn measure_spare(
    request: &Request,
    spare: f64,
    cycles: u32,
    count: usize,
    watcher: &mut dyn Watcher,
) -> Result<SpareResult, LabError> {
    let Simulated { profile, name, is_scaled_down } =
        scaled_if_large(&request.target, spare, request.seed)?;
    let (whole, _) = profile_of(&with(&request.target, &format!("spare={spare}%")), request.seed)?;
    let geometry = whole.configuration()?.geometry;
    watcher.step(&format!("{spare} % spare"), 1.0 / count as f64);
    let preconditioning = Preconditioning {
        state: State::Steady,
        written: Some(WriteAmount::Capacities(0.25)),
        stored_for: Nanoseconds::ZERO,
        workload: request.workload,
        cache: precondition::CacheFill::Empty,
        seed: request.seed,
    };
    let preconditioned = precondition::precondition(&name, &profile, preconditioning, watcher);
    let (mut drive, _) = match preconditioned {
        // If theory has no steady state, the drive is written until it reaches one.
        Err(LabError::Unsupported(_)) if request.workload == Workload::Uniform => {
            let written = Some(WriteAmount::Capacities(3.0));
            precondition::precondition(
                &name,
                &profile,
                Preconditioning { state: State::Random, written, ..preconditioning },
                watcher,
            )?
        }
        Err(LabError::Unsupported(_)) => {
            return Err(LabError::Unsupported(format!(
                "target '{}': theory has no steady state for hot and cold units with this policy or \
                 this map; add collection.policy=fifo to a target with a page map, or leave out --hot",
                request.target
            )));
        }
        preconditioned => preconditioned?,
    };
    let description = drive.description();
    let sizes = Sizes { unit: geometry.unit_size(), whole: geometry.capacity() };
    let mut load = request.load.phase(&description, sizes, request.seed.wrapping_add(1))?;
    if request.load.has_closed_form() {
        load.pattern = precondition::write_pattern(request.workload);
    } else {
        // The preconditioning has left the steady state of another workload.
        let phase = Phase { seed: load.seed.wrapping_add(1), ..load.clone() };
        let phase = phase_writing(&phase, description.capacity * WARM_UP_CAPACITIES);
        drive.run_phase(&phase, &mut PhaseObserver::new(watcher))?;
    }
    let half = ByteLength::new(description.capacity.bytes() / 2);
    let measured = load.block_size * half.whole(load.block_size);
    // Requests of a closed form read or write half of the capacity in all; others write that much.
    let phase = match request.load.has_closed_form() {
        true => Phase { amount: Amount::Bytes(measured), ..load },
        false => phase_writing(&load, measured),
    };
    let before = drive.inside().expect("a simulated drive shows its inside");
    let result = drive.run_phase(&phase, &mut PhaseObserver::new(watcher))?;
    let after = drive.inside().expect("a simulated drive shows its inside");
    let counted = after.counters.since(&before.counters);
    let write_amplification = counted.write_amplification().unwrap_or(1.0);
    // A write of part of a unit wears the flash as much as a write of the whole unit.
    let of_bytes = counted.write_amplification_of_bytes(geometry.unit_size()).unwrap_or(1.0);
    let latencies = &result.write_latencies;
    let us = |it: Option<Nanoseconds>| it.map_or(0.0, Nanoseconds::micros);
    let physical = geometry.unit_size().bytes() as f64 * f64::from(geometry.physical_units());
    Ok(SpareResult {
        spare,
        capacity: geometry.capacity().bytes() as f64,
        write_amplification,
        of_data: counted.data_write_amplification().unwrap_or(1.0),
        theory: profile
            .configuration()?
            .expectation_under(request.workload)
            .filter(|_| request.load.has_closed_form())
            .map(|it| it.write_amplification),
        iops: result.requests as f64 / result.elapsed.seconds(),
        mean_us: us(latencies.mean()),
        scatter: (!is_scaled_down).then(|| LatencyScatter {
            deviation_us: latencies.histogram().stdev() / 1e3,
            p99_us: us(latencies.percentile(99.0)),
        }),
        life: physical * f64::from(cycles) / of_bytes,
        simulated: result.elapsed.seconds(),
        requests: result.requests,
    })
}

/// Returns the phase, long enough to write about this number of bytes.
fn phase_writing(phase: &Phase, bytes: ByteLength) -> Phase {
    let writes = 100 - u64::from(phase.mix.read_percent);
    let requests = (bytes.bytes() * 100 / writes).div_ceil(phase.block_size.bytes());
    Phase { amount: Amount::Bytes(phase.block_size * requests), ..phase.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_reaches_the_drive() {
        let target = "sim:generic-tlc,collection.policy=random";
        let scaled = scaled_if_large(target, 7.0, 5).unwrap();
        let whole = scaled_if_large(&format!("{target},scale=1/64"), 7.0, 6).unwrap();
        let seed = |it: &Simulated| it.profile.configuration().unwrap().mechanisms.seed;
        assert_eq!((seed(&scaled), seed(&whole)), (5, 6));
        assert_eq!((scaled.is_scaled_down, whole.is_scaled_down), (true, false));
    }

    #[test]
    fn a_drive_made_small_keeps_blocks_of_several_programs() {
        let small = scaled_if_large("sim:samsung-840-pro-512", 7.0, 1).unwrap();
        let geometry = small.profile.configuration().unwrap().geometry;
        let shape = geometry.parameters();
        let programs = shape.pages_per_block / shape.pages_per_shot;
        assert!((8..16).contains(&programs), "{}: {programs}", small.name);
        assert!(small.is_scaled_down);
    }
}
