//! The same for a drive whose map lies on flash: at present none.

use super::Known;

pub const ALL: &[Known] = &[];
