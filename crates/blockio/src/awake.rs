//! Keeping the processors awake while a drive is measured.
//!
//! A processor that has nothing to do goes to sleep, and takes a while to wake up when the drive's
//! interrupt comes: a microsecond or two from the lightest sleep of a real one, a hundred and more
//! from its deepest, and tens on a virtual one, which is given back to its host. All that is measured
//! as if the drive had taken it. The kernel takes requests not to sleep deeper than so: who holds
//! `/dev/cpu_dma_latency` open and has written a time to it is never kept waiting for longer by a
//! sleeping processor (the kernel's `Documentation/power/pm_qos_interface.rst`).
//!
//! The request goes when the file is closed, and so with the process, however that ends. What is
//! asked for costs no processor time of any process, but power.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ssdlab_blockdev::text_in;

/// The fact of a real drive's description that says whether the processors could sleep.
pub const PROCESSORS: &str = "processors";

/// How it begins where they could not.
pub const KEPT_AWAKE: &str = "kept awake";

/// Where the kernel takes requests, and tells how its processors sleep; somewhere else in tests.
#[derive(Clone, Debug)]
pub(super) struct Sleep {
    /// `/dev/cpu_dma_latency`.
    requests: PathBuf,
    /// `/sys/devices/system/cpu`.
    processors: PathBuf,
    /// `/proc/cpuinfo`.
    kinds: PathBuf,
}

/// A request not to sleep, and what became of it.
#[derive(Debug)]
pub(super) struct Awake {
    sleep: Sleep,
    held: Option<Held>,
    /// What to say of it, once it was asked for.
    words: Option<String>,
}

/// A request that the kernel has taken.
#[derive(Debug)]
struct Held {
    file: File,
    most: Microseconds,
}

/// As the kernel takes and tells them, in whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Microseconds(i32);

/// Any sleep may be that long: what holds where nobody asks (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const AS_LONG_AS_IT_LIKES: Microseconds = Microseconds(2_000_000_000);

impl Sleep {
    /// Of the system that runs this program.
    pub(super) fn real() -> Sleep {
        Sleep {
            requests: "/dev/cpu_dma_latency".into(),
            processors: "/sys/devices/system/cpu".into(),
            kinds: "/proc/cpuinfo".into(),
        }
    }

    /// The longest that waking up may take, so that no processor leaves its work for long;
    /// `None` where the kernel has no say in how they sleep.
    ///
    /// A real processor may go to its lightest sleep: to turn in place instead would take power from
    /// those that work. What a virtual one calls so gives it back to its host, who is not bound by
    /// what the table says.
    fn to_ask_for(&self) -> Option<Microseconds> {
        let driver = text_in(&self.processors.join("cpuidle/current_driver"))?;
        if driver == "none" {
            return None;
        }
        if driver == "haltpoll" || self.is_virtual() {
            return Some(Microseconds(0));
        }
        let states = fs::read_dir(self.processors.join("cpu0/cpuidle")).ok()?;
        let latencies = states.flatten().filter_map(|state| lightest_sleep(&state.path()));
        latencies.min_by_key(|latency| latency.0)
    }

    fn is_virtual(&self) -> bool {
        let flags = fs::read_to_string(&self.kinds).unwrap_or_default();
        let mut lines = flags.lines().filter(|line| line.starts_with("flags"));
        lines.next().is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
    }
}

/// Returns how long waking up takes from this state of a processor; `None` for turning in place, which is not sleep.
fn lightest_sleep(state: &Path) -> Option<Microseconds> {
    let name = text_in(&state.join("name"))?;
    let latency = text_in(&state.join("latency"))?.parse().ok()?;
    (name != "POLL").then_some(Microseconds(latency))
}

impl Awake {
    /// Nothing is asked for yet.
    pub(super) fn new(sleep: Sleep) -> Awake {
        Awake { sleep, held: None, words: None }
    }

    /// Returns true if the processors are kept awake.
    #[cfg(target_os = "linux")]
    pub(super) fn is_kept(&self) -> bool {
        self.held.is_some()
    }

    /// Returns what became of it, in words; `None` where it was never asked for.
    pub(super) fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// Asks that they stay awake, until [`Awake::let_go`].
    pub(super) fn keep(&mut self) {
        if self.held.is_some() {
            return;
        }
        let Some(most) = self.sleep.to_ask_for() else {
            self.words = Some("as the system has it: the kernel takes no requests".to_owned());
            return;
        };
        self.words = Some(match self.ask(most) {
            Ok(()) if most.0 == 0 => format!("{KEPT_AWAKE} while measuring (no sleep at all)"),
            Ok(()) => format!("{KEPT_AWAKE} while measuring (waking up in {} us at most)", most.0),
            Err(error) => {
                format!("as the system has it: {}: {error}", self.sleep.requests.display())
            }
        });
    }

    fn ask(&mut self, most: Microseconds) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.sleep.requests)?;
        let held = Held { file, most };
        held.ask_for(most)?;
        self.held = Some(held);
        Ok(())
    }

    /// Lets them sleep as ever.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    /// Lets them sleep while `resting` lasts, and keeps them awake again after it.
    pub(super) fn pause<T>(&self, resting: impl FnOnce() -> T) -> T {
        // A request that cannot be changed stays as it is, which costs power alone.
        let ask = |most: fn(&Held) -> Microseconds| {
            self.held.as_ref().map(|held| held.ask_for(most(held)))
        };
        ask(|_| AS_LONG_AS_IT_LIKES);
        let outcome = resting();
        ask(|held| held.most);
        outcome
    }
}

impl Held {
    fn ask_for(&self, most: Microseconds) -> io::Result<()> {
        (&self.file).write_all(&most.0.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose processors sleep so: the driver, and the states with their names and latencies.
    fn machine(driver: &str, flags: &str, states: &[(&str, &str)]) -> (tempfile::TempDir, Sleep) {
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
        let sleep = Sleep { requests: at("requests"), processors: at("cpu"), kinds: at("cpuinfo") };
        (place, sleep)
    }

    const REAL: [(&str, &str); 4] = [("POLL", "0"), ("C1", "2"), ("C1E", "10"), ("C6", "133")];

    fn asked(driver: &str, flags: &str, states: &[(&str, &str)]) -> Option<i32> {
        machine(driver, flags, states).1.to_ask_for().map(|most| most.0)
    }

    #[test]
    fn real_processors_may_go_to_their_lightest_sleep_and_virtual_ones_to_none() {
        assert_eq!(asked("intel_idle", "fpu sse2", &REAL), Some(2));
        assert_eq!(asked("intel_idle", "fpu hypervisor sse2", &REAL), Some(0));
        assert_eq!(asked("haltpoll", "", &[("POLL", "0"), ("haltpoll", "1")]), Some(0));
        // Arm has no state of turning in place.
        assert_eq!(asked("psci_idle", "", &[("WFI", "1"), ("cpu-sleep", "700")]), Some(1));
    }

    #[test]
    fn nothing_is_asked_for_where_nobody_would_hear() {
        assert_eq!(asked("none", "fpu", &[]), None);
        let (place, sleep) = machine("intel_idle", "fpu", &REAL);
        fs::remove_file(place.path().join("requests")).unwrap();
        let mut awake = Awake::new(sleep);
        awake.keep();
        assert!(!awake.is_kept());
        assert!(awake.words().unwrap().starts_with("as the system has it: "), "{awake:?}");
    }

    #[test]
    fn they_are_kept_awake_but_for_rests() {
        let (place, sleep) = machine("intel_idle", "fpu", &REAL);
        let mut awake = Awake::new(sleep);
        assert_eq!(awake.words(), None);
        awake.keep();
        assert!(awake.is_kept());
        let words = "kept awake while measuring (waking up in 2 us at most)";
        assert_eq!(awake.words(), Some(words));
        let rested = awake.pause(|| 7);
        assert_eq!(rested, 7);
        awake.let_go();
        assert!(!awake.is_kept());
        assert_eq!(awake.words(), Some(words), "what was measured was measured so");
        // A file keeps all that was written; the kernel, the last of it.
        let written = fs::read(place.path().join("requests")).unwrap();
        let requests: Vec<i32> =
            written.chunks(4).map(|four| i32::from_ne_bytes(four.try_into().unwrap())).collect();
        assert_eq!(requests, [2, AS_LONG_AS_IT_LIKES.0, 2]);
    }
}
