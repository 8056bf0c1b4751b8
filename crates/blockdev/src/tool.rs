//! Runs programs of the system for what the kernel does not provide: SMART, signatures, erase commands.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::portable::{in_own_process_group, is_executable};

/// Directories of administration programs, which may be missing in PATH.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Time limit of a program that only reads: a drive that hangs must not hang the run.
pub const LOOK: Duration = Duration::from_secs(10);

/// Result of a program.
#[derive(Debug)]
pub struct ToolOutput {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl ToolOutput {
    /// Returns the JSON data in the output, if any. Text before the first brace is skipped.
    pub fn json(&self) -> Option<Value> {
        let start = self.stdout.find('{')?;
        serde_json::from_str(&self.stdout[start..]).ok()
    }

    /// Returns the last line of output, to be quoted.
    pub fn last_line(&self) -> String {
        let lines = self.stderr.lines().chain(self.stdout.lines());
        let last = lines.map(str::trim).rfind(|line| !line.is_empty());
        last.map_or_else(|| self.status.to_string(), str::to_owned)
    }
}

/// Runs a program to its end, or kills it after `limit`.
///
/// # Errors
/// Returns a sentence without its end: that the program is not installed, cannot be run or took too long.
pub fn run(
    program: &str,
    arguments: &[&OsStr],
    limit: Option<Duration>,
) -> Result<ToolOutput, String> {
    let found = find(program).ok_or_else(|| format!("{program} is not installed"))?;
    let failed = |error| format!("{program} cannot be run ({error})");
    let mut command = Command::new(found);
    // Ctrl-C must only reach this process: a drive that is being erased must not be left halfway.
    let mut child = in_own_process_group(&mut command)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (stdout, stderr) =
        (read_in_background(child.stdout.take()), read_in_background(child.stderr.take()));
    let status = wait(&mut child, limit)
        .map_err(failed)?
        .ok_or_else(|| format!("{program} took too long and was ended"))?;
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(ToolOutput { status, stdout: text(stdout), stderr: text(stderr) })
}

fn read_in_background(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // Output up to a read error is better than none.
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child, limit: Option<Duration>) -> std::io::Result<Option<ExitStatus>> {
    let Some(limit) = limit else { return child.wait().map(Some) };
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = own.iter().map(PathBuf::as_path).chain(SYSTEM_DIRECTORIES.map(Path::new));
    places.map(|place| place.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| is_executable(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gives_what_it_printed_and_how_it_ended() {
        let script = "echo 'text before {\"a\": 1}'; echo 'a complaint' >&2; exit 3";
        let output = run("sh", &["-c".as_ref(), script.as_ref()], Some(LOOK)).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.json().unwrap()["a"], 1);
        let silent = run("sh", &["-c".as_ref(), "echo no >&2".as_ref()], None).unwrap();
        assert_eq!(silent.last_line(), "no");
        assert_eq!(silent.json(), None);
    }

    #[test]
    fn one_that_is_missing_or_hangs_is_said_in_words() {
        let missing = run("ssdlab-no-such-program", &[], None).unwrap_err();
        assert_eq!(missing, "ssdlab-no-such-program is not installed");
        let limit = Some(Duration::from_millis(20));
        let hangs = run("sleep", &["60".as_ref()], limit).unwrap_err();
        assert_eq!(hangs, "sleep took too long and was ended");
    }
}
