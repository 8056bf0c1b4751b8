//! Parameters of a workload that several experiments share, and the phase made from them.

use ssdlab_drive::{Amount, Description, Mix, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::{Kind, ParameterSpec, Settings};
use crate::error::LabError;

/// Order of the blocks.
pub(super) const PATTERN: ParameterSpec = ParameterSpec {
    name: "pattern",
    kind: Kind::Pattern,
    full: "random",
    quick: "random",
    help: "order of the blocks: random, sequential, or a distribution as in fio's \
           random_distribution (zipf:0.99)",
};

/// Length of requests.
pub(super) const BLOCK: ParameterSpec = ParameterSpec {
    name: "block",
    kind: Kind::Length,
    full: "4K",
    quick: "4K",
    help: "request size",
};

/// Part of the drive under test.
pub(super) const AREA: ParameterSpec = ParameterSpec {
    name: "area",
    kind: Kind::Area,
    full: "all",
    quick: "2G",
    help: "area under test, from the start of the drive",
};

/// Returns the share of reads in `settings`.
pub(super) fn mix(settings: &Settings) -> Mix {
    Mix { read_percent: settings.percent("read_percent") }
}

/// Returns the length of the requests in `settings`.
///
/// # Errors
/// Returns an error if the length is zero or does not fit into `area`.
pub(super) fn block(settings: &Settings, area: ByteLength) -> Result<ByteLength, LabError> {
    let block = settings.length("block");
    if block > ByteLength::ZERO && block <= area {
        return Ok(block);
    }
    Err(LabError::Range {
        name: "block",
        value: block.to_string(),
        why: format!("it must be more than 0 and fit into the area of {area}"),
    })
}

/// Returns the workload of `settings` on `drive`, with the given share of reads, name and time.
///
/// # Errors
/// Returns an error if the area or the requests do not fit.
pub(super) fn phase(
    settings: &Settings,
    seed: u64,
    drive: &Description,
    mix: Mix,
    (name, time): (&str, Nanoseconds),
) -> Result<Phase, LabError> {
    let area = settings.area("area", drive)?;
    let block = block(settings, area)?;
    Ok(Phase {
        name: name.to_owned(),
        pattern: settings.pattern("pattern"),
        block_size: block,
        depth: settings.count("depth"),
        mix,
        region: Region::first(area),
        amount: Amount::Time(time),
        rate: None,
        seed: seed.wrapping_mul(1_000),
        flush_at_end: false,
        interval: Nanoseconds::ZERO,
    })
}
