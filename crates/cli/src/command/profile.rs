//! `profile new`: a profile from the figures of a data sheet.

use std::fs::OpenOptions;
use std::io::Write;

use ssdlab_model::profile::data_sheet::{DataSheet, FlashKind, Interface as Connected, RatedCache};

use crate::cli::{Flash, Interface, NewProfileArguments};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Makes a profile, and writes or prints it.
pub fn new(arguments: &NewProfileArguments, terminal: &Terminal) -> Result<(), Failure> {
    let text = sheet(arguments).profile().map_err(ssdlab_lab::LabError::from)?;
    let Some(path) = &arguments.output else {
        return terminal.print(&text);
    };
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} is there already and is left as it is; remove it, or name another file",
            path.display()
        )),
        _ => Failure::system(Exit::Usage, path.display().to_string(), source),
    };
    // A profile that somebody has worked on is not lost.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    terminal.note(&format!(
        "Made {0}; ssdlab run steady sim:{0} --quick shows what it does",
        shown(path)
    ));
    Ok(())
}

/// A path as a target takes it: with a slash, so that it is no name.
fn shown(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    if text.contains(std::path::is_separator) { text } else { format!("./{text}") }
}

fn sheet(arguments: &NewProfileArguments) -> DataSheet {
    let cache = arguments.cache.zip(arguments.cache_write);
    DataSheet {
        name: arguments.name.clone(),
        capacity: arguments.capacity,
        flash: arguments.flash_size,
        unit: arguments.mapping_unit,
        kind: match arguments.flash {
            Flash::Slc => FlashKind::Slc,
            Flash::Mlc => FlashKind::Mlc,
            Flash::Tlc => FlashKind::Tlc,
            Flash::Qlc => FlashKind::Qlc,
        },
        interface: match arguments.interface {
            Interface::Sata => Connected::Sata,
            Interface::Nvme => Connected::Nvme,
        },
        sequential_read: arguments.sequential_read,
        sequential_write: arguments.sequential_write,
        random_read: arguments.random_read,
        random_write: arguments.random_write,
        read_latency: arguments.read_latency,
        write_latency: arguments.write_latency,
        protected: arguments.power_loss_protection,
        cache: cache.map(|(size, mb_per_second)| RatedCache { size, mb_per_second }),
    }
}
