//! What a drive may have beyond what every drive has: each is off unless a profile asks for it.

use crate::flush::FlushParameters;
use crate::mapping::MappingScheme;

/// The mechanisms of a drive that not every drive has. The default is a drive with none of them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Mechanisms {
    /// How it maps.
    pub mapping: MappingScheme,
    /// How it makes writes durable.
    pub flush: FlushParameters,
}
