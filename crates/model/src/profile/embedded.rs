//! The profiles that are embedded in the program.

macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*]
    };
}

/// Name of the profile that `sim:` uses.
pub const DEFAULT: &str = "generic-tlc";

/// Returns every embedded profile: its name and its text.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    profiles![
        "generic-tlc",
        "intel-s3510",
        "toshiba-xg5",
        "samsung-pm963",
        "samsung-pm983",
        "samsung-pm981",
        "samsung-pm1725b",
        "micron-5200",
        "samsung-pm883",
        "intel-p3520",
        "intel-p4500",
        "samsung-840-pro-512",
        "goodram-c50-120",
        "intel-sf2281-120",
        "sandisk-readycache-32",
        "kingston-v-64",
        "micron-7450-max-800",
        "micron-7450-pro-960",
        "solidigm-p5520-1920",
        "samsung-pm9a3-960",
        "kioxia-cm7-r-3840",
        "skhynix-pe8110-960",
        "wd-sn640-960",
        "samsung-970-evo-500",
        "samsung-970-evo-1000",
        "samsung-970-pro-512",
        "samsung-980-pro-1000",
        "adata-atom-50-1000",
        "wd-sn580-1000",
        "intel-660p-1000",
        "samsung-840-evo-250",
        "toshiba-rc100-240",
        "kingston-dti-4",
        "skhynix-gold-p31-1000",
        "intel-600p-512",
        "solidigm-d5-p5316-15360",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::profile::Profile;

    #[test]
    fn every_embedded_profile_makes_a_drive_and_every_number_has_a_source() {
        assert!(embedded().iter().any(|(name, _)| *name == DEFAULT));
        for (name, _) in embedded() {
            let profile = Profile::named(name).unwrap_or_else(|error| panic!("{error}"));
            for parameter in profile.parameters() {
                assert!(parameter.source.len() > 8, "{name}: {} has no source", parameter.key);
            }
            Ssd::new(&profile.configuration().unwrap()).unwrap();
        }
    }

    /// Parameters that no embedded profile sets. docs/PROFILES.md gives the reasons.
    const IN_NO_DRIVE: [&str; 11] = [
        "controller.mb_per_second",
        "wear.static_stream",
        "collection.allocation",
        "wear.factory_bad",
        "wear.retire_most",
        "wear.spare_threshold",
        "streams.count",
        "streams.hot_within",
        "streams.hot_blocks",
        "trim.range",
        "trim.settle",
    ];

    #[test]
    fn every_key_is_set_in_a_profile_that_is_named_after_a_drive_or_known_not_to_be() {
        let named = embedded().iter().filter(|(name, _)| *name != DEFAULT);
        let profiles: Vec<_> = named.map(|(name, _)| Profile::named(name).unwrap()).collect();
        let set: Vec<_> =
            profiles.iter().flat_map(|it| it.parameters()).map(|parameter| parameter.key).collect();
        let all = profiles[0].parameters().into_iter().chain(profiles[0].parameters_not_set());
        let mut in_none: Vec<_> =
            all.map(|parameter| parameter.key).filter(|key| !set.contains(key)).collect();
        let mut known = IN_NO_DRIVE.to_vec();
        in_none.sort_unstable();
        known.sort_unstable();
        assert_eq!(in_none, known);
    }
}
