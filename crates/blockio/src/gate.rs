//! Safety gate for block devices: only a [`Permit`] opens a device for writing, and only
//! [`Candidate::confirm`] makes a permit.
//!
//! A device that is in use never becomes a candidate, and no option changes that. A candidate is shown to
//! the user with what is found on it, and the user confirms by typing its serial or path.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ssdlab_blockdev::writers::sees_all_processes;
use ssdlab_blockdev::{DeviceNumber, Identity, System, signatures};
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::ByteLength;

use super::handle::Handle;

/// A block device that is not in use. It was examined and not changed.
#[derive(Debug)]
pub struct Candidate {
    /// Path as the user gave it.
    named: PathBuf,
    /// Path of the device file, with links resolved.
    device: PathBuf,
    number: DeviceNumber,
    identity: Identity,
    /// Contents found on the device and its partitions, or the reason why they are not known.
    found: Vec<Result<String, String>>,
    /// True if all programs could be seen that may have the device open.
    sees_all: bool,
}

/// Permission to destroy the contents of a block device, given by a user who typed its serial or path.
#[derive(Debug)]
pub struct Permit(Candidate);

/// Returns true if `path` leads to a block device.
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| DeviceNumber::of_block_device(&found).is_some())
}

impl Candidate {
    /// Examines the block device at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the device, a partition of it or the disk that it is a partition of is
    /// in use, if that cannot be found out, or if this user may not write to the device.
    /// [`ErrorKind::Unsupported`] if the device is read-only, without a medium or zoned.
    pub fn examine(path: &Path) -> Result<Candidate, DriveError> {
        Candidate::in_system(path, &System::real())
    }

    fn in_system(path: &Path, system: &System) -> Result<Candidate, DriveError> {
        let (device, number) = resolved(path, system)?;
        refuse_if_used(path, &device, number, system)?;
        refuse_if_forbidden(path, &device)?;
        let identity = Identity::of(number, system);
        refuse_if_unfit(path, &identity)?;
        let found = contents(&device, number, system);
        let sees_all = sees_all_processes();
        Ok(Candidate { named: path.to_owned(), device, number, identity, found, sees_all })
    }

    /// Returns the path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// Returns the serial number, or `None` if the kernel knows none.
    pub fn serial(&self) -> Option<&str> {
        self.identity.serial.as_deref()
    }

    /// Describes the device and its contents, one line each, to be shown before the confirmation.
    pub fn words(&self) -> Vec<String> {
        let found: Vec<&str> = self.found.iter().filter_map(|one| one.as_deref().ok()).collect();
        let mut words = vec![format!("{}: {}", self.named.display(), self.identity)];
        words.push(match found[..] {
            [] => "found on it: no known signature; it may hold data all the same".to_owned(),
            _ => format!("found on it: {}", found.join("; ")),
        });
        let unknown = self.found.iter().filter_map(|one| one.as_ref().err());
        words.extend(unknown.map(|why| format!("its contents are not fully known: {why}")));
        if !self.sees_all {
            words.push(
                "the programs that have it open are not fully known: some, such as virtual \
                 machines, may be hidden from here (a container?)"
                    .to_owned(),
            );
        }
        words
    }

    /// Describes the text that the user has to type.
    pub fn expected_confirmation(&self) -> String {
        let path = self.named.display();
        match self.serial() {
            Some(serial) => format!("its serial ({serial}) or its path ({path})"),
            None => format!("its path ({path})"),
        }
    }

    /// Returns permission to write to the device, if `destroy_data` is true and `typed` is its serial or
    /// path.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] otherwise.
    pub fn confirm(self, destroy_data: bool, typed: &str) -> Result<Permit, DriveError> {
        let refused = |why: String| Err(DriveError::new(ErrorKind::Refused, why));
        let named = self.named.display();
        if !destroy_data {
            return refused(self.consent_message());
        }
        let typed = typed.trim();
        let is_path = Path::new(typed) == self.named || Path::new(typed) == self.device;
        if typed.is_empty() || !(is_path || self.serial() == Some(typed)) {
            return refused(format!(
                "'{typed}' does not confirm {named}: type {}; nothing was written",
                self.expected_confirmation()
            ));
        }
        Ok(Permit(self))
    }

    /// Returns the message for a run without consent to lose the data.
    pub fn consent_message(&self) -> String {
        format!(
            "{} is a block device, and this experiment destroys all that it holds; if that is \
             intended, add --destroy-data, and confirm with {}",
            self.named.display(),
            self.expected_confirmation()
        )
    }
}

impl Permit {
    /// Opens the device for writing, with direct I/O and exclusively (O_EXCL). The earlier checks are
    /// repeated, since time has passed.
    pub(super) fn open(self) -> Result<OpenDevice, DriveError> {
        let Permit(candidate) = self;
        let system = System::real();
        let Candidate { named, device, number, identity, .. } = candidate;
        let file = open(&device, true).map_err(|error| opening_error(&named, error))?;
        let is_same = file
            .metadata()
            .is_ok_and(|found| DeviceNumber::of_block_device(&found) == Some(number));
        if !is_same || Identity::of(number, &system) != identity {
            return Err(DriveError::new(
                ErrorKind::Refused,
                format!("{} is not the drive that was confirmed", named.display()),
            ));
        }
        let user = ssdlab_blockdev::listed_user_of_any(number, &system);
        match user.and_then(|user| match user {
            None => ssdlab_blockdev::unclaimed_writer(number, &system),
            user => Ok(user),
        }) {
            Ok(None) => {}
            Ok(Some(user)) => return Err(in_use(&named, &user)),
            Err(error) => return Err(cannot_tell(&named, error)),
        }
        let handle = Handle::of_device(file, &named);
        Ok(OpenDevice { handle, named, device, number, identity, is_writable: true })
    }
}

/// An open block device. Only a [`Permit`] opens one for writing.
pub(super) struct OpenDevice {
    pub(super) handle: Handle,
    pub(super) named: PathBuf,
    pub(super) device: PathBuf,
    pub(super) number: DeviceNumber,
    pub(super) identity: Identity,
    is_writable: bool,
}

impl OpenDevice {
    /// Opens the device at `path` for reading only, even if it is in use.
    pub(super) fn open_read_only(path: &Path) -> Result<OpenDevice, DriveError> {
        let system = System::real();
        let (device, number) = resolved(path, &system)?;
        let file = open(&device, false).map_err(|error| opening_error(path, error))?;
        let identity = Identity::of(number, &system);
        let named = path.to_owned();
        let handle = Handle::of_device(file, &named);
        Ok(OpenDevice { handle, named, device, number, identity, is_writable: false })
    }

    /// Returns a target for requests that poses as a writable `disk`, without a drive behind it.
    #[cfg(test)]
    pub(super) fn for_test(disk: &str, is_partition: bool) -> OpenDevice {
        let device = PathBuf::from("/dev/null");
        let file = File::open(&device).unwrap();
        let disk = disk.to_owned();
        let identity = Identity { disk, is_partition, ..Identity::default() };
        OpenDevice {
            handle: Handle::of_device(file, &device),
            named: device.clone(),
            device,
            number: DeviceNumber { major: 0, minor: 0 },
            identity,
            is_writable: true,
        }
    }

    /// Returns an error if the device was opened for reading only.
    pub(super) fn check_writable(&self) -> Result<(), DriveError> {
        if self.is_writable {
            return Ok(());
        }
        let what = format!("{} was opened for reading only", self.named.display());
        Err(DriveError::new(ErrorKind::Refused, what))
    }

    /// Returns the capacity in bytes.
    pub(super) fn capacity(&self) -> ByteLength {
        self.identity.capacity
    }
}

#[cfg(target_os = "linux")]
fn open(device: &Path, write: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    // On a block device O_EXCL without O_CREAT asks for exclusive use.
    let flags = if write { OFlags::DIRECT | OFlags::EXCL } else { OFlags::DIRECT };
    let flags = flags.bits() as i32;
    fs::OpenOptions::new().read(true).write(write).custom_flags(flags).open(device)
}

#[cfg(not(target_os = "linux"))]
fn open(_: &Path, _: bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

fn opening_error(path: &Path, error: io::Error) -> DriveError {
    match error.kind() {
        io::ErrorKind::ResourceBusy => in_use(path, "it is mounted or claimed in the kernel"),
        io::ErrorKind::PermissionDenied => no_permission(path),
        _ => {
            let what = format!("cannot open {}", path.display());
            DriveError::with_source(ErrorKind::Io, what, error)
        }
    }
}

/// Resolves a path to its device file and number.
fn resolved(path: &Path, system: &System) -> Result<(PathBuf, DeviceNumber), DriveError> {
    let shown = path.display();
    let device = fs::canonicalize(path).map_err(|error| {
        DriveError::with_source(ErrorKind::Io, format!("cannot resolve {shown}"), error)
    })?;
    let number = system.number_of(&device).ok_or_else(|| {
        DriveError::new(ErrorKind::Usage, format!("{shown} is not a block device"))
    })?;
    Ok((device, number))
}

fn refuse_if_used(
    path: &Path,
    device: &Path,
    number: DeviceNumber,
    system: &System,
) -> Result<(), DriveError> {
    match ssdlab_blockdev::user_of(device, number, system) {
        Ok(None) => Ok(()),
        Ok(Some(user)) => Err(in_use(path, &user)),
        Err(error) => Err(cannot_tell(path, error)),
    }
}

fn in_use(path: &Path, user: &str) -> DriveError {
    let what = format!("{} is in use: {user}; no option overrides this", path.display());
    DriveError::new(ErrorKind::Refused, what)
}

/// Returns the error for a device whose use cannot be checked, which counts as in use.
fn cannot_tell(path: &Path, error: io::Error) -> DriveError {
    let what = format!("cannot find out whether {} is in use", path.display());
    DriveError::with_source(ErrorKind::Refused, what, error)
}

#[cfg(unix)]
fn refuse_if_forbidden(path: &Path, device: &Path) -> Result<(), DriveError> {
    use rustix::fs::{Access, access};
    access(device, Access::READ_OK | Access::WRITE_OK).map_err(|_| no_permission(path))
}

#[cfg(not(unix))]
fn refuse_if_forbidden(path: &Path, _: &Path) -> Result<(), DriveError> {
    Err(no_permission(path))
}

fn no_permission(path: &Path) -> DriveError {
    let shown = path.display();
    let what = format!("no permission to use {shown}: raw block devices usually need root");
    DriveError::new(ErrorKind::Refused, what)
}

fn refuse_if_unfit(path: &Path, identity: &Identity) -> Result<(), DriveError> {
    let unfit = |why: &str| {
        let what = format!("{} {why}", path.display());
        Err(DriveError::new(ErrorKind::Unsupported, what))
    };
    if identity.capacity == ByteLength::ZERO {
        return unfit("has no size: there is no medium in it, or it was not set up");
    }
    if identity.is_read_only {
        return unfit("is read-only");
    }
    if identity.is_zoned {
        return unfit("is a zoned device, which takes no random writes");
    }
    Ok(())
}

/// Describes the contents found on a device and on its partitions.
fn contents(device: &Path, number: DeviceNumber, system: &System) -> Vec<Result<String, String>> {
    let mut found: Vec<Result<String, String>> = match signatures::on(device) {
        Ok(words) => words.into_iter().map(Ok).collect(),
        Err(why) => vec![Err(why)],
    };
    for (name, _) in ssdlab_blockdev::partitions_of(number, system).unwrap_or_default() {
        let words = match signatures::on(&device.with_file_name(&name)) {
            Ok(words) if words.is_empty() => Ok(format!("a partition {name}")),
            Ok(words) => Ok(format!("a partition {name} with {}", words.join(", "))),
            Err(why) => Err(format!("partition {name}: {why}")),
        };
        found.push(words);
    }
    found
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.named.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            named: "/dev/disk/by-id/some".into(),
            device: "/dev/sdq".into(),
            number: DeviceNumber { major: 65, minor: 0 },
            identity: Identity {
                serial: Some("S3RIAL".to_owned()),
                capacity: ByteLength::new(1 << 30),
                ..Identity::default()
            },
            found: vec![Ok("ext4".to_owned()), Err("wipefs is not installed".to_owned())],
            sees_all: false,
        }
    }

    #[test]
    fn only_the_serial_or_the_path_confirms_and_only_with_consent() {
        for typed in ["S3RIAL", " S3RIAL\n", "/dev/disk/by-id/some", "/dev/sdq"] {
            assert!(candidate().confirm(true, typed).is_ok(), "{typed}");
            let error = candidate().confirm(false, typed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains("--destroy-data"), "{error}");
        }
        for typed in ["", "yes", "s3rial", "/dev/sdq1", "S3RIAL /dev/sdq"] {
            let error = candidate().confirm(true, typed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{typed}");
            assert!(error.to_string().contains("nothing was written"), "{error}");
        }
    }

    #[test]
    fn a_drive_without_a_serial_is_not_confirmed_by_nothing() {
        let mut nameless = candidate();
        nameless.identity.serial = Some(String::new());
        assert!(nameless.confirm(true, "").is_err());
    }

    #[test]
    fn what_is_on_it_is_shown_and_so_is_what_is_not_known() {
        let words = candidate().words().join("\n");
        assert!(words.contains("S3RIAL") && words.contains("found on it: ext4"), "{words}");
        assert!(words.contains("not fully known: wipefs is not installed"), "{words}");
        assert!(words.contains("that have it open are not fully known"), "{words}");
    }
}
