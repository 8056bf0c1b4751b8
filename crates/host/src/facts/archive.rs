//! File format of a captured machine: a tar archive, compressed with gzip.
//!
//! `capture.json` comes first and holds everything but the contents of files and the output of programs. Each file lies
//! under `files` at its path, and the output of each program under `commands`, named by the number of the command. So
//! users can read a capture with tar and a pager before they give it away.
//!
//! The reader does not trust the archive: it reads it into memory only, never unpacks it to paths that it names, and
//! never reads more than the limits below.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use ssdlab_blockdev::DeviceNumber;

use super::captured::Captured;
use super::{Absent, CommandOutput, Machine};
use crate::error::HostError;

/// Name and version of the format of `capture.json`.
const SCHEMA: &str = "ssdlab.capture/1";

/// Largest size of one entry, in bytes.
const MAX_ENTRY_SIZE: u64 = 4 << 20;
/// Largest size of all entries together, unpacked, in bytes.
const MAX_UNPACKED_SIZE: u64 = 64 << 20;
/// Largest number of entries: a machine with a hundred drives has some ten thousand.
const MAX_ENTRIES: usize = 100_000;

/// Content of `capture.json`.
#[derive(Deserialize, Serialize)]
struct Index {
    schema: String,
    ssdlab: String,
    machine: Machine,
    /// Files that could not be read, with the reason.
    absent: BTreeMap<String, Absent>,
    lists: BTreeMap<String, Result<Vec<String>, Absent>>,
    resolved: BTreeMap<String, Result<String, Absent>>,
    devices: BTreeMap<String, Result<String, Absent>>,
    modified: BTreeMap<String, Result<u64, Absent>>,
    #[serde(default)]
    executable: BTreeMap<String, Result<bool, Absent>>,
    commands: Vec<Command>,
}

#[derive(Deserialize, Serialize)]
struct Command {
    program: String,
    arguments: Vec<String>,
    /// Reason why there is no output, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    absent: Option<Absent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stderr: String,
}

impl Captured {
    /// Writes the captured machine as a `.tar.gz`.
    ///
    /// # Errors
    /// Returns an error if `to` cannot be written.
    pub fn write(&self, to: impl Write) -> std::io::Result<()> {
        let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::best()));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(self.machine.time);
            archive.append_data(&mut header, name, bytes)
        };
        let index = serde_json::to_vec_pretty(&self.index()).expect("its keys are text");
        add("capture.json", &index)?;
        for (path, content) in &self.files {
            if let Ok(bytes) = content {
                add(&format!("files/{}", path.trim_start_matches('/')), bytes)?;
            }
        }
        for (number, output) in self.commands.values().enumerate() {
            if let Ok(output) = output {
                add(&format!("commands/{number}"), output.stdout.as_bytes())?;
            }
        }
        archive.into_inner()?.finish()?.flush()
    }

    fn index(&self) -> Index {
        let absent = |(path, content): (&String, &Result<Vec<u8>, Absent>)| {
            Some((path.clone(), content.as_ref().err()?.clone()))
        };
        let command = |(asked, answer): (&(String, Vec<String>), &Result<CommandOutput, _>)| {
            let (program, arguments) = asked.clone();
            let (absent, status, stderr) = match answer {
                Ok(output) => (None, output.status, output.stderr.clone()),
                Err(why) => (Some(Absent::clone(why)), None, String::new()),
            };
            Command { program, arguments, absent, status, stderr }
        };
        let text = |number: &Result<DeviceNumber, Absent>| match number {
            Ok(number) => Ok(number.to_string()),
            Err(why) => Err(why.clone()),
        };
        Index {
            schema: SCHEMA.to_owned(),
            ssdlab: env!("CARGO_PKG_VERSION").to_owned(),
            machine: self.machine.clone(),
            absent: self.files.iter().filter_map(absent).collect(),
            lists: self.lists.clone(),
            resolved: self.resolved.clone(),
            devices: self.numbers.iter().map(|(path, it)| (path.clone(), text(it))).collect(),
            modified: self.modified.clone(),
            executable: self.executable.clone(),
            commands: self.commands.iter().map(command).collect(),
        }
    }

    /// Reads a captured machine, from a `.tar.gz` or a plain tar archive.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is not a capture.
    pub fn open(path: &Path) -> Result<Captured, HostError> {
        let file = std::fs::File::open(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => HostError::NotACapture {
                path: path.to_owned(),
                why: "there is no such file".into(),
            },
            _ => HostError::io(format!("open {}", path.display()), source),
        })?;
        Captured::read_from(file)
            .map_err(|why| HostError::NotACapture { path: path.to_owned(), why })
    }

    /// Reads a captured machine from any bytes.
    ///
    /// # Errors
    /// Returns the reason in words if the bytes are not a capture.
    pub fn read_from(mut from: impl Read) -> Result<Captured, String> {
        let unreadable = |error: std::io::Error| format!("it cannot be read ({error})");
        let mut start = [0; 2];
        let mut filled = 0;
        while filled < start.len() {
            match from.read(&mut start[filled..]).map_err(unreadable)? {
                0 => break,
                more => filled += more,
            }
        }
        let whole = std::io::Cursor::new(start[..filled].to_vec()).chain(from);
        // The magic number of gzip, RFC 1952.
        match start == [0x1f, 0x8b] {
            true => read_archive(GzDecoder::new(whole)),
            false => read_archive(whole),
        }
    }
}

fn read_archive(from: impl Read) -> Result<Captured, String> {
    // The sizes of entries are counted below; this limit covers headers and padding as well.
    let mut archive = tar::Archive::new(from.take(2 * MAX_UNPACKED_SIZE));
    let broken = |error: std::io::Error| format!("the archive is broken ({error})");
    let mut entries: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut length = 0;
    for entry in archive.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let size = entry.size();
        length += size;
        if size > MAX_ENTRY_SIZE || length > MAX_UNPACKED_SIZE || entries.len() >= MAX_ENTRIES {
            return Err(format!("'{name}' makes it longer than a capture can be"));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let mut bytes = Vec::new();
        entry.take(MAX_ENTRY_SIZE).read_to_end(&mut bytes).map_err(broken)?;
        entries.insert(name, bytes);
    }
    let index = entries.remove("capture.json").ok_or("there is no capture.json in it")?;
    let index: Index =
        serde_json::from_slice(&index).map_err(|error| format!("capture.json: {error}"))?;
    if index.schema != SCHEMA {
        return Err(format!(
            "its format is '{}', and this version reads only {SCHEMA}",
            index.schema
        ));
    }
    assemble(index, entries)
}

fn assemble(index: Index, mut entries: BTreeMap<String, Vec<u8>>) -> Result<Captured, String> {
    let mut captured = Captured::new(index.machine);
    captured.is_made_up = false;
    for (number, command) in index.commands.into_iter().enumerate() {
        let stdout = entries.remove(&format!("commands/{number}"));
        let answer = match (command.absent, stdout) {
            (Some(why), _) => Err(why),
            (None, Some(stdout)) => Ok(CommandOutput {
                status: command.status,
                stdout: String::from_utf8_lossy(&stdout).into_owned(),
                stderr: command.stderr,
            }),
            (None, None) => return Err(format!("commands/{number} is missing")),
        };
        captured.commands.insert((command.program, command.arguments), answer);
    }
    for (path, why) in index.absent {
        captured.files.insert(path, Err(why));
    }
    for (name, bytes) in entries {
        if let Some(path) = name.strip_prefix("files/") {
            captured.files.insert(format!("/{path}"), Ok(bytes));
        }
    }
    for (path, number) in index.devices {
        let number = match number {
            Ok(text) => Ok(DeviceNumber::parse(&text)
                .ok_or_else(|| format!("'{text}' is no device number ({path})"))?),
            Err(why) => Err(why),
        };
        captured.numbers.insert(path, number);
    }
    captured.lists = index.lists;
    captured.resolved = index.resolved;
    captured.modified = index.modified;
    captured.executable = index.executable;
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Facts, Recorder};

    #[test]
    fn a_file_that_is_not_there_is_no_capture() {
        let error = Captured::open(Path::new("no-such-machine.tar.gz")).unwrap_err();
        assert!(matches!(error, HostError::NotACapture { .. }), "{error}");
        assert!(error.to_string().contains("there is no such file"), "{error}");
    }

    fn machine() -> Captured {
        let mut made_up = Captured::new(Machine {
            system: "Linux 6.12.1".to_owned(),
            release: "6.12.1".to_owned(),
            architecture: "x86_64".to_owned(),
            time: 1_700_000_000,
            is_root: false,
        });
        made_up.put("/sys/block/sda/size", "2048\n");
        made_up.link("/sys/class/block/sda", "/sys/block/sda");
        made_up.device("/dev/sda", DeviceNumber { major: 8, minor: 0 });
        made_up.deny("/etc/secret");
        made_up.set_output("lsblk", &["--json"], 0, "{}");
        made_up
    }

    fn ask_all(facts: &dyn Facts) -> Vec<String> {
        vec![
            format!("{:?}", facts.read("/sys/block/sda/size")),
            format!("{:?}", facts.list("/sys/block")),
            format!("{:?}", facts.resolve("/sys/class/block/sda")),
            format!("{:?}", facts.device_number("/dev/sda")),
            format!("{:?}", facts.read("/etc/secret")),
            format!("{:?}", facts.read("/no/such")),
            format!("{:?}", facts.modified("/no/such")),
            format!("{:?}", facts.run("lsblk", &["--json"])),
            format!("{:?}", facts.run("smartctl", &[])),
        ]
    }

    #[test]
    fn a_capture_answers_what_the_machine_answered_and_says_what_was_not_asked() {
        let machine = machine();
        let recorder = Recorder::new(&machine);
        let answers = ask_all(&recorder);
        let captured = recorder.into_captured();
        let mut bytes = Vec::new();
        captured.write(&mut bytes).unwrap();
        let read = Captured::read_from(&bytes[..]).unwrap();
        assert_eq!(read, captured);
        assert_eq!(ask_all(&read), answers);
        assert_eq!(read.read("/sys/block/sda/ro"), Err(Absent::NotCaptured));
    }

    #[test]
    fn what_is_no_capture_is_refused_with_the_reason() {
        let why = |bytes: &[u8]| Captured::read_from(bytes).unwrap_err();
        assert!(why(b"").contains("no capture.json"), "{}", why(b""));
        assert!(why(&[b'x'; 4096]).contains("broken"));
        assert!(why(&[0x1f, 0x8b, 8]).contains("broken"));
        let archive = |name: &str, bytes: &[u8]| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, bytes).unwrap();
            archive.into_inner().unwrap()
        };
        assert!(why(&archive("capture.json", b"{}")).contains("schema"));
        let long = vec![0; MAX_ENTRY_SIZE as usize + 1];
        assert!(why(&archive("files/long", &long)).contains("longer than a capture"));
    }

    #[test]
    fn what_blows_up_when_unpacked_is_not_unpacked() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        let mut archive = tar::Builder::new(&mut packed);
        let zeros = vec![0; MAX_ENTRY_SIZE as usize];
        for number in 0..20 {
            let mut header = tar::Header::new_gnu();
            header.set_size(MAX_ENTRY_SIZE);
            archive.append_data(&mut header, format!("files/{number}"), &zeros[..]).unwrap();
        }
        archive.finish().unwrap();
        drop(archive);
        let bytes = packed.finish().unwrap();
        assert!(bytes.len() < 1 << 20);
        assert!(Captured::read_from(&bytes[..]).unwrap_err().contains("longer than"));
    }
}
