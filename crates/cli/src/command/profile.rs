//! `profile new`: makes a profile from the figures of a data sheet.

use std::fs::OpenOptions;
use std::io::Write;

use ssdlab_model::profile::data_sheet::{
    DataSheet, FlashKind, Interface as Connected, MapRam, RatedCache,
};
use ssdlab_units::{ByteLength, MIB};

use crate::cli::{Flash, Interface, NewProfileArguments};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Host memory buffer of a drive without DRAM: many request this size.
const HOST_MEMORY: ByteLength = ByteLength::new(64 << 20);

/// Memory in the controller of a drive without DRAM and without host memory buffer.
const CONTROLLER_MEMORY: ByteLength = MIB;

/// Makes a profile, and writes it to a file or prints it.
pub fn new(arguments: &NewProfileArguments, terminal: &Terminal) -> Result<(), Failure> {
    let text = data_sheet(arguments)?.profile().map_err(ssdlab_lab::LabError::from)?;
    let Some(path) = &arguments.output else {
        return terminal.print(&text);
    };
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} exists and is not replaced; remove it, or name another file",
            path.display()
        )),
        _ => {
            Failure::system(Exit::Usage, format!("cannot make the file {}", path.display()), source)
        }
    };
    // Never overwrite a file: it may be a profile that somebody has edited.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    terminal.note(&format!(
        "Made {0}; ssdlab run steady sim:{0} --quick shows what it does",
        shown(path)
    ));
    Ok(())
}

/// Returns a path as a target needs it: with a slash, so that it is not taken for the name of a profile.
fn shown(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    if text.contains(std::path::is_separator) { text } else { format!("./{text}") }
}

fn data_sheet(arguments: &NewProfileArguments) -> Result<DataSheet, Failure> {
    let cache = arguments.cache.zip(arguments.cache_write);
    let name = arguments.name.trim();
    if name.is_empty() {
        return Err(Failure::usage("the drive needs a name, such as 'Some NVMe 960'".to_owned()));
    }
    Ok(DataSheet {
        name: name.to_owned(),
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
        endurance: endurance(arguments)?,
        map_ram: map_ram(arguments)?,
    })
}

/// Returns the rated endurance in bytes, if it was given.
fn endurance(arguments: &NewProfileArguments) -> Result<Option<ByteLength>, Failure> {
    let Some(times) = arguments.dwpd else { return Ok(arguments.tbw) };
    if !(0.01..=100.0).contains(&times) {
        return Err(Failure::usage(format!(
            "--dwpd {times} is not within 0.01 to 100 drive writes per day"
        )));
    }
    let days = 365.0 * f64::from(arguments.warranty);
    Ok(Some(ByteLength::new((arguments.capacity.bytes() as f64 * times * days) as u64)))
}

/// Returns the memory for the mapping table, if it was given.
fn map_ram(arguments: &NewProfileArguments) -> Result<Option<MapRam>, Failure> {
    let Some(dram) = arguments.dram else { return Ok(None) };
    if dram > ByteLength::ZERO {
        return match arguments.host_memory {
            None => Ok(Some(MapRam::Own(dram))),
            Some(_) => Err(Failure::usage(
                "--host-memory is for a drive without DRAM: --dram 0".to_owned(),
            )),
        };
    }
    Ok(Some(match (arguments.host_memory, arguments.interface) {
        (Some(length), Interface::Nvme) if length > ByteLength::ZERO => MapRam::Host(length),
        (None, Interface::Nvme) => MapRam::Host(HOST_MEMORY),
        (Some(length), Interface::Sata) if length > ByteLength::ZERO => {
            return Err(Failure::usage(
                "--host-memory is for NVMe: a drive over SATA cannot reach it".to_owned(),
            ));
        }
        _ => MapRam::Own(CONTROLLER_MEMORY),
    }))
}
