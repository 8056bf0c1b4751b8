//! Drives whose makers published what cannot be asked of them.
//!
//! Few, and each with its source: what is not known for sure is better not said. What this project
//! has profiles of is here as well, with the same figures.

use ssdlab_model::units::{ByteLength, GIB};

/// What is known of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// How its name begins, as the drive says it, in capitals.
    model: &'static str,
    /// What it is sold as, in GB of 10^9 bytes.
    sold_as: u64,
    /// Flash in it, in GiB; 0 where that is not known.
    raw_gib: u64,
    /// What may be written to it, in TB of 10^12 bytes; 0 where that is not known.
    rated_tb: u64,
    /// Who says so.
    pub(super) source: &'static str,
}

impl Known {
    pub(super) fn raw(&self) -> Option<ByteLength> {
        (self.raw_gib > 0).then(|| GIB * self.raw_gib)
    }

    pub(super) fn rated_writes(&self) -> Option<ByteLength> {
        (self.rated_tb > 0).then(|| ByteLength::new(self.rated_tb * 1_000_000_000_000))
    }
}

const fn known(
    model: &'static str,
    sold_as: u64,
    raw_gib: u64,
    rated_tb: u64,
    source: &'static str,
) -> Known {
    Known { model, sold_as, raw_gib, rated_tb, source }
}

const TABLE: [Known; 14] = [
    known("SAMSUNG SSD 840 PRO", 512, 512, 0, "Habr 242199"),
    known("SAMSUNG SSD 850 PRO 128GB", 128, 129, 0, "Habr 242199"),
    known("KINGSTON SNV425S264GB", 64, 64, 0, "KompyuterPress 01/2011"),
    known("SAMSUNG SSD 870 EVO 250GB", 250, 0, 150, "the maker's rating, by pgrid.app"),
    known("SAMSUNG SSD 870 EVO 1TB", 1000, 0, 600, "the maker's rating, by pgrid.app"),
    known("SAMSUNG SSD 870 EVO 2TB", 2000, 0, 1200, "the maker's rating, by pgrid.app"),
    known("SAMSUNG SSD 870 EVO 4TB", 4000, 0, 2400, "the maker's rating, by pgrid.app"),
    known("SAMSUNG SSD 970 EVO 250GB", 250, 0, 150, "the maker's rating, by techgage.com"),
    known("SAMSUNG SSD 970 EVO 500GB", 500, 0, 300, "the maker's rating, by techgage.com"),
    known("SAMSUNG SSD 970 EVO 1TB", 1000, 0, 600, "the maker's rating, by techgage.com"),
    known("SAMSUNG SSD 970 EVO 2TB", 2000, 0, 1200, "the maker's rating, by techgage.com"),
    known("SAMSUNG SSD 980 PRO 1TB", 1000, 0, 600, "the maker's rating, by techbriefly.com"),
    known("CT1000MX500SSD1", 1000, 0, 360, "the maker's rating, by techpowerup.com"),
    known("CT1000MX500SSD4", 1000, 0, 360, "the maker's rating, by techpowerup.com"),
];

/// What is known of a drive that calls itself `model` and has this size.
pub(super) fn find(model: &str, size: ByteLength) -> Option<&'static Known> {
    let model = model.to_uppercase();
    // A drive that was made smaller than it was sold (host protected area, namespaces) is the
    // same drive; one that is larger is another.
    TABLE.iter().find(|known| {
        model.starts_with(known.model) && size.bytes() <= known.sold_as * 1_030_000_000
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_how_its_name_begins_and_by_its_size() {
        let size = ByteLength::new(512_110_190_592);
        let found = find("Samsung SSD 840 PRO Series", size).unwrap();
        let raw = found.raw().unwrap();
        // 6.85 % spare of physical, as the article has it.
        let spare = (raw.bytes() - size.bytes()) as f64 / raw.bytes() as f64;
        assert!((spare - 0.0685).abs() < 0.0001, "{spare}");
        assert!(find("Samsung SSD 840 PRO Series", ByteLength::new(1_000_000_000_000)).is_none());
        assert!(find("Samsung SSD 970 EVO Plus 1TB", ByteLength::new(1_000_204_886_016)).is_none());
    }
}
