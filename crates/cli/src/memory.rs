//! Memory check: refuses runs that need more memory than is available.

use ssdlab_lab::Target;
use ssdlab_lab::memory::{MemoryEstimate, available};
use ssdlab_units::ByteLength;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Refuses a run that needs more memory than is available; returns the number of workloads that may run in parallel.
pub fn check(target: &Target, need: &MemoryEstimate) -> Result<usize, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let Some(available) = available() else { return Ok(processors) };
    if need.least() <= available {
        return Ok(need.threads(available, processors));
    }
    let way_out = match target.largest_scale_that_fits(need, available) {
        Some(smaller) => format!("; a smaller drive of the same kind fits: {smaller}"),
        None => String::new(),
    };
    Err(Failure::new(
        Exit::Unsupported,
        anyhow::anyhow!(
            "this needs about {} of memory, and {} are available{way_out}",
            rounded(need.least()),
            rounded(available)
        ),
    ))
}

/// Least need of memory that is announced.
const MIN_ANNOUNCED_MEMORY: ByteLength = ByteLength::new(2 << 30);

/// Prints how much memory the run will need, if that is much.
pub fn announce(need: &MemoryEstimate, terminal: &Terminal) {
    if need.least() >= MIN_ANNOUNCED_MEMORY && !terminal.quiet {
        let memory = rounded(need.least());
        terminal.note(&format!("This takes about {memory} of memory, most of it for the map."));
    }
}

/// Returns the number of runs that may be made in parallel, at most `wanted`, if each needs `need`; refuses if there is
/// too little memory for one.
pub fn parallel_runs(need: &MemoryEstimate, wanted: usize) -> Result<usize, Failure> {
    let Some(available) = available() else { return Ok(wanted) };
    match available.bytes() / need.least().bytes().max(1) {
        0 => Err(Failure::new(
            Exit::Unsupported,
            anyhow::anyhow!(
                "a run of this sweep needs about {} of memory, and {} are available; --quick takes a \
                 smaller drive of the same kind",
                rounded(need.least()),
                rounded(available)
            ),
        )),
        fit => Ok(wanted.min(usize::try_from(fit).unwrap_or(usize::MAX))),
    }
}

/// Returns a length with the precision of an estimate.
fn rounded(length: ByteLength) -> String {
    match length.gibibytes() {
        gib if gib >= 10.0 => format!("{gib:.0} GiB"),
        gib if gib >= 1.0 => format!("{gib:.1} GiB"),
        _ => format!("{:.0} MiB", length.mebibytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_said_with_a_drive_that_fits() {
        let target = Target::parse("sim:").unwrap();
        let need = MemoryEstimate {
            throughout: ByteLength::new(1 << 50),
            per_copy: ByteLength::ZERO,
            copies: 0,
        };
        let error = check(&target, &need).unwrap_err().chain().concat();
        assert!(error.contains("1048576 GiB of memory"), "{error}");
    }
}
