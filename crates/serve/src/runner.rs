//! Runner of experiments on simulated drives, which the page starts and stops.
//!
//! Each experiment is a process of its own, `ssdlab run`, as if it was typed at a terminal: it checks what it needs,
//! can be watched in the same way, and leaves its report when it is stopped.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use ssdlab_lab::experiment::{self, Experiment, Kind, Settings};
use ssdlab_lab::quick::quick;
use ssdlab_lab::store::RunId;
use ssdlab_lab::{LabError, Target};
use ssdlab_model::profile;

/// Largest number of bytes that are kept of a process' standard error: the last ones.
const MAX_STDERR_TAIL: usize = 4_096;
/// Number of processes in the list above which the oldest that have ended are removed.
const MAX_ENDED: usize = 20;

/// Experiment to run, as the form gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunRequest {
    pub(crate) experiment: String,
    pub(crate) target: String,
    /// Parameters that differ from their defaults, `name=value` on a line each.
    pub(crate) settings: String,
    pub(crate) seed: String,
    pub(crate) quick: bool,
    /// True if pictures of the inside of the drive are recorded.
    pub(crate) record: bool,
}

/// Reason for which an experiment was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(
        "{0:?} is no simulated drive with a built-in profile: only those can be started from the \
         page. 'ssdlab run' in a terminal takes files, saved drives and real drives"
    )]
    NotSimulated(String),
    #[error(
        "the experiment {0} reads a file: run it in a terminal, with 'ssdlab run {0} FILE sim:'"
    )]
    NeedsFile(&'static str),
    #[error("the parameter {0} names a file: set it in a terminal, with 'ssdlab run --set'")]
    NamesFile(String),
    #[error("{0:?} is no seed: a seed is a whole number from 0 on")]
    Seed(String),
    #[error("{0:?} is no parameter: write NAME=VALUE, one on each line, such as rest=0s")]
    Setting(String),
    #[error("{0} experiments run already, one on each processor: stop one, or wait")]
    Busy(usize),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("cannot start the experiment")]
    Start(#[source] std::io::Error),
}

/// Order that has been checked.
#[derive(Debug)]
struct CheckedRequest {
    experiment: &'static str,
    target: String,
    settings: Vec<(String, String)>,
    seed: u64,
    quick: bool,
    record: bool,
}

/// Returns the experiments that can be run from the page: those that read no file.
pub(crate) fn experiments() -> impl Iterator<Item = &'static dyn Experiment> {
    experiment::all().iter().copied().filter(|one| !reads_file(*one))
}

fn reads_file(experiment: &dyn Experiment) -> bool {
    experiment.parameters().iter().any(|spec| spec.kind == Kind::File)
}

/// Returns true if all drives in the text have built-in profiles, so that no file is opened for them.
fn is_built_in(text: &str) -> bool {
    let named = text.split("sim:").skip(1).map(|rest| {
        let name = &rest[..rest.find([',', ';', ')']).unwrap_or(rest.len())];
        name.is_empty() || profile::embedded().iter().any(|(known, _)| *known == name)
    });
    let begins = text.find('(').map_or(text, |end| &text[..end]);
    let is_target = begins.starts_with("sim:")
        || !begins.is_empty()
            && begins.len() < text.len()
            && begins.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_target && text.contains("sim:") && named.into_iter().all(|is_known| is_known)
}

impl CheckedRequest {
    fn new(request: &RunRequest) -> Result<CheckedRequest, StartError> {
        let experiment = experiment::named(request.experiment.trim())?;
        if reads_file(experiment) {
            return Err(StartError::NeedsFile(experiment.name()));
        }
        let target = request.target.trim();
        if !is_built_in(target) {
            return Err(StartError::NotSimulated(target.to_owned()));
        }
        let text = request.seed.trim();
        let seed = if text.is_empty() { Ok(1) } else { text.parse() };
        let seed = seed.map_err(|_| StartError::Seed(text.to_owned()))?;
        let mut settings = Vec::new();
        for line in request.settings.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let pair = line.split_once('=').filter(|(name, _)| !name.trim().is_empty());
            let (name, value) = pair.ok_or_else(|| StartError::Setting(line.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let spec = experiment.parameters().iter().find(|spec| spec.name == name);
            if spec.is_some_and(|spec| spec.kind == Kind::Word) {
                return Err(StartError::NamesFile(name.to_owned()));
            }
            settings.push((name.to_owned(), value.to_owned()));
        }
        let parsed = Target::seeded(target, seed)?;
        if !parsed.is_simulated() {
            return Err(StartError::NotSimulated(target.to_owned()));
        }
        match request.quick {
            true => quick(experiment, parsed, seed, &settings).map(|_| ())?,
            false => Settings::new(experiment, false, &settings).map(|_| ())?,
        }
        Ok(CheckedRequest {
            experiment: experiment.name(),
            target: target.to_owned(),
            settings,
            seed,
            quick: request.quick,
            record: request.record,
        })
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned(), "--quiet".to_owned()];
        arguments.extend(self.quick.then(|| "--quick".to_owned()));
        arguments.extend(self.record.then(|| "--record-inside".to_owned()));
        arguments.push(format!("--seed={}", self.seed));
        arguments.extend(self.settings.iter().map(|(name, value)| format!("--set={name}={value}")));
        arguments.extend(["--".to_owned(), self.experiment.to_owned(), self.target.clone()]);
        arguments
    }
}

/// Process that was started here.
#[derive(Clone, Debug)]
pub(crate) struct RunProcess {
    pub(crate) pid: u32,
    pub(crate) experiment: String,
    pub(crate) target: String,
    pub(crate) seed: u64,
    /// Newest run in the store before the process began.
    pub(crate) newest_before: Option<RunId>,
    /// Result of the process; `None` while it is running.
    pub(crate) ended: Option<ProcessResult>,
}

/// Result of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessResult {
    /// Exit code; `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    /// End of its output on standard error.
    pub(crate) stderr_tail: String,
}

/// Starts and stops experiments, and keeps a list of them.
#[derive(Debug)]
pub(crate) struct Runner {
    program: PathBuf,
    store: PathBuf,
    started: Arc<Mutex<Vec<RunProcess>>>,
}

impl Runner {
    pub(crate) fn new(program: PathBuf, store: PathBuf) -> Runner {
        Runner { program, store, started: Arc::default() }
    }

    /// Starts an experiment, and returns the number of its process.
    pub(crate) fn start(
        &self,
        request: &RunRequest,
        newest_before: Option<RunId>,
    ) -> Result<u32, StartError> {
        let checked = CheckedRequest::new(request)?;
        // Hold the lock until the process is in the list, so that the limit also holds for simultaneous requests.
        let mut started = lock_list(&self.started);
        let running = started.iter().filter(|one| one.ended.is_none()).count();
        let most = std::thread::available_parallelism().map_or(1, |count| count.get());
        if running >= most {
            return Err(StartError::Busy(running));
        }
        let mut command = Command::new(&self.program);
        command.args(checked.arguments()).env("SSDLAB_STORE", &self.store).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = in_own_group(&mut command).spawn().map_err(StartError::Start)?;
        let pid = child.id();
        // Remove an earlier process that had the same number.
        started.retain(|one| one.pid != pid);
        let too_many = started.len().saturating_sub(MAX_ENDED);
        let mut ended = (0..too_many).collect::<Vec<_>>().into_iter();
        started.retain(|one| one.ended.is_none() || ended.next().is_none());
        started.push(RunProcess {
            pid,
            experiment: checked.experiment.to_owned(),
            target: checked.target,
            seed: checked.seed,
            newest_before,
            ended: None,
        });
        let list = self.started.clone();
        std::thread::spawn(move || wait_and_record(child, &list));
        Ok(pid)
    }

    /// Asks a process that was started here to end, as Ctrl-C does. Returns true if it was running and could be asked.
    pub(crate) fn stop(&self, pid: u32) -> bool {
        // While the list is locked, the process is not reaped, so its number cannot belong to another process.
        let started = lock_list(&self.started);
        let is_running = started.iter().any(|one| one.pid == pid && one.ended.is_none());
        is_running && interrupt(pid)
    }

    /// Asks all processes that were started here to end; they keep what they have measured.
    pub(crate) fn stop_all(&self) {
        for one in lock_list(&self.started).iter().filter(|one| one.ended.is_none()) {
            interrupt(one.pid);
        }
    }

    /// Returns true if a process that was started here is still running.
    pub(crate) fn is_running(&self) -> bool {
        lock_list(&self.started).iter().any(|one| one.ended.is_none())
    }

    /// Returns the processes that were started here, newest last.
    pub(crate) fn started(&self) -> Vec<RunProcess> {
        lock_list(&self.started).clone()
    }

    /// Returns the process `pid`, if it was started here.
    pub(crate) fn find(&self, pid: u32) -> Option<RunProcess> {
        lock_list(&self.started).iter().find(|one| one.pid == pid).cloned()
    }
}

fn lock_list(list: &Mutex<Vec<RunProcess>>) -> MutexGuard<'_, Vec<RunProcess>> {
    // The list is consistent at every moment, so a poisoned lock is harmless.
    list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Asks a process to end, as Ctrl-C does. Returns true if the process exists.
#[cfg(unix)]
fn interrupt(pid: u32) -> bool {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::INT).is_ok())
}

/// Asks a process to end, as Ctrl-Break does: Ctrl-C would reach this program as well. Returns true if the process
/// exists.
#[cfg(windows)]
fn interrupt(pid: u32) -> bool {
    use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};

    // SAFETY: the call takes two numbers only. The process leads a group of its own with that number.
    unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, pid) != 0 }
}

/// Makes a process the leader of a group of its own on Windows, where only a group can be asked to end.
fn in_own_group(command: &mut Command) -> &mut Command {
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(
        command,
        windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP,
    );
    command
}

/// Waits until a process has ended, without reaping it, so that its number stays in use: see [`Runner::stop`].
#[cfg(unix)]
fn wait_for_end(child: &Child) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
    }
}

/// Does nothing: a process keeps its number as long as `child` exists.
#[cfg(not(unix))]
fn wait_for_end(_: &Child) {}

/// Waits for the end of a process, and adds its result to the list.
fn wait_and_record(mut child: Child, list: &Mutex<Vec<RunProcess>>) {
    let pid = child.id();
    let mut stderr_tail = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = stderr.read(&mut piece) {
            stderr_tail.extend_from_slice(&piece[..length]);
            stderr_tail.drain(..stderr_tail.len().saturating_sub(MAX_STDERR_TAIL));
        }
    }
    wait_for_end(&child);
    let mut started = lock_list(list);
    let code = child.wait().ok().and_then(|status| status.code());
    if let Some(one) = started.iter_mut().find(|one| one.pid == pid) {
        let stderr_tail = String::from_utf8_lossy(&stderr_tail).trim().to_owned();
        one.ended = Some(ProcessResult { code, stderr_tail });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(experiment: &str, target: &str, settings: &str) -> RunRequest {
        RunRequest {
            experiment: experiment.to_owned(),
            target: target.to_owned(),
            settings: settings.to_owned(),
            quick: true,
            ..RunRequest::default()
        }
    }

    #[test]
    fn only_simulated_drives_with_built_in_profiles_are_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("my.toml");
        std::fs::write(&file, profile::embedded()[0].1).unwrap();
        let file = format!("sim:{}", file.display());
        for good in [
            "sim:",
            "sim:toshiba-xg5",
            " sim:toshiba-xg5,spare=7%,scale=1/64 ",
            "raid1(sim:toshiba-xg5,spare=7%;sim:),sync=none",
            "usb(raid1(sim:;sim:))",
        ] {
            let checked = CheckedRequest::new(&request("fragmentation", good, ""));
            assert!(checked.is_ok(), "{good}: {checked:?}");
        }
        for bad in [
            "/dev/sda",
            "/tmp",
            ".",
            "",
            "--help",
            "sim:/etc/passwd",
            "sim:../../etc/passwd",
            "sim:./aged.ssd",
            &file,
            "raid1(sim:;sim:/etc/passwd)",
            "raid1(sim:;/dev/sda)",
            "/dev/sda(sim:)",
            "sim:toshiba-xg5/../generic-tlc",
        ] {
            let checked = CheckedRequest::new(&request("fragmentation", bad, ""));
            assert!(checked.is_err(), "{bad}: {checked:?}");
        }
        assert!(!is_built_in(&file));
    }

    #[test]
    fn experiments_and_parameters_that_name_files_are_refused() {
        let refused = |experiment: &str, settings: &str| {
            CheckedRequest::new(&request(experiment, "sim:", settings)).unwrap_err()
        };
        assert!(matches!(refused("job", ""), StartError::NeedsFile("job")));
        assert!(matches!(refused("replay", "file=/etc/passwd"), StartError::NeedsFile(_)));
        assert!(matches!(refused("discard", "tarball=/x"), StartError::NamesFile(_)));
        assert!(matches!(refused("fragmentation", "nonsense"), StartError::Setting(_)));
        assert!(matches!(refused("fragmentation", "nonsense=1"), StartError::Lab(_)));
        assert!(matches!(refused("--help", ""), StartError::Lab(_)));
        let seed = RunRequest { seed: "-1".to_owned(), ..request("fragmentation", "sim:", "") };
        assert!(matches!(CheckedRequest::new(&seed), Err(StartError::Seed(_))));
        let names: Vec<&str> = experiments().map(Experiment::name).collect();
        assert!(names.contains(&"steady") && !names.contains(&"job"));
    }

    #[test]
    fn what_is_given_stays_one_argument() {
        let request = request("fragmentation", "sim:", "rest=0s\r\n\n file_size = 16M ");
        let arguments = CheckedRequest::new(&request).unwrap().arguments();
        let expected = [
            "run",
            "--quiet",
            "--quick",
            "--seed=1",
            "--set=rest=0s",
            "--set=file_size=16M",
            "--",
            "fragmentation",
            "sim:",
        ];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn processes_are_limited_and_stopped_and_what_they_said_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("ssdlab");
        // This script stands in for the program: it prints a word and runs until it is interrupted. A shell cannot trap
        // a signal that was ignored when it began, as interrupts are for processes that are started in the background.
        let script = "#!/usr/bin/env -S --default-signal=INT /bin/sh\n\
                      trap 'echo stopped >&2; exit 130' INT\necho began >&2\n\
                      while :; do sleep 0.01; done\n";
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let runner = Runner::new(program, directory.path().join("runs.sqlite"));
        let request = request("fragmentation", "sim:", "");
        let most = std::thread::available_parallelism().unwrap().get();
        let pids: Vec<u32> = (0..most).map(|_| start(&runner, &request)).collect();
        assert!(matches!(runner.start(&request, None), Err(StartError::Busy(_))));
        assert!(!runner.stop(1), "it stops what it has started and nothing else");
        for pid in &pids {
            // The signal may come before the shell has set its trap; the shell then ends without output.
            while runner.find(*pid).unwrap().ended.is_none() {
                runner.stop(*pid);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        assert!(!runner.stop(pids[0]));
        let next = start(&runner, &request);
        runner.stop_all();
        while runner.find(next).unwrap().ended.is_none() {
            runner.stop(next);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Starts an order. The script that was just written may still be open in a child of another test, so this retries.
    fn start(runner: &Runner, request: &RunRequest) -> u32 {
        loop {
            match runner.start(request, None) {
                Ok(pid) => return pid,
                Err(StartError::Start(error))
                    if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
