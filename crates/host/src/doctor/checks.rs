//! List of all checks; each check is in a file of its own.

mod alignment;
mod atime;
mod automatic_trim;
mod barriers;
mod controller;
mod endurance;
mod errors;
mod kernel;
pub(super) mod periodic_trim;
mod scheduler;
mod spare_area;
pub(super) mod swappiness;
pub(super) mod temperature;
mod temporary_files;
pub(super) mod trim;
mod trim_reads;
mod unpartitioned;
mod wear;
mod write_cache;

use super::drive::Drive;
use super::{Check, Context};
use crate::layers::Stack;

/// Names of the checks, with the question that each check answers.
pub(in crate::doctor) const ALL: [(&str, &str); 18] = [
    ("trim", "Does TRIM get from the file system down to the flash, and where does it stop?"),
    ("automatic-trim", "Is free space trimmed by itself, once, and when was it last?"),
    ("alignment", "Does each layer begin where the flash likes it?"),
    ("barriers", "Does the file system send the flushes that keep it whole?"),
    ("atime", "Does every read cause a write?"),
    ("spare-area", "How much flash does the drive have that nobody can address?"),
    ("unpartitioned", "Is there space outside all partitions, to be over-provisioning?"),
    ("wear", "How much of its life has the drive used?"),
    ("endurance", "How much was written, against what the maker rates?"),
    ("errors", "Does the drive report errors or failing health?"),
    ("temperature", "Is the drive too hot?"),
    ("write-cache", "Does the kernel know of the drive's write cache?"),
    ("trim-reads", "What do trimmed sectors read as?"),
    ("scheduler", "Does the I/O scheduler suit the drive?"),
    ("controller", "Does the link to the drive carry what it could?"),
    ("kernel", "Is the kernel new enough for TRIM?"),
    ("swappiness", "Is the drive written to by swapping?"),
    ("temporary-files", "Where do temporary files go?"),
];

/// Runs the checks of the machine as a whole.
pub(super) fn of_machine(context: &Context) -> Vec<Check> {
    vec![kernel::check(context), swappiness::check(context), temporary_files::check(context)]
}

/// Runs the checks of a file system or device, with all layers below.
pub(super) fn of_target(context: &Context, stack: &Stack) -> Vec<Check> {
    let trim = trim::check(context, stack);
    let works = trim.reach.as_ref().and_then(|reach| reach.works);
    let mut checks = vec![trim];
    checks.extend(automatic_trim::check(context, stack, works));
    checks.extend(alignment::check(context, stack));
    checks.extend(barriers::check(context, stack));
    checks.extend(atime::check(stack));
    checks
}

/// Runs the checks of a drive; checks that concern flash only are left out for a spinning drive.
pub(super) fn of_drive(context: &Context, drive: &Drive) -> Vec<Check> {
    let mut checks = Vec::new();
    if drive.is_flash() != Some(false) {
        checks.push(spare_area::check(context, drive));
        checks.extend(unpartitioned::check(context, drive));
        checks.push(wear::check(context, drive));
        checks.push(endurance::check(context, drive));
    }
    checks.push(errors::check(context, drive));
    checks.push(temperature::check(context, drive));
    checks.push(write_cache::check(context, drive));
    if drive.is_flash() != Some(false) {
        checks.extend(trim_reads::check(context, drive));
    }
    checks.push(scheduler::check(drive));
    checks.extend(controller::check(context, drive));
    checks
}
