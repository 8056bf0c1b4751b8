//! Oracle: the allowed contents of each sector of the drive.
//!
//! Every change of a sector has a number. A sector may hold its last promised change, or one that was begun
//! later: nothing older, and nothing else.

use std::ops::Range;
use std::sync::Arc;

use crate::pages::SECTOR;

/// A change of sectors: the number of a write or a trim. 0 stands for a sector that was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(u64);

/// Flag in the number of a trim.
const TRIMMED: u64 = 1 << 63;

impl Change {
    /// Returns the change of write `number`, which has to be 1 or more.
    pub fn write(number: u64) -> Change {
        assert!(number > 0 && number < TRIMMED, "numbers begin with 1");
        Change(number)
    }

    /// Returns the change of trim `number`, after which sectors read as zeros.
    pub fn trim(number: u64) -> Change {
        Change(number | TRIMMED)
    }

    /// Returns the contents of a sector after the change, as [`read_contents`] returns them. Trimmed sectors
    /// have the same contents as sectors that were never written.
    fn contents(self) -> Contents {
        Contents(if self.0 & TRIMMED != 0 { 0 } else { self.0 })
    }
}

/// Contents of a sector: the number of a write, or 0 for zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents(u64);

/// Contents that no write of a history leaves.
const FOREIGN: Contents = Contents(u64::MAX);

/// An action of the host, or a promise of the drive. Sectors count from the beginning of the drive.
#[derive(Clone, Debug)]
pub enum Mark {
    /// A change of these sectors is about to begin.
    Begun {
        /// The sectors.
        sectors: Range<u32>,
        /// The change.
        change: Change,
    },
    /// Contents of all sectors after the drive was opened again; none of them is promised.
    Found(Arc<[Change]>),
    /// Each of these sectors is durable with this change, or with a later one.
    Promised {
        /// The first sector.
        first: u32,
        /// Changes of the sectors from `first` on.
        changes: Arc<[Change]>,
    },
}

/// Fills `data`, sectors from `first` on, with the pattern of the write `change`.
pub fn fill(data: &mut [u8], first: u32, change: Change) {
    for (sector, bytes) in (first..).zip(data.chunks_mut(SECTOR)) {
        let mut pattern = [0; 16];
        pattern[..8].copy_from_slice(&change.0.to_le_bytes());
        pattern[8..].copy_from_slice(&(u64::from(sector) + 1).to_le_bytes());
        bytes.chunks_mut(16).for_each(|place| place.copy_from_slice(&pattern));
    }
}

/// Returns the contents of each sector of `data`, sectors from `first` on.
pub fn read_contents(data: &[u8], first: u32) -> Vec<Contents> {
    let of_sector = |(sector, bytes): (u32, &[u8])| {
        let (pattern, rest) = bytes.split_at(16);
        // A sector repeats the same 16 bytes.
        if rest != &bytes[..SECTOR - 16] {
            return FOREIGN;
        }
        let number = u64::from_le_bytes(pattern[..8].try_into().expect("eight bytes"));
        let place = u64::from_le_bytes(pattern[8..].try_into().expect("eight bytes"));
        match (number, place) {
            (0, 0) => Contents(0),
            (number, place) if place == u64::from(sector) + 1 => Contents(number),
            _ => FOREIGN,
        }
    };
    (first..).zip(data.chunks(SECTOR)).map(of_sector).collect()
}

/// A sector with contents that are not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The sector.
    pub sector: u32,
    /// Its contents.
    pub found: Contents,
    /// Allowed changes, the oldest first.
    pub allowed: Vec<Change>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |number: u64| match number {
            0 => "nothing".to_owned(),
            number if number & TRIMMED != 0 => format!("trim {}", number & !TRIMMED),
            number => format!("write {number}"),
        };
        let found = if self.found == FOREIGN { "foreign data".into() } else { name(self.found.0) };
        let allowed: Vec<String> = self.allowed.iter().map(|change| name(change.0)).collect();
        write!(f, "sector {} holds {found}, and may hold {}", self.sector, allowed.join(", "))
    }
}

/// Allowed contents of each sector.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Changes of each sector, from the promised one to the latest that was begun.
    states: Vec<Vec<Change>>,
}

impl Oracle {
    /// Returns the oracle of a new drive of `sectors` sectors.
    pub fn new(sectors: u32) -> Oracle {
        Oracle { states: vec![vec![Change(0)]; sectors as usize] }
    }

    /// Updates the allowed contents.
    pub fn note(&mut self, mark: &Mark) {
        match mark {
            Mark::Begun { sectors, change } => {
                for states in &mut self.states[sectors.start as usize..sectors.end as usize] {
                    states.push(*change);
                }
            }
            Mark::Found(changes) => {
                for (states, change) in self.states.iter_mut().zip(changes.iter()) {
                    if states.last() != Some(change) {
                        states.push(*change);
                    }
                }
            }
            Mark::Promised { first, changes } => {
                for (states, change) in
                    self.states[*first as usize..].iter_mut().zip(changes.iter())
                {
                    // A promise of an older change than the promised one drops nothing.
                    let from = states.iter().rposition(|it| it == change).unwrap_or(0);
                    states.drain(..from);
                }
            }
        }
    }

    /// Checks the contents of all sectors.
    ///
    /// # Errors
    /// Returns the first sector with contents that are not allowed.
    pub fn check(&self, contents: &[Contents]) -> Result<(), Violation> {
        self.check_readable(contents.iter().map(|&it| Some(it)))
    }

    /// Checks the contents of all sectors; `None` for those that cannot be read.
    ///
    /// # Errors
    /// Returns the first sector with contents that are not allowed.
    pub fn check_readable(
        &self,
        contents: impl Iterator<Item = Option<Contents>>,
    ) -> Result<(), Violation> {
        for ((sector, states), found) in (0..).zip(&self.states).zip(contents) {
            let Some(found) = found else { continue };
            if !states.iter().any(|change| change.contents() == found) {
                return Err(Violation { sector, found, allowed: states.clone() });
            }
        }
        Ok(())
    }

    /// Returns the latest change of each sector that leaves these contents.
    ///
    /// # Errors
    /// Returns the first sector with contents that are not allowed.
    pub fn identify(&self, contents: &[Contents]) -> Result<Vec<Change>, Violation> {
        self.check(contents)?;
        let latest = |(states, found): (&Vec<Change>, &Contents)| {
            states.iter().rev().copied().find(|change| change.contents() == *found)
        };
        Ok(self.states.iter().zip(contents).filter_map(latest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(oracle: &Oracle, change: Change) -> bool {
        oracle.check(&[change.contents(), Contents(0)]).is_ok()
    }

    #[test]
    fn a_sector_may_hold_what_was_promised_or_begun_later_and_nothing_else() {
        let mut oracle = Oracle::new(2);
        let (one, two, three) = (Change::write(1), Change::write(2), Change::write(3));
        for change in [one, two, three] {
            oracle.note(&Mark::Begun { sectors: 0..1, change });
        }
        assert!(holds(&oracle, Change(0)) && holds(&oracle, one) && holds(&oracle, three));
        oracle.note(&Mark::Promised { first: 0, changes: [two].into() });
        assert!(!holds(&oracle, one) && holds(&oracle, two) && holds(&oracle, three));
        // A promise that comes late takes nothing back.
        oracle.note(&Mark::Promised { first: 0, changes: [one].into() });
        assert!(!holds(&oracle, one) && holds(&oracle, two));
        oracle.note(&Mark::Begun { sectors: 0..1, change: Change::trim(4) });
        oracle.note(&Mark::Promised { first: 0, changes: [Change::trim(4)].into() });
        assert!(holds(&oracle, Change(0)) && !holds(&oracle, three));
        assert!(oracle.check(&[FOREIGN, Contents(0)]).is_err());
    }

    #[test]
    fn what_was_found_may_be_promised_and_what_it_has_undone_is_gone_then() {
        let mut oracle = Oracle::new(2);
        let (one, two) = (Change::write(1), Change::write(2));
        oracle.note(&Mark::Begun { sectors: 0..1, change: one });
        oracle.note(&Mark::Begun { sectors: 0..1, change: two });
        let found = oracle.identify(&[one.contents(), Contents(0)]).expect("it may hold that");
        oracle.note(&Mark::Found(found.into()));
        assert!(holds(&oracle, two));
        oracle.note(&Mark::Promised { first: 0, changes: [one].into() });
        assert!(holds(&oracle, one) && !holds(&oracle, two));
    }

    #[test]
    fn contents_tell_a_write_from_others_and_from_other_places() {
        let mut data = vec![0; 3 * SECTOR];
        fill(&mut data[..2 * SECTOR], 7, Change::write(9));
        assert_eq!(read_contents(&data, 7), [Contents(9), Contents(9), Contents(0)]);
        assert_eq!(read_contents(&data, 6), [FOREIGN, FOREIGN, Contents(0)]);
        data[700] ^= 1;
        assert_eq!(read_contents(&data, 7), [Contents(9), FOREIGN, Contents(0)]);
    }
}
