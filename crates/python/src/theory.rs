//! Closed forms of write amplification, each for many amounts of over-provisioning.

use pyo3::prelude::*;
use ssdlab_theory::hot_cold::HotCold;
use ssdlab_theory::{Choices, ParameterError, SpareFactor, UnitsPerBlock, trim};

use crate::failure::Failure;
use crate::numbers::Numbers;

/// Returns `amplification` for each amount of over-provisioning, given as a share of the logical capacity.
fn each(
    spare: Vec<f64>,
    amplification: impl Fn(SpareFactor) -> Result<f64, ParameterError>,
) -> Result<Numbers, Failure> {
    let one = |share| amplification(SpareFactor::from_spare_of_logical(share)?);
    let all: Result<Vec<f64>, ParameterError> = spare.into_iter().map(one).collect();
    Ok(Numbers::of(all?))
}

/// Victims drawn at random.
#[pyfunction]
pub fn random(spare: Vec<f64>) -> Result<Numbers, Failure> {
    each(spare, |it| Ok(ssdlab_theory::random::write_amplification(it)))
}

/// The block written longest ago.
#[pyfunction]
pub fn fifo(spare: Vec<f64>) -> Result<Numbers, Failure> {
    each(spare, |it| Ok(ssdlab_theory::fifo::write_amplification(it)))
}

/// The block with the fewest valid units.
#[pyfunction]
pub fn greedy(spare: Vec<f64>, units: u32) -> Result<Numbers, Failure> {
    let units = UnitsPerBlock::new(units)?;
    each(spare, |it| Ok(ssdlab_theory::greedy::write_amplification(it, units)))
}

/// The best of some blocks drawn at random.
#[pyfunction]
pub fn d_choices(spare: Vec<f64>, units: u32, choices: u32) -> Result<Numbers, Failure> {
    let (units, choices) = (UnitsPerBlock::new(units)?, Choices::new(choices)?);
    each(spare, |it| Ok(ssdlab_theory::d_choices::write_amplification(it, units, choices)))
}

/// FIFO, with hot and cold pages in the same blocks.
#[pyfunction]
pub fn hot_cold_one_stream(
    spare: Vec<f64>,
    hot_writes: f64,
    hot_pages: f64,
) -> Result<Numbers, Failure> {
    let workload = HotCold::new(hot_writes, hot_pages)?;
    each(spare, |it| Ok(workload.fifo_one_stream(it)))
}

/// FIFO in each of two streams, with the best split of the spare.
#[pyfunction]
pub fn hot_cold_two_streams(
    spare: Vec<f64>,
    hot_writes: f64,
    hot_pages: f64,
) -> Result<Numbers, Failure> {
    let workload = HotCold::new(hot_writes, hot_pages)?;
    each(spare, |it| {
        Ok(workload.best_split(it, ssdlab_theory::fifo::write_amplification).write_amplification)
    })
}

/// The spare that there is once a share of the requests trims.
#[pyfunction]
pub fn trimmed(spare: Vec<f64>, trim_share: f64) -> Result<Numbers, Failure> {
    each(spare, |it| Ok(trim::effective_spare(it, trim_share)?.spare_of_logical()))
}
