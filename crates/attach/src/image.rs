//! The image: a sparse file whose layout is the flash.
//!
//! The layout is in [`layout`], and byte by byte in `docs/FORMAT.md`. The order of writes keeps an image sound
//! whatever ends the program or the machine:
//!
//! - the data of a program unit is written before its record in the spare area, and both carry checksums, so
//!   that a torn one is recognised;
//! - the data of a block is punched out, or overwritten, only when everything written before is durable
//!   (`fdatasync`) and the state says so: its replacement is then durable;
//! - a header is never written again; the state, which says whether the image was closed in order and what is
//!   durable, is written to two pairs of slots in turn;
//! - everything but data and tables has two copies. A damaged copy is recognised by its checksum, and promised
//!   data that is missing by what the state says of it.

pub mod damage;
pub mod dump;
pub mod header;
pub mod host;
pub mod layout;
pub mod overlay;
pub mod spare;
pub mod state;
pub mod storage;
pub mod table;
pub mod trims;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use ssdlab_model::Configuration;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::profile::Profile;

use crate::error::AttachError;
use damage::Damage;
use header::{FoundHeader, Header};
use host::HostFile;
use layout::{HEADER_MAX, Layout};
use overlay::Overlay;
use state::State;
use storage::{LockedFile, Storage};

/// An image that is open and locked: no other process can open it.
#[derive(Clone, Debug)]
pub struct Image {
    path: PathBuf,
    file: HostFile,
    profile: Profile,
    configuration: Configuration,
    layout: Layout,
    state: State,
    header: Header,
    /// Place of a damaged copy of the header; `None` if both are intact.
    damaged_header: Option<u64>,
    damage: Damage,
    is_read_only: bool,
}

impl Image {
    /// Creates the image of a new drive of `profile` at `path`. An existing image is replaced only with
    /// `replace`, once the new one is complete; any other existing file stays. A profile with a mechanism that
    /// an image cannot keep is refused.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be attached, if a file exists that is not to be replaced, or if
    /// writing fails; then there is no new image, and the old one is unchanged.
    pub fn create(path: &Path, profile: &Profile, replace: bool) -> Result<Image, AttachError> {
        let configuration = profile.configuration()?;
        check_supported(&configuration)?;
        let layout = Layout::of(&configuration)?;
        // The lock fails if the image is attached: then it stays.
        let old = if replace && path.exists() { Some(open_to_replace(path)?) } else { None };
        // A symbolic link stays; its target is replaced.
        let place = match &old {
            Some(_) => std::fs::canonicalize(path)
                .map_err(|error| AttachError::io("replace", path, error))?,
            None => path.to_owned(),
        };
        let draft = match &old {
            Some(_) => place.with_added_extension(format!("{}.new", std::process::id())),
            None => place.clone(),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => AttachError::Exists { path: draft.clone() },
                _ => AttachError::io("create", &draft, error),
            })?;
        let outcome = lock(&file, path).and_then(|()| {
            let cannot = |error| AttachError::io("write", path, error);
            file.set_len(layout.end).map_err(cannot)?;
            let image = Image::format(Arc::new(LockedFile(file)), path, profile)?;
            if old.is_some() {
                std::fs::rename(&draft, &place)
                    .map_err(|error| AttachError::io("replace", path, error))?;
            }
            Ok(image)
        });
        if outcome.is_err() {
            // An incomplete image is of no use. A failure to remove it would only hide the first error.
            let _ = std::fs::remove_file(&draft);
        }
        outcome
    }

    /// Writes the image of a new drive of `profile` to `storage`, which has to be all zeros and long enough.
    /// Errors name it `path`.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be attached, or writing fails.
    pub fn format(
        storage: Arc<dyn Storage>,
        path: &Path,
        profile: &Profile,
    ) -> Result<Image, AttachError> {
        let configuration = profile.configuration()?;
        check_supported(&configuration)?;
        let layout = Layout::of(&configuration)?;
        let file = HostFile::new(storage);
        let header = Header::new(profile, &configuration, &layout);
        write_new(&file, &header, &layout)
            .map_err(|error| AttachError::io("write", path, error))?;
        Ok(Image {
            path: path.to_owned(),
            file,
            profile: profile.clone(),
            configuration,
            layout,
            state: State::new(),
            header,
            damaged_header: None,
            damage: Damage::default(),
            is_read_only: false,
        })
    }

    /// Opens the image at `path` for this process alone; read-only if this user or the file system does not
    /// allow writes.
    ///
    /// # Errors
    /// Returns an error if another process has the image open, or if it is damaged or no image.
    pub fn open(path: &Path) -> Result<Image, AttachError> {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match open_locked(path, true) {
            Err(AttachError::Io { source, .. })
                if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) =>
            {
                Image::open_read_only(path)
            }
            file => Image::open_storage(Arc::new(LockedFile(file?)), path),
        }
    }

    /// Opens the image at `path` for this process alone, without changing it: writes are kept in memory and
    /// dropped at the end.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_read_only(path: &Path) -> Result<Image, AttachError> {
        let storage = Overlay::new(open_locked(path, false)?);
        let image = Image::open_storage(Arc::new(storage), path)?;
        Ok(Image { is_read_only: true, ..image })
    }

    /// Opens the image in `storage`, which nobody else may use. Errors name it `path`.
    ///
    /// # Errors
    /// Returns an error if the image is damaged, or is no image.
    pub fn open_storage(storage: Arc<dyn Storage>, path: &Path) -> Result<Image, AttachError> {
        let file = HostFile::new(storage);
        let FoundHeader { header, damaged: damaged_header } = Header::read(&file, path)?;
        let profile = header.profile(path)?;
        let configuration = profile.configuration()?;
        check_supported(&configuration)?;
        let layout = Layout::of(&configuration)?;
        header.check(&configuration, &layout, path)?;
        let length = file.length().map_err(|error| AttachError::io("read", path, error))?;
        if length < layout.end {
            return Err(AttachError::image(
                path,
                format!("the image is truncated: {length} of {} bytes are there", layout.end),
            ));
        }
        let slots =
            State::read(&file, &layout).map_err(|error| AttachError::io("read", path, error))?;
        let mut state = slots
            .newest
            .ok_or_else(|| AttachError::image(path, "all copies of its state are damaged"))?;
        let mut damage = Damage::default();
        if let Some(at) = damaged_header {
            let which = if at == 0 { "first" } else { "second" };
            damage
                .found
                .push(format!("the {which} copy of its header is damaged; the other is intact"));
        }
        if slots.damaged > 0 {
            // The damaged slot may be the newest. The saved tables count only if there is no newer state.
            state.is_clean = false;
            damage.found.push(format!(
                "{} of the {} copies of its state are damaged: the drive counts as not closed in order",
                slots.damaged,
                state::SLOTS
            ));
        }
        if slots.is_generation_lost {
            damage.refused.push(
                "both copies of one of its states are damaged, perhaps the latest: it is not known \
                 what was last reported as durable"
                    .to_owned(),
            );
        }
        Ok(Image {
            path: path.to_owned(),
            file,
            profile,
            configuration,
            layout,
            state,
            header,
            damaged_header,
            damage,
            is_read_only: false,
        })
    }

    /// Returns the path of the image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the profile in the image.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the configuration of the drive.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Changes a key of the profile that does not affect the drive's geometry, until the image is closed.
    ///
    /// # Errors
    /// Returns an error if the profile does not allow the value.
    pub fn change(&mut self, key: &str, value: &str) -> Result<(), AttachError> {
        self.profile.set(key, value)?;
        self.profile.check()?;
        self.configuration = self.profile.configuration()?;
        Ok(())
    }

    /// Returns the layout of the image.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the damage to the header and the state.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Writes a damaged copy of the header anew.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn repair_header(&mut self) -> io::Result<()> {
        let Some(at) = self.damaged_header else { return Ok(()) };
        self.header.write(&self.file, at)?;
        self.damaged_header = None;
        Ok(())
    }

    /// Returns true if no write reaches the file.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the latest state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the file of the image.
    pub fn file(&self) -> &HostFile {
        &self.file
    }

    /// Writes the state, durably, with all earlier writes.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn set_state(&mut self, state: State) -> io::Result<()> {
        self.file.sync_data()?;
        let state = State { generation: self.state.generation + 1, ..state };
        state.write(&self.file, &self.layout)?;
        self.file.sync_data()?;
        self.state = state;
        Ok(())
    }

    /// Writes the state, as the promise mark, without making it durable. The image is not closed in order then.
    ///
    /// # Errors
    /// Returns an error if writing fails; then the state before stays in force.
    pub fn write_promise_mark(&mut self, state: State) -> io::Result<()> {
        let state = State {
            generation: self.state.generation + 1,
            is_clean: false,
            checkpoint_length: 0,
            checkpoint_sum: 0,
            ..state
        };
        state.write(&self.file, &self.layout)?;
        self.state = state;
        Ok(())
    }
}

/// Returns an error if the drive has a mechanism that an image cannot keep; the error names its key.
fn check_supported(configuration: &Configuration) -> Result<(), AttachError> {
    let mechanisms = &configuration.mechanisms;
    let what_and_instead = if mechanisms.mapping == MappingScheme::LogBlock {
        ("log blocks (mapping.scheme = log-block)", "choose mapping.scheme page, cached or extent")
    } else if mechanisms.wear.bad_blocks.is_some() {
        ("blocks that go bad (wear.life)", "leave out wear.life and the keys that go with it")
    } else if mechanisms.retention.is_some() {
        (
            "data that ages (retention.retry)",
            "leave out retention.retry and the keys that go with it",
        )
    } else {
        return Ok(());
    };
    let (what, instead) = what_and_instead;
    Err(AttachError::Unsupported { what, instead })
}

fn open_locked(path: &Path, for_writing: bool) -> Result<File, AttachError> {
    let file =
        OpenOptions::new().read(true).write(for_writing).open(path).map_err(|error| match error
            .kind()
        {
            std::io::ErrorKind::NotFound => AttachError::NoImage { path: path.to_owned() },
            _ => AttachError::io("open", path, error),
        })?;
    lock(&file, path)?;
    Ok(file)
}

/// Opens the file at `path` if it is an image, which may be replaced.
fn open_to_replace(path: &Path) -> Result<File, AttachError> {
    // A device is not opened, because opening one may have effects.
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let file = if is_file { Some(open_locked(path, true)?) } else { None };
    match file.filter(header::begins_image) {
        Some(file) => Ok(file),
        None => Err(AttachError::image(
            path,
            "this is no image, and is not replaced, even with --force; name a new file",
        )),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), AttachError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        if error == rustix::io::Errno::WOULDBLOCK {
            AttachError::InUse { path: path.to_owned() }
        } else {
            AttachError::io("lock", path, error.into())
        }
    })
}

fn write_new(file: &HostFile, header: &Header, layout: &Layout) -> io::Result<()> {
    let state = State::new();
    for generation in 0..=state.generation {
        State { generation, ..state }.write(file, layout)?;
    }
    file.sync_data()?;
    // The header comes last: without one, the file is no image.
    for at in [HEADER_MAX, 0] {
        header.write(file, at)?;
    }
    file.sync_data()
}
