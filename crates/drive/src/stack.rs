//! Simulated drives behind something: arrays of them, a USB bridge, encryption.
//!
//! A stack answers requests as a drive does (`Responder`) by
//! passing them on to its members, which may be stacks themselves.
//!
//! Members go on in the order of their time. What has to happen before a member is asked (reading old
//! parity, encrypting) happens before it is asked.

mod crypt;
mod layered;
mod members;
mod mirror;
mod parity;
mod runs;
mod striping;
mod usb;

use std::path::PathBuf;

use ssdlab_model::Configuration;
use ssdlab_nand::geometry::GeometryError;
use ssdlab_nand::timing::TransferRate;
use ssdlab_units::{ByteLength, Instant, KIB, Nanoseconds};

use crate::simulated::model::{Model, model_of};
use crate::simulated::saved::SavedDrive;
use crypt::Encrypted;
use layered::Layered;
use members::Used;
use mirror::Mirrored;
use parity::Parity;
use striping::Striped;
use usb::Bridged;

/// What a simulated drive is made of.
#[derive(Clone, Debug)]
pub enum Composition {
    /// One SSD.
    Ssd(Box<Configuration>),
    /// One SSD in a state that was saved.
    Saved(Box<SavedDrive>),
    /// An array of drives.
    Array(Array),
    /// A drive in a USB enclosure.
    Usb(Box<Composition>, UsbBridge),
    /// A drive under encryption by the host.
    Crypt(Box<Composition>, Encryption),
}

impl Composition {
    /// Returns true if one of its drives is in a state that was saved.
    pub(crate) fn has_saved(&self) -> bool {
        match self {
            Composition::Ssd(_) => false,
            Composition::Saved(_) => true,
            Composition::Array(array) => array.members.iter().any(Composition::has_saved),
            Composition::Usb(member, _) | Composition::Crypt(member, _) => member.has_saved(),
        }
    }

    /// The mapping unit of its drives; those of a stack have the same one.
    pub(crate) fn unit(&self) -> ByteLength {
        match self {
            Composition::Ssd(configuration) => configuration.geometry.unit_size(),
            Composition::Saved(saved) => saved.configuration().geometry.unit_size(),
            Composition::Array(array) => array.members[0].unit(),
            Composition::Usb(drive, _) | Composition::Crypt(drive, _) => drive.unit(),
        }
    }
}

/// An array of drives.
#[derive(Clone, Debug)]
pub struct Array {
    /// How data is laid out.
    pub level: Level,
    /// Its members, in order.
    pub members: Vec<Composition>,
    /// What goes to one member before the next has its turn: a power of two. Not used by RAID 1.
    pub chunk: ByteLength,
    /// True if trim is passed on.
    pub trim: bool,
    /// What is written to make the members agree before the array is used. Not used by RAID 0.
    pub synchronisation: Synchronisation,
    /// Which of several copies is read. Used by RAID 1 and 10.
    pub reads: ReadPolicy,
}

/// How an array lays out data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Chunks in turn.
    Raid0,
    /// Everything on every member.
    Raid1,
    /// Chunks in turn over pairs of members that hold the same.
    Raid10,
    /// Chunks in turn, one of each stripe the parity of the others, rotating (left-symmetric).
    Raid5,
}

/// What is written to make members agree before an array is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronisation {
    /// Nothing: they are taken to agree (`mdadm --assume-clean`).
    None,
    /// The whole of the second copy, or of the last member of RAID 5, as mdadm does.
    Full,
}

/// Which of several copies is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The one with the fewest reads under way; of equals the one that read what lies just
    /// before, or else the first (`read_balance` in `drivers/md/raid1.c`, for SSDs).
    FreeFirst,
    /// One after the other.
    RoundRobin,
    /// Always the first.
    First,
}

/// A USB enclosure's controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsbBridge {
    /// True if trim is passed on; most bridges drop it.
    pub trim: bool,
    /// True if flush (and FUA) is passed on; a bridge that swallows it answers at once.
    pub flush: bool,
    /// Rate of the USB link, each way.
    pub link: TransferRate,
    /// How long the bridge is busy with each command.
    pub per_command: Nanoseconds,
    /// True if it takes a command only when the one before is answered (bulk-only transport);
    /// otherwise many are under way (USB Attached SCSI).
    pub one_at_a_time: bool,
}

/// Encryption of all data by the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encryption {
    /// True if trim is passed on; it shows an attacker which sectors are in use.
    pub trim: bool,
    /// What one processor encrypts or decrypts.
    pub per_processor: TransferRate,
    /// Processors that do so, one request each at a time.
    pub processors: u32,
}

/// Why a stack cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// A member cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Too few members, or an odd number of them.
    #[error("{level} has {members} members; it needs {needed}")]
    Members {
        /// The array.
        level: &'static str,
        /// How many it was given.
        members: usize,
        /// How many are right.
        needed: &'static str,
    },
    /// Members whose counters cannot be added.
    #[error(
        "members map units of {one} and of {other}, so that what they count cannot be added up; \
         give them the same controller.unit_size"
    )]
    Units {
        /// The unit of one member.
        one: ByteLength,
        /// The unit of another.
        other: ByteLength,
    },
    /// A chunk that requests cannot be cut into.
    #[error("chunk is {chunk}, not a power of two times the members' unit of {unit}")]
    Chunk {
        /// The chunk.
        chunk: ByteLength,
        /// The smallest request that members take.
        unit: ByteLength,
    },
    /// Members too small to hold a chunk.
    #[error("the smallest member holds {smallest}, less than one chunk of {chunk}")]
    Small {
        /// Capacity of the smallest member.
        smallest: ByteLength,
        /// The chunk.
        chunk: ByteLength,
    },
    /// A saved drive that is not what it was when it was named.
    #[error("{}: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Encryption by nobody.
    #[error("encryption needs at least one processor")]
    Processors,
}

/// An error and its causes, in one sentence.
fn words_of(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl Level {
    /// Its name in targets.
    pub fn name(self) -> &'static str {
        match self {
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid10 => "raid10",
            Level::Raid5 => "raid5",
        }
    }

    /// Returns what mdadm takes where nothing is said: chunks of 512 KiB, trim passed on by all but RAID 5 (whose
    /// members it does not trust to read as zeros afterwards), copies made to agree.
    pub fn array(self, members: Vec<Composition>) -> Array {
        Array {
            level: self,
            members,
            chunk: KIB * 512,
            trim: self != Level::Raid5,
            synchronisation: Synchronisation::Full,
            reads: ReadPolicy::FreeFirst,
        }
    }

    /// The fewest members, and what to say of their number.
    fn check_members(self, members: usize) -> Result<(), StackError> {
        let (fine, needed) = match self {
            Level::Raid0 | Level::Raid1 => (members >= 2, "at least 2"),
            Level::Raid10 => (members >= 4 && members.is_multiple_of(2), "4, 6, 8 and so on"),
            Level::Raid5 => (members >= 3, "at least 3"),
        };
        if fine { Ok(()) } else { Err(StackError::Members { level: self.name(), members, needed }) }
    }
}

/// How much a drive holds, and its smallest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) capacity: ByteLength,
    pub(crate) unit: ByteLength,
}

/// Returns how much of each member an array uses: whole chunks, where it has any, of the smallest.
fn used_of_each(members: &[Shape], chunk: Option<ByteLength>) -> Result<Shape, StackError> {
    let unit = members[0].unit;
    if let Some(other) = members.iter().map(|it| it.unit).find(|&it| it != unit) {
        return Err(StackError::Units { one: unit, other });
    }
    let smallest = members.iter().map(|it| it.capacity).min().expect("some member");
    let piece = chunk.unwrap_or(unit);
    if !piece.bytes().is_power_of_two() || !piece.is_multiple_of(unit) {
        return Err(StackError::Chunk { chunk: piece, unit });
    }
    if smallest < piece {
        return Err(StackError::Small { smallest, chunk: piece });
    }
    Ok(Shape { capacity: piece * smallest.whole(piece), unit })
}

/// In which condition drives are that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// As new, saved ones too.
    New,
    /// As new, or as they were saved.
    AsFound,
}

/// A drive that was built, and the instant from which it can be used.
pub(crate) struct Built {
    pub(crate) model: Box<dyn Model>,
    pub(crate) from: Instant,
}

impl Composition {
    /// Returns true if it can be built; builds nothing.
    ///
    /// # Errors
    /// When it cannot, as [`SimulatedDrive::of`](crate::simulated::SimulatedDrive::of) would say.
    pub fn check(&self) -> Result<(), StackError> {
        self.shape().map(|_| ())
    }

    fn shape(&self) -> Result<Shape, StackError> {
        match self {
            Composition::Ssd(configuration) => {
                configuration.check_spare()?;
                let geometry = &configuration.geometry;
                Ok(Shape { capacity: geometry.capacity(), unit: geometry.unit_size() })
            }
            Composition::Saved(saved) => {
                let geometry = &saved.configuration().geometry;
                Ok(Shape { capacity: geometry.capacity(), unit: geometry.unit_size() })
            }
            Composition::Array(array) => array.shape(),
            Composition::Crypt(_, Encryption { processors: 0, .. }) => Err(StackError::Processors),
            Composition::Usb(member, _) | Composition::Crypt(member, _) => member.shape(),
        }
    }

    /// Builds it at `at`; copies that are made to agree take until [`Built::from`].
    pub(crate) fn build(&self, at: Instant, condition: Condition) -> Result<Built, StackError> {
        self.check()?;
        match self {
            Composition::Ssd(configuration) => {
                Ok(Built { model: model_of(configuration)?, from: at })
            }
            Composition::Saved(saved) => match condition {
                Condition::New => Ok(Built { model: model_of(saved.configuration())?, from: at }),
                Condition::AsFound => {
                    let (model, clock) = saved.restore().map_err(|error| StackError::State {
                        path: saved.path().to_owned(),
                        why: words_of(&error),
                    })?;
                    Ok(Built { model, from: at.max(clock) })
                }
            },
            Composition::Array(array) => array.build(at, condition),
            Composition::Usb(member, bridge) => {
                let Built { model, from } = member.build(at, condition)?;
                Ok(Built {
                    model: Box::new(Layered::new(Bridged::new(*bridge), vec![model])),
                    from,
                })
            }
            Composition::Crypt(member, encryption) => {
                let Built { model, from } = member.build(at, condition)?;
                Ok(Built {
                    model: Box::new(Layered::new(Encrypted::new(*encryption), vec![model])),
                    from,
                })
            }
        }
    }
}

impl Array {
    fn shape(&self) -> Result<Shape, StackError> {
        self.level.check_members(self.members.len())?;
        let members: Vec<Shape> =
            self.members.iter().map(Composition::shape).collect::<Result<_, _>>()?;
        let chunk = (self.level != Level::Raid1).then_some(self.chunk);
        let each = used_of_each(&members, chunk)?;
        let count = members.len() as u64;
        let with_data = match self.level {
            Level::Raid0 => count,
            Level::Raid1 => 1,
            Level::Raid10 => count / 2,
            Level::Raid5 => count - 1,
        };
        Ok(Shape { capacity: each.capacity * with_data, unit: each.unit })
    }

    fn build(&self, at: Instant, condition: Condition) -> Result<Built, StackError> {
        let mut models = Vec::with_capacity(self.members.len());
        let mut from = at;
        for member in &self.members {
            let built = member.build(at, condition)?;
            from = from.max(built.from);
            models.push(built.model);
        }
        match self.level {
            Level::Raid0 => Ok(Built { model: self.striped(models)?, from }),
            Level::Raid1 => {
                let (mirror, from) = self.mirror(models, from)?;
                Ok(Built { model: Box::new(mirror), from })
            }
            Level::Raid10 => {
                let mut pairs: Vec<Box<dyn Model>> = Vec::new();
                let (begun, mut models) = (from, models.into_iter());
                while let (Some(one), Some(two)) = (models.next(), models.next()) {
                    let (pair, ready) = self.mirror(vec![one, two], begun)?;
                    from = from.max(ready);
                    pairs.push(Box::new(pair));
                }
                Ok(Built { model: self.striped(pairs)?, from })
            }
            Level::Raid5 => {
                let used = Used::of(&models, Some(self.chunk), self.trim)?;
                let mut parity = Layered::new(Parity::new(used), models);
                // The last member is rebuilt from the others, as mdadm does with a new array.
                let last = used.members - 1;
                if self.synchronisation == Synchronisation::Full {
                    from = parity.synchronise(from, used.each, |member| member != last);
                }
                Ok(Built { model: Box::new(parity), from })
            }
        }
    }

    fn striped(&self, models: Vec<Box<dyn Model>>) -> Result<Box<dyn Model>, StackError> {
        let used = Used::of(&models, Some(self.chunk), self.trim)?;
        Ok(Box::new(Layered::new(Striped::new(used), models)))
    }

    /// Returns a mirror of two drives, each as `drive` is.
    pub(crate) fn mirror_of(&self, drive: &dyn Model) -> Box<dyn Model> {
        let models = vec![drive.boxed_clone(), drive.boxed_clone()];
        let used = Used::of(&models, None, self.trim).expect("drives that are alike fit together");
        Box::new(Layered::new(Mirrored::new(used, self.reads), models))
    }

    /// Returns a mirror, and when its members agree.
    fn mirror(
        &self,
        models: Vec<Box<dyn Model>>,
        from: Instant,
    ) -> Result<(Layered<Mirrored>, Instant), StackError> {
        let used = Used::of(&models, None, self.trim)?;
        let mut mirror = Layered::new(Mirrored::new(used, self.reads), models);
        let from = match self.synchronisation {
            Synchronisation::None => from,
            // The first member is copied to all others (md's initial synchronisation).
            Synchronisation::Full => mirror.synchronise(from, used.each, |member| member == 0),
        };
        Ok((mirror, from))
    }
}

#[cfg(test)]
mod tests;
