//! Runs an experiment on a target and makes the report, also after an error.

use std::time::Instant;

use ssdlab_drive::{Drive, DriveKind, Inside, When};
use ssdlab_model::attribution::Parts;
use ssdlab_model::health::Health;
use ssdlab_units::{KIB, Nanoseconds};

use crate::error::LabError;
use crate::experiment::theory_comparison;
use crate::experiment::{Experiment, Record, Settings, Watcher};
use crate::machine;
use crate::report::{
    Cost, Fact, Finding, Level, RECORDINGS_MAX, Recording, Report, ReportAttribution,
    ReportCounters, ReportHealth, SCHEMA, Target, TargetKind, TimePart,
};

/// Result of a run: the report, and the error that ended the run, if there was one.
#[derive(Debug)]
pub struct Outcome {
    /// Report of what was measured.
    pub report: Report,
    /// Error that ended the run before its protocol was complete.
    pub error: Option<LabError>,
}

/// Runs `experiment` on `drive`, and removes the files of the run.
pub fn run(
    experiment: &dyn Experiment,
    settings: &Settings,
    seed: u64,
    drive: &mut dyn Drive,
    watcher: &mut dyn Watcher,
) -> Outcome {
    let started = jiff::Timestamp::now();
    let wall = Instant::now();
    let cpu = machine::cpu_seconds();
    let drive_time = drive.now();
    let mut record = Record::default();
    drive.read_health(When::Before);
    drive.set_measuring(true);
    let mut error = experiment.run(settings, seed, drive, &mut record, watcher).err();
    drive.set_measuring(false);
    drive.read_health(When::After);
    if error.is_none() && experiment.checks_plausibility(settings) {
        for remark in drive.examine() {
            record.add_finding(Level::Warning, remark.code, remark.text);
        }
    }
    let mut description = drive.description();
    let flash = record.tally.flash;
    let has_measured = flash.is_any() || error.is_none();
    if let Some(caveat) = flash.caveat().filter(|_| description.began_new && has_measured) {
        description.caveats.insert(0, caveat.to_owned());
    }
    let simulated = description.kind == DriveKind::Simulated;
    let mut parameters = settings.parameters(&description);
    if !simulated {
        parameters
            .retain(|one| !experiment.simulated_only_parameters().contains(&one.name.as_str()));
    }
    let simulated_seconds =
        simulated.then(|| (drive.now().since(drive_time) + record.tally.time_on_copies).seconds());
    let recorder = drive.simulated().and_then(|it| it.recorder().cloned());
    let insides: Vec<Inside> =
        record.tally.finished_drives.iter().copied().chain(drive.inside()).collect();
    if let Err(failure) = drive.clean_up()
        && error.is_none()
    {
        error = Some(failure.into());
    }
    // A run that ended before it had results gets no finding about theory.
    if error.is_none() || record.tables.iter().any(|table| !table.rows.is_empty()) {
        theory_comparison::conclude(&record.tally.theory_comparisons.clone(), &mut record);
    }
    if record.tally.replaced_saved_drive {
        let text = "The protocol asks for a new drive, and took another one from the factory in place \
                    of the one that was saved: what that went through plays no part there. \
                    --purge none takes it as it is.";
        record.add_finding(Level::Notice, "saved-state-unused", text.to_owned());
    }
    if let Some(error) = &error {
        record.findings.push(Finding {
            level: Level::Problem,
            code: "not-finished".to_owned(),
            text: format!("The run ended before its protocol was through: {error}."),
        });
    }
    let tracks = recorder.map(|it| it.tracks()).unwrap_or_default();
    if tracks.len() > RECORDINGS_MAX {
        let text = format!(
            "The inside of {} drives was recorded; the report keeps the {RECORDINGS_MAX} longest.",
            tracks.len()
        );
        record.add_finding(Level::Notice, "recordings-left-out", text);
    }
    let health = health_of_the_most_written(&insides);
    note_warnings(health, &mut record);
    let report = Report {
        schema: SCHEMA.to_owned(),
        experiment: experiment.name().to_owned(),
        target: target_of(description, health),
        seed,
        parameters: [parameters, record.parameters].concat(),
        shortened: settings.shortened(),
        interrupted: error.is_some(),
        host: machine::host(),
        started: format!("{:.0}", started),
        tables: record.tables,
        series: record.series,
        histograms: record.histograms,
        findings: record.findings,
        counters: insides.iter().map(counters_of).reduce(ReportCounters::and),
        health: health.map(|health| health_of(&health)),
        attribution: attribution_of(&insides),
        recordings: Recording::of_tracks(tracks),
        cost: Cost {
            wall_seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: machine::cpu_seconds() - cpu,
            simulated_seconds,
            requests: record.tally.requests,
            units: record.tally.bytes.covering(KIB * 4),
            peak_rss_bytes: machine::peak_memory().bytes(),
        },
    };
    Outcome { report, error }
}

/// Returns the health of the drive with the most host writes: a warning should come from the copy that is
/// worn most.
fn health_of_the_most_written(insides: &[Inside]) -> Option<Health> {
    insides.iter().filter_map(|inside| inside.health).max_by_key(|it| it.data_units_written)
}

fn target_of(mut description: ssdlab_drive::Description, health: Option<Health>) -> Target {
    if let Some(health) = health {
        description.facts.extend(health_facts(&health));
    }
    Target {
        kind: match description.kind {
            DriveKind::Simulated => TargetKind::Simulated,
            DriveKind::File => TargetKind::File,
            DriveKind::Directory => TargetKind::Directory,
            DriveKind::Device => TargetKind::Device,
        },
        name: description.name,
        capacity_bytes: description.capacity.bytes(),
        engine: description.engine,
        caveats: description.caveats,
        facts: description.facts.into_iter().map(|(name, value)| Fact { name, value }).collect(),
    }
}

/// Returns where the time of the requests of all drives went, for the report; `None` if there are no drives.
pub fn attribution_of(insides: &[Inside]) -> Option<ReportAttribution> {
    let mut sum = insides.first()?.attribution;
    for inside in &insides[1..] {
        sum += inside.attribution;
    }
    let parts = |parts: Parts| {
        let named = parts.named().into_iter().filter(|(_, time)| *time > Nanoseconds::ZERO);
        let of = |(name, time): (&str, Nanoseconds)| TimePart {
            name: name.to_owned(),
            seconds: time.seconds(),
        };
        named.map(of).collect()
    };
    Some(ReportAttribution {
        reads: parts(sum.reads),
        writes: parts(sum.writes),
        others: parts(sum.others),
    })
}

/// Returns the wear of the drive at the end, named as in the NVMe SMART / Health log, as far as the profile
/// models wear.
fn health_facts(health: &Health) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if let Some(spare) = health.available_spare {
        facts.push(("available_spare".to_owned(), format!("{spare} %")));
    }
    if let Some(used) = health.percentage_used {
        facts.push(("percentage_used".to_owned(), format!("{used} %")));
    }
    if !facts.is_empty() {
        facts.push(("data_units_written".to_owned(), health.data_units_written.to_string()));
        facts.push(("data_units_read".to_owned(), health.data_units_read.to_string()));
    }
    if let Some(left) = health.remaining_life {
        let words = format!("{left} of writes at the write amplification so far");
        facts.push(("remaining life".to_owned(), words));
    }
    facts
}

/// Adds findings about the drive's critical warnings.
fn note_warnings(health: Option<Health>, record: &mut Record) {
    let Some(Health { available_spare: Some(spare), critical_warning, .. }) = health else {
        return;
    };
    if critical_warning & READ_ONLY != 0 {
        let text = "The drive has become read-only: blocks of its flash went bad, and none is left \
                    to replace the next. What was written before can be read.";
        record.add_finding(Level::Problem, "end-of-life", text.to_owned());
    } else if critical_warning != 0 {
        let text = format!(
            "Only {spare} % of the drive's spare blocks are left, and it becomes read-only when they \
             are used up."
        );
        record.add_finding(Level::Warning, "spare-low", text);
    }
}

/// Bit of the critical warning for a read-only drive.
const READ_ONLY: u8 = 1 << 3;

/// Returns the health of a drive for the report.
pub fn health_of(health: &Health) -> ReportHealth {
    ReportHealth {
        critical_warning: health.critical_warning,
        available_spare: health.available_spare,
        available_spare_threshold: health.available_spare_threshold,
        percentage_used: health.percentage_used,
        data_units_read: health.data_units_read,
        data_units_written: health.data_units_written,
        host_read_commands: health.host_read_commands,
        host_write_commands: health.host_write_commands,
        controller_busy_time: health.controller_busy_time,
        power_on_hours: health.power_on_hours,
        unsafe_shutdowns: health.unsafe_shutdowns,
        num_err_log_entries: health.num_err_log_entries,
        remaining_life_bytes: health.remaining_life.map(|left| left.bytes()),
    }
}

/// Returns the counters of a drive for the report.
pub fn counters_of(inside: &Inside) -> ReportCounters {
    let Inside { unit, counters, wear, .. } = inside;
    ReportCounters {
        host_writes: counters.host_write_units,
        part_writes: counters.host_part_units,
        host_reads: counters.host_read_units,
        flash_writes: counters.flash_write_units(),
        write_amplification: counters.write_amplification(),
        metadata_writes: counters.metadata_write_units(),
        data_write_amplification: counters.data_write_amplification(),
        host_written_bytes: counters.host_written(*unit).bytes(),
        flash_written_bytes: (*unit * counters.flash_write_units()).bytes(),
        collection_writes: counters.program_units_collection,
        merge_writes: counters.program_units_condensing + counters.program_units_merge,
        padding_writes: counters.program_units_padding,
        flash_page_reads: counters.flash_page_reads_host,
        collection_page_reads: counters.flash_page_reads_collection,
        merge_page_reads: counters.flash_page_reads_merge,
        map_page_reads: counters.map_page_reads,
        erases: counters.erases,
        erases_min: wear.erases_min,
        erases_mean: wear.erases_mean,
        erases_max: wear.erases_max,
        trims: counters.host_trim_units,
        flushes: counters.flushes,
    }
}
