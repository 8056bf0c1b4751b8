//! What is to be refreshed, where it lies, and whether it may be rewritten at all. Nothing is
//! changed here.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, StatVfsMountFlags};
use serde::{Deserialize, Serialize};
use ssdlab_drive::phase::Region;
use ssdlab_drive::real::block_map::free_space;
use ssdlab_drive::real::place::Place;
use ssdlab_model::units::ByteLength;

use crate::extents::{self, Content, Extent, Sync, data_runs, pieces_in};
use crate::file_system::FileSystem;
use crate::window::Span;
use crate::{DriveError, ErrorKind, io, refused, system, unsupported};

/// What the user agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// That extents which snapshots or copies share are written anew, and are theirs alone then.
    pub shared: bool,
    /// That of a file with holes the data between them is.
    pub sparse: bool,
    /// That the file system is frozen for moments, also where it could move data itself.
    pub frozen: bool,
}

/// How it will be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// ext4 exchanges blocks.
    MoveExtents,
    /// btrfs writes ranges anew.
    Defragment,
    /// In place, with the file system frozen for moments.
    Frozen,
    /// In place, on a device that nobody else uses.
    Alone,
}

/// What something is known by from one run to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Of the file system, or the number of the device.
    pub file_system: String,
    /// Of the file; 0 for a device.
    pub inode: u64,
}

/// What is to be refreshed.
#[derive(Debug)]
pub struct Survey {
    /// How the user named it.
    pub path: PathBuf,
    /// What it is known by.
    pub identity: Identity,
    /// It, open for reading and writing. A device that is unmounted is open for us alone.
    pub file: File,
    /// Its length in bytes.
    pub length: u64,
    /// How it will be rewritten.
    pub way: Way,
    /// In words, what it lies on.
    pub lies_on: String,
    /// Runs of data.
    pub runs: Vec<Span>,
    /// Where it lies; empty for a device.
    pub extents: Vec<Extent>,
    /// A directory of the same file system, where a file of ours can be made; nothing where there
    /// is no file system.
    pub directory: Option<PathBuf>,
    /// The block device below, where one is known.
    pub device: Option<PathBuf>,
    /// What else should be known, in sentences.
    pub notes: Vec<String>,
    /// Bytes of a block of the file system.
    pub block: u64,
    /// Bytes of the file system that stay free.
    pub reserve: u64,
}

/// Attributes of files (`FS_*_FL`, linux/fs.h).
const FLAG_IMMUTABLE: u32 = 0x10;
const FLAG_APPEND: u32 = 0x20;
const FLAG_ENCRYPTED: u32 = 0x800;
const FLAG_JOURNAL_DATA: u32 = 0x4000;
const FLAG_VERITY: u32 = 0x10_0000;

impl Survey {
    /// Looks at the file or block device at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and [`ErrorKind::Unsupported`] with the reason where it must not or
    /// cannot be rewritten; nothing was changed then.
    pub fn of(path: &Path, agreed: Agreed) -> Result<Survey, DriveError> {
        let shown = path.display();
        let found =
            fs::metadata(path).map_err(|error| io(format!("cannot look at {shown}"), error))?;
        let kind = found.file_type();
        if kind.is_block_device() {
            return of_device(path, found.rdev());
        }
        if kind.is_file() {
            return of_file(path, agreed);
        }
        let what = if kind.is_dir() { "a directory" } else { "neither a file nor a block device" };
        Err(DriveError::new(
            ErrorKind::Usage,
            format!("{shown} is {what}; name a file, such as the table that has become slow"),
        ))
    }

    /// In how many pieces a part of it lies.
    pub fn pieces_in(&self, part: Span) -> u32 {
        pieces_in(&self.extents, part).max(1)
    }

    /// Opens it for reading past the page cache.
    ///
    /// # Errors
    /// When the file system does not do that.
    pub fn open_direct(&self) -> Result<File, DriveError> {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&self.path)
            .map_err(|error| {
                let what = format!(
                    "cannot read {} past the page cache, and what the page cache answers says \
                     nothing of the drive",
                    self.path.display()
                );
                DriveError::with_source(ErrorKind::Unsupported, what, error)
            })
    }

    /// Bytes of data.
    pub fn data(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }
}

fn of_file(path: &Path, agreed: Agreed) -> Result<Survey, DriveError> {
    let shown = path.display();
    let cannot = |error| io(format!("cannot open {shown}"), error);
    let to_read = File::open(path).map_err(cannot)?;
    let file_system = FileSystem::of(&to_read)?;
    if let Some(why) = file_system.obstacle() {
        return Err(unsupported(format!("{shown} {why}; nothing was changed")));
    }
    let about = rustix::fs::fstatvfs(&to_read).map_err(|error| io("cannot look", error))?;
    if about.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(unsupported(format!(
            "{shown} lies on a file system that is mounted read-only; nothing was changed"
        )));
    }
    refuse_swap(path, &to_read)?;
    let flags = system::flags(&to_read).unwrap_or(0);
    refuse_flags(path, flags)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| cannot_write(path, error))?;
    let found = file.metadata().map_err(cannot)?;
    let length = found.len();
    if length == 0 {
        return Err(DriveError::new(ErrorKind::Usage, format!("{shown} is empty")));
    }
    let extents = extents::of(&file, Span::new(0, length), Sync::First).map_err(|error| {
        let what = format!("{} does not say where {shown} lies", file_system.name());
        DriveError::with_source(ErrorKind::Unsupported, what, error)
    })?;
    let way = way_of(path, file_system, flags, agreed)?;
    let notes = refuse_extents(path, &extents, length, way, agreed)?;
    let block = about.f_frsize.max(512);
    let place = Place::of(path).ok();
    let directory = fs::canonicalize(path).map_err(cannot)?.parent().map(Path::to_owned);
    let total = about.f_blocks * about.f_frsize;
    Ok(Survey {
        path: path.to_owned(),
        identity: Identity { file_system: system_id(&file)?, inode: found.ino() },
        file,
        length,
        way,
        lies_on: place.as_ref().map_or_else(
            || file_system.name(),
            |place| {
                let layers: Vec<String> = place.layers().iter().map(|it| it.words()).collect();
                format!("{} on {}", place.file_system(), layers.join(", "))
            },
        ),
        runs: data_runs(&extents, length),
        extents,
        directory,
        device: place.as_ref().map(Place::device),
        notes,
        block,
        reserve: (total / 100).clamp(16 << 20, 1 << 30),
    })
}

/// What a file system is known by.
fn system_id(file: &File) -> Result<String, DriveError> {
    let about = rustix::fs::fstatvfs(file).map_err(|error| io("cannot look", error))?;
    Ok(format!("{:x}", about.f_fsid))
}

fn cannot_write(path: &Path, error: std::io::Error) -> DriveError {
    let shown = path.display();
    match error.raw_os_error() {
        Some(libc::ETXTBSY) => {
            refused(format!("{shown} is a program that runs, or swap; nothing was changed"))
        }
        Some(libc::EROFS) => unsupported(format!(
            "{shown} lies on a file system that is mounted read-only; nothing was changed"
        )),
        _ => io(format!("cannot open {shown} for writing"), error),
    }
}

fn way_of(
    path: &Path,
    file_system: FileSystem,
    flags: u32,
    agreed: Agreed,
) -> Result<Way, DriveError> {
    match file_system {
        FileSystem::Btrfs if agreed.frozen => Err(unsupported(format!(
            "{} lies on btrfs, which does not say where on the device; leave --frozen out",
            path.display()
        ))),
        FileSystem::Btrfs => Ok(Way::Defragment),
        _ if agreed.frozen => Ok(Way::Frozen),
        FileSystem::Ext4 if flags & FLAG_JOURNAL_DATA != 0 => Ok(Way::Frozen),
        FileSystem::Ext4 => Ok(Way::MoveExtents),
        _ => Ok(Way::Frozen),
    }
}

fn refuse_flags(path: &Path, flags: u32) -> Result<(), DriveError> {
    let shown = path.display();
    let refuse = |why: &str| Err(refused(format!("{shown} {why}; nothing was changed")));
    if flags & FLAG_ENCRYPTED != 0 {
        return refuse(
            "is encrypted by its file system, which moves no blocks of such files; a copy that \
             replaces it is written anew",
        );
    }
    if flags & FLAG_VERITY != 0 {
        return refuse("is sealed (fs-verity)");
    }
    if flags & FLAG_IMMUTABLE != 0 {
        return refuse("is immutable (chattr -i takes that away)");
    }
    if flags & FLAG_APPEND != 0 {
        return refuse("can only be appended to (chattr -a takes that away)");
    }
    Ok(())
}

/// A swap file is written to by its place on the device, past its file system.
fn refuse_swap(path: &Path, file: &File) -> Result<(), DriveError> {
    let ours = file.metadata().map_err(|error| io("cannot look", error))?;
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for line in swaps.lines().skip(1) {
        let Some(name) = line.split_whitespace().next() else { continue };
        let Ok(theirs) = fs::metadata(unescaped(name)) else { continue };
        let is_same = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())
            || (theirs.file_type().is_block_device() && theirs.rdev() == ours.rdev());
        if is_same {
            return Err(refused(format!(
                "{} is in use as swap, which is written to past the file system; swapoff first; \
                 nothing was changed",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Tables of the kernel write blanks and the like in octal.
pub(crate) fn unescaped(name: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'\\')
            .then(|| tail.get(..3).and_then(|it| std::str::from_utf8(it).ok()))
            .flatten()
            .and_then(|it| u8::from_str_radix(it, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Refuses what nobody agreed to; returns what else there is to say.
fn refuse_extents(
    path: &Path,
    extents: &[Extent],
    length: u64,
    way: Way,
    agreed: Agreed,
) -> Result<Vec<String>, DriveError> {
    let shown = path.display();
    let mut notes = Vec::new();
    let bytes = |fits: &dyn Fn(&Extent) -> bool| -> u64 {
        extents.iter().filter(|it| fits(it)).map(|it| it.span.length).sum()
    };
    let shared = bytes(&|it| it.is_shared);
    // In place everybody's blocks stay where they are, and are everybody's.
    if shared > 0 && matches!(way, Way::MoveExtents | Way::Defragment) {
        if !agreed.shared {
            return Err(refused(format!(
                "{shown} shares {} with snapshots or copies (reflinks); written anew they would \
                 take that much more room. With --shared that is done; nothing was changed",
                ByteLength::new(shared)
            )));
        }
        notes.push(format!("{} will not be shared any more.", ByteLength::new(shared)));
    }
    let covered: u64 = extents
        .iter()
        .filter_map(|it| it.span.overlap(Span::new(0, length)))
        .map(|it| it.length)
        .sum();
    let unwritten = bytes(&|it| it.content == Content::Unwritten);
    let holes = length - covered;
    if holes > 0 {
        let holes = ByteLength::new(holes);
        if !agreed.sparse {
            return Err(refused(format!(
                "{shown} is sparse: {holes} of it are holes. With --sparse the data between them \
                 is refreshed, and holes stay holes; nothing was changed"
            )));
        }
        notes.push(format!("{holes} of holes stay holes."));
    }
    if unwritten > 0 {
        notes.push(format!(
            "{} that nothing was written to are left out.",
            ByteLength::new(unwritten)
        ));
    }
    let encoded = bytes(&|it| it.content == Content::Encoded);
    if encoded > 0 {
        notes.push(format!("{} of compressed data are left out.", ByteLength::new(encoded)));
    }
    if bytes(&|it| it.content == Content::Data) == 0 {
        return Err(unsupported(format!(
            "{shown} has no data of its own on the device: it is compressed, kept within the \
             metadata, or was never written; nothing was changed"
        )));
    }
    Ok(notes)
}

fn of_device(path: &Path, number: u64) -> Result<Survey, DriveError> {
    let shown = path.display();
    let to_read = File::open(path).map_err(|error| io(format!("cannot open {shown}"), error))?;
    refuse_swap(path, &to_read)?;
    let mount = mount_of(number);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut flags = OFlags::DIRECT;
    if mount.is_none() {
        // On a block device O_EXCL without O_CREAT asks for exclusive use.
        flags |= OFlags::EXCL;
    }
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => refused(format!(
            "{shown} is in use by something that cannot be frozen here (RAID, LVM, encryption, or \
             partitions that are mounted); refresh what lies on it instead; nothing was changed"
        )),
        Some(libc::EROFS) => unsupported(format!("{shown} is read-only; nothing was changed")),
        Some(libc::EPERM) if mount.is_some() => unsupported(format!(
            "this kernel does not let a mounted device be written to (bdev_allow_write_mounted); \
             unmount {shown}"
        )),
        _ => io(format!("cannot open {shown} for writing"), error),
    })?;
    let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
        .map_err(|error| io(format!("cannot see the size of {shown}"), error))?;
    let mut notes = Vec::new();
    let runs = match &mount {
        Some(mount) if mount.is_read_only => {
            return Err(unsupported(format!(
                "{shown} is mounted read-only at {}; nothing was changed",
                mount.point.display()
            )));
        }
        Some(mount) => used_space(&mount.point, length, &mut notes),
        None => {
            notes.push(
                "It is not mounted, so nothing tells what of it is free; blocks of zeros are left \
                 out. fstrim before that has free space read as zeros."
                    .to_owned(),
            );
            vec![Span::new(0, length)]
        }
    };
    Ok(Survey {
        path: path.to_owned(),
        identity: Identity { file_system: format!("device {number:x}"), inode: 0 },
        file,
        length,
        way: if mount.is_some() { Way::Frozen } else { Way::Alone },
        lies_on: mount.as_ref().map_or_else(
            || "a block device that nobody else uses".to_owned(),
            |mount| format!("a block device, mounted at {}", mount.point.display()),
        ),
        runs,
        extents: Vec::new(),
        directory: mount.map(|mount| mount.point),
        device: Some(path.to_owned()),
        notes,
        block: 4096,
        reserve: 0,
    })
}

/// What of a device its file system uses.
fn used_space(point: &Path, length: u64, notes: &mut Vec<String>) -> Vec<Span> {
    let all = Region { offset: ByteLength::ZERO, length: ByteLength::new(length) };
    let free = File::open(point).and_then(|directory| free_space(&directory, all));
    let Ok(mut free) = free else {
        notes.push(
            "The file system does not say what is free; blocks of zeros are left out.".to_owned(),
        );
        return vec![Span::new(0, length)];
    };
    free.sort_by_key(|region| region.offset.bytes());
    let mut used = Vec::new();
    let mut at = 0;
    for region in &free {
        let offset = region.offset.bytes().min(length);
        if offset > at {
            used.push(Span::new(at, offset - at));
        }
        at = at.max(region.end().bytes().min(length));
    }
    if at < length {
        used.push(Span::new(at, length - at));
    }
    let total: u64 = used.iter().map(|it| it.length).sum();
    notes.push(format!("{} of free space are left out.", ByteLength::new(length - total)));
    used
}

/// Where a device is mounted.
struct Mounted {
    point: PathBuf,
    is_read_only: bool,
}

/// Where the device of that number itself is mounted. Its source is looked at as well, since btrfs
/// has numbers of its own.
fn mount_of(number: u64) -> Option<Mounted> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    table.lines().find_map(|line| {
        // proc_pid_mountinfo(5): id, parent, number, root, point, options, ..., -, type, source,
        // options of the super block.
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let (device, point) = (before.get(2)?, before.get(4)?);
        let source = fs::metadata(unescaped(after.get(1)?));
        let is_source =
            source.is_ok_and(|it| it.file_type().is_block_device() && it.rdev() == number);
        (*device == wanted || is_source).then(|| Mounted {
            point: unescaped(point),
            is_read_only: after.get(2).is_some_and(|it| it.split(',').any(|it| it == "ro")),
        })
    })
}

/// What must not lie on a file system that is going to be frozen: who writes there would wait for
/// the thaw, and we for them.
#[derive(Clone, Debug)]
pub struct Needed {
    /// What it is, in words.
    pub what: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// Refuses to freeze the file system of `directory` where something needed lies on it: what is
/// given, files that pose as block devices, and what we say goes to.
///
/// # Errors
/// [`ErrorKind::Refused`], with what it is.
pub fn refuse_deadlock(directory: &Path, needed: &[Needed]) -> Result<(), DriveError> {
    let mounts = mounts();
    // A file that is not there yet will lie where its directory does.
    let resolved = |path: &Path| path.ancestors().find_map(|it| fs::canonicalize(it).ok());
    let mount_id = |path: &Path| resolved(path).and_then(|path| mount_below(&mounts, &path));
    let frozen = mount_id(directory);
    let mut all: Vec<Needed> = needed.to_vec();
    // These are not looked at, only their names: one may lie on a file system of a program's that
    // does not answer any more.
    for image in images_of_loop_devices() {
        if frozen.is_some() && mount_below(&mounts, &image.path) == frozen {
            return Err(deadlock(directory, &image));
        }
    }
    let streams = [(1, "what is printed"), (2, "what is said")];
    all.extend(streams.map(|(stream, what)| Needed {
        what: what.to_owned(),
        path: PathBuf::from(format!("/proc/self/fd/{stream}")),
    }));
    for it in &all {
        let is_file = fs::metadata(&it.path)
            .map_or(true, |found| found.file_type().is_file() || found.file_type().is_dir());
        if is_file && frozen.is_some() && mount_id(&it.path) == frozen {
            return Err(deadlock(directory, it));
        }
    }
    Ok(())
}

fn deadlock(directory: &Path, it: &Needed) -> DriveError {
    refused(format!(
        "the file system of {} would have to be frozen, and {} lies on it ({}): whoever writes \
         there would wait for ever; put it elsewhere; nothing was changed",
        directory.display(),
        it.what,
        it.path.display()
    ))
}

/// Mount points, with the number of the file system that is mounted there.
fn mounts() -> Vec<(PathBuf, String)> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let fields = table.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    fields.filter_map(|it| Some((unescaped(it.get(4)?), (*it.get(2)?).to_owned()))).collect()
}

/// The number of the file system that a path lies on.
fn mount_below(mounts: &[(PathBuf, String)], path: &Path) -> Option<String> {
    // Of two at the same place the later one is seen.
    let covers = |it: &&(PathBuf, String)| path.starts_with(&it.0);
    mounts.iter().filter(covers).max_by_key(|it| it.0.components().count()).map(|it| it.1.clone())
}

/// Files that pose as block devices.
fn images_of_loop_devices() -> Vec<Needed> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter_map(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let name = entry.file_name();
            Some(Needed {
                what: format!("the file behind /dev/{}", name.to_string_lossy()),
                path: PathBuf::from(file.trim_end()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_forbid_it_are_named() {
        let path = Path::new("/some/file");
        for (flags, words) in [
            (FLAG_ENCRYPTED, "encrypted"),
            (FLAG_VERITY, "sealed"),
            (FLAG_IMMUTABLE, "immutable"),
            (FLAG_APPEND, "appended"),
        ] {
            let error = refuse_flags(path, flags).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
        }
        // Extents, no atime, no dump, compressed by request: no obstacle.
        assert!(refuse_flags(path, 0x8_0000 | 0x80 | 0x40 | 0x4).is_ok());
    }

    fn extent(offset: u64, length: u64, content: Content, is_shared: bool) -> Extent {
        Extent { span: Span::new(offset, length), physical: offset, content, is_shared }
    }

    #[test]
    fn shared_and_sparse_files_are_refused_unless_asked_for() {
        let path = Path::new("/some/file");
        let shared = [extent(0, 100, Content::Data, true)];
        let nothing = Agreed::default();
        let everything = Agreed { shared: true, sparse: true, frozen: false };
        let refuse = |extents: &[Extent], way, agreed| {
            refuse_extents(path, extents, 100, way, agreed).map_err(|error| error.to_string())
        };
        assert!(refuse(&shared, Way::Defragment, nothing).unwrap_err().contains("--shared"));
        assert!(refuse(&shared, Way::Defragment, everything).is_ok());
        assert!(refuse(&shared, Way::Frozen, nothing).is_ok(), "they stay shared");
        let sparse = [extent(0, 40, Content::Data, false), extent(60, 40, Content::Data, false)];
        assert!(refuse(&sparse, Way::MoveExtents, nothing).unwrap_err().contains("sparse"));
        assert!(refuse(&sparse, Way::MoveExtents, everything).unwrap()[0].contains("stay holes"));
        let encoded = [extent(0, 100, Content::Encoded, false)];
        assert!(refuse(&encoded, Way::Defragment, nothing).unwrap_err().contains("compressed"));
    }

    #[test]
    fn a_directory_is_not_refreshed_and_memory_is_not_either() {
        let error = Survey::of(Path::new("/"), Agreed::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = directory.path().join("file");
        fs::write(&path, "data").unwrap();
        let error = Survey::of(&path, Agreed::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("tmpfs"), "{error}");
    }

    #[test]
    fn what_we_need_must_not_be_frozen() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir_in("/dev/shm");
        let needed = |path: PathBuf| [Needed { what: "the journal".to_owned(), path }];
        let inside = needed(directory.path().join("not/there/yet"));
        let error = refuse_deadlock(directory.path(), &inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("the journal lies on it"), "{error}");
        let Ok(other) = other else { return };
        let outside = needed(directory.path().to_owned());
        // Where the output of tests goes, or a loop device's file, is not ours to say.
        if let Err(error) = refuse_deadlock(other.path(), &outside) {
            assert!(!error.to_string().contains("the journal"), "{error}");
        }
    }
}
