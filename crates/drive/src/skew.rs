//! Skewed distributions of requests over blocks: the laws of fio's `random_distribution`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ssdlab_units::text::QuantityError;

/// Maximum number of zones of a region.
pub const MAX_ZONES: usize = 16;

/// All requests, or all blocks: shares are counted in ten-thousandths.
const ALL: u16 = 10_000;

/// A law by which some blocks of a region get more requests than others, in the spelling of fio's
/// `random_distribution`:
///
/// | text | the law |
/// | --- | --- |
/// | `zipf:1.2` | the block of rank k is asked for in proportion to 1/k^1.2 |
/// | `pareto:0.2` | a share of 0.2 of the blocks gets 0.8 of the requests, and so do the blocks within that share |
/// | `normal:10` | the mean of twelve draws, moved by up to a tenth of half the region |
/// | `zoned:60/10:30/20:10/70` | 60 % of the requests go to the first 10 % of the region, and so on |
/// | `scattered:60/10:40/90` | zones whose blocks lie all over the region; fio has no such law |
///
/// The blocks of all laws but `zoned` are scattered over the region by a permutation, so that blocks with
/// many requests do not lie together. fio uses a hash there, which maps some ranks to the same block and
/// leaves other blocks out. The rank of a block follows from the number of blocks alone, so that it stays
/// from one phase to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Skew(Distribution);

/// The laws, with parameters that were checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    Zipf { theta: f64 },
    Pareto { share: f64 },
    Normal { deviation: f64 },
    Zones(Zones),
}

/// Parts of a region, each with a share of the requests of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zones {
    zones: [Zone; MAX_ZONES],
    count: usize,
    pub(crate) are_scattered: bool,
}

/// One zone, in ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) requests: u16,
    pub(crate) blocks: u16,
}

impl Zones {
    pub(crate) fn all(&self) -> &[Zone] {
        &self.zones[..self.count]
    }
}

impl Skew {
    /// Returns a law with two zones: `requests` of ten thousand requests go to the first `blocks` of ten
    /// thousand blocks. Values above ten thousand count as ten thousand.
    pub fn hot_and_cold(requests: u16, blocks: u16) -> Skew {
        let (requests, blocks) = (requests.min(ALL), blocks.min(ALL));
        let mut zones = [Zone::default(); MAX_ZONES];
        zones[0] = Zone { requests, blocks };
        zones[1] = Zone { requests: ALL - requests, blocks: ALL - blocks };
        Skew(Distribution::Zones(Zones { zones, count: 2, are_scattered: false }))
    }

    /// Returns the minimum number of blocks that a region needs for this law.
    pub fn min_blocks(&self) -> u64 {
        match self.0 {
            Distribution::Zones(zones) => zones.count as u64,
            Distribution::Zipf { .. }
            | Distribution::Pareto { .. }
            | Distribution::Normal { .. } => 1,
        }
    }

    /// Returns the law in fio's spelling, or `None` if fio has no such law: scattered zones, and Zipf's
    /// with a theta of 1, which fio refuses.
    pub fn of_fio(&self) -> Option<String> {
        match self.0 {
            Distribution::Zones(Zones { are_scattered: true, .. })
            | Distribution::Zipf { theta: 1.0 } => None,
            _ => Some(self.to_string()),
        }
    }

    pub(crate) fn distribution(&self) -> &Distribution {
        &self.0
    }
}

const EXPECTED: &str = "a distribution, such as zipf:1.2, pareto:0.2, normal:10, zoned:80/20:20/80 or scattered:80/20:20/80";
const THETA: &str = "a Zipf theta from 0 to 10, as in zipf:0.99";
const SHARE: &str = "a Pareto power between 0 and 1, as in pareto:0.2";
const DEVIATION: &str = "a deviation from 0 to less than 100, as in normal:10";
const SHARES: &str =
    "up to 16 zones REQUESTS/BLOCKS in percent, each adding up to 100, as in zoned:80/20:20/80";

impl FromStr for Skew {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Skew, QuantityError> {
        let wrong = |expected| QuantityError { text: text.to_owned(), expected };
        let (name, value) = text.trim().split_once(':').ok_or_else(|| wrong(EXPECTED))?;
        let number = |expected, sound: fn(f64) -> bool| {
            let number = value.trim().parse::<f64>().ok().filter(|&number| sound(number));
            number.ok_or_else(|| wrong(expected))
        };
        let law = match name {
            "zipf" => Distribution::Zipf { theta: number(THETA, |it| (0.0..=10.0).contains(&it))? },
            "pareto" => Distribution::Pareto { share: number(SHARE, |it| it > 0.0 && it < 1.0)? },
            "normal" => Distribution::Normal {
                deviation: number(DEVIATION, |it| (0.0..100.0).contains(&it))?,
            },
            "zoned" | "scattered" => {
                let are_scattered = name == "scattered";
                Distribution::Zones(zones_of(value, are_scattered).ok_or_else(|| wrong(SHARES))?)
            }
            _ => return Err(wrong(EXPECTED)),
        };
        Ok(Skew(law))
    }
}

fn zones_of(text: &str, are_scattered: bool) -> Option<Zones> {
    let mut zones = [Zone::default(); MAX_ZONES];
    let mut count = 0;
    for part in text.split(':') {
        let (requests, blocks) = part.split_once('/')?;
        *zones.get_mut(count)? = Zone { requests: share_of(requests)?, blocks: share_of(blocks)? };
        count += 1;
    }
    let sum =
        |share: fn(&Zone) -> u16| zones.iter().map(|zone| u32::from(share(zone))).sum::<u32>();
    let is_all = |sum| sum == u32::from(ALL);
    let is_sound = is_all(sum(|zone| zone.requests)) && is_all(sum(|zone| zone.blocks));
    let is_somewhere = zones[..count].iter().all(|zone| zone.blocks > 0);
    (is_sound && is_somewhere).then_some(Zones { zones, count, are_scattered })
}

/// Returns a share in percent, with at most two decimal places, as ten-thousandths.
fn share_of(text: &str) -> Option<u16> {
    let percent = text.trim().trim_end_matches('%').parse::<f64>().ok()?;
    let parts = percent * 100.0;
    let is_whole = (parts - parts.round()).abs() < 1e-6;
    (is_whole && (0.0..=f64::from(ALL)).contains(&parts.round())).then_some(parts.round() as u16)
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            Distribution::Pareto { share } => write!(f, "pareto:{share}"),
            Distribution::Normal { deviation } => write!(f, "normal:{deviation}"),
            Distribution::Zones(zones) => {
                f.write_str(if zones.are_scattered { "scattered" } else { "zoned" })?;
                for zone in zones.all() {
                    let percent = |parts: u16| f64::from(parts) / 100.0;
                    write!(f, ":{}/{}", percent(zone.requests), percent(zone.blocks))?;
                }
                Ok(())
            }
        }
    }
}

impl TryFrom<String> for Skew {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Skew, QuantityError> {
        text.parse()
    }
}

impl From<Skew> for String {
    fn from(skew: Skew) -> String {
        skew.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_shown_as_it_is_written() {
        for text in [
            "zipf:1.2",
            "zipf:0",
            "pareto:0.2",
            "normal:10",
            "zoned:60/10:30/20:8/30:2/40",
            "scattered:99.5/0.5:0.5/99.5",
            "zoned:100/50:0/50",
        ] {
            assert_eq!(text.parse::<Skew>().unwrap().to_string(), text);
        }
        assert_eq!(Skew::hot_and_cold(8_000, 2_000), "zoned:80/20:20/80".parse().unwrap());
        assert_eq!("zoned: 80%/20% :20/80".parse(), Ok(Skew::hot_and_cold(8_000, 2_000)));
        for text in ["scattered:80/20:20/80", "zipf:1"] {
            assert_eq!(text.parse::<Skew>().unwrap().of_fio(), None);
        }
    }

    #[test]
    fn what_is_no_law_is_refused_with_an_example() {
        for (text, words) in [
            ("zipf", "a distribution, such as zipf:1.2"),
            ("zipf:", "a Zipf theta"),
            ("zipf:-1", "a Zipf theta"),
            ("zipf:nan", "a Zipf theta"),
            ("zipf:11", "from 0 to 10"),
            ("pareto:1", "between 0 and 1"),
            ("pareto:0", "between 0 and 1"),
            ("normal:100", "less than 100"),
            ("gauss:1", "a distribution"),
            ("zoned:80/20", "adding up to 100"),
            ("zoned:80/20:20/70", "adding up to 100"),
            ("zoned:80/0:20/100", "adding up to 100"),
            ("zoned:80.123/20:19.877/80", "adding up to 100"),
            ("zoned:80:20", "adding up to 100"),
        ] {
            let error = text.parse::<Skew>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let many = format!("zoned:{}", ["6.25/6.25"; 16].join(":"));
        assert_eq!(many.parse::<Skew>().unwrap().min_blocks(), 16);
        assert!(format!("{many}:0/0").parse::<Skew>().is_err());
    }
}
