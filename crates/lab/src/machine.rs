//! What a report says of the machine it was made on, and what the run took of it.

use ssdlab_units::{ByteLength, KIB};

use crate::report::Host;

/// Returns the moment, RFC 3339, UTC, to the second.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// The machine.
pub fn host() -> Host {
    let name = rustix::system::uname();
    let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Host {
        system: format!("{} {}", words(name.sysname()), words(name.release())),
        architecture: words(name.machine()),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        ssdlab: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Processor time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory this process has had so far; zero where the system does not tell.
pub fn peak_memory() -> ByteLength {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map_or(ByteLength::ZERO, |kib| KIB * kib)
}
