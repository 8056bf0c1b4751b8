//! Bytes from outside never make the model panic: profiles, what recovery finds, saved drives.
//! `fuzz/` has the same functions as fuzz targets.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use ssdlab_model::profile::Profile;

use crate::untrusted;

fn cases(count: u32) -> ProptestConfig {
    let rng_seed = match ProptestConfig::default().rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        given => given,
    };
    ProptestConfig { cases: count, failure_persistence: None, rng_seed, ..Default::default() }
}

/// The default profile's file, with some bytes changed.
fn almost_a_profile() -> impl Strategy<Value = Vec<u8>> {
    let text = include_str!("../../profiles/generic-tlc.toml");
    assert!(Profile::parse("generic-tlc", "generic-tlc.toml", text).is_ok());
    prop::collection::vec((0..text.len(), any::<u8>()), 0..4).prop_map(move |changes| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in changes {
            bytes[at] = byte & 0x7f;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_profile_of_any_text_is_an_error_or_a_profile(text in almost_a_profile()) {
        untrusted::profile(&text);
    }

    #[test]
    fn a_flash_of_any_content_is_an_error_or_a_drive_that_works(
        bytes in prop::collection::vec(any::<u8>(), 0..1200),
    ) {
        untrusted::recovery(&bytes);
    }

    #[test]
    fn a_saved_drive_of_any_bytes_is_an_error_or_a_sound_drive(
        bytes in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        untrusted::snapshot(&bytes);
    }
}
