//! `advise`: how much over-provisioning a workload deserves, and how to get it here.

use std::path::Path;

use ssdlab_drive::Pattern;
use ssdlab_host::{LayerKind, Live, Stack, layers};
use ssdlab_lab::advise::{self, Load, Request};
use ssdlab_lab::output::{html, text};
use ssdlab_lab::precondition::{self, Workload};
use ssdlab_units::ByteLength;
use ssdlab_units::text::{parse_length, parse_percent};

use crate::cli::{AdviseArguments, AdvisePattern};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output_file::OutputFile;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Tries several amounts of over-provisioning on a simulated drive, and prints the results.
pub fn advise(arguments: &AdviseArguments, terminal: &Terminal) -> Result<(), Failure> {
    let is_simulated = arguments.drive.starts_with("sim:");
    if arguments.drive.contains('(') && !Path::new(&arguments.drive).exists() {
        return Err(Failure::usage(format!(
            "'{}': advice is given for one simulated drive, such as sim:toshiba-xg5, not for a stack",
            arguments.drive
        )));
    }
    let stack = if is_simulated { None } else { Some(layers::stack_of(&Live, &arguments.drive)?) };
    let target = if is_simulated { &arguments.drive } else { &arguments.like };
    let mut how = over_provisioning_steps(stack.as_ref());
    if !is_simulated {
        how.insert(0, format!("The figures are those of {target}; --like names another drive."));
    }
    let request = Request {
        target: target.clone(),
        spares: parse_over_provisioning(&arguments.spare)?,
        workload: match &arguments.hot {
            None => Workload::Uniform,
            Some(text) => precondition::parse_hot_cold(text)
                .map_err(|error| Failure::usage(format!("--hot: {error}")))?,
        },
        load: parse_load(arguments)?,
        cycles: arguments.cycles,
        seed: arguments.seed.number,
        how,
    };
    let page = arguments.report.html.as_deref().map(OutputFile::html).transpose()?;
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for signals".to_owned(), source)
    })?;
    let mut progress = Progress::new(terminal, interrupt, None);
    let outcome = advise::advise(&request, &mut progress);
    progress.finish();
    let report = outcome?;
    if let Some(page) = page {
        page.write(&html::render(&report))?;
    }
    let output = if arguments.report.json {
        super::json(&report)
    } else {
        text::render_with(&report, &terminal.text_options())
    };
    terminal.print(&output)
}

/// Returns the workload that the arguments describe.
fn parse_load(arguments: &AdviseArguments) -> Result<Load, Failure> {
    if let Some(path) = &arguments.workload {
        return Ok(Load::read(path)?);
    }
    let (read_percent, depth) = (arguments.read_percent, arguments.depth);
    let wrong = |error| Failure::usage(format!("--block-size: {error}"));
    let block_size =
        arguments.block_size.as_deref().map(parse_length).transpose().map_err(wrong)?;
    if block_size == Some(ByteLength::ZERO) {
        return Err(Failure::usage(
            "--block-size: a request of 0 bytes is not possible; give a length such as 4K"
                .to_owned(),
        ));
    }
    let pattern = match arguments.pattern {
        AdvisePattern::Random if block_size.is_none() => {
            return Ok(Load::Units { read_percent, depth });
        }
        AdvisePattern::Random => Pattern::Random,
        AdvisePattern::Sequential => Pattern::Sequential,
    };
    Ok(Load::Blocks { pattern, block_size, read_percent, depth })
}

/// Parses shares such as `7%,15%,28%`; returns them in percent, in ascending order.
fn parse_over_provisioning(words: &[String]) -> Result<Vec<f64>, Failure> {
    if words.is_empty() {
        return Ok(advise::SPARES.to_vec());
    }
    let mut spares = Vec::new();
    for word in words {
        let share = parse_percent(word).ok().filter(|share| (0.01..=0.9).contains(share));
        let Some(share) = share else {
            return Err(Failure::usage(format!(
                "--spare: '{word}' is no share of the flash between 1% and 90%"
            )));
        };
        spares.push((share * 1e4).round() / 1e2);
    }
    spares.sort_by(f64::total_cmp);
    spares.dedup();
    Ok(spares)
}

/// Returns the steps that create over-provisioning on the given storage layers, in order.
fn over_provisioning_steps(stack: Option<&Stack>) -> Vec<String> {
    let mut steps = vec![
        "Back up the data, and purge the drive (nvme format, ATA security erase, or blkdiscard of \
         all of it): space that was ever written counts as used until it is trimmed; writing zeros \
         does not help."
            .to_owned(),
    ];
    let all = stack.map(|stack| stack.top.self_and_below()).unwrap_or_default();
    let has = |fits: fn(&LayerKind) -> bool| all.iter().any(|layer| fits(&layer.kind));
    let is_known = stack.is_some();
    if !is_known || has(|kind| matches!(kind, LayerKind::Nvme)) {
        steps.push(
            "NVMe: make a smaller namespace, if the controller can manage namespaces (nvme \
             delete-ns, create-ns --nsze, attach-ns); the rest stays with the controller."
                .to_owned(),
        );
    }
    if !is_known || has(|kind| matches!(kind, LayerKind::Sata)) {
        steps.push(
            "SATA: reduce the visible capacity with a host protected area (hdparm -N p<sectors>), \
             or leave the end unpartitioned."
                .to_owned(),
        );
    }
    steps.push(
        "Otherwise leave the end of the drive unpartitioned; if it was used before, trim it with \
         blkdiscard --offset and --length."
            .to_owned(),
    );
    if has(|kind| matches!(kind, LayerKind::Md { .. } | LayerKind::MapperRaid)) {
        steps.push(
            "RAID: make smaller partitions for the members first, and create the array with \
             --assume-clean on drives that are new, since its first resync writes all of a \
             member."
                .to_owned(),
        );
    }
    if has(|kind| matches!(kind, LayerKind::Linear | LayerKind::Striped)) {
        steps.push(
            "LVM: free extents of the volume group are over-provisioning once they were trimmed \
             (issue_discards=1, or make a volume of them, blkdiscard, and lvremove)."
                .to_owned(),
        );
    }
    if has(|kind| matches!(kind, LayerKind::Thin | LayerKind::ThinPool)) {
        steps.push(
            "LVM thin: unallocated space of the pool is over-provisioning; fstrim returns more."
                .to_owned(),
        );
    }
    if has(|kind| matches!(kind, LayerKind::Crypt)) {
        steps.push(
            "Encryption: make the container smaller than the drive, or allow it discards; without \
             them the drive counts all of it as data."
                .to_owned(),
        );
    }
    for layer in &all {
        if layer.is_drive() && layer.limits.takes_discards() == Some(false) {
            steps.push(format!(
                "{} takes no discards here: space that was written never becomes free again, so \
                 the over-provisioning has to be made before the first write.",
                layer.name
            ));
        }
    }
    steps.push(
        "Free space that a file system trims (fstrim.timer) is over-provisioning as well, as long as it \
         stays free: a quota or a reserve keeps it so."
            .to_owned(),
    );
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_are_shares_of_the_flash_in_order() {
        let of = |text: &str| {
            parse_over_provisioning(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(of("28%,7%,7%").unwrap(), [7.0, 28.0]);
        assert!(of("120%").is_err() && of("much").is_err());
        assert_eq!(parse_over_provisioning(&[]).unwrap().len(), advise::SPARES.len());
    }

    #[test]
    fn the_first_step_is_always_to_purge_the_drive() {
        let steps = over_provisioning_steps(None);
        assert!(steps[0].contains("purge the drive") && steps.len() >= 4);
    }
}
