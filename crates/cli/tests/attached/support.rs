//! A place with an image in it, and the program that has it attached; both go with the test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Says that a test did not run.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: {why}");
}

/// Returns what the system says of the processes that a message names by their numbers.
fn processes_named(message: &str) -> String {
    let numbers = message.split("(process ").skip(1).filter_map(|rest| rest.split(')').next());
    let about = |number: &str| {
        let read = |name| std::fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
        let text = |bytes| String::from_utf8_lossy(bytes).replace('\0', " ");
        let open = std::fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        let open: Vec<_> = open.filter_map(|it| std::fs::read_link(it.path()).ok()).collect();
        let (command, status) = (read("cmdline"), read("status"));
        format!("\nprocess {number}: {}\n{}\n{open:?}\n", text(&command), text(&status))
    };
    numbers.map(about).collect()
}

/// Returns true if block devices can be made here; says why not otherwise.
pub fn has_devices(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        skipped(test, "needs root");
        return false;
    }
    for path in ["/dev/fuse", "/dev/loop-control"] {
        if !std::path::Path::new(path).exists() {
            skipped(test, &format!("this system has no {path}"));
            return false;
        }
    }
    has_tools(test, &["losetup", "mount", "blkid"])
}

/// Returns true if all of these programs are there; says which is not otherwise.
pub fn has_tools(test: &str, tools: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for tool in tools {
        if !std::env::split_paths(&path).any(|directory| directory.join(tool).exists()) {
            skipped(test, &format!("{tool} is missing"));
            return false;
        }
    }
    true
}

/// A number from the environment, for tests that can take longer.
pub fn count(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

/// No command of a test takes longer, even on a busy machine: one that does waits for ever.
const LONGEST_RUN: Duration = Duration::from_secs(600);

/// Who may run at the same time. Tools that look at every loop device and mount of the system, such as
/// `mkfs.btrfs`, fail while any of them is dead; so whoever kills a program that has one, and whoever
/// calls such a tool, is alone.
static TURNS: RwLock<()> = RwLock::new(());

/// Held by a place as long as it is there.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A directory, in RAM where that is possible, with an image `disk.ssd` in it.
pub struct Place {
    directory: TempDir,
    // Given up last of all, when the directory is gone.
    _turn: Turn,
}

impl Place {
    /// With the image of a drive of this profile.
    pub fn new(profile: &str) -> Place {
        // A test that failed has cleaned up behind itself.
        let guard = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Place::with(profile, Turn::Shared { _guard: guard })
    }

    /// Makes a place while no other test has one.
    pub fn alone(profile: &str) -> Place {
        let guard = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        Place::with(profile, Turn::Alone { _guard: guard })
    }

    fn with(profile: &str, turn: Turn) -> Place {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")))
            .unwrap();
        std::fs::DirBuilder::new().mode(0o700).create(directory.path().join("run")).unwrap();
        let place = Place { directory, _turn: turn };
        place.done(&["create", profile, "disk.ssd"]);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ssdlab"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("SSDLAB_RUN", self.path("run"))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end, which it has to reach within ten minutes.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Output {
        let start = Instant::now();
        let mut command = assert_cmd::Command::from_std(self.command(arguments));
        let output = command.timeout(LONGEST_RUN).output().unwrap();
        assert!(start.elapsed() < LONGEST_RUN, "{arguments:?} does not end: {output:?}");
        output
    }

    /// Runs it, and it succeeds; returns what it printed.
    #[track_caller]
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}{}", processes_named(&said));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Attaches the image; returns when it is.
    #[track_caller]
    pub fn attach(&self, options: &[&str]) -> Attached<'_> {
        let arguments = [&["attach", "disk.ssd"], options].concat();
        self.start(self.command(&arguments), options)
    }

    /// Attaches the image with this umask.
    #[track_caller]
    pub fn attach_with_umask(&self, mask: &str, options: &[&str]) -> Attached<'_> {
        let program = assert_cmd::cargo::cargo_bin!("ssdlab");
        let script = format!("umask {mask}; exec \"$@\"");
        let mut command = self.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(program).args(["attach", "disk.ssd"]).args(options);
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        shell.current_dir(self.directory.path()).stdin(Stdio::null());
        command = shell;
        self.start(command, options)
    }

    #[track_caller]
    fn start(&self, mut command: Command, options: &[&str]) -> Attached<'_> {
        let stderr = std::fs::File::create(self.path("stderr")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let attached = Attached { place: self, child, at: line.trim_end().to_owned() };
        assert!(!attached.at.is_empty(), "{options:?}: {}", attached.said());
        attached
    }

    /// Returns what `status` says.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.done(&["status", "disk.ssd", "--json"])).unwrap()
    }
}

impl Drop for Place {
    /// Removes what a program has left that was killed, and a test that failed did not clean up.
    fn drop(&mut self) {
        let records = std::fs::read_dir(self.path("run")).into_iter().flatten().flatten();
        if records.into_iter().any(|entry| entry.path().extension().is_some_and(|it| it == "json"))
        {
            let _ = self.run(&["detach", "disk.ssd"]);
        }
    }
}

/// The program that has the image attached.
pub struct Attached<'a> {
    place: &'a Place,
    child: Child,
    /// The device, file or address.
    pub at: String,
}

impl Attached<'_> {
    /// Returns what it said on stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.place.path("stderr")).unwrap_or_default()
    }

    /// Detaches it in order.
    #[track_caller]
    pub fn detach(mut self) {
        self.place.done(&["detach", "disk.ssd"]);
        assert!(self.wait(), "{}", self.said());
    }

    /// Kills it, as nothing can prevent.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, as a system does that shuts down.
    pub fn ask_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// The most memory it has taken so far, in bytes; nothing where the system does not say.
    pub fn memory_peak(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// Returns true if it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it ends, and says whether all went well.
    pub fn wait(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // A test has failed: in order if that is still possible, so that nothing stays mounted.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if !self.wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = self.place.run(&["detach", "disk.ssd"]);
    }
}

/// Waits until `is_so`, which takes a minute at most.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "waited for a minute in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a tool of the system's, and it succeeds; returns what it printed.
#[track_caller]
pub fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `mount` or `umount` until it succeeds, for ten seconds at most; returns what it said last otherwise.
///
/// A program that another test is starting has what this test had open until it runs itself, and a mount is
/// busy as long.
pub fn once_closed(program: &str, arguments: &[&str]) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
