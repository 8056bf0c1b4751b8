//! Protocol as a single fio job file; protocols that fio cannot express are errors.

use std::fmt::Write;

use super::fio_options::{fio_options_of, step_name};
use super::{Script, Step};

const ROUNDS_REMARK: &str = "; The results are imported as jobs. Steady state is found only in results of a shell or\n\
                      ; PowerShell script, whose fio reports while it runs.\n";

pub(super) fn render(script: &Script) -> Result<String, String> {
    let mut text = String::new();
    for line in script.header() {
        let _ = writeln!(text, "; {line}");
    }
    let _ = writeln!(
        text,
        "{}; Run: fio --output-format=json+ --output=fio.json THIS_FILE\n\
         ; then, where ssdlab is: ssdlab import fio.json\n\
         ; ioengine: libaio for Linux, posixaio for FreeBSD, windowsaio for Windows.\n\n\
         [global]\nfilename={}\ndirect=1\nioengine=libaio\ndescription={}",
        if script.has_rounds { ROUNDS_REMARK } else { "" },
        script.target,
        // The results contain no rounds, so they are not tagged as a run of the experiment.
        if script.has_rounds { "ssdlab script".to_owned() } else { script.description() },
    );
    if script.is_device {
        text.push_str(
            "; Remove this line to confirm that all data on the device will be lost:\n\
             readonly_until_you_remove_this=1\n",
        );
    }
    let mut rest = None;
    for (number, step) in script.steps.iter().enumerate() {
        match step {
            Step::Work { of_peak: Some(_), .. } => {
                return Err(
                    "a job file cannot express a rate relative to that of an earlier step; use \
                     --format sh or powershell"
                        .to_owned(),
                );
            }
            Step::Work { phase, of_peak: None } => {
                let _ = writeln!(text, "\n[{}]\nstonewall", step_name(number, phase));
                if let Some(time) = rest.take() {
                    let _ = writeln!(text, "exec_prerun=sleep {time}");
                }
                for (name, value) in fio_options_of(phase, script.steps.get(number + 1)) {
                    let _ = writeln!(text, "{name}={value}");
                }
            }
            // By the work before it.
            Step::Flush => {}
            Step::Rest(time) => {
                let seconds = time.nanos().div_ceil(1_000_000_000);
                rest = Some(rest.unwrap_or(0) + seconds);
            }
            Step::Trim(_) if !script.is_device => {
                return Err("fio cannot trim a part of a file; use --format sh".to_owned());
            }
            Step::Trim(region) => {
                let (offset, size) = (region.offset.bytes(), region.length.bytes());
                push_trim_job(&mut text, number, &format!("offset={offset}\nsize={size}\n"));
            }
            Step::Purge if script.is_device => {
                push_trim_job(&mut text, number, &format!("size={}\n", script.space.bytes()));
            }
            // As the first step it needs no job: the file is new.
            Step::Purge if number == 0 => {}
            Step::Purge => {
                return Err(
                    "fio cannot recreate a file between two jobs; use --format sh or powershell, \
                     or a device"
                        .to_owned(),
                );
            }
        }
    }
    Ok(text)
}

fn push_trim_job(text: &mut String, number: usize, place: &str) {
    let _ = write!(
        text,
        "\n[{:03}-trim]\nstonewall\nrw=trim\nbs=1048576\niodepth=1\n{place}",
        number + 1
    );
}
