//! Options of a job: those that are carried out, those that are ignored with a remark, and all others, which are
//! errors. Source: fio's HOWTO, version 3.33.

use ssdlab_drive::{Rate, Skew};
use ssdlab_units::text::QuantityError;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::job::{Direction, Job, SizeOrPercent};
use super::sections::FioOption;
use super::values::{number, percent, size, switch, time};
use crate::error::{InputError, Remark, shown};

/// Options that are ignored, with the reason for the remark.
pub const IGNORED: [(&str, &str); 44] = [
    ("filename", TARGET_REASON),
    ("filename_format", TARGET_REASON),
    ("directory", TARGET_REASON),
    ("nrfiles", TARGET_REASON),
    ("openfiles", TARGET_REASON),
    ("file_service_type", TARGET_REASON),
    ("create_on_open", TARGET_REASON),
    ("create_serialize", TARGET_REASON),
    ("create_fsync", TARGET_REASON),
    ("fallocate", TARGET_REASON),
    ("overwrite", TARGET_REASON),
    ("unlink", TARGET_REASON),
    ("allow_file_create", TARGET_REASON),
    ("allow_mounted_write", TARGET_REASON),
    ("invalidate", "nothing is cached here"),
    ("refill_buffers", "every write has data of its own"),
    ("scramble_buffers", "every write has data of its own"),
    ("randrepeat", "the seed of the run is used instead (--seed)"),
    ("allrandrepeat", "the seed of the run is used instead (--seed)"),
    ("random_generator", GENERATOR_REASON),
    ("thread", ENGINE_REASON),
    ("mem", ENGINE_REASON),
    ("iomem", ENGINE_REASON),
    ("hipri", ENGINE_REASON),
    ("fixedbufs", ENGINE_REASON),
    ("registerfiles", ENGINE_REASON),
    ("sqthread_poll", ENGINE_REASON),
    ("iodepth_batch", ENGINE_REASON),
    ("iodepth_batch_submit", ENGINE_REASON),
    ("iodepth_batch_complete_min", ENGINE_REASON),
    ("iodepth_batch_complete_max", ENGINE_REASON),
    ("iodepth_batch_complete", ENGINE_REASON),
    ("cpus_allowed", ENGINE_REASON),
    ("numa_cpu_nodes", ENGINE_REASON),
    ("group_reporting", REPORT_REASON),
    ("description", REPORT_REASON),
    ("new_group", REPORT_REASON),
    ("percentile_list", REPORT_REASON),
    ("clat_percentiles", REPORT_REASON),
    ("lat_percentiles", REPORT_REASON),
    ("log_avg_msec", REPORT_REASON),
    ("write_bw_log", REPORT_REASON),
    ("per_job_logs", REPORT_REASON),
    ("unified_rw_reporting", REPORT_REASON),
];

const TARGET_REASON: &str = "the target of the run is used instead, and prepared as needed";
const GENERATOR_REASON: &str = "addresses come from ssdlab's own generator";
const ENGINE_REASON: &str = "it configures fio's engine, and ssdlab has its own";
const REPORT_REASON: &str = "it configures fio's report, and ssdlab has its own";

/// I/O engines that send one request at a time, whatever the depth.
const SYNCHRONOUS_ENGINES: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// I/O engines that keep many requests in flight.
const ASYNCHRONOUS_ENGINES: [&str; 7] =
    ["libaio", "io_uring", "io_uring_cmd", "posixaio", "windowsaio", "solarisaio", "sg"];

/// Returns the error for a value that is not valid; `right` describes valid values.
fn invalid_value(option: &FioOption, right: &str) -> InputError {
    let value = option.value.as_deref().unwrap_or("");
    InputError::at(option.line, format!("{}={}: expected {right}", option.key, shown(value)))
}

fn unsupported(option: &FioOption, why: &str) -> InputError {
    let value = option.value.as_deref().map_or(String::new(), |value| format!("={}", shown(value)));
    InputError::at(option.line, format!("{}{value}: {why}", option.key))
}

/// Applies one option to a job.
pub(super) fn apply(
    job: &mut Job,
    option: &FioOption,
    remarks: &mut Vec<Remark>,
) -> Result<(), InputError> {
    refuse_unsupported(option)?;
    if let Some((_, why)) = IGNORED.iter().find(|(key, _)| *key == option.key) {
        remarks.push(Remark { line: option.line, words: format!("{}: {why}", option.key) });
        if option.key == "filename" {
            job.file = option.value.clone();
        }
        return Ok(());
    }
    if apply_workload_option(job, option)?
        || apply_timing_option(job, option)?
        || apply_engine_option(job, option, remarks)?
    {
        return Ok(());
    }
    Err(InputError::at(
        option.line,
        format!(
            "option '{}' is not supported, and could change the workload: remove the line if the \
             workload is the same without it",
            option.key
        ),
    ))
}

/// Refuses options and values that would change the requests that the drive sees, those of [`IGNORED`] included.
fn refuse_unsupported(option: &FioOption) -> Result<(), InputError> {
    let value = option.value.as_deref().unwrap_or("");
    match option.key.as_str() {
        // A colon separates files unless a backslash precedes it.
        "filename" if value.replace("\\:", "").contains(':') => {
            Err(unsupported(option, "requests to several files in turn are not supported"))
        }
        "nrfiles" if number(value) != Some(1) => {
            Err(unsupported(option, "requests to several files in turn are not supported"))
        }
        "iodepth_low" => {
            Err(unsupported(option, "draining the queue before refilling it is not supported"))
        }
        "iodepth_batch_complete_min" | "iodepth_batch_complete"
            if number(value).is_none_or(|count| count > 1) =>
        {
            Err(unsupported(option, "waiting for several completions at once is not supported"))
        }
        _ => Ok(()),
    }
}

/// Applies an option about the kind, size or place of requests; returns false for any other option.
fn apply_workload_option(job: &mut Job, option: &FioOption) -> Result<bool, InputError> {
    let value = option.value.as_deref().unwrap_or("");
    let is_on = || switch(option.value.as_deref()).ok_or_else(|| invalid_value(option, "0 or 1"));
    let count = |right| number(value).ok_or_else(|| invalid_value(option, right));
    match option.key.as_str() {
        "rw" | "readwrite" => apply_direction(job, option, value)?,
        "bs" | "blocksize" => {
            let first = value.split(',').next().unwrap_or("");
            if value.split(',').any(|other| other != first) {
                return Err(unsupported(
                    option,
                    "different block sizes for reads and writes are not supported",
                ));
            }
            let bytes = size(first).filter(|it| *it > ByteLength::ZERO);
            job.block_size = bytes.ok_or_else(|| invalid_value(option, "a size, such as 4k"))?;
        }
        "size" => job.size = Some(parse_size_or_percent(option, value)?),
        "offset" => job.offset = parse_size_or_percent(option, value)?,
        "io_size" | "io_limit" => {
            let amount = size(value).ok_or_else(|| invalid_value(option, "a size, such as 1g"))?;
            job.io_size = Some(amount).filter(|it| *it > ByteLength::ZERO);
        }
        "loops" => job.loops = bounded_count(count("a whole number")?, option)?,
        "rwmixread" | "rwmixwrite" => {
            let share = count("a whole number from 0 to 100")?;
            let share = u8::try_from(share).ok().filter(|it| *it <= 100);
            let share =
                share.ok_or_else(|| invalid_value(option, "a whole number from 0 to 100"))?;
            let reads = if option.key == "rwmixread" { share } else { 100 - share };
            job.mixed_share = reads;
        }
        "norandommap" => job.repeats = is_on()?,
        "random_distribution" => job.distribution = parse_distribution(option, value)?,
        "randseed" => job.seed = Some(count("a whole number")?),
        "numjobs" => job.copies = bounded_count(count("a whole number")?, option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the distribution of `random_distribution`; `None` if all blocks are equally frequent.
fn parse_distribution(option: &FioOption, value: &str) -> Result<Option<Skew>, InputError> {
    let (law, rest) = value.split_once(':').unwrap_or((value, ""));
    // Parse the parameter of the distribution, which has a default, and its centre. The centre is only checked: the
    // blocks are scattered over the region, and so is the centre.
    let (number, centre) = rest.split_once(':').unwrap_or((rest, "0"));
    let or = |default: &str| match number {
        "" => format!("{law}:{default}"),
        number => format!("{law}:{number}"),
    };
    let text = match law {
        "random" => return Ok(None),
        "zipf" => or("1.1"),
        "pareto" => or("0.2"),
        "normal" => or("0"),
        "zoned" => value.to_owned(),
        "zoned_abs" => return Err(unsupported(option, "give the zones in percent (zoned)")),
        _ => return Err(unsupported(option, "expected random, zipf, pareto, normal or zoned")),
    };
    if law != "zoned" && !centre.parse().is_ok_and(|centre: f64| (0.0..=1.0).contains(&centre)) {
        return Err(unsupported(option, "the centre of a distribution must be from 0 to 1"));
    }
    text.parse().map(Some).map_err(|error: QuantityError| unsupported(option, &error.to_string()))
}

fn apply_direction(job: &mut Job, option: &FioOption, value: &str) -> Result<(), InputError> {
    let (direction, random) = match value {
        "read" => (Direction::Read, false),
        "write" => (Direction::Write, false),
        "trim" => (Direction::Trim, false),
        "randread" => (Direction::Read, true),
        "randwrite" => (Direction::Write, true),
        "randtrim" => (Direction::Trim, true),
        "rw" | "readwrite" => (Direction::Mixed(50), false),
        "randrw" => (Direction::Mixed(50), true),
        "trimwrite" | "randtrimwrite" => {
            return Err(unsupported(
                option,
                "writing each block right after its trim is not supported",
            ));
        }
        _ if value.contains(':') => {
            return Err(unsupported(option, "a suffix of the pattern is not supported"));
        }
        _ => {
            let right = "read, write, trim, randread, randwrite, randtrim, rw or randrw";
            return Err(invalid_value(option, right));
        }
    };
    (job.direction, job.random) = (direction, random);
    Ok(())
}

fn parse_size_or_percent(option: &FioOption, value: &str) -> Result<SizeOrPercent, InputError> {
    let read = percent(value).map(SizeOrPercent::Percent);
    let read = read.or_else(|| size(value).map(SizeOrPercent::Bytes));
    read.ok_or_else(|| invalid_value(option, "a size, such as 1g, or a share, such as 50%"))
}

/// Largest number of copies, of loops and of requests in flight.
const MAX_COUNT: u64 = 4096;

fn bounded_count(number: u64, option: &FioOption) -> Result<u32, InputError> {
    match number {
        1..=MAX_COUNT => Ok(number as u32),
        _ => Err(invalid_value(option, "a whole number from 1 to 4096")),
    }
}

/// Applies an option about time, rate or order; returns false for any other option.
fn apply_timing_option(job: &mut Job, option: &FioOption) -> Result<bool, InputError> {
    let value = option.value.as_deref().unwrap_or("");
    let is_on = || switch(option.value.as_deref()).ok_or_else(|| invalid_value(option, "0 or 1"));
    let duration =
        |unit| time(value, unit).ok_or_else(|| invalid_value(option, "a time, such as 60s"));
    let second = Nanoseconds::from_secs(1);
    match option.key.as_str() {
        "runtime" | "timeout" => {
            let longest = Nanoseconds::from_secs(30 * 86_400);
            job.runtime = match duration(second)? {
                Nanoseconds::ZERO => None,
                time if time <= longest => Some(time),
                _ => return Err(invalid_value(option, "at most 30 days")),
            };
        }
        "time_based" => job.time_based = is_on()?,
        "ramp_time" => job.ramp = duration(second)?,
        "rate" | "rate_iops" => {
            let read = if option.key == "rate" {
                size(value).map(ByteLength::bytes)
            } else {
                number(value)
            };
            let rate = match read {
                Some(rate) if rate > 0 => rate as f64,
                _ if value.contains(',') => {
                    return Err(unsupported(
                        option,
                        "separate rates for reads and writes are not supported",
                    ));
                }
                _ => return Err(invalid_value(option, "a number above 0")),
            };
            let rate = if option.key == "rate" {
                Rate::BytesPerSecond(rate)
            } else {
                Rate::RequestsPerSecond(rate)
            };
            job.rate = Some(rate);
        }
        "rate_process" if value == "linear" => job.open_arrivals = None,
        "rate_process" if value == "poisson" => job.open_arrivals = Some(option.line),
        "rate_process" => return Err(invalid_value(option, "linear or poisson")),
        "fsync" | "fdatasync" => {
            let every = number(value).ok_or_else(|| invalid_value(option, "a whole number"))?;
            let other = job.flush_option.replace(option.key.clone());
            if job.flush_every.is_some() && other.is_some_and(|other| other != option.key) {
                return Err(unsupported(
                    option,
                    "fsync and fdatasync in one job are not supported",
                ));
            }
            job.flush_every = (every > 0).then_some(every);
        }
        "end_fsync" => job.flush_at_end = is_on()?,
        "thinktime" => {
            let every = job.think.map_or(1, |(every, _)| every);
            job.think = Some((every, duration(Nanoseconds::from_micros(1))?));
        }
        "thinktime_blocks" => {
            let every = number(value).filter(|it| *it > 0);
            let every = every.ok_or_else(|| invalid_value(option, "a whole number above 0"))?;
            job.think = Some((every, job.think.map_or(Nanoseconds::ZERO, |(_, time)| time)));
        }
        "stonewall" | "wait_for_previous" => job.waits_for_previous = is_on()?,
        "exec_prerun" => {
            let rest = value.strip_prefix("sleep ").and_then(|time_text| time(time_text, second));
            job.rest = rest.ok_or_else(|| {
                unsupported(
                    option,
                    "commands are not run; only 'sleep SECONDS' is supported, as a rest",
                )
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies an option about fio's engine; returns false for any other option.
fn apply_engine_option(
    job: &mut Job,
    option: &FioOption,
    remarks: &mut Vec<Remark>,
) -> Result<bool, InputError> {
    let value = option.value.as_deref().unwrap_or("");
    let is_on = || switch(option.value.as_deref()).ok_or_else(|| invalid_value(option, "0 or 1"));
    match option.key.as_str() {
        "iodepth" => {
            let depth = number(value).ok_or_else(|| invalid_value(option, "a whole number"))?;
            (job.depth, job.depth_line) = (bounded_count(depth, option)?, option.line);
        }
        "direct" | "buffered" => {
            job.direct = is_on()? == (option.key == "direct");
            if !job.direct {
                return Err(unsupported(
                    option,
                    "only direct I/O is supported (direct=1), since otherwise the page cache \
                     would be measured",
                ));
            }
        }
        "ioengine" => {
            let known = SYNCHRONOUS_ENGINES
                .iter()
                .chain(&ASYNCHRONOUS_ENGINES)
                .any(|known| *known == value);
            if !known {
                let why =
                    "this engine does not reach a drive, or does not send the requests of a drive";
                return Err(unsupported(option, why));
            }
            job.engine = Some(value.to_owned());
            let words =
                format!("ioengine={value}: ssdlab uses its own engine, unless --engine names one");
            remarks.push(Remark { line: option.line, words });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks the options of a job against each other, and resolves those that depend on others.
pub(super) fn resolve(job: &mut Job, remarks: &mut Vec<Remark>) -> Result<(), InputError> {
    let name = shown(&job.name);
    if let Direction::Mixed(share) = &mut job.direction {
        *share = job.mixed_share;
    }
    let mut remark = |line, words: String| remarks.push(Remark { line, words });
    if !job.direct {
        let words = "direct is not set: fio would use the page cache, but ssdlab does not";
        remark(0, words.to_owned());
    }
    let engine = job.engine.as_deref();
    if job.depth > 1 && engine.is_none_or(|engine| SYNCHRONOUS_ENGINES.contains(&engine)) {
        let engine = engine.unwrap_or("psync (fio's default)");
        remark(
            job.depth_line,
            format!(
                "iodepth={}: with ioengine={engine} fio sends one request at a time, and so does \
                 ssdlab; for more, set an ioengine such as libaio",
                job.depth
            ),
        );
        job.depth = 1;
    }
    if job.time_based && job.runtime.is_none() {
        let why = format!("job '{name}' has time_based without a runtime, and would never end");
        return Err(InputError::at(job.line, why));
    }
    if let Some((_, time)) = job.think {
        if time == Nanoseconds::ZERO {
            job.think = None;
        } else if job.depth > 1 {
            let why = format!("job '{name}': thinktime needs iodepth=1 here");
            return Err(InputError::at(job.line, why));
        } else if job.rate.is_some() {
            let why = format!("job '{name}': thinktime and a rate cannot be combined");
            return Err(InputError::at(job.line, why));
        }
    }
    if job.rate.is_some() && matches!(job.direction, Direction::Mixed(_)) {
        let why = format!(
            "job '{name}': a rate for mixed reads and writes is not supported (fio limits each \
             separately)"
        );
        return Err(InputError::at(job.line, why));
    }
    if let Some(line) = job.open_arrivals {
        job.rate = match job.rate {
            Some(Rate::RequestsPerSecond(rate)) => Some(Rate::Open(rate)),
            Some(Rate::BytesPerSecond(rate)) => {
                Some(Rate::Open(rate / job.block_size.bytes() as f64))
            }
            Some(Rate::Open(rate)) => Some(Rate::Open(rate)),
            None => return Err(InputError::at(line, "rate_process needs a rate or rate_iops")),
        };
    }
    if job.loops > 1 && job.io_size.is_some() {
        let why = format!("job '{name}': loops and io_size cannot be combined; leave out one");
        return Err(InputError::at(job.line, why));
    }
    if matches!(job.size, Some(SizeOrPercent::Bytes(ByteLength::ZERO) | SizeOrPercent::Percent(0)))
    {
        return Err(InputError::at(job.line, format!("job '{name}' has a size of 0")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::JobFile;
    use super::*;

    fn job(options: &str) -> Job {
        let file = JobFile::parse(&format!("[global]\ndirect=1\n[a]\n{options}\n")).unwrap();
        file.jobs().next().unwrap().clone()
    }

    fn error(options: &str) -> InputError {
        JobFile::parse(&format!("[global]\ndirect=1\n[a]\n{options}\n")).unwrap_err()
    }

    #[test]
    fn what_phases_have_is_understood() {
        let job = job(
            "rw=randrw\nrwmixread=70\nbs=16k\nioengine=libaio\niodepth=8\nsize=50%\nruntime=2m\n\
             time_based\nnorandommap=1\nfdatasync=4\nend_fsync=1\nloops=3\nnumjobs=2",
        );
        assert_eq!(job.direction, Direction::Mixed(70));
        assert!(job.random && job.repeats && job.time_based && job.flush_at_end);
        assert_eq!((job.depth, job.loops, job.copies, job.flush_every), (8, 3, 2, Some(4)));
        assert_eq!(job.size, Some(SizeOrPercent::Percent(50)));
        assert_eq!(job.runtime, Some(Nanoseconds::from_secs(120)));
    }

    #[test]
    fn the_order_of_the_mix_and_its_share_does_not_matter() {
        assert_eq!(job("rwmixwrite=10\nrw=rw").direction, Direction::Mixed(90));
    }

    #[test]
    fn what_is_not_understood_is_an_error_in_its_line() {
        for (options, words) in [
            ("bssplit=4k/50:64k/50", "option 'bssplit' is not supported"),
            ("verify=crc32c", "'verify' is not supported"),
            ("rw=randwrit", "rw=randwrit: expected read, write"),
            ("rw=read:8", "suffix"),
            ("bs=4k,8k", "different block sizes"),
            ("random_distribution=zipf:12", "a Zipf theta from 0 to 10"),
            ("random_distribution=zipf:1.2:2", "the centre"),
            ("random_distribution=zoned_abs:60/20G:40/100G", "in percent"),
            ("random_distribution=zoned:60/10,50/50", "up to 16 zones"),
            ("random_distribution=sequence:2,0,1", "expected random, zipf"),
            ("direct=0", "only direct I/O"),
            ("ioengine=net", "does not reach a drive"),
            ("iodepth=0", "from 1 to 4096"),
            ("runtime=soon", "a time"),
            ("exec_prerun=rm -rf /", "commands are not run"),
            ("rate=1m,2m", "separate rates"),
            ("filename=/dev/sda:/dev/sdb", "several files"),
            ("nrfiles=4", "several files"),
            ("iodepth_low=1", "draining"),
            ("iodepth_batch_complete_min=8", "several completions"),
        ] {
            let error = error(options);
            assert_eq!(error.line, Some(4), "{options}: {error}");
            assert!(error.why.contains(words), "{error}");
        }
        assert!(error("time_based").why.contains("would never end"));
        assert!(error("rate_process=poisson").why.contains("needs a rate"));
        assert!(error("rw=rw\nrate_iops=5").why.contains("mixed reads and writes"));
        assert!(error("fsync=4\nfdatasync=3").why.contains("in one job"));
        assert!(error("loops=2\nio_size=1m").why.contains("be combined"));
        assert_eq!(job("fsync=4\nfsync=3").flush_every, Some(3));
        assert_eq!(job("fsync=0\nfdatasync=3").flush_every, Some(3));
    }

    #[test]
    fn a_depth_that_fio_would_not_reach_is_not_reached_here() {
        let file = JobFile::parse("[a]\niodepth=32\nrw=randread\n").unwrap();
        assert_eq!(file.jobs().next().unwrap().depth, 1);
        let remarks: Vec<&str> = file.remarks.iter().map(|it| &*it.words).collect();
        assert!(remarks[0].contains("direct is not set"), "{remarks:?}");
        assert!(remarks[1].contains("one request at a time"), "{remarks:?}");
    }

    #[test]
    fn jobs_on_files_of_their_own_are_told() {
        let words = |text: &str| -> Vec<String> {
            let file = JobFile::parse(&format!("[global]\ndirect=1\n{text}")).unwrap();
            file.remarks.into_iter().filter(|it| it.line == 0).map(|it| it.words).collect()
        };
        assert!(words("[a]\n[b]\nnumjobs=2\n")[0].contains("use 3 files"));
        assert!(words("[a]\nfilename=x\n[b]\nfilename=y\n")[0].contains("use 2 files"));
        assert!(words("[global]\nfilename=x\n[a]\n[b]\nnumjobs=2\n").is_empty());
        assert!(words("[a]\n").is_empty());
    }

    #[test]
    fn a_rest_is_one_of_all_that_run_together() {
        let parse = |text: &str| JobFile::parse(text);
        let error = parse("[a]\n[b]\nexec_prerun=sleep 5\n").unwrap_err();
        assert!(error.line == Some(2) && error.why.contains("add stonewall"), "{error}");
        parse("[a]\nexec_prerun=sleep 5\n[b]\n").unwrap_err();
        let groups = |text: &str| parse(text).unwrap().groups.len();
        assert_eq!(groups("[a]\n[b]\nstonewall\nexec_prerun=sleep 5\n"), 2);
        assert_eq!(groups("[globals]\nexec_prerun=sleep 5\n[a]\n[b]\n"), 1);
    }

    #[test]
    fn what_is_passed_over_is_told_with_its_line() {
        let file = JobFile::parse("[a]\ndirect=1\nrw=read\nfilename=/dev/sda\n").unwrap();
        assert_eq!(file.remarks.len(), 1);
        assert_eq!(file.remarks[0].line, 4);
        assert!(file.remarks[0].words.contains("the target of the run"));
    }
}
