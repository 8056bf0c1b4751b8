//! `export`: writes an experiment as a job file or a script, for machines on which only fio may run.

use ssdlab_interchange::script::{Form, Tag};
use ssdlab_lab::experiment::{self, Settings};
use ssdlab_lab::script_export::{self, ScriptTarget};
use ssdlab_units::ByteLength;
use ssdlab_units::text::parse_length;

use crate::cli::{ExportArguments, ExportForm};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::terminal::Terminal;

/// Capacity that stands for a file of any size; the script checks the free space itself.
const LARGEST_FILE: ByteLength = ByteLength::new(1 << 50);

/// Writes an experiment as a job file or a script.
pub fn export(arguments: &ExportArguments, terminal: &Terminal) -> Result<(), Failure> {
    let experiment = experiment::named(&arguments.experiment)?;
    script_export::check(experiment)?;
    let settings = Settings::new(experiment, arguments.protocol.quick, &arguments.protocol.set)?;
    let script_target = script_target(arguments)?;
    let tag = Tag {
        experiment: experiment.name().to_owned(),
        seed: arguments.protocol.seed.number,
        quick: arguments.protocol.quick,
        capacity: script_target.capacity,
        set: arguments.protocol.set.clone(),
    };
    let script = script_export::script(
        experiment,
        &settings,
        arguments.protocol.seed.number,
        &script_target,
        tag,
    )?;
    let form = match arguments.format {
        ExportForm::Fio => Form::Fio,
        ExportForm::Sh => Form::Sh,
        ExportForm::Powershell => Form::PowerShell,
    };
    let name = experiment.name();
    if script.space >= LARGEST_FILE {
        return Err(Failure::usage(format!(
            "{name} fills its drive: give the size of the file with --capacity BYTES"
        )));
    }
    let text = script.render(form).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    if script.tag.text().is_none() {
        let message = "the settings do not fit into the description of a fio job: results can be \
                       imported as jobs, but not as a run of the experiment";
        terminal.warn(&[message.to_owned()], "set fewer of them");
    }
    match &arguments.output {
        None => terminal.print(&text),
        Some(path) => {
            OutputFile::script(path)?.write(&text)?;
            terminal.note(&format!("Wrote {}", path.display()));
            Ok(())
        }
    }
}

/// Returns the target, which is on another machine and is not looked for here.
fn script_target(arguments: &ExportArguments) -> Result<ScriptTarget, Failure> {
    let name = &arguments.target;
    if name.starts_with("sim:") || name.contains("(sim:") {
        return Err(Failure::usage(format!(
            "{name}: a simulated drive exists only in ssdlab; name a device or a file of the other \
             machine"
        )));
    }
    if name.chars().any(char::is_control) || name.is_empty() {
        return Err(Failure::usage("the target is no name of a device or file".to_owned()));
    }
    let is_device = name.starts_with("/dev/") || name.starts_with(r"\\.\");
    let capacity = match (&arguments.capacity, is_device) {
        (Some(text), _) => {
            parse_length(text).map_err(|error| Failure::usage(format!("--capacity: {error}")))?
        }
        (None, false) => LARGEST_FILE,
        (None, true) => {
            return Err(Failure::usage(format!(
                "{name}: give its size with --capacity BYTES (blockdev --getsize64 or diskinfo \
                 shows it)"
            )));
        }
    };
    Ok(ScriptTarget { name: name.clone(), is_device, capacity })
}
