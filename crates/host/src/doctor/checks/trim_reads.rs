//! Check of trimmed sectors: what they read as, and whether RAID with parity relies on zeros.

use ssdlab_blockdev::smart::TrimSupport;

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::layers::LayerKind;

const NAME: &str = "trim-reads";

pub(super) fn check(context: &Context, drive: &Drive) -> Option<Check> {
    let zeros = match drive.layer.kind {
        LayerKind::Nvme => nvme(drive),
        LayerKind::Sata | LayerKind::Usb { .. } => sata(drive),
        _ => return None,
    };
    let Some((reads, seen)) = zeros else {
        return Some(
            Check::new(NAME, Verdict::Unknown, "what trimmed sectors read as is not known")
                .with_missing(drive.missing_text(context, "what trimmed sectors read as")),
        );
    };
    let path = "/sys/module/raid456/parameters/devices_handle_discard_safely";
    let is_trusted =
        context.facts.text(path).is_some_and(|text| text == "Y") && is_in_parity(context, drive);
    if is_trusted && !reads {
        return Some(
            Check::new(NAME, Verdict::Problem, seen)
                .with_reason(
                    "md was told that every drive reads zeros after TRIM \
                     (devices_handle_discard_safely=Y). This one does not say so: parity of trimmed \
                     stripes may not fit, and a rebuild then writes wrong data.",
                )
                .with_remedy(
                    "Remove the option, reassemble the array, and let md repair its parity",
                    Some("rm /etc/modprobe.d/raid456*.conf; echo repair > /sys/block/md0/md/sync_action".to_owned()),
                ),
        );
    }
    Some(Check::new(NAME, Verdict::Fine, seen).with_reason(
        "This matters for RAID with parity, which may pass TRIM only if all drives read zeros.",
    ))
}

fn nvme(drive: &Drive) -> Option<(bool, String)> {
    let zeros = drive.reads_zeros?;
    let text = if zeros { "zeros" } else { "anything, as far as the drive says" };
    Some((zeros, format!("trimmed sectors read as {text}")))
}

fn sata(drive: &Drive) -> Option<(bool, String)> {
    let has = |text: &str| drive.identify.contains(text);
    if drive.identify.is_empty() {
        return drive.smart.trim.map(by_smartctl);
    }
    if !has("Data Set Management TRIM supported") {
        return Some((false, "the drive does not know TRIM".to_owned()));
    }
    let limit = drive.identify.lines().find_map(|line| line.split_once("(limit "));
    let limit = limit
        .and_then(|(_, rest)| rest.split_once(')'))
        .map_or(String::new(), |(limit, _)| format!(", at most {limit} of ranges in a command"));
    Some(match () {
        () if has("Deterministic read ZEROs after TRIM") => {
            (true, format!("trimmed sectors read as zeros{limit}"))
        }
        () if has("Deterministic read data after TRIM") => {
            (false, format!("trimmed sectors always read the same, zeros or not{limit}"))
        }
        () => (false, format!("trimmed sectors read as anything{limit}")),
    })
}

/// Returns the result by smartctl's report, which has the same facts of IDENTIFY DEVICE but not the limit of ranges.
fn by_smartctl(trim: TrimSupport) -> (bool, String) {
    let text = match trim {
        TrimSupport { supported: false, .. } => "the drive does not know TRIM",
        TrimSupport { zeroed: true, .. } => "trimmed sectors read as zeros",
        TrimSupport { deterministic: true, .. } => {
            "trimmed sectors always read the same, zeros or not"
        }
        _ => "trimmed sectors read as anything",
    };
    (trim.supported && trim.zeroed, text.to_owned())
}

/// Returns true if the drive is a member of a RAID with parity.
fn is_in_parity(context: &Context, drive: &Drive) -> bool {
    let layers = context.stacks.iter().flat_map(|stack| stack.top.self_and_below());
    layers.into_iter().any(|layer| {
        let is_parity = matches!(&layer.kind, LayerKind::Md { level, .. }
            if matches!(level.as_str(), "raid4" | "raid5" | "raid6"));
        is_parity && layer.self_and_below().iter().any(|below| below.name == drive.layer.name)
    })
}
