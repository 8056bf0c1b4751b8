//! Simulated drives behind other layers: RAID arrays, a USB bridge, encryption.
//!
//! A stack answers requests as a drive does (`Responder`) by passing them on to its members, which may be
//! stacks themselves.
//!
//! Events of the members are processed in the order of time. Operations that must precede a request to a
//! member (reading old parity, encrypting) are done before the request is sent.

mod array_geometry;
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
use array_geometry::ArrayGeometry;
use crypt::Encrypted;
use layered::Layered;
use members::Members;
use mirror::Mirrored;
use parity::Parity;
use striping::Striped;
use usb::Bridged;

/// Composition of a simulated drive.
#[derive(Clone, Debug)]
pub enum Composition {
    /// One SSD.
    Ssd(Box<Configuration>),
    /// One SSD in a saved state.
    Saved(Box<SavedDrive>),
    /// An array of drives.
    Array(Array),
    /// A drive in a USB enclosure.
    Usb(Box<Composition>, UsbBridge),
    /// A drive under encryption by the host.
    Crypt(Box<Composition>, Encryption),
}

impl Composition {
    /// Returns true if one of the drives is in a saved state.
    pub(crate) fn has_saved(&self) -> bool {
        match self {
            Composition::Ssd(_) => false,
            Composition::Saved(_) => true,
            Composition::Array(array) => array.members.iter().any(Composition::has_saved),
            Composition::Usb(member, _) | Composition::Crypt(member, _) => member.has_saved(),
        }
    }

    /// Returns the mapping unit of the drives; all drives of a stack have the same one.
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
    /// Layout of the data.
    pub level: Level,
    /// Members, in order.
    pub members: Vec<Composition>,
    /// Bytes that go to one member before the next has its turn (chunk size): a power of two. Not used by
    /// RAID 1.
    pub chunk: ByteLength,
    /// True if trim is passed on.
    pub trim: bool,
    /// Initial synchronisation, which makes the members agree before the array is used. Not used by RAID 0.
    pub synchronisation: Synchronisation,
    /// Choice of the copy that is read. Used by RAID 1 and 10.
    pub reads: ReadPolicy,
}

/// Layout of data in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Chunks in turn.
    Raid0,
    /// Everything on every member.
    Raid1,
    /// Chunks in turn over pairs of members that hold the same.
    Raid10,
    /// Chunks in turn, one chunk of each stripe holding the parity of the others, rotating
    /// (left-symmetric).
    Raid5,
}

/// Initial synchronisation of an array, before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronisation {
    /// None: the members are assumed to agree (`mdadm --assume-clean`).
    None,
    /// The whole of the second copy is written, or of the last member of RAID 5, as mdadm does.
    Full,
}

/// Choice of the copy that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The member with the fewest reads in flight. Of equals, the one whose latest read ended just before,
    /// or else the first (`read_balance` in `drivers/md/raid1.c`, for SSDs).
    FreeFirst,
    /// Each member in turn.
    RoundRobin,
    /// Always the first member.
    First,
}

/// A USB enclosure's controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsbBridge {
    /// True if trim is passed on; most bridges drop it.
    pub trim: bool,
    /// True if flush (and FUA) is passed on; a bridge that drops it answers immediately.
    pub flush: bool,
    /// Rate of the USB link, each way.
    pub link: TransferRate,
    /// Time for which the bridge is busy with each command.
    pub per_command: Nanoseconds,
    /// True if the bridge takes a command only when the one before is answered (bulk-only transport);
    /// otherwise many are in flight (USB Attached SCSI).
    pub one_at_a_time: bool,
}

/// Encryption of all data by the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encryption {
    /// True if trim is passed on; it shows an attacker which sectors are in use.
    pub trim: bool,
    /// Rate at which one processor encrypts or decrypts.
    pub per_processor: TransferRate,
    /// Number of processors that do so, one request each at a time.
    pub processors: u32,
}

/// Reason why a stack cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The geometry of a member is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Too few members, or an odd number of them.
    #[error("{level} has {members} members; it needs {needed}")]
    Members {
        /// RAID level of the array.
        level: &'static str,
        /// Number of members given.
        members: usize,
        /// Number of members that the level needs.
        needed: &'static str,
    },
    /// Members whose counters cannot be added.
    #[error(
        "members have mapping units of {one} and of {other}, so that their counters cannot be \
         added up; give them the same controller.unit_size"
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
        /// Chunk size.
        chunk: ByteLength,
        /// The smallest request that members take.
        unit: ByteLength,
    },
    /// Members too small to hold a chunk.
    #[error(
        "the smallest member holds {smallest}, less than one chunk of {chunk}; set a smaller \
         chunk"
    )]
    Small {
        /// Capacity of the smallest member.
        smallest: ByteLength,
        /// The chunk.
        chunk: ByteLength,
    },
    /// A saved drive that has changed since it was named.
    #[error("{}: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        why: String,
    },
    /// Encryption without a processor.
    #[error("encryption needs at least one processor")]
    Processors,
}

/// Returns an error and its causes, in one sentence.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl Level {
    /// Returns the name of the level in targets.
    pub fn name(self) -> &'static str {
        match self {
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid10 => "raid10",
            Level::Raid5 => "raid5",
        }
    }

    /// Returns an array with the defaults of mdadm: chunks of 512 KiB, trim passed on by all levels but
    /// RAID 5 (whose members mdadm does not trust to read as zeros afterwards), full initial
    /// synchronisation.
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

    /// Checks the number of members.
    fn check_members(self, members: usize) -> Result<(), StackError> {
        let (fine, needed) = match self {
            Level::Raid0 | Level::Raid1 => (members >= 2, "at least 2"),
            Level::Raid10 => (members >= 4 && members.is_multiple_of(2), "4, 6, 8 and so on"),
            Level::Raid5 => (members >= 3, "at least 3"),
        };
        if fine { Ok(()) } else { Err(StackError::Members { level: self.name(), members, needed }) }
    }
}

/// Capacity of a drive, and its smallest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) capacity: ByteLength,
    pub(crate) unit: ByteLength,
}

/// Returns the part of each member that an array uses: whole chunks of the smallest member, or all of it
/// without chunks.
fn usable_part_of_members(
    members: &[Shape],
    chunk: Option<ByteLength>,
) -> Result<Shape, StackError> {
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

/// Condition of drives that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialState {
    /// As new, saved drives included.
    New,
    /// As new; saved drives as they were saved.
    AsSaved,
}

/// A drive that was built, and the instant from which it can be used.
pub(crate) struct Built {
    pub(crate) model: Box<dyn Model>,
    pub(crate) ready_at: Instant,
}

impl Composition {
    /// Checks that the drive or stack can be built, without building it.
    ///
    /// # Errors
    /// Returns the error that [`SimulatedDrive::of`](crate::simulated::SimulatedDrive::of) would return.
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

    /// Builds the drive or stack at `at`. [`Built::ready_at`] is the end of the initial synchronisation.
    pub(crate) fn build(&self, at: Instant, state: InitialState) -> Result<Built, StackError> {
        self.check()?;
        match self {
            Composition::Ssd(configuration) => {
                Ok(Built { model: model_of(configuration)?, ready_at: at })
            }
            Composition::Saved(saved) => match state {
                InitialState::New => {
                    Ok(Built { model: model_of(saved.configuration())?, ready_at: at })
                }
                InitialState::AsSaved => {
                    let (model, clock) = saved.restore().map_err(|error| StackError::State {
                        path: saved.path().to_owned(),
                        why: error_chain(&error),
                    })?;
                    Ok(Built { model, ready_at: at.max(clock) })
                }
            },
            Composition::Array(array) => array.build(at, state),
            Composition::Usb(member, bridge) => {
                let Built { model, ready_at } = member.build(at, state)?;
                Ok(Built {
                    model: Box::new(Layered::new(Bridged::new(*bridge), Members::new(vec![model]))),
                    ready_at,
                })
            }
            Composition::Crypt(member, encryption) => {
                let Built { model, ready_at } = member.build(at, state)?;
                Ok(Built {
                    model: Box::new(Layered::new(
                        Encrypted::new(*encryption),
                        Members::new(vec![model]),
                    )),
                    ready_at,
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
        let each = usable_part_of_members(&members, chunk)?;
        let count = members.len() as u64;
        let with_data = match self.level {
            Level::Raid0 => count,
            Level::Raid1 => 1,
            Level::Raid10 => count / 2,
            Level::Raid5 => count - 1,
        };
        Ok(Shape { capacity: each.capacity * with_data, unit: each.unit })
    }

    fn build(&self, at: Instant, state: InitialState) -> Result<Built, StackError> {
        let mut models = Vec::with_capacity(self.members.len());
        let mut ready_at = at;
        for member in &self.members {
            let built = member.build(at, state)?;
            ready_at = ready_at.max(built.ready_at);
            models.push(built.model);
        }
        match self.level {
            Level::Raid0 => Ok(Built { model: self.striped(models)?, ready_at }),
            Level::Raid1 => {
                let (mirror, ready_at) = self.mirror(models, ready_at)?;
                Ok(Built { model: Box::new(mirror), ready_at })
            }
            Level::Raid10 => {
                let mut pairs: Vec<Box<dyn Model>> = Vec::new();
                let (begun, mut models) = (ready_at, models.into_iter());
                while let (Some(one), Some(two)) = (models.next(), models.next()) {
                    let (pair, ready) = self.mirror(vec![one, two], begun)?;
                    ready_at = ready_at.max(ready);
                    pairs.push(Box::new(pair));
                }
                Ok(Built { model: self.striped(pairs)?, ready_at })
            }
            Level::Raid5 => {
                let members = Members::new(models);
                let geometry = ArrayGeometry::of(&members, Some(self.chunk), self.trim)?;
                let mut parity = Layered::new(Parity::new(geometry), members);
                // The last member is rebuilt from the others, as mdadm does with a new array.
                let last = geometry.members - 1;
                if self.synchronisation == Synchronisation::Full {
                    ready_at =
                        parity.synchronise(ready_at, geometry.sectors_per_member, |member| {
                            member != last
                        });
                }
                Ok(Built { model: Box::new(parity), ready_at })
            }
        }
    }

    fn striped(&self, models: Vec<Box<dyn Model>>) -> Result<Box<dyn Model>, StackError> {
        let members = Members::new(models);
        let geometry = ArrayGeometry::of(&members, Some(self.chunk), self.trim)?;
        Ok(Box::new(Layered::new(Striped::new(geometry), members)))
    }

    /// Returns a mirror of two drives, each a copy of `drive`.
    pub(crate) fn mirror_of(&self, drive: &dyn Model) -> Box<dyn Model> {
        let members = Members::copies_of(drive, 2);
        let geometry = ArrayGeometry::of(&members, None, self.trim)
            .expect("drives that are alike fit together");
        Box::new(Layered::new(Mirrored::new(geometry, self.reads), members))
    }

    /// Returns a mirror, and the instant at which its members agree.
    fn mirror(
        &self,
        models: Vec<Box<dyn Model>>,
        ready_at: Instant,
    ) -> Result<(Layered<Mirrored>, Instant), StackError> {
        let members = Members::new(models);
        let geometry = ArrayGeometry::of(&members, None, self.trim)?;
        let mut mirror = Layered::new(Mirrored::new(geometry, self.reads), members);
        let ready_at = match self.synchronisation {
            Synchronisation::None => ready_at,
            // The first member is copied to all others (md's initial synchronisation).
            Synchronisation::Full => {
                mirror.synchronise(ready_at, geometry.sectors_per_member, |member| member == 0)
            }
        };
        Ok((mirror, ready_at))
    }
}

#[cfg(test)]
mod tests;
