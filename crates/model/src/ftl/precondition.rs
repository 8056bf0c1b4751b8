//! Preconditioning from theory: the tables of a new drive are filled directly (see [`crate::age`]).

use super::Ssd;
use crate::mapping::cached::CachedMap;
use crate::mapping::extent::ExtentMap;
use crate::mapping::{Mapping, MappingScheme, PageMap};
use crate::media::Null;
use crate::precondition::{Past, PreconditionError, SingleThreaded, Tables, Workers, check_scheme};
use crate::ssd::Configuration;

impl Ssd<PageMap, Null> {
    /// Returns a full drive in the steady state of random writes. Takes some nanoseconds per unit.
    ///
    /// # Errors
    /// Returns an error if there is no closed form for the drive's policy or mapping scheme under such writes,
    /// or no such drive.
    pub fn preconditioned(
        configuration: &Configuration,
        past: Past,
    ) -> Result<Self, PreconditionError> {
        Ssd::preconditioned_by(configuration, past, &SingleThreaded)
    }

    /// Returns the drive that [`Ssd::preconditioned`] returns, computed by `workers`.
    ///
    /// # Errors
    /// As [`Ssd::preconditioned`].
    pub fn preconditioned_by(
        configuration: &Configuration,
        past: Past,
        workers: &dyn Workers,
    ) -> Result<Self, PreconditionError> {
        if configuration.mechanisms.mapping == MappingScheme::LogBlock {
            return Ssd::aged_with_log_blocks(configuration, past);
        }
        check_scheme(configuration)?;
        let mut ssd = Ssd::new(configuration)?;
        ssd.tables().precondition_data(configuration, past, workers)?;
        Ok(ssd)
    }

    fn aged_with_log_blocks(
        configuration: &Configuration,
        past: Past,
    ) -> Result<Self, PreconditionError> {
        let mut ssd = Ssd::new(configuration)?;
        let filled = ssd.tables().precondition_log_blocks(configuration, past)?;
        if let Some(log) = &mut ssd.ftl.log_blocks {
            log.set_filled_blocks(filled);
        }
        Ok(ssd)
    }
}

impl Ssd<CachedMap, Null> {
    /// Returns a full drive in the steady state of random writes, with no map page in RAM.
    ///
    /// # Errors
    /// Returns an error if there is no closed form for the drive's policy under such writes, or no such drive.
    pub fn aged_with_cached_map(
        configuration: &Configuration,
        past: Past,
    ) -> Result<Self, PreconditionError> {
        Ssd::aged_with_cached_map_by(configuration, past, &SingleThreaded)
    }

    /// Returns the drive that [`Ssd::aged_with_cached_map`] returns, computed by `workers`.
    ///
    /// # Errors
    /// As [`Ssd::aged_with_cached_map`].
    pub fn aged_with_cached_map_by(
        configuration: &Configuration,
        past: Past,
        workers: &dyn Workers,
    ) -> Result<Self, PreconditionError> {
        let mut ssd = Ssd::with_cached_map(configuration)?;
        ssd.tables().precondition_data(configuration, past, workers)?;
        ssd.tables().precondition_map(past)?;
        Ok(ssd)
    }
}

impl Ssd<ExtentMap, Null> {
    /// Returns a full drive after random writes of single units for a long time.
    ///
    /// # Errors
    /// Returns an error if the drive was written otherwise, its policy is not greedy, its over-provisioning
    /// does not hold the fragments that are left, or there is no such drive.
    pub fn preconditioned_with_extent_map(
        configuration: &Configuration,
        past: Past,
    ) -> Result<Self, PreconditionError> {
        let mut ssd = Ssd::with_extent_map(configuration)?;
        ssd.tables().precondition_extents(configuration, past)?;
        Ok(ssd)
    }
}

impl<M: Mapping> Ssd<M, Null> {
    fn tables(&mut self) -> Tables<'_, M> {
        let (block_table, free) = self.ftl.blocks.tables();
        Tables {
            geometry: &self.ftl.geometry,
            map: &mut self.ftl.map,
            block_table,
            free,
            host: self.ftl.placement.frontier_mut(),
            copies: &mut self.ftl.collector.frontier,
            streams: self.ftl.streams.as_deref_mut(),
            slc: self.ftl.slc.as_deref_mut(),
        }
    }
}
