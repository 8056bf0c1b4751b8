//! Notes every answer that a machine gives, to keep them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ssdlab_drive::real::DeviceNumber;

use super::captured::{Captured, asked};
use super::{Absent, CommandOutput, Facts, Machine};

/// Asks a machine, and notes each answer.
pub struct Recorder<'a> {
    machine: &'a dyn Facts,
    noted: RefCell<Captured>,
}

impl<'a> Recorder<'a> {
    /// Begins with an empty page.
    pub fn new(machine: &'a dyn Facts) -> Recorder<'a> {
        let mut noted = Captured::new(machine.machine());
        noted.is_whole = false;
        Recorder { machine, noted: RefCell::new(noted) }
    }

    /// All that was asked for, with the answers.
    pub fn noted(self) -> Captured {
        self.noted.into_inner()
    }

    /// The answer that was given before, or a new one: within one capture a machine does not
    /// contradict itself.
    fn once<K: Ord + Clone, V: Clone>(
        &self,
        map: impl Fn(&mut Captured) -> &mut BTreeMap<K, Result<V, Absent>>,
        key: K,
        ask: impl FnOnce() -> Result<V, Absent>,
    ) -> Result<V, Absent> {
        if let Some(answer) = map(&mut self.noted.borrow_mut()).get(&key) {
            return answer.clone();
        }
        let answer = ask();
        map(&mut self.noted.borrow_mut()).insert(key, answer.clone());
        answer
    }
}

impl Facts for Recorder<'_> {
    fn machine(&self) -> Machine {
        self.noted.borrow().machine.clone()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Absent> {
        self.once(|noted| &mut noted.files, path.to_owned(), || self.machine.read(path))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Absent> {
        self.once(|noted| &mut noted.lists, path.to_owned(), || self.machine.list(path))
    }

    fn resolve(&self, path: &str) -> Result<String, Absent> {
        self.once(|noted| &mut noted.resolved, path.to_owned(), || self.machine.resolve(path))
    }

    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent> {
        self.once(|noted| &mut noted.numbers, path.to_owned(), || self.machine.device_number(path))
    }

    fn modified(&self, path: &str) -> Result<u64, Absent> {
        self.once(|noted| &mut noted.modified, path.to_owned(), || self.machine.modified(path))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent> {
        let key = asked(program, arguments);
        self.once(|noted| &mut noted.commands, key, || self.machine.run(program, arguments))
    }
}
