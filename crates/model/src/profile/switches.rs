//! Refuses keys of mechanisms that the profile does not switch on, since these keys would have no effect.

use super::keywords::LevellingName;
use super::{Basis, Profile, ProfileError};
use crate::flush::{FlushHandling, WriteCache};
use crate::trim::ReadsAfterTrim;
use crate::units::{ByteLength, Nanoseconds};
use ssdlab_nand::suspend::Suspendable;

/// A mechanism, with the key that switches it on.
struct Switch<'a> {
    key: &'static str,
    is_on: bool,
    basis: Basis,
    /// Value of `key` that switches the mechanism on.
    on: &'static str,
    /// Keys that have no effect without the mechanism.
    keys: &'a [(&'static str, Basis)],
}

impl Switch<'_> {
    /// Returns the first key without an effect. Keys in a file may stay if the user switches the mechanism off for a
    /// run.
    fn idle_key(&self) -> Option<&'static str> {
        let is_idle = |basis| match basis {
            Basis::Absent => false,
            Basis::Given => true,
            _ => self.basis != Basis::Given,
        };
        let found = self.keys.iter().find(|(_, basis)| !self.is_on && is_idle(*basis));
        found.map(|(key, _)| *key)
    }
}

impl Profile {
    /// Refuses keys of mechanisms that are off.
    pub(super) fn check_switches(&self) -> Result<(), ProfileError> {
        let thermal = &self.document.thermal;
        let (flash, flush, slc) = (&self.document.flash, &self.document.flush, &self.document.slc);
        let (wear, retention) = (&self.document.wear, &self.document.retention);
        let (trim, mapping) = (&self.document.trim, &self.document.mapping);
        let switches = [
            Switch {
                key: "retention.retry",
                is_on: retention.retry.value.get_ref().0 > Nanoseconds::ZERO,
                basis: retention.retry.basis,
                on: "a duration",
                keys: &[
                    ("retention.free_for", retention.free_for.basis),
                    ("retention.steps", retention.steps.basis),
                    ("retention.worn_steps", retention.worn_steps.basis),
                ],
            },
            Switch {
                key: "wear.levelling",
                is_on: *wear.levelling.value.get_ref() == LevellingName::Static,
                basis: wear.levelling.basis,
                on: "static",
                keys: &[
                    ("wear.static_every", wear.static_every.basis),
                    ("wear.static_spread", wear.static_spread.basis),
                    ("wear.static_stream", wear.static_stream.basis),
                ],
            },
            Switch {
                key: "wear.life",
                is_on: *wear.life.value.get_ref() > 0,
                basis: wear.life.basis,
                on: "a number of erases",
                keys: &[
                    ("wear.life_shape", wear.life_shape.basis),
                    ("wear.factory_bad", wear.factory_bad.basis),
                    ("wear.reserve", wear.reserve.basis),
                    ("wear.retire_most", wear.retire_most.basis),
                    ("wear.spare_threshold", wear.spare_threshold.basis),
                ],
            },
            Switch {
                key: "mapping.cache",
                is_on: mapping.cache.value.get_ref().0 > ByteLength::ZERO,
                basis: mapping.cache.basis,
                on: "a length",
                keys: &[("mapping.cache_read", mapping.cache_read.basis)],
            },
            Switch {
                key: "slc.size",
                is_on: slc.size.value.get_ref().0 > ByteLength::ZERO,
                basis: slc.size.basis,
                on: "a length",
                keys: &[
                    ("slc.space", slc.space.basis),
                    ("slc.fixed", slc.fixed.basis),
                    ("slc.when_full", slc.when_full.basis),
                    ("slc.bits", slc.bits.basis),
                    ("slc.program", slc.program.basis),
                    ("slc.page_read", slc.page_read.basis),
                ],
            },
            Switch {
                key: "thermal.limit",
                is_on: thermal.limit.value.get_ref().0 > ByteLength::ZERO,
                basis: thermal.limit.basis,
                on: "a length",
                keys: &[("thermal.mb_per_second", thermal.mb_per_second.basis)],
            },
            Switch {
                key: "flash.suspend",
                is_on: *flash.suspend.value.get_ref() != Suspendable::Off,
                basis: flash.suspend.basis,
                on: "program, erase or both",
                keys: &[
                    ("flash.suspend_step", flash.suspend_step.basis),
                    ("flash.suspend_time", flash.suspend_time.basis),
                    ("flash.resume_time", flash.resume_time.basis),
                    ("flash.suspends_most", flash.suspends_most.basis),
                    ("flash.suspend_when", flash.suspend_when.basis),
                ],
            },
            Switch {
                key: "trim.reads_after",
                is_on: *trim.reads_after.value.get_ref() == ReadsAfterTrim::Undefined,
                basis: trim.reads_after.basis,
                on: "undefined",
                keys: &[("trim.settle", trim.settle.basis)],
            },
            Switch {
                key: "flush.journal",
                is_on: *flush.journal.value.get_ref(),
                basis: flush.journal.basis,
                on: "on",
                keys: &[("flush.journal_program", flush.journal_program.basis)],
            },
        ];
        for switch in switches {
            if let Some(key) = switch.idle_key() {
                return Err(self.inconsistent(format!(
                    "{key} does nothing without {switch}; set {switch} to {}, or leave {key} out",
                    switch.on,
                    switch = switch.key
                )));
            }
        }
        self.check_durability()
    }

    /// Refuses settings of durability that have no effect with power-loss protection. A journal on a drive that
    /// ignores flushes is not refused: ignoring flushes means leaving the journal alone.
    fn check_durability(&self) -> Result<(), ProfileError> {
        let (controller, flush) = (&self.document.controller, &self.document.flush);
        let protection = &controller.power_loss_protection;
        let through = *controller.write_cache.value.get_ref() == WriteCache::WriteThrough;
        let ignored = *controller.flush.value.get_ref() == FlushHandling::Ignored;
        let keys = [
            ("flush.journal=on", *flush.journal.value.get_ref(), flush.journal.basis),
            ("controller.write_cache=write-through", through, controller.write_cache.basis),
            ("controller.flush=ignored", ignored, controller.flush.basis),
        ];
        // As above: keys in a file may stay if the user adds power-loss protection for a run.
        let is_idle = |basis| basis == Basis::Given || protection.basis != Basis::Given;
        let found = keys.iter().find(|(_, is_on, basis)| *is_on && is_idle(*basis));
        match found {
            Some((key, ..)) if *protection.value.get_ref() => Err(self.inconsistent(format!(
                "{key} does nothing with controller.power_loss_protection=on, which saves the \
                 write buffer; set controller.power_loss_protection to off, or leave {key} out"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{DEFAULT, Profile};

    fn check(name: &str, changes: &[(&str, &str)]) -> Result<(), String> {
        let mut profile = Profile::named(name).expect("an embedded profile");
        for (key, value) in changes {
            profile.set(key, value).map_err(|error| error.to_string())?;
        }
        profile.check().map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_of_a_mechanism_that_is_off_is_refused() {
        for (key, value, switch) in [
            ("thermal.mb_per_second", "900", "thermal.limit"),
            ("slc.bits", "3", "slc.size"),
            ("slc.program", "200us", "slc.size"),
            ("slc.page_read", "30us", "slc.size"),
            ("slc.space", "dynamic", "slc.size"),
            ("slc.fixed", "1G", "slc.size"),
            ("slc.when_full", "fold", "slc.size"),
            ("flash.suspend_step", "50us", "flash.suspend"),
            ("flash.suspend_time", "10us", "flash.suspend"),
            ("flash.resume_time", "10us", "flash.suspend"),
            ("flash.suspends_most", "4", "flash.suspend"),
            ("flash.suspend_when", "buffer-has-room", "flash.suspend"),
            ("flush.journal_program", "1ms", "flush.journal"),
            ("retention.free_for", "10d", "retention.retry"),
            ("retention.steps", "3", "retention.retry"),
            ("retention.worn_steps", "9", "retention.retry"),
            ("trim.settle", "5s", "trim.reads_after"),
            ("wear.static_every", "64", "wear.levelling"),
            ("wear.static_spread", "10", "wear.levelling"),
            ("wear.life_shape", "8", "wear.life"),
            ("wear.factory_bad", "0.02", "wear.life"),
            ("wear.reserve", "40", "wear.life"),
            ("wear.retire_most", "0.5", "wear.life"),
            ("wear.spare_threshold", "5", "wear.life"),
        ] {
            let error = check(DEFAULT, &[(key, value)]).unwrap_err();
            let expected = format!("{key} does nothing without {switch}; set {switch} to ");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_switch_may_come_after_its_keys_and_may_be_turned_off_for_a_run() {
        let suspend = [("flash.suspends_most", "4"), ("flash.suspend", "erase")];
        check(DEFAULT, &suspend).unwrap();
        let goodram = "goodram-c50-120";
        check(goodram, &[("flush.journal", "off")]).expect("its file gives a journal_program");
        let both = [("flush.journal", "off"), ("flush.journal_program", "1ms")];
        assert!(check(goodram, &both).unwrap_err().contains("flush.journal_program does nothing"));
        let text = Profile::named(goodram).unwrap().text().to_owned();
        let off = text.replace("journal = { value = true", "journal = { value = false");
        assert_ne!(text, off);
        let error = Profile::parse("off", "off.toml", &off).unwrap_err().to_string();
        assert!(error.contains("flush.journal_program does nothing"), "{error}");
    }

    #[test]
    fn what_capacitors_make_useless_is_refused() {
        let capacitors = ("controller.power_loss_protection", "on");
        for (key, value) in [
            ("flush.journal", "on"),
            ("controller.write_cache", "write-through"),
            ("controller.flush", "ignored"),
        ] {
            let error = check(DEFAULT, &[capacitors, (key, value)]).unwrap_err();
            let expected = format!("{key}={value} does nothing with {}=on", capacitors.0);
            assert!(error.contains(&expected), "{error}");
            check("intel-p4500", &[(key, value)]).expect_err("its file says that it has them");
        }
        check(DEFAULT, &[capacitors, ("flush.overhead", "700us")]).expect("the command's own");
        check("goodram-c50-120", &[capacitors]).expect("its file gives a journal");
    }
}
