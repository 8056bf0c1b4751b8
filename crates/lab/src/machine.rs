//! The machine that a report was made on, and the processor time and memory of the run.

use ssdlab_units::ByteLength;

use crate::report::Host;

/// Returns the current time, RFC 3339, UTC, to the second.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// Returns the description of the machine.
pub fn host() -> Host {
    let (system, architecture) = kinds();
    Host {
        system,
        architecture,
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        ssdlab: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Returns the names of the operating system and of the processor architecture.
#[cfg(unix)]
fn kinds() -> (String, String) {
    let name = rustix::system::uname();
    let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    (format!("{} {}", words(name.sysname()), words(name.release())), words(name.machine()))
}

/// Returns the names of the operating system and of the processor architecture.
#[cfg(not(unix))]
fn kinds() -> (String, String) {
    let words = |variable, otherwise: &str| {
        std::env::var(variable).unwrap_or_else(|_| otherwise.to_owned())
    };
    (words("OS", std::env::consts::OS), std::env::consts::ARCH.to_owned())
}

/// Returns the processor time of this process so far, in seconds.
#[cfg(unix)]
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the processor time of this process so far, in seconds.
#[cfg(windows)]
pub fn cpu_seconds() -> f64 {
    use windows_sys::Win32::Foundation::FILETIME;
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: the handle is this process's own, and all four times outlive the call.
    let outcome = unsafe { GetProcessTimes(GetCurrentProcess(), created, ended, kernel, user) };
    // In units of 100 ns.
    let seconds = |time: &FILETIME| {
        (f64::from(time.dwHighDateTime) * 4_294_967_296.0 + f64::from(time.dwLowDateTime)) * 1e-7
    };
    if outcome == 0 { 0.0 } else { seconds(kernel) + seconds(user) }
}

/// Returns the peak resident memory of this process; zero if the system does not report it.
#[cfg(windows)]
pub fn peak_memory() -> ByteLength {
    use windows_sys::Win32::System::ProcessStatus::{
        GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS,
    };
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let length = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle is this process's own, and the counters are as long as is said, and outlive the call.
    let outcome = unsafe { GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, length) };
    match outcome {
        0 => ByteLength::ZERO,
        _ => ByteLength::new(counters.PeakWorkingSetSize as u64),
    }
}

/// Returns the peak resident memory of this process; zero if the system does not report it.
#[cfg(not(windows))]
pub fn peak_memory() -> ByteLength {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map_or(ByteLength::ZERO, |kib| ssdlab_units::KIB * kib)
}
