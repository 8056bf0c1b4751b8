//! What outlives a power cut without a flush, on a drive or behind whatever lies before it.

use ssdlab_model::power_cut::rules::Contract;

use crate::stack::Composition;

/// Returns true if all that was answered is durable, flushed or not: on every drive there is,
/// capacitors protect the write cache, or it is off.
pub(super) fn writes_last(composition: &Composition) -> bool {
    match composition {
        Composition::Ssd(configuration) => Contract::of(configuration).writes,
        Composition::Saved(saved) => Contract::of(saved.configuration()).writes,
        Composition::Usb(member, _) | Composition::Crypt(member, _) => writes_last(member),
        Composition::Array(array) => array.members.iter().all(writes_last),
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::profile::Profile;

    use crate::simulated::SimulatedDrive;
    use crate::stack::{Composition, Level};

    fn drive(changes: &[(&str, &str)]) -> Composition {
        let mut profile = Profile::named("generic-tlc").unwrap();
        profile.set("scale", "1/64").unwrap();
        for (key, value) in changes {
            profile.set(key, value).unwrap();
        }
        Composition::Ssd(Box::new(profile.configuration().unwrap()))
    }

    fn lasts(composition: Composition) -> bool {
        SimulatedDrive::of("sim:", composition).unwrap().writes_last()
    }

    #[test]
    fn writes_last_where_every_drive_has_capacitors_or_no_write_cache() {
        let capacitors = || drive(&[("controller.power_loss_protection", "on")]);
        assert!(!lasts(drive(&[])));
        assert!(lasts(capacitors()));
        assert!(lasts(drive(&[("controller.write_cache", "write-through")])));
        let pair = |one, other| Composition::Array(Level::Raid1.array(vec![one, other]));
        assert!(lasts(pair(capacitors(), capacitors())));
        assert!(!lasts(pair(capacitors(), drive(&[]))));
    }
}
