//! Where a trim goes: through which layers, and what the drive at the end makes of it.

use ssdlab_model::Configuration;
use ssdlab_model::trim::ReadsAfterTrim;

use crate::stack::Composition;

/// What trimmed sectors read as in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimEnd {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// What they held before: the drive takes trims and does nothing.
    Ignored,
}

/// The way of a trim from the host to the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimPath {
    /// Layers by name, the host's first, with whether they pass trims on.
    pub layers: Vec<(String, bool)>,
    /// What the drive makes of it; of several drives, the first that ignores it, or the first.
    pub end: TrimEnd,
}

impl TrimPath {
    pub(super) fn through(composition: &Composition) -> TrimPath {
        let mut path = TrimPath { layers: Vec::new(), end: TrimEnd::Zeros };
        path.end = path.follow(composition);
        path
    }

    fn follow(&mut self, composition: &Composition) -> TrimEnd {
        match composition {
            Composition::Ssd(configuration) => end_of(configuration),
            Composition::Saved(saved) => end_of(saved.configuration()),
            Composition::Usb(member, bridge) => {
                self.layers.push(("usb bridge".to_owned(), bridge.trim));
                self.follow(member)
            }
            Composition::Crypt(member, encryption) => {
                self.layers.push(("crypt".to_owned(), encryption.trim));
                self.follow(member)
            }
            Composition::Array(array) => {
                self.layers.push((array.level.name().to_owned(), array.trim));
                let mut ends = Vec::new();
                for member in &array.members {
                    let before = self.layers.len();
                    ends.push(self.follow(member));
                    // Members alike are said once.
                    let added = self.layers.split_off(before);
                    let new = added.into_iter().filter(|layer| !self.layers.contains(layer));
                    let new: Vec<_> = new.collect();
                    self.layers.extend(new);
                }
                let ignored = ends.iter().find(|end| **end == TrimEnd::Ignored);
                *ignored.or(ends.first()).expect("an array has members")
            }
        }
    }
}

fn end_of(configuration: &Configuration) -> TrimEnd {
    if !configuration.trim {
        return TrimEnd::Ignored;
    }
    match configuration.mechanisms.trim.reads_after {
        ReadsAfterTrim::Ones => TrimEnd::Ones,
        ReadsAfterTrim::Zeros | ReadsAfterTrim::Undefined => TrimEnd::Zeros,
    }
}
