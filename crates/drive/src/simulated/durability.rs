//! Durability of answered writes in a power cut, for a drive or a stack.

use ssdlab_model::Configuration;
use ssdlab_model::flush::FlushHandling;
use ssdlab_model::power_cut::rules::Contract;

use crate::stack::Composition;

/// Returns true if all answered writes are durable, flushed or not: on every drive the write cache has
/// power-loss protection, or is off.
pub(super) fn writes_survive_power_cut(composition: &Composition) -> bool {
    match composition {
        Composition::Ssd(configuration) => Contract::of(configuration).writes,
        Composition::Saved(saved) => Contract::of(saved.configuration()).writes,
        Composition::Usb(member, _) | Composition::Crypt(member, _) => {
            writes_survive_power_cut(member)
        }
        Composition::Array(array) => array.members.iter().all(writes_survive_power_cut),
    }
}

/// Returns true if some drive answers flushes without doing them, and answered writes are not durable
/// without a flush.
pub(super) fn ignores_flushes(composition: &Composition) -> bool {
    let ignores = |it: &Configuration| {
        it.mechanisms.flush.handling == FlushHandling::Ignored && !Contract::of(it).writes
    };
    match composition {
        Composition::Ssd(configuration) => ignores(configuration),
        Composition::Saved(saved) => ignores(saved.configuration()),
        Composition::Usb(member, _) | Composition::Crypt(member, _) => ignores_flushes(member),
        Composition::Array(array) => array.members.iter().any(ignores_flushes),
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

    fn survives(composition: Composition) -> bool {
        SimulatedDrive::of("sim:", composition).unwrap().writes_survive_power_cut()
    }

    #[test]
    fn writes_survive_a_power_cut_where_every_drive_has_power_loss_protection_or_no_write_cache() {
        let protected = || drive(&[("controller.power_loss_protection", "on")]);
        assert!(!survives(drive(&[])));
        assert!(survives(protected()));
        assert!(survives(drive(&[("controller.write_cache", "write-through")])));
        let pair = |one, other| Composition::Array(Level::Raid1.array(vec![one, other]));
        assert!(survives(pair(protected(), protected())));
        assert!(!survives(pair(protected(), drive(&[]))));
    }

    #[test]
    fn who_ignores_flushes_and_loses_something_by_it_is_known() {
        let ignores =
            |composition| SimulatedDrive::of("sim:", composition).unwrap().ignores_flushes();
        let ignoring = || drive(&[("controller.flush", "ignored")]);
        assert!(ignores(ignoring()) && !ignores(drive(&[])));
        assert!(ignores(Composition::Array(Level::Raid1.array(vec![drive(&[]), ignoring()]))));
    }
}
