//! Small drives with log blocks.

use ssdlab_model::Configuration;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::policy::{Allocation, CopiesTo};
use ssdlab_model::streams::StreamParameters;
use ssdlab_nand::geometry::Geometry;

/// Returns a drive of that shape with log blocks, and as many blocks as it needs at least, or a few more.
pub fn with_log_blocks(configuration: &Configuration, log_blocks: u32) -> Configuration {
    let mut configuration = configuration.clone();
    let geometry = &configuration.geometry;
    let mut parameters = geometry.parameters().clone();
    let logical = parameters.logical_units.div_ceil(geometry.units_per_block());
    let blocks = (logical + log_blocks + 3).next_multiple_of(geometry.groups());
    parameters.collection_units = blocks.max(4);
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.mechanisms.mapping = MappingScheme::LogBlock;
    configuration.mechanisms.log_blocks = log_blocks;
    configuration.buffer.coalesced = 0;
    configuration.mechanisms.streams = StreamParameters::default();
    configuration.mechanisms.copies = CopiesTo::OwnBlock;
    configuration.mechanisms.allocation = Allocation::Dynamic;
    configuration.mechanisms.rotation = 0.0;
    configuration.check_mapping().expect("room for the log");
    configuration
}
