//! A place to run the program in, and what came of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Says that a test did not run.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: {why}");
}

/// Returns true if this process may mount.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A directory of its own with a store in it.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file; returns its path as an argument.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A new directory; returns its path as an argument.
    pub fn directory(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The program with nothing of the user's around it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ssdlab"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("SSDLAB_STORE", self.path("runs.sqlite"))
            .env("HOME", self.directory.path())
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "80")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    /// Starts the program with its output captured.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// What a run of the program came to.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn of(output: Output) -> Done {
        Done {
            code: output.status.code().expect("it ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn with_code(self, code: i32) -> Done {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Fails with one error that says all of `words`, and prints no data.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Done {
        let done = self.with_code(code);
        assert_eq!(done.stdout, "");
        assert_eq!(done.stderr.matches("error: ").count(), 1, "{}", done.stderr);
        for word in words {
            assert!(done.stderr.contains(word), "no {word:?} in:\n{}", done.stderr);
        }
        done
    }

    /// Returns what was printed, which must be JSON and nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The entries of a directory.
pub fn names_in(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Waits until `is_so`, for two minutes at least, also on a machine that is busy with something else.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..120_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited for two minutes in vain");
}

/// A file system in memory, mounted for the time of a test.
pub struct Mounted(pub String);

impl Mounted {
    /// `None`, said aloud, where one may not mount.
    pub fn new(test: &str, kind: &str, options: &str, at: String) -> Option<Mounted> {
        if !is_root() {
            skipped(test, "not root, so nothing can be mounted");
            return None;
        }
        if !mount(&["-t", kind, "-o", options, "ssdlab-test", &at]) {
            skipped(test, &format!("{kind} cannot be mounted here"));
            return None;
        }
        Some(Mounted(at))
    }

    /// Changes the options; `false` where the system refuses.
    pub fn remount(&self, options: &str) -> bool {
        mount(&["-o", &format!("remount,{options}"), &self.0])
    }
}

fn mount(arguments: &[&str]) -> bool {
    let mut command = Command::new("mount");
    command.args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Unmounts what is mounted there, within ten seconds; says whether it did.
///
/// A program that another test is starting has what this test had open until it runs itself, and a mount is
/// busy as long.
pub fn unmount(point: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let mut command = Command::new("umount");
        command.arg(point).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(unmount(&self.0), "{} stays mounted", self.0);
    }
}
