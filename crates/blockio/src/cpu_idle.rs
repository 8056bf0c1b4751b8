//! Keeps processors from sleeping while a drive is measured (PM QoS).
//!
//! An idle processor sleeps, and takes a while to wake up when the drive's interrupt comes: a microsecond
//! or two from the lightest sleep of a real processor, a hundred and more from its deepest, and tens on a
//! virtual one, which is given back to its host. All that time would be measured as the drive's. The
//! kernel accepts requests that limit the depth of sleep: as long as a process holds
//! `/dev/cpu_dma_latency` open and has written a time to it, no processor takes longer than that time to
//! wake up (the kernel's `Documentation/power/pm_qos_interface.rst`).
//!
//! The request ends when the file is closed, and so with the process, however the process ends. The
//! request costs no processor time of any process, but power.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ssdlab_blockdev::text_in;

/// Name of the fact, in the description of a real drive, that says if the processors could sleep.
pub const PROCESSORS: &str = "processors";

/// Beginning of that fact if they could not.
pub const CPU_IDLE_HELD: &str = "kept awake";

/// Files by which the kernel takes requests and reports how its processors sleep; others in tests.
#[derive(Clone, Debug)]
pub(super) struct CpuIdleFiles {
    /// `/dev/cpu_dma_latency`.
    latency_device: PathBuf,
    /// `/sys/devices/system/cpu`.
    cpus: PathBuf,
    /// `/proc/cpuinfo`.
    cpuinfo: PathBuf,
}

/// A request that processors do not sleep, and its outcome.
#[derive(Debug)]
pub(super) struct CpuIdleHold {
    files: CpuIdleFiles,
    request: Option<LatencyRequest>,
    /// Description of the outcome, once the request was made.
    words: Option<String>,
}

/// A request that the kernel has accepted.
#[derive(Debug)]
struct LatencyRequest {
    file: File,
    latency: Microseconds,
}

/// A time in whole microseconds, the unit of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Microseconds(i32);

/// Limit without effect: the kernel's value while no process requests one
/// (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_LIMIT: Microseconds = Microseconds(2_000_000_000);

impl CpuIdleFiles {
    /// Returns the files of the running system.
    pub(super) fn real() -> CpuIdleFiles {
        CpuIdleFiles {
            latency_device: "/dev/cpu_dma_latency".into(),
            cpus: "/sys/devices/system/cpu".into(),
            cpuinfo: "/proc/cpuinfo".into(),
        }
    }

    /// Returns the limit on wake-up time to request, so that no processor sleeps for long; `None` if the
    /// kernel does not control how the processors sleep.
    ///
    /// A real processor may go to its lightest sleep: spinning instead would take power from the busy
    /// ones. A virtual processor in what it calls its lightest sleep is given back to the host, which is
    /// not bound by the latency in the table.
    fn target_latency(&self) -> Option<Microseconds> {
        let driver = text_in(&self.cpus.join("cpuidle/current_driver"))?;
        if driver == "none" {
            return None;
        }
        if driver == "haltpoll" || self.is_virtual() {
            return Some(Microseconds(0));
        }
        let states = fs::read_dir(self.cpus.join("cpu0/cpuidle")).ok()?;
        let latencies = states.flatten().filter_map(|state| exit_latency(&state.path()));
        latencies.min_by_key(|latency| latency.0)
    }

    fn is_virtual(&self) -> bool {
        let flags = fs::read_to_string(&self.cpuinfo).unwrap_or_default();
        let mut lines = flags.lines().filter(|line| line.starts_with("flags"));
        lines.next().is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
    }
}

/// Returns the time to wake up from this state of a processor; `None` for spinning (`POLL`), which is not
/// sleep.
fn exit_latency(state: &Path) -> Option<Microseconds> {
    let name = text_in(&state.join("name"))?;
    let latency = text_in(&state.join("latency"))?.parse().ok()?;
    (name != "POLL").then_some(Microseconds(latency))
}

impl CpuIdleHold {
    /// Creates the state before any request.
    pub(super) fn new(files: CpuIdleFiles) -> CpuIdleHold {
        CpuIdleHold { files, request: None, words: None }
    }

    /// Returns true if the processors are kept awake.
    #[cfg(target_os = "linux")]
    pub(super) fn is_held(&self) -> bool {
        self.request.is_some()
    }

    /// Returns the outcome of the request in words; `None` if no request was made.
    pub(super) fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// Requests that the processors stay awake, until [`CpuIdleHold::release`].
    pub(super) fn acquire(&mut self) {
        if self.request.is_some() {
            return;
        }
        let Some(latency) = self.files.target_latency() else {
            self.words = Some("as the system has it: the kernel takes no requests".to_owned());
            return;
        };
        self.words = Some(match self.request_latency(latency) {
            Ok(()) if latency.0 == 0 => {
                format!("{CPU_IDLE_HELD} while measuring (no sleep at all)")
            }
            Ok(()) => {
                format!("{CPU_IDLE_HELD} while measuring (waking up in {} us at most)", latency.0)
            }
            Err(error) => {
                format!("as the system has it: {}: {error}", self.files.latency_device.display())
            }
        });
    }

    fn request_latency(&mut self, latency: Microseconds) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.files.latency_device)?;
        let request = LatencyRequest { file, latency };
        request.write(latency)?;
        self.request = Some(request);
        Ok(())
    }

    /// Ends the request, so that the processors sleep as usual.
    pub(super) fn release(&mut self) {
        self.request = None;
    }

    /// Lets the processors sleep while `resting` runs, and keeps them awake again after that.
    pub(super) fn release_during<T>(&self, resting: impl FnOnce() -> T) -> T {
        // If a request cannot be changed it stays as it is, which costs only power.
        let ask = |latency: fn(&LatencyRequest) -> Microseconds| {
            self.request.as_ref().map(|request| request.write(latency(request)))
        };
        ask(|_| NO_LIMIT);
        let outcome = resting();
        ask(|request| request.latency);
        outcome
    }
}

impl LatencyRequest {
    fn write(&self, latency: Microseconds) -> io::Result<()> {
        (&self.file).write_all(&latency.0.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the files of a machine with this idle driver, and idle states with these names and
    /// latencies.
    fn machine(
        driver: &str,
        flags: &str,
        states: &[(&str, &str)],
    ) -> (tempfile::TempDir, CpuIdleFiles) {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        write("cpu/cpuidle/current_driver", &format!("{driver}\n"));
        write("cpuinfo", &format!("processor\t: 0\nflags\t\t: {flags}\n"));
        write("requests", "");
        for (number, (name, latency)) in states.iter().enumerate() {
            write(&format!("cpu/cpu0/cpuidle/state{number}/name"), &format!("{name}\n"));
            write(&format!("cpu/cpu0/cpuidle/state{number}/latency"), &format!("{latency}\n"));
        }
        let files = CpuIdleFiles {
            latency_device: at("requests"),
            cpus: at("cpu"),
            cpuinfo: at("cpuinfo"),
        };
        (place, files)
    }

    const REAL: [(&str, &str); 4] = [("POLL", "0"), ("C1", "2"), ("C1E", "10"), ("C6", "133")];

    fn target_latency_of(driver: &str, flags: &str, states: &[(&str, &str)]) -> Option<i32> {
        machine(driver, flags, states).1.target_latency().map(|latency| latency.0)
    }

    #[test]
    fn real_processors_may_go_to_their_lightest_sleep_and_virtual_ones_to_none() {
        assert_eq!(target_latency_of("intel_idle", "fpu sse2", &REAL), Some(2));
        assert_eq!(target_latency_of("intel_idle", "fpu hypervisor sse2", &REAL), Some(0));
        assert_eq!(target_latency_of("haltpoll", "", &[("POLL", "0"), ("haltpoll", "1")]), Some(0));
        // Arm has no POLL state.
        assert_eq!(
            target_latency_of("psci_idle", "", &[("WFI", "1"), ("cpu-sleep", "700")]),
            Some(1)
        );
    }

    #[test]
    fn nothing_is_requested_where_nobody_would_hear() {
        assert_eq!(target_latency_of("none", "fpu", &[]), None);
        let (place, files) = machine("intel_idle", "fpu", &REAL);
        fs::remove_file(place.path().join("requests")).unwrap();
        let mut idle_hold = CpuIdleHold::new(files);
        idle_hold.acquire();
        assert!(!idle_hold.is_held());
        assert!(idle_hold.words().unwrap().starts_with("as the system has it: "), "{idle_hold:?}");
    }

    #[test]
    fn they_are_held_awake_but_for_rests() {
        let (place, files) = machine("intel_idle", "fpu", &REAL);
        let mut idle_hold = CpuIdleHold::new(files);
        assert_eq!(idle_hold.words(), None);
        idle_hold.acquire();
        assert!(idle_hold.is_held());
        let words = "kept awake while measuring (waking up in 2 us at most)";
        assert_eq!(idle_hold.words(), Some(words));
        let rested = idle_hold.release_during(|| 7);
        assert_eq!(rested, 7);
        idle_hold.release();
        assert!(!idle_hold.is_held());
        assert_eq!(idle_hold.words(), Some(words), "what was measured was measured so");
        // A file keeps all that was written; the kernel keeps only the last value.
        let written = fs::read(place.path().join("requests")).unwrap();
        let requests: Vec<i32> =
            written.chunks(4).map(|four| i32::from_ne_bytes(four.try_into().unwrap())).collect();
        assert_eq!(requests, [2, NO_LIMIT.0, 2]);
    }
}
