//! Recorder that stores every fact that a machine gives, for a capture.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ssdlab_blockdev::DeviceNumber;

use super::captured::{Captured, command_key};
use super::{Absent, CommandOutput, Facts, Machine};

/// Passes questions on to a machine, and stores each answer.
pub struct Recorder<'a> {
    machine: &'a dyn Facts,
    captured: RefCell<Captured>,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder without any answers.
    pub fn new(machine: &'a dyn Facts) -> Recorder<'a> {
        let mut captured = Captured::new(machine.machine());
        captured.is_made_up = false;
        Recorder { machine, captured: RefCell::new(captured) }
    }

    /// Returns all facts that were asked for, with the answers.
    pub fn into_captured(self) -> Captured {
        self.captured.into_inner()
    }

    /// Returns the stored answer, or asks and stores the answer. So the answers within one capture do not contradict
    /// each other.
    fn get_or_record<K: Ord + Clone, V: Clone>(
        &self,
        map: impl Fn(&mut Captured) -> &mut BTreeMap<K, Result<V, Absent>>,
        key: K,
        ask: impl FnOnce() -> Result<V, Absent>,
    ) -> Result<V, Absent> {
        if let Some(answer) = map(&mut self.captured.borrow_mut()).get(&key) {
            return answer.clone();
        }
        let answer = ask();
        map(&mut self.captured.borrow_mut()).insert(key, answer.clone());
        answer
    }
}

impl Facts for Recorder<'_> {
    fn machine(&self) -> Machine {
        self.captured.borrow().machine.clone()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Absent> {
        let read = || {
            let bytes = self.machine.read(path)?;
            Ok(if path == "/etc/fstab" { without_passwords(&bytes) } else { bytes })
        };
        self.get_or_record(|captured| &mut captured.files, path.to_owned(), read)
    }

    fn lines_where(
        &self,
        path: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, Absent> {
        let kept = self.get_or_record(
            |captured| &mut captured.files,
            path.to_owned(),
            || {
                let lines = self.machine.lines_where(path, is_wanted)?;
                Ok(lines.into_iter().map(|line| line + "\n").collect::<String>().into_bytes())
            },
        )?;
        let kept = String::from_utf8_lossy(&kept).into_owned();
        Ok(kept.lines().filter(|line| is_wanted(line)).map(str::to_owned).collect())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Absent> {
        self.get_or_record(
            |captured| &mut captured.lists,
            path.to_owned(),
            || self.machine.list(path),
        )
    }

    fn resolve(&self, path: &str) -> Result<String, Absent> {
        self.get_or_record(
            |captured| &mut captured.resolved,
            path.to_owned(),
            || self.machine.resolve(path),
        )
    }

    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent> {
        self.get_or_record(
            |captured| &mut captured.numbers,
            path.to_owned(),
            || self.machine.device_number(path),
        )
    }

    fn modified(&self, path: &str) -> Result<u64, Absent> {
        self.get_or_record(
            |captured| &mut captured.modified,
            path.to_owned(),
            || self.machine.modified(path),
        )
    }

    fn is_executable(&self, path: &str) -> Result<bool, Absent> {
        self.get_or_record(
            |captured| &mut captured.executable,
            path.to_owned(),
            || self.machine.is_executable(path),
        )
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent> {
        let key = command_key(program, arguments);
        self.get_or_record(
            |captured| &mut captured.commands,
            key,
            || self.machine.run(program, arguments),
        )
    }
}

/// Returns a table of mounts without the passwords in options of network file systems.
fn without_passwords(table: &[u8]) -> Vec<u8> {
    let table = String::from_utf8_lossy(table);
    let clean = |line: &str| {
        let mut options: Vec<String> = line.split(',').map(str::to_owned).collect();
        for option in &mut options {
            // The first option has the fields before the options in front, and the last has the fields behind them.
            let at = option.find("pass").filter(|&at| option[at..].contains('='));
            if let Some(at) = at {
                let value = at + option[at..].find('=').map_or(0, |it| it + 1);
                let end =
                    option[value..].find(char::is_whitespace).map_or(option.len(), |it| value + it);
                option.replace_range(value..end, "");
            }
        }
        options.join(",")
    };
    table.split('\n').map(clean).collect::<Vec<_>>().join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_no_part_of_a_capture() {
        let table = "//nas/x /x cifs user=me,password=secret,uid=0 0 0\n/dev/sda1 / ext4 ro 0 1\n\
                     //nas/y /y cifs pass=secret 0 0\n";
        let clean = String::from_utf8(without_passwords(table.as_bytes())).unwrap();
        assert!(!clean.contains("secret"), "{clean}");
        assert_eq!(
            clean.replace("password=", "password=secret").replace(" pass=", " pass=secret"),
            table
        );
    }
}
