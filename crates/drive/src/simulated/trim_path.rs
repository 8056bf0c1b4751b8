//! The path of a trim: the layers that it passes, and its effect on the drive at the end.

use ssdlab_model::Configuration;
use ssdlab_model::trim::ReadsAfterTrim;

use crate::stack::Composition;

/// Content of trimmed sectors at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimEnd {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// The old data or zeros: the drive does not say.
    Undefined,
    /// The old data: the drive takes trims and does nothing.
    Ignored,
}

/// The path of a trim from the host to the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimPath {
    /// Layers by name, beginning at the host, each with true if it passes trims on.
    pub layers: Vec<(String, bool)>,
    /// Effect on the drive. Of several drives, the first that ignores trims, else the first that does not
    /// say what is read, else the first.
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
            Composition::Ssd(configuration) => reads_after_trim(configuration),
            Composition::Saved(saved) => reads_after_trim(saved.configuration()),
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
                    // Members that are alike are listed once.
                    let added = self.layers.split_off(before);
                    let new = added.into_iter().filter(|layer| !self.layers.contains(layer));
                    let new: Vec<_> = new.collect();
                    self.layers.extend(new);
                }
                let first = |wanted| ends.iter().find(|end| **end == wanted);
                let worst = first(TrimEnd::Ignored).or_else(|| first(TrimEnd::Undefined));
                *worst.or(ends.first()).expect("an array has members")
            }
        }
    }
}

fn reads_after_trim(configuration: &Configuration) -> TrimEnd {
    if !configuration.trim {
        return TrimEnd::Ignored;
    }
    match configuration.mechanisms.trim.reads_after {
        ReadsAfterTrim::Ones => TrimEnd::Ones,
        ReadsAfterTrim::Zeros => TrimEnd::Zeros,
        ReadsAfterTrim::Undefined => TrimEnd::Undefined,
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::profile::Profile;

    use crate::simulated::{PurgeMethod, SimulatedDrive};
    use crate::{Drive, ErrorKind};

    #[test]
    fn a_drive_that_ignores_trims_is_not_made_new_by_one() {
        let made_new = |trim: &str| {
            let mut profile = Profile::named("generic-tlc").unwrap();
            profile.set("scale", "1/64").unwrap();
            profile.set("trim", trim).unwrap();
            let mut drive = SimulatedDrive::new("sim:", profile.configuration().unwrap()).unwrap();
            drive.set_purge_method(PurgeMethod::Discard).and_then(|()| drive.purge())
        };
        made_new("on").unwrap();
        let error = made_new("off").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("accepts trims and ignores them"), "{error}");
    }
}
