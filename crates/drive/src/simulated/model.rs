//! Construction of SSD models by mapping scheme, and the trait object through which a drive holds one.

use ssdlab_model::Configuration;
use ssdlab_model::ftl::Ssd;
use ssdlab_model::mapping::cached::CachedMap;
use ssdlab_model::mapping::extent::ExtentMap;
use ssdlab_model::mapping::{Mapping, MappingScheme, PageMap};
use ssdlab_model::precondition::{Past, PreconditionError};
use ssdlab_model::snapshot::{Decoder, SnapshotError};
use ssdlab_nand::geometry::GeometryError;
use ssdlab_units::Instant;

use super::closed_loop::{self, Outcome};
use super::open_loop;
use super::processors::Processors;
use super::responder::{Responder, StepResponder};
use super::single_ssd::SingleSsd;
use crate::Observer;
use crate::measure::{PhaseResult, ThroughputMeter};
use crate::phase::{Phase, Rate};

/// Returns the model for `configuration`: the one place where its mapping scheme becomes a type.
pub(crate) fn model_of(configuration: &Configuration) -> Result<Box<dyn Model>, GeometryError> {
    configuration.check_mapping()?;
    Ok(match configuration.mechanisms.mapping {
        MappingScheme::Page | MappingScheme::LogBlock => boxed(Ssd::new(configuration)?),
        MappingScheme::Extent => boxed(Ssd::with_extent_map(configuration)?),
        MappingScheme::Cached => boxed(Ssd::with_cached_map(configuration)?),
    })
}

fn boxed<M: Mapping + Clone + Send + Sync + 'static>(ssd: Ssd<M>) -> Box<dyn Model> {
    Box::new(SingleSsd::new(ssd))
}

/// Returns a used drive: one with the history `past`.
pub(crate) fn preconditioned_model(
    configuration: &Configuration,
    past: Past,
) -> Result<Box<dyn Model>, PreconditionError> {
    configuration.check_mapping()?;
    Ok(match configuration.mechanisms.mapping {
        MappingScheme::Page | MappingScheme::LogBlock => {
            boxed(Ssd::preconditioned_by(configuration, past, &Processors)?)
        }
        MappingScheme::Extent => boxed(Ssd::preconditioned_with_extent_map(configuration, past)?),
        MappingScheme::Cached => {
            boxed(Ssd::aged_with_cached_map_by(configuration, past, &Processors)?)
        }
    })
}

/// Returns a drive in a state that was saved.
pub(crate) fn restored_model(
    configuration: &Configuration,
    from: &mut Decoder<'_>,
) -> Result<Box<dyn Model>, SnapshotError> {
    Ok(match configuration.mechanisms.mapping {
        MappingScheme::Page | MappingScheme::LogBlock => {
            let map = PageMap::new(configuration.geometry.logical_units());
            boxed(Ssd::restored(configuration, map, from)?)
        }
        MappingScheme::Extent => {
            let extents = configuration.mechanisms.extents;
            let map = ExtentMap::new(&configuration.geometry, extents);
            boxed(Ssd::restored(configuration, map, from)?)
        }
        MappingScheme::Cached => {
            boxed(Ssd::restored(configuration, CachedMap::new(configuration)?, from)?)
        }
    })
}

/// A [`Responder`] as a trait object. A whole phase is run by one dynamic call.
pub(crate) trait Model: Responder + Send + Sync {
    /// Runs `phase` from `start`, adding the measurements to `result` and `meter`.
    fn run(
        &mut self,
        phase: &Phase,
        start: Instant,
        result: &mut PhaseResult,
        meter: &mut ThroughputMeter,
        observer: &mut dyn Observer,
    ) -> Outcome;

    /// Returns another one in the same state.
    fn boxed_clone(&self) -> Box<dyn Model>;
}

impl<R: StepResponder + Clone + Send + Sync + 'static> Model for R {
    fn run(
        &mut self,
        phase: &Phase,
        start: Instant,
        result: &mut PhaseResult,
        meter: &mut ThroughputMeter,
        observer: &mut dyn Observer,
    ) -> Outcome {
        match phase.rate {
            Some(Rate::Open(rate)) => {
                open_loop::run(self, phase, rate, start, result, meter, observer)
            }
            _ => closed_loop::run(self, phase, start, result, meter, observer),
        }
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
