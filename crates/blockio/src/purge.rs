//! Purges a block device before a test: by a discard of the whole device, or by an erase command of the
//! drive if the user chose that by name.
//!
//! Erase commands reach further than a discard: beyond the addressable data, to other namespaces, and on
//! ATA they set a password first. So none is ever implied, and each is refused if it would reach beyond
//! the drive that was confirmed.

use std::ffi::OsStr;

use serde_json::Value;
use ssdlab_blockdev::tool;
use ssdlab_drive::phase::Region;
use ssdlab_error::{DriveError, ErrorKind};

use super::gate::OpenDevice;

/// Purge method for a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeMethod {
    /// A discard of the whole device.
    #[default]
    Discard,
    /// NVMe Format with user data erase, by nvme-cli.
    NvmeFormat,
    /// ATA Security Erase, by hdparm.
    AtaSecureErase,
    /// No purge: the drive is measured as it is.
    Nothing,
}

/// Programs that erase drives.
struct Programs<'a> {
    nvme: &'a str,
    hdparm: &'a str,
}

/// The installed programs.
const INSTALLED: Programs = Programs { nvme: "nvme", hdparm: "hdparm" };

/// Password of the ATA erase, which the erase itself removes again.
const PASSWORD: &str = "ssdlab";

impl PurgeMethod {
    /// Returns an error if this device cannot be purged by this method, as far as that can be known
    /// without doing it.
    pub(super) fn check(self, device: &OpenDevice) -> Result<(), DriveError> {
        self.check_with(device, &INSTALLED)
    }

    fn check_with(self, device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
        match self {
            PurgeMethod::Nothing => Err(cannot(device, "it is taken as it is (--purge none)")),
            PurgeMethod::Discard => match device.identity.queue("discard_max_bytes") {
                Some(0) => Err(cannot(device, "it does not support discard")),
                _ => Ok(()),
            },
            PurgeMethod::NvmeFormat => check_nvme(device, programs),
            PurgeMethod::AtaSecureErase => check_ata(device, programs),
        }
    }

    /// Purges the device.
    pub(super) fn carry_out(self, device: &OpenDevice) -> Result<(), DriveError> {
        self.carry_out_with(device, &INSTALLED)
    }

    fn carry_out_with(self, device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
        device.check_writable()?;
        self.check_with(device, programs)?;
        match self {
            PurgeMethod::Nothing => unreachable!("it cannot be checked"),
            PurgeMethod::Discard => discard(device, Region::first(device.capacity())),
            PurgeMethod::NvmeFormat => format_nvme(device, programs),
            PurgeMethod::AtaSecureErase => erase_ata(device, programs),
        }
    }
}

fn cannot(device: &OpenDevice, why: &str) -> DriveError {
    let what = format!("{} cannot be purged: {why}", device.named.display());
    DriveError::new(ErrorKind::Unsupported, what)
}

fn failed(device: &OpenDevice, why: String) -> DriveError {
    let what = format!("the purge of {} failed: {why}", device.named.display());
    DriveError::new(ErrorKind::Io, what)
}

/// Discards a region: tells the drive that the region holds no data any more.
#[cfg(target_os = "linux")]
pub(super) fn discard(device: &OpenDevice, region: Region) -> Result<(), DriveError> {
    use std::os::fd::AsRawFd;

    use ssdlab_units::{ByteLength, GIB};

    /// Bytes of each discard request.
    const PIECE: ByteLength = ByteLength::new(GIB.bytes() * 32);
    /// `_IO(0x12, 119)` of linux/fs.h.
    const BLKDISCARD: libc::Ioctl = 0x1277;

    device.check_writable()?;
    let mut offset = region.offset;
    while offset < region.end() {
        let length = (region.end() - offset).min(PIECE);
        let range = [offset.bytes(), length.bytes()];
        // SAFETY: the descriptor is open, and the call reads two numbers from the range.
        if unsafe { libc::ioctl(device.handle.file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } != 0 {
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
                return Err(cannot(device, "it does not support discard"));
            }
            let what = format!("discard of {length} on {}", device.named.display());
            return Err(super::handle::io_error(what, error));
        }
        offset += length;
    }
    Ok(())
}

/// Returns an error: only Linux supports discards here.
#[cfg(not(target_os = "linux"))]
pub(super) fn discard(device: &OpenDevice, _: Region) -> Result<(), DriveError> {
    Err(cannot(device, "discard is not supported on this system"))
}

fn refuse_part(device: &OpenDevice, what: &str) -> Result<(), DriveError> {
    let identity = &device.identity;
    if !identity.is_partition {
        return Ok(());
    }
    let why = format!("{what} erases all of {}, not only this partition", identity.disk);
    let words = format!("{} is not erased: {why}", device.named.display());
    Err(DriveError::new(ErrorKind::Refused, words))
}

/// Returns an error if the controller lacks the Format command, or if the command would reach other
/// namespaces (NVM Express Base Specification, Identify Controller: OACS bit 1; FNA bits 0 and 1).
fn check_nvme(device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
    if !device.identity.disk.starts_with("nvme") {
        return Err(cannot(device, "it is no NVMe drive, so it has no NVMe Format"));
    }
    refuse_part(device, "NVMe Format")?;
    let path = device.device.as_os_str();
    let arguments = ["id-ctrl".as_ref(), path, "-o".as_ref(), "json".as_ref()];
    let output = tool::run(programs.nvme, &arguments, Some(tool::LOOK))
        .map_err(|why| cannot(device, &format!("{why} (package nvme-cli)")))?;
    let data = output.json().filter(|_| output.status.success());
    let Some(data) = data else {
        let why = format!("nvme id-ctrl failed ({})", output.last_line());
        return Err(cannot(device, &why));
    };
    let number = |name: &str| data.get(name).and_then(Value::as_u64);
    if number("oacs").is_none_or(|commands| commands & 0b10 == 0) {
        return Err(cannot(device, "it has no NVMe Format"));
    }
    let reaches_all = number("fna").is_none_or(|attributes| attributes & 0b11 != 0);
    if reaches_all
        && number("nn").is_none_or(|count| count > 1)
        && !is_only_namespace(device, programs)
    {
        let words = format!(
            "{} is not formatted: on this drive the command reaches all namespaces, and there \
             may be others",
            device.named.display()
        );
        return Err(DriveError::new(ErrorKind::Refused, words));
    }
    Ok(())
}

/// Returns true if the controller has this namespace and no other, as is usual also for drives that
/// support several.
fn is_only_namespace(device: &OpenDevice, programs: &Programs) -> bool {
    let arguments = ["list-ns".as_ref(), device.device.as_os_str(), "--all".as_ref()];
    let output = tool::run(programs.nvme, &arguments, Some(tool::LOOK));
    output.is_ok_and(|output| {
        let lines = output.stdout.lines().filter(|line| line.trim_start().starts_with('['));
        output.status.success() && lines.count() == 1
    })
}

fn format_nvme(device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
    let path = device.device.as_os_str();
    // `--force`: the user has confirmed already, and the program would count down from ten again.
    let arguments = ["format".as_ref(), path, "--ses=1".as_ref(), "--force".as_ref()];
    let output = tool::run(programs.nvme, &arguments, None).map_err(|why| failed(device, why))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(device, format!("nvme format: {}", output.last_line()))),
    }
}

/// Returns an error if the drive lacks the feature, or is frozen, locked, or has a password (ATA/ATAPI
/// Command Set, Security feature set).
fn check_ata(device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
    refuse_part(device, "ATA Security Erase")?;
    if device.identity.is_usb {
        return Err(cannot(
            device,
            "behind a USB bridge an erase may leave it locked; connect it to a SATA port",
        ));
    }
    let arguments = ["-I".as_ref(), device.device.as_os_str()];
    let output = tool::run(programs.hdparm, &arguments, Some(tool::LOOK))
        .map_err(|why| cannot(device, &format!("{why} (package hdparm)")))?;
    let Some((_, security)) = output.stdout.split_once("Security:") else {
        return Err(cannot(device, "it has no ATA Security Erase"));
    };
    // Each line is a word, with "not" before it if the state does not apply.
    let is = |word: &str| {
        security.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words == [word]
        })
    };
    if !is("supported") {
        return Err(cannot(device, "it has no ATA Security Erase"));
    }
    for (word, why) in [
        ("locked", "it is locked by a password"),
        ("enabled", "it has a password already; remove that first (hdparm --security-disable)"),
        (
            "frozen",
            "its security is frozen; suspend the machine to RAM and wake it, then try again",
        ),
    ] {
        if is(word) {
            return Err(cannot(device, why));
        }
    }
    Ok(())
}

fn erase_ata(device: &OpenDevice, programs: &Programs) -> Result<(), DriveError> {
    let hdparm = |option: &str| {
        let words = ["--user-master", "u", option, PASSWORD].map(OsStr::new);
        let arguments = [&words[..], &[device.device.as_os_str()]].concat();
        let output = tool::run(programs.hdparm, &arguments, None)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("hdparm {option}: {}", output.last_line())),
        }
    };
    hdparm("--security-set-pass").map_err(|why| failed(device, why))?;
    let Err(why) = hdparm("--security-erase") else { return Ok(()) };
    // The drive must not keep a password that nobody expects.
    let left = match hdparm("--security-disable") {
        Ok(()) => String::new(),
        Err(_) => format!(
            "; it still has the password '{PASSWORD}'; remove it with hdparm --security-disable"
        ),
    };
    Err(failed(device, format!("{why}{left}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::gate::OpenDevice;

    /// A directory with a program that records its arguments, and answers.
    struct Fake {
        directory: tempfile::TempDir,
        program: String,
    }

    impl Fake {
        /// Makes a program that runs `script` in `sh`.
        fn new(script: &str) -> Fake {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("program");
            let calls = directory.path().join("calls");
            let text = format!("#!/bin/sh\necho \"$*\" >> {}\n{script}\n", calls.display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Fake { program: path.to_str().unwrap().to_owned(), directory }
        }

        fn calls(&self) -> String {
            fs::read_to_string(self.directory.path().join("calls")).unwrap_or_default()
        }

        fn carry_out(&self, how: PurgeMethod, device: &OpenDevice) -> Result<(), DriveError> {
            let programs = Programs { nvme: &self.program, hdparm: &self.program };
            how.carry_out_with(device, &programs)
        }
    }

    fn nvme(controller: &str, namespaces: &str) -> Fake {
        Fake::new(&format!(
            "case $1 in id-ctrl) echo '{controller}';; list-ns) printf '{namespaces}';; \
             format) ;; *) exit 1;; esac"
        ))
    }

    fn hdparm(security: &str, erase: &str) -> Fake {
        Fake::new(&format!(
            "case $* in -I*) printf 'Security: \\n{security}';; \
             *--security-erase*) {erase};; *) ;; esac"
        ))
    }

    const NVME: PurgeMethod = PurgeMethod::NvmeFormat;
    const ATA: PurgeMethod = PurgeMethod::AtaSecureErase;
    const READY: &str = "\\tsupported\\n\\tnot\\tenabled\\n\\tnot\\tlocked\\n\\tnot\\tfrozen\\n";

    #[test]
    fn a_discard_is_the_default_and_an_erase_never_is() {
        assert_eq!(PurgeMethod::default(), PurgeMethod::Discard);
        let device = OpenDevice::for_test("nvme0n1", false);
        let error = PurgeMethod::Nothing.carry_out(&device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_namespace_is_formatted_where_the_command_reaches_no_other() {
        let device = OpenDevice::for_test("nvme0n1", false);
        for (controller, namespaces) in [
            (r#"{"oacs": 6, "fna": 0, "nn": 32}"#, ""),
            (r#"{"oacs": 6, "fna": 4, "nn": 1}"#, ""),
            (r#"{"oacs": 6, "fna": 5, "nn": 32}"#, "[   0]:0x1\\n"),
        ] {
            let fake = nvme(controller, namespaces);
            fake.carry_out(NVME, &device).unwrap();
            assert!(fake.calls().ends_with("format /dev/null --ses=1 --force\n"));
        }
    }

    #[test]
    fn a_format_that_would_reach_further_is_refused() {
        let device = OpenDevice::for_test("nvme0n1", false);
        let two = nvme(r#"{"oacs": 6, "fna": 1, "nn": 32}"#, "[   0]:0x1\\n[   1]:0x2\\n");
        assert_eq!(two.carry_out(NVME, &device).unwrap_err().kind(), ErrorKind::Refused);
        // What cannot be found out is not taken for harmless either.
        let silent = nvme(r#"{"oacs": 6}"#, "");
        assert_eq!(silent.carry_out(NVME, &device).unwrap_err().kind(), ErrorKind::Refused);
        let one = nvme(r#"{"oacs": 6, "fna": 0, "nn": 1}"#, "");
        let part = OpenDevice::for_test("nvme0n1", true);
        assert_eq!(one.carry_out(NVME, &part).unwrap_err().kind(), ErrorKind::Refused);
        for fake in [two, silent, one] {
            assert!(!fake.calls().contains("format"), "{}", fake.calls());
        }
    }

    #[test]
    fn a_drive_without_the_command_says_so() {
        let device = OpenDevice::for_test("nvme0n1", false);
        for fake in [nvme(r#"{"oacs": 5, "fna": 0, "nn": 1}"#, ""), nvme("nonsense", "")] {
            let error = fake.carry_out(NVME, &device).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let sata = OpenDevice::for_test("sda", false);
        let error = nvme("{}", "").carry_out(NVME, &sata).unwrap_err();
        assert!(error.to_string().contains("no NVMe drive"), "{error}");
        let missing = Programs { nvme: "ssdlab-no-such-program", hdparm: "" };
        let error = NVME.carry_out_with(&device, &missing).unwrap_err();
        assert!(error.to_string().contains("is not installed"), "{error}");
    }

    #[test]
    fn an_ata_erase_sets_a_password_and_erases() {
        let fake = hdparm(READY, "true");
        fake.carry_out(ATA, &OpenDevice::for_test("sda", false)).unwrap();
        let calls = fake.calls();
        let calls: Vec<&str> = calls.lines().collect();
        assert_eq!(
            calls,
            [
                "-I /dev/null",
                "--user-master u --security-set-pass ssdlab /dev/null",
                "--user-master u --security-erase ssdlab /dev/null",
            ]
        );
    }

    #[test]
    fn an_ata_erase_that_fails_takes_the_password_away_again() {
        let fake = hdparm(READY, "echo broken >&2; exit 5");
        let error = fake.carry_out(ATA, &OpenDevice::for_test("sda", false)).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(fake.calls().contains("--security-disable ssdlab"), "{}", fake.calls());
    }

    #[test]
    fn a_drive_that_is_frozen_locked_or_in_part_is_not_erased() {
        let disk = OpenDevice::for_test("sda", false);
        for (security, words) in [
            ("\\tsupported\\n\\tnot\\tenabled\\n\\t\\tfrozen\\n", "frozen"),
            ("\\tsupported\\n\\t\\tenabled\\n\\t\\tlocked\\n", "locked by a password"),
            ("\\tsupported\\n\\t\\tenabled\\n\\tnot\\tlocked\\n", "a password already"),
            ("\\tnot\\tsupported\\n", "no ATA Security Erase"),
        ] {
            let fake = hdparm(security, "true");
            let error = fake.carry_out(ATA, &disk).unwrap_err();
            assert!(error.to_string().contains(words), "{words}: {error}");
            assert_eq!(fake.calls(), "-I /dev/null\n");
        }
        let fake = hdparm(READY, "true");
        let part = OpenDevice::for_test("sda", true);
        assert_eq!(fake.carry_out(ATA, &part).unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(fake.calls(), "");
    }
}
