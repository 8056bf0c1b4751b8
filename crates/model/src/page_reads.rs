//! Sense times of the pages of a word line, which differ.
//!
//! A cell of several bits is read against several thresholds: the page of one bit needs one of them, that of another
//! three or four, and each takes its time. So of the pages that one program writes, the first is sensed fastest.

use crate::geometry::Geometry;
use crate::ssd::Configuration;
use crate::units::{Nanoseconds, PhysicalUnit};

/// Sense times of the pages of a word line.
#[derive(Clone, Debug)]
pub(crate) struct PageReads {
    /// Sense time of each page, from the fastest to the slowest; empty if they do not differ.
    each: Vec<Nanoseconds>,
}

impl PageReads {
    /// Returns the sense times of a drive, from its mean and the spread.
    pub(crate) fn new(configuration: &Configuration) -> PageReads {
        let spread = configuration.mechanisms.page_read_spread;
        let pages = configuration.geometry.parameters().pages_per_shot;
        if spread == 0.0 || pages < 2 {
            return PageReads { each: Vec::new() };
        }
        let mean = configuration.timing.page_read.nanos() as f64;
        let of = |page: u32| {
            let place = 2.0 * f64::from(page) / f64::from(pages - 1) - 1.0;
            Nanoseconds::new((mean * (1.0 + spread * place)).round() as u64)
        };
        PageReads { each: (0..pages).map(of).collect() }
    }

    /// Returns the sense time of the page of `unit`; `None` if pages do not differ.
    #[inline(always)]
    pub(crate) fn of(&self, unit: PhysicalUnit, geometry: &Geometry) -> Option<Nanoseconds> {
        match self.differ() {
            true => Some(self.each[geometry.page_on_word_line(unit) as usize]),
            false => None,
        }
    }

    /// Returns true if sense times differ between pages.
    #[inline(always)]
    pub(crate) fn differ(&self) -> bool {
        !self.each.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

    #[test]
    fn the_first_page_of_a_word_line_is_sensed_soonest_and_their_mean_is_kept() {
        let of_drive = |changes: &[(&str, &str)]| {
            let configuration = small_configuration(changes);
            let (reads, geometry) = (PageReads::new(&configuration), &configuration.geometry);
            let of = |unit| reads.of(PhysicalUnit(unit), geometry).map(Nanoseconds::nanos);
            (0..geometry.units_per_program() * 2).map(of).collect::<Vec<_>>()
        };
        assert!(of_drive(&[]).iter().all(Option::is_none));
        let shot = [
            ("flash.pages_per_shot", "3"),
            ("flash.planes_per_die", "2"),
            ("flash.page_size", "16K"),
            ("flash.page_read", "80us"),
            ("flash.page_read_spread", "0.3"),
        ];
        // Four units a page, and two planes.
        let times = of_drive(&shot);
        let expected = [56_000, 80_000, 104_000].map(|time| [Some(time); 8]).concat();
        assert_eq!(times, [expected.clone(), expected].concat());
    }
}
