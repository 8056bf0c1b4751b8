//! Facts of a captured machine, or of a machine that a test makes up.

use std::collections::BTreeMap;

use ssdlab_blockdev::DeviceNumber;

use super::{Absent, CommandOutput, Facts, Machine};

/// Call of a program: its name and arguments.
pub(super) type CommandKey = (String, Vec<String>);

/// Facts that a machine gave, by path or by call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub(super) machine: Machine,
    pub(super) files: BTreeMap<String, Result<Vec<u8>, Absent>>,
    pub(super) lists: BTreeMap<String, Result<Vec<String>, Absent>>,
    pub(super) resolved: BTreeMap<String, Result<String, Absent>>,
    pub(super) numbers: BTreeMap<String, Result<DeviceNumber, Absent>>,
    pub(super) modified: BTreeMap<String, Result<u64, Absent>>,
    pub(super) executable: BTreeMap<String, Result<bool, Absent>>,
    pub(super) commands: BTreeMap<CommandKey, Result<CommandOutput, Absent>>,
    /// True if a fact that is not stored does not exist (a made-up machine); false if it was just not asked for.
    pub(super) is_made_up: bool,
}

impl Captured {
    /// Creates a made-up machine without any files; what is not added is missing.
    pub fn new(machine: Machine) -> Captured {
        Captured {
            machine,
            files: BTreeMap::new(),
            lists: BTreeMap::new(),
            resolved: BTreeMap::new(),
            numbers: BTreeMap::new(),
            modified: BTreeMap::new(),
            executable: BTreeMap::new(),
            commands: BTreeMap::new(),
            is_made_up: true,
        }
    }

    /// Adds a text file, and its name to the directories above.
    pub fn put(&mut self, path: &str, text: &str) {
        self.put_bytes(path, text.as_bytes().to_owned());
    }

    /// Adds a binary file, and its name to the directories above.
    pub fn put_bytes(&mut self, path: &str, bytes: Vec<u8>) {
        self.files.insert(path.to_owned(), Ok(bytes));
        self.add_to_directories(path);
    }

    /// Adds a file that is executable.
    pub fn put_program(&mut self, path: &str, text: &str) {
        self.put(path, text);
        self.executable.insert(path.to_owned(), Ok(true));
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &str) {
        self.files.remove(path);
        if let Some((directory, name)) = path.rsplit_once('/')
            && let Some(Ok(names)) = self.lists.get_mut(directory)
        {
            names.retain(|known| known != name);
        }
    }

    /// Adds a symbolic link; `to` is a path without links in it.
    pub fn link(&mut self, path: &str, to: &str) {
        self.resolved.insert(path.to_owned(), Ok(to.to_owned()));
        self.add_to_directories(path);
    }

    /// Adds a device file.
    pub fn device(&mut self, path: &str, number: DeviceNumber) {
        self.numbers.insert(path.to_owned(), Ok(number));
        self.add_to_directories(path);
    }

    /// Sets the time of a file's last change, in seconds since 1970.
    pub fn set_modified(&mut self, path: &str, time: u64) {
        self.modified.insert(path.to_owned(), Ok(time));
    }

    /// Sets the standard output and the exit code of a program.
    pub fn set_output(&mut self, program: &str, arguments: &[&str], status: i32, stdout: &str) {
        let output = CommandOutput {
            status: Some(status),
            stdout: stdout.to_owned(),
            stderr: String::new(),
        };
        self.commands.insert(command_key(program, arguments), Ok(output));
    }

    /// Marks a file as readable by root only.
    pub fn deny(&mut self, path: &str) {
        self.files.insert(path.to_owned(), Err(Absent::Denied));
    }

    /// Replaces the facts about the machine as a whole.
    pub fn set_machine(&mut self, machine: Machine) {
        self.machine = machine;
    }

    /// Sets whether root examined the machine.
    pub fn set_root(&mut self, is_root: bool) {
        self.machine.is_root = is_root;
    }

    fn add_to_directories(&mut self, path: &str) {
        let mut rest = path;
        while let Some((directory, name)) = rest.rsplit_once('/') {
            let directory = if directory.is_empty() { "/" } else { directory };
            let names = self.lists.entry(directory.to_owned()).or_insert_with(|| Ok(Vec::new()));
            if let Ok(names) = names
                && let Err(place) = names.binary_search_by(|known| known.as_str().cmp(name))
            {
                names.insert(place, name.to_owned());
            }
            if directory == "/" {
                break;
            }
            rest = directory;
        }
    }

    fn lookup<K, Q, V>(&self, map: &BTreeMap<K, Result<V, Absent>>, key: &Q) -> Result<V, Absent>
    where
        K: Ord + std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
        V: Clone,
    {
        let otherwise = if self.is_made_up { Absent::Missing } else { Absent::NotCaptured };
        map.get(key).cloned().unwrap_or(Err(otherwise))
    }
}

pub(super) fn command_key(program: &str, arguments: &[&str]) -> CommandKey {
    (program.to_owned(), arguments.iter().map(|&argument| argument.to_owned()).collect())
}

impl Facts for Captured {
    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Absent> {
        self.lookup(&self.files, path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Absent> {
        self.lookup(&self.lists, path)
    }

    fn resolve(&self, path: &str) -> Result<String, Absent> {
        let found = self.lookup(&self.resolved, path);
        let is_there = self.files.contains_key(path)
            || self.lists.contains_key(path)
            || self.numbers.contains_key(path);
        // A made-up machine has only the links that its test added.
        match found {
            Err(Absent::Missing) if self.is_made_up && is_there => Ok(path.to_owned()),
            found => found,
        }
    }

    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent> {
        self.lookup(&self.numbers, path)
    }

    fn modified(&self, path: &str) -> Result<u64, Absent> {
        self.lookup(&self.modified, path)
    }

    fn is_executable(&self, path: &str) -> Result<bool, Absent> {
        match self.lookup(&self.executable, path) {
            // On a made-up machine only files that its test marked so are executable.
            Err(Absent::Missing) if self.is_made_up && self.files.contains_key(path) => Ok(false),
            found => found,
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent> {
        self.lookup(&self.commands, &command_key(program, arguments))
    }
}
