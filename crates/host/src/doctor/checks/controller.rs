//! Check of the link to the drive: PCI Express lanes and speed, SATA speed, AHCI.

use crate::doctor::drive::Drive;
use crate::doctor::{Check, Context, Verdict};
use crate::layers::LayerKind;

const NAME: &str = "controller";

pub(super) fn check(context: &Context, drive: &Drive) -> Option<Check> {
    match drive.layer.kind {
        LayerKind::Nvme => nvme(context, drive),
        LayerKind::Sata => sata(context, drive),
        _ => None,
    }
}

/// Compares the current PCI Express link with the best link that is possible.
fn nvme(context: &Context, drive: &Drive) -> Option<Check> {
    let text =
        |name: &str| context.facts.text(&format!("{}/device/device/{name}", drive.layer.directory));
    let (speed, width) = (text("current_link_speed")?, text("current_link_width")?);
    let (most_speed, most_width) = (text("max_link_speed")?, text("max_link_width")?);
    // Emulated drives have a link without lanes.
    if number(&speed) == 0.0 || number(&width) == 0.0 {
        return None;
    }
    let seen = format!("PCI Express, {width} lanes at {speed}");
    // An idle drive may lower its link speed, but does not give up lanes.
    if number(&width) < number(&most_width) || number(&speed) < number(&most_speed) {
        let seen = format!("{seen}; the drive supports {most_width} lanes at {most_speed}");
        return Some(
            Check::new(NAME, Verdict::Notice, seen)
                .with_reason(
                    "The slot has fewer lanes or is older than the drive, or the link was lowered at rest.",
                )
                .with_remedy("Use another slot, if the link is this slow under load, too", None),
        );
    }
    Some(Check::new(NAME, Verdict::Fine, seen))
}

fn number(text: &str) -> f64 {
    text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// Checks the driver of the SATA controller (drivers for IDE registers queue no commands) and the speed of the link.
fn sata(context: &Context, drive: &Drive) -> Option<Check> {
    let directory = drive.layer.directory.as_str();
    let port = directory.split('/').position(|part| {
        part.strip_prefix("ata").is_some_and(|rest| rest.parse::<u32>().is_ok())
    })?;
    let controller: Vec<&str> = directory.split('/').take(port).collect();
    let driver = context.facts.resolve(&format!("{}/driver", controller.join("/"))).ok()?;
    let driver = driver.rsplit('/').next().unwrap_or_default().to_owned();
    let is_legacy = driver == "ata_piix" || driver == "ata_generic" || driver.starts_with("pata_");
    if is_legacy {
        return Some(
            Check::new(NAME, Verdict::Warning, format!("the controller runs as IDE ({driver})"))
                .with_reason("Without AHCI there is one request at a time, and none is queued.")
                .with_remedy(
                    "Set the SATA mode to AHCI in the firmware's setup. Windows has to be prepared \
                     for it before",
                    None,
                ),
        );
    }
    // The drive's own report has the highest speed of the drive: the kernel's limit is that of the port.
    if let Some(link) = drive.smart.link {
        let seen = format!("{driver}, {}", gigabits(link.bits_per_second));
        if link.bits_per_second < link.most_bits_per_second {
            let seen =
                format!("{seen}; the drive supports {}", gigabits(link.most_bits_per_second));
            return Some(
                Check::new(NAME, Verdict::Notice, seen)
                    .with_reason("An older port, or a cable that made the link go down.")
                    .with_remedy("Another port or cable", None),
            );
        }
        return Some(Check::new(NAME, Verdict::Fine, seen));
    }
    let seen = match link_speed(context, directory) {
        Some(now) => format!("{driver}, {now}"),
        None => driver,
    };
    let missing = drive.missing_text(context, "the link speed that the drive supports");
    Some(Check::new(NAME, Verdict::Fine, seen).with_missing(missing))
}

fn gigabits(bits_per_second: u64) -> String {
    format!("{:.1} Gb/s", bits_per_second as f64 / 1e9)
}

/// Returns the speed of the SATA link in the kernel's words, or `None` if the kernel does not tell.
fn link_speed(context: &Context, directory: &str) -> Option<String> {
    let parts: Vec<&str> = directory.split('/').collect();
    let port = parts.iter().position(|part| {
        part.strip_prefix("ata").is_some_and(|rest| rest.parse::<u32>().is_ok())
    })?;
    let place = parts[..=port].join("/");
    let names = context.facts.list(&place).ok()?;
    let link = names.iter().find(|name| name.starts_with("link") && !name.contains('.'))?;
    context.facts.text(&format!("{place}/{link}/ata_link/{link}/sata_spd"))
}
