//! The states that a drive is brought into, and the share of it that holds data in each.

use ssdlab_drive::{Amount, Description, Mix, Pattern, Phase, Region};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};

use super::whole_mib;
use crate::error::LabError;
use crate::experiment::phase_runner::PhaseRunner;
use crate::experiment::steady::{FILL_REQUEST, fill};
use crate::experiment::{Settings, text_format};

/// Capacity of the drive with the published area.
const PUBLISHED_CAPACITY: f64 = 512.11e9;

/// Length of the random writes that precondition a drive.
const RANDOM_FILL_REQUEST: ByteLength = ByteLength::new(64 << 10);

/// Number of pieces in which the spare area is used up; the speed of each is compared with that of those before.
const PIECES: u64 = 128;

/// Preconditioning of a drive before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// One drive, full, without TRIM.
    Full,
    /// One drive after its free space was trimmed.
    Trimmed,
    /// Two drives in RAID 1, full, without TRIM.
    Raid1Full,
    /// Two drives in RAID 1, written once in order after a purge, except for the end, and then in the area until
    /// they have used up their erased blocks.
    Raid1Spare,
    /// Two drives in RAID 1 as in [`State::Raid1Spare`], then overwritten at random.
    Raid1SpareUsed,
}

impl State {
    /// All states, in the order of the article, which has all but the last.
    pub(super) const ALL: [State; 5] =
        [State::Full, State::Trimmed, State::Raid1Full, State::Raid1Spare, State::Raid1SpareUsed];

    /// Returns the name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Full => "full",
            State::Trimmed => "trimmed",
            State::Raid1Full => "raid1_full",
            State::Raid1Spare => "raid1_spare",
            State::Raid1SpareUsed => "raid1_spare_used",
        }
    }

    /// Parses `all` or a list of names such as `full,trimmed`. Returns the states in the order of the article.
    pub(super) fn parse_list(text: &str) -> Result<Vec<State>, LabError> {
        if text == "all" {
            return Ok(State::ALL.to_vec());
        }
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_known = |name: &&str| State::ALL.iter().any(|state| state.name() == *name);
        if !names.iter().all(is_known) {
            return Err(LabError::Range {
                name: "states",
                value: text.to_owned(),
                why: format!(
                    "it must be all, or names of {}",
                    State::ALL.map(State::name).join(", ")
                ),
            });
        }
        Ok(State::ALL.into_iter().filter(|state| names.contains(&state.name())).collect())
    }

    /// Returns true for a state of two drives.
    pub(super) fn is_pair(self) -> bool {
        self == State::Raid1Full || self.has_unwritten_end()
    }

    /// Returns true for a state in which the end of the drive was never written.
    pub(super) fn has_unwritten_end(self) -> bool {
        matches!(self, State::Raid1Spare | State::Raid1SpareUsed)
    }

    /// Returns true for a state of a drive that was overwritten at random.
    pub(super) fn is_overwritten(self) -> bool {
        self != State::Raid1Spare
    }

    /// Returns a description of the preconditioning, to follow the name.
    pub(super) fn words(self, sizes: &Sizes, spare: Option<f64>) -> String {
        let in_area =
            "filled sequentially, then overwritten in order in the area until it slowed down";
        let used = match (self.has_unwritten_end(), self.is_overwritten()) {
            (true, false) => in_area.to_owned(),
            (true, true) => format!("{in_area}, then written at random all over"),
            (false, _) if sizes.used > ByteLength::ZERO => {
                "filled sequentially, then written at random all over".to_owned()
            }
            (false, _) => "filled sequentially".to_owned(),
        };
        let share = spare.map_or(String::new(), |spare| format!(" ({:.2} % spare)", spare * 100.0));
        match self {
            State::Full => format!("one drive, purged, {used}, nothing trimmed{share}"),
            State::Trimmed => format!(
                "one drive, purged, {used}, then its last {} % trimmed{share}",
                sizes.free_percent
            ),
            State::Raid1Full => format!(
                "two copies of one drive that was purged, {used}, in RAID 1 without initial \
                 synchronisation (sync=none), nothing trimmed{share}"
            ),
            State::Raid1Spare | State::Raid1SpareUsed => format!(
                "two copies of one drive that was purged and whose first part was {used}, so that \
                 the rest is spare, in RAID 1 without initial synchronisation (sync=none){share}"
            ),
        }
    }

    /// Returns true if a drive in the state `before` can be brought into this state without being filled
    /// again.
    pub(super) fn can_follow(self, before: State) -> bool {
        match self {
            State::Full | State::Trimmed | State::Raid1Full => {
                matches!(before, State::Full | State::Raid1Full)
            }
            State::Raid1Spare => false,
            State::Raid1SpareUsed => before == State::Raid1Spare,
        }
    }

    /// Writes a drive as this state needs it: a new one, or one in the state `before`, which this state can
    /// follow. `weight` is that of all the writes of a new drive.
    pub(super) fn precondition(
        self,
        before: Option<State>,
        sizes: &Sizes,
        physical: Option<ByteLength>,
        seed: u64,
        runner: &mut PhaseRunner,
        weight: f64,
    ) -> Result<(), LabError> {
        let written = Region::first(sizes.written(self, physical));
        if before.is_none() {
            let amount = FILL_REQUEST * written.length.whole(FILL_REQUEST);
            runner.precondition(&fill(written, amount, seed), weight / 2.0)?;
            if let Some(physical) = physical.filter(|_| self.has_unwritten_end()) {
                let spare = ByteLength::new(physical.bytes() - written.length.bytes());
                use_up_erased_blocks(sizes.area, spare, seed, runner, weight / 2.0)?;
            }
        }
        if self.is_overwritten() && before.is_none_or(|before| !before.is_overwritten()) {
            let share = written.length.bytes() as f64 / sizes.capacity.bytes() as f64;
            let used = RANDOM_FILL_REQUEST
                * ((sizes.used.bytes() as f64 * share) as u64 / RANDOM_FILL_REQUEST.bytes());
            if used > ByteLength::ZERO {
                runner.precondition(&random_fill(written, used, seed), weight / 2.0)?;
            }
        }
        Ok(())
    }

    /// Trims the free space of this state.
    pub(super) fn trim(
        self,
        sizes: &Sizes,
        physical: Option<ByteLength>,
        runner: &mut PhaseRunner,
    ) -> Result<(), LabError> {
        if self == State::Trimmed {
            let free = sizes.free();
            let offset = sizes.written(self, physical) - free;
            runner.drive.trim(Region { offset, length: free })?;
        }
        Ok(())
    }
}

/// Writes the area in order, again and again, until the drive has used up its erased blocks: until it writes less than
/// half as fast as before, or as much is written as is `spare`.
///
/// Until this point a drive would only show what a new one can do. That the drives of the article had been through
/// other tests since their secure erase is assumed.
fn use_up_erased_blocks(
    area: ByteLength,
    spare: ByteLength,
    seed: u64,
    runner: &mut PhaseRunner,
    weight: f64,
) -> Result<(), LabError> {
    let piece = ByteLength::new(spare.bytes() / PIECES).min(area);
    let piece = FILL_REQUEST * piece.whole(FILL_REQUEST).max(1);
    let (pieces, pieces_of_area) = (spare.whole(piece), area.whole(piece));
    let mut fastest = 0.0_f64;
    for index in 0..pieces {
        let region = Region { offset: piece * (index % pieces_of_area), length: piece };
        let phase = Phase {
            name: "writes in order, to use up the erased blocks".to_owned(),
            ..fill(region, piece, seed)
        };
        let elapsed = runner.precondition(&phase, weight / pieces as f64)?.elapsed;
        let speed = piece.bytes() as f64 / elapsed.seconds();
        if speed < fastest / 2.0 {
            break;
        }
        fastest = fastest.max(speed);
    }
    Ok(())
}

fn random_fill(region: Region, amount: ByteLength, seed: u64) -> Phase {
    Phase {
        name: "random writes, to make it a used drive".to_owned(),
        pattern: Pattern::Random,
        block_size: RANDOM_FILL_REQUEST,
        depth: 32,
        mix: Mix::WRITE,
        region,
        amount: Amount::Bytes(amount),
        rate: None,
        seed: seed.wrapping_mul(1_000).wrapping_add(99),
        flush_at_end: true,
        interval: Nanoseconds::ZERO,
    }
}

/// Sizes of the parts of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Logical capacity, in whole MiB.
    pub(super) capacity: ByteLength,
    /// The area under test.
    pub(super) area: ByteLength,
    /// Bytes written randomly to precondition the drive.
    pub(super) used: ByteLength,
    pub(super) free_percent: u8,
    /// Share of the flash that is spare in the spare state.
    spare: f64,
}

impl Sizes {
    /// Returns sizes for tests.
    #[cfg(test)]
    pub(super) fn of(capacity: ByteLength, area: ByteLength) -> Sizes {
        Sizes { capacity, area, used: capacity, free_percent: 25, spare: 0.25 }
    }

    pub(super) fn new(settings: &Settings, drive: &Description) -> Result<Sizes, LabError> {
        let capacity = MIB * drive.capacity.whole(MIB);
        let scale = (capacity.bytes() as f64 / PUBLISHED_CAPACITY).min(1.0);
        let area = whole_mib(settings.length("area").bytes() as f64 * scale);
        let free_percent = settings.percent("free");
        let range = |name, value: String, why: String| Err(LabError::Range { name, value, why });
        let most = capacity.bytes() as f64 * (1.0 - f64::from(free_percent) / 100.0);
        if area < MIB * 16 || area.bytes() as f64 > most {
            let why = format!(
                "on this drive that is {area}; it must be at least 16 MiB and leave {free_percent} \
                 % of the drive free"
            );
            return range("area", settings.text("area").to_owned(), why);
        }
        let spare = settings.factor("spare") / 100.0;
        if !(0.0..=0.9).contains(&spare) {
            let why = "it must be from 0 to 90 percent".to_owned();
            return range("spare", settings.text("spare").to_owned(), why);
        }
        let used = whole_mib(capacity.bytes() as f64 * settings.factor("used"));
        Ok(Sizes { capacity, area, used, free_percent, spare })
    }

    fn free(&self) -> ByteLength {
        whole_mib(self.capacity.bytes() as f64 * f64::from(self.free_percent) / 100.0)
    }

    /// Returns the bytes of each drive that are ever written in a state.
    fn written(&self, state: State, physical: Option<ByteLength>) -> ByteLength {
        match (state, physical) {
            (State::Raid1Spare | State::Raid1SpareUsed, Some(physical)) => {
                let kept = whole_mib(physical.bytes() as f64 * (1.0 - self.spare));
                kept.min(self.capacity).max(self.area)
            }
            _ => self.capacity,
        }
    }

    /// Returns the bytes of each drive that hold data in a state.
    pub(super) fn bytes_with_data(&self, state: State, physical: Option<ByteLength>) -> ByteLength {
        let written = self.written(state, physical);
        match state {
            State::Trimmed => ByteLength::new(written.bytes() - self.free().bytes()),
            State::Full | State::Raid1Full | State::Raid1Spare | State::Raid1SpareUsed => written,
        }
    }

    /// Returns the area in words.
    pub(super) fn area_words(&self) -> String {
        text_format::mib(self.area)
    }
}
