//! Published facts about drive models that cannot be read from a drive: its flash, and its rated endurance.
//!
//! Each figure has a source; figures of unknown origin are left out. Drives for which this project has profiles are
//! included, with the same figures.

mod table;

use ssdlab_units::{ByteLength, GIB};

/// Drives that are sold under one name in several sizes.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// Document that has the figures.
    source: &'static str,
    /// Publication in which the figures were read, if not in `source`; empty if none of them was read.
    quoted_source: &'static str,
    sizes: &'static [Size],
}

/// One size of a family.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Model names in capitals: the drive's own model contains one of them.
    models: &'static [&'static str],
    /// Nominal capacity, in GB of 10^9 bytes.
    sold_as: u64,
    /// Flash in the drive, in GiB; 0 if not known.
    raw_gib: u64,
    endurance: Endurance,
}

/// Rated endurance of a drive (TBW), as of its warranty.
#[derive(Clone, Copy, Debug)]
enum Endurance {
    /// The endurance is not known.
    Unknown,
    /// The maker gave no figure.
    NotGiven,
    /// Endurance that was read in a publication, in GB of 10^9 bytes.
    Read { gb: u64 },
    /// Endurance that nobody has verified, in GB of 10^9 bytes.
    Unverified { gb: u64 },
}

/// Rated endurance of a drive (TBW), as of its warranty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RatedEndurance {
    /// The maker gave no figure.
    NotGiven,
    /// Endurance in bytes, as read in the source.
    Verified(ByteLength),
    /// Endurance in bytes, as noted by this project; nobody has compared it with the source.
    Unverified(ByteLength),
}

/// Published facts about one drive model.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownModel {
    size: Size,
    family: &'static Family,
}

impl KnownModel {
    /// Returns the flash in the drive in bytes, or `None` if not known.
    pub(super) fn raw(&self) -> Option<ByteLength> {
        (self.size.raw_gib > 0).then(|| GIB * self.size.raw_gib)
    }

    /// Returns the rated endurance, or `None` if not known.
    pub(super) fn rated_writes(&self) -> Option<RatedEndurance> {
        let bytes = |gb: u64| ByteLength::new(gb * 1_000_000_000);
        match self.size.endurance {
            Endurance::Unknown => None,
            Endurance::NotGiven => Some(RatedEndurance::NotGiven),
            Endurance::Read { gb } => Some(RatedEndurance::Verified(bytes(gb))),
            Endurance::Unverified { gb } => Some(RatedEndurance::Unverified(bytes(gb))),
        }
    }

    /// Returns the name of the document that has the figures.
    pub(super) fn source(&self) -> &'static str {
        self.family.source
    }

    /// Returns the name of the document that has the figures, and the publication in which they were read.
    pub(super) fn quoted_source(&self) -> String {
        match self.family.quoted_source {
            "" => self.family.source.to_owned(),
            quoted_source => format!("{}, quoted by {quoted_source}", self.family.source),
        }
    }
}

/// Returns the entry for a drive that reports the name `model` and has this size, or `None`.
pub(super) fn find(model: &str, size: ByteLength) -> Option<KnownModel> {
    let model = model.to_uppercase();
    let gigabytes = size.bytes() as f64 / 1e9;
    // Makers sell drives of 500.1 and of 512.1 GB as 500 GB. A drive that was made smaller than sold (host protected
    // area, namespaces) is only recognised by a name that has the size in it.
    let fits = |one: &&Size| {
        let has_name = one.models.iter().any(|name| model.contains(name));
        let sold_as = one.sold_as as f64;
        let names_size = one.models.iter().any(|name| name.contains(&one.sold_as.to_string()));
        let least = if names_size { 0.0 } else { sold_as * 0.9 };
        has_name && (least..=sold_as * 1.03).contains(&gigabytes)
    };
    table::families().find_map(|family| {
        let size = family.sizes.iter().find(fits)?;
        Some(KnownModel { size: *size, family })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_name_and_by_its_size() {
        let size = ByteLength::new(512_110_190_592);
        let found = find("Samsung SSD 840 PRO Series", size).unwrap();
        let raw = found.raw().unwrap();
        // 6.85 % of the physical capacity is spare, according to the article.
        let spare = (raw.bytes() - size.bytes()) as f64 / raw.bytes() as f64;
        assert!((spare - 0.0685).abs() < 0.0001, "{spare}");
        assert!(find("Samsung SSD 840 PRO Series", ByteLength::new(1_000_000_000_000)).is_none());
        assert!(find("Samsung SSD 9999 1TB", ByteLength::new(1_000_204_886_016)).is_none());
    }

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        let rated = |model: &str, gigabytes: u64| {
            let known = find(model, ByteLength::new(gigabytes * 1_000_000_000))?;
            match known.rated_writes()? {
                RatedEndurance::NotGiven => None,
                RatedEndurance::Verified(it) | RatedEndurance::Unverified(it) => {
                    Some(it.bytes() / 1_000_000_000_000)
                }
            }
        };
        for (model, gigabytes, expected) in [
            ("Samsung SSD 970 EVO 1TB", 1_000, Some(600)),
            ("Samsung SSD 970 EVO Plus 1TB", 1_000, Some(600)),
            ("Samsung SSD 970 PRO 1TB", 1_024, Some(1_200)),
            ("Samsung SSD 860 QVO 1TB", 1_000, Some(360)),
            ("Samsung SSD 860 EVO M.2 500GB", 500, Some(300)),
            ("Samsung SSD 850 EVO 250GB", 250, Some(75)),
            ("CT1000P3SSD8", 1_000, Some(220)),
            ("CT1000P3PSSD8", 1_000, Some(220)),
            ("CT1000P5SSD8", 1_000, Some(600)),
            ("CT500MX500SSD1", 500, Some(180)),
            ("CT500MX500SSD4", 500, Some(180)),
            ("WDC WDS500G2B0A-00SM50", 500, Some(200)),
            ("WD Blue SN570 1TB", 1_000, Some(600)),
            ("WD_BLACK SN850X 2000GB", 2_000, Some(1_200)),
            ("KINGSTON SA400S37240G", 240, Some(80)),
            ("KINGSTON SKC3000D2048G", 2_048, Some(1_600)),
            ("INTEL SSDPEKNW010T8", 1_024, Some(200)),
            ("INTEL SSDSC2BB480G6", 480, Some(275)),
            ("Seagate FireCuda 520 SSD ZP1000GM30002", 1_000, Some(1_800)),
            ("SHGP31-1000GM", 1_000, Some(750)),
            ("Force MP510", 960, Some(1_700)),
            ("Force MP510", 480, Some(800)),
            ("Force MP510", 700, None),
            ("Force MP600", 1_000, Some(1_800)),
            ("SAMSUNG MZ7LH1T9HMLT-00005", 1_920, Some(2_733)),
            // Part of the drive's capacity is in another namespace.
            ("Samsung SSD 980 PRO 1000GB", 400, None),
            ("CT1000MX500SSD1", 400, Some(360)),
            ("CT1000MX500SSD1", 2_000, None),
            ("Micron_5100_MTFDDAK960TCC", 960, Some(8_760)),
            ("Micron_5300_MTFDDAK960TDT", 960, Some(8_760)),
            ("Micron_7400_MTFDKBA480TDZ", 480, Some(876)),
            ("Micron_7400_MTFDKCB3T2TFC", 3_200, Some(17_520)),
            ("Micron_7450_MTFDKCC3T8TFR", 3_840, Some(7_008)),
        ] {
            assert_eq!(rated(model, gigabytes), expected, "{model} {gigabytes}");
        }
    }

    #[test]
    fn what_nobody_has_verified_and_what_no_maker_gave_is_told_apart() {
        let of = |model: &str, gigabytes: u64| {
            find(model, ByteLength::new(gigabytes * 1_000_000_000)).unwrap()
        };
        let evo = of("Samsung SSD 970 EVO 1TB", 1_000);
        assert_eq!(
            evo.rated_writes(),
            Some(RatedEndurance::Verified(ByteLength::new(600_000_000_000_000)))
        );
        assert!(evo.quoted_source().contains("970 EVO, quoted by"), "{}", evo.quoted_source());
        let pro = of("Samsung SSD 860 PRO 1TB", 1_024);
        assert_eq!(
            pro.rated_writes(),
            Some(RatedEndurance::Unverified(ByteLength::new(1_200_000_000_000_000)))
        );
        assert_eq!(
            of("Samsung SSD 840 Series", 250).rated_writes(),
            Some(RatedEndurance::NotGiven)
        );
        assert_eq!(
            of("Samsung SSD 840 EVO 1TB", 1_000).rated_writes(),
            Some(RatedEndurance::NotGiven)
        );
        assert_eq!(of("Samsung SSD 840 PRO Series", 512).rated_writes(), None);
    }

    #[test]
    fn the_table_has_no_gaps_and_no_name_twice() {
        let mut names = Vec::new();
        let mut count = 0;
        for family in table::families() {
            assert!(!family.source.is_empty());
            let is_read = |size: &Size| matches!(size.endurance, Endurance::Read { .. });
            let has_read = family.sizes.iter().any(is_read);
            assert!(!has_read || !family.quoted_source.is_empty(), "{}", family.source);
            for size in family.sizes {
                count += 1;
                match size.endurance {
                    Endurance::Unknown => assert!(size.raw_gib > 0, "{size:?}"),
                    Endurance::NotGiven => {}
                    Endurance::Read { gb } | Endurance::Unverified { gb } => {
                        // From 0.1 drive writes a day for three years to 17 for five years.
                        let drives = gb as f64 / size.sold_as as f64;
                        assert!((70.0..32_000.0).contains(&drives), "{size:?}");
                    }
                }
                for name in size.models {
                    assert_eq!(*name, name.to_uppercase(), "{name}");
                    names.push((*name, size.sold_as));
                }
            }
        }
        assert!(count >= 60, "{count} drives");
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
