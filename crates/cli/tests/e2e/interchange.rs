//! What other programs write: fio's job files and JSON, and traces.

use std::process::Command;

use crate::support::{Place, skipped};

pub const JOBS: &str = "\
; two that run together, and one behind them
[global]
ioengine=libaio
direct=1
size=64m
filename=/dev/sdx

[reads]
rw=randread
iodepth=16
[writes]
rw=write
bs=64k
fsync=8

[later]
stonewall
rw=randrw
rwmixread=70
iodepth=8
";

#[test]
fn a_job_file_is_run_and_what_is_done_otherwise_is_said() {
    let place = Place::new();
    let file = place.file("mix.fio", JOBS);
    let report = place.run(&["run", "job", &file, "--json"]).with_code(0).json();
    assert_eq!(report["experiment"], "job");
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    let of = |index: usize| (rows[index][0].as_str().unwrap(), rows[index][1].as_str().unwrap());
    let expected = [
        ("reads", "read"),
        ("writes", "write"),
        ("writes", "flush"),
        ("later", "read"),
        ("later", "write"),
    ];
    assert_eq!((0..5).map(of).collect::<Vec<_>>(), expected);
    // 64 MiB in requests of 4 KiB, and of 64 KiB with a flush behind each eight but the last.
    assert_eq!((&rows[0][8], &rows[1][8], &rows[2][8]), (&16384.into(), &1024.into(), &127.into()));
    let remark = report["findings"][1]["text"].as_str().unwrap();
    assert!(remark.contains("line 6, filename: the target of the run is used instead"), "{remark}");
    let again = place.run(&["run", "job", &file, "sim:", "--json"]).with_code(0).json();
    assert_eq!(report["tables"], again["tables"]);
}

#[test]
fn what_would_last_longer_than_anybody_means_is_refused() {
    let place = Place::new();
    let file = place.file("hm_1.csv", trace());
    let slow = ["run", "replay", &file, "sim:,scale=1/64", "--set", "speed=0.00000001"];
    place.run(&slow).fails(2, &["speed", "231 days"]);
    for (options, expected) in
        [("runtime=60d", "at most 30 days"), ("ramp_time=60d\nruntime=1", "job 'long'")]
    {
        let job = format!("[long]\nrw=randread\nbs=4k\n{options}\n");
        let file = place.file("long.fio", &job);
        place.run(&["run", "job", &file]).fails(2, &[expected]);
    }
    // What its own figures make of it is seen when it comes to that.
    let file = place.file("slow.fio", "[slow]\nrw=randread\nbs=4k\nsize=24g\nrate_iops=1\n");
    let slow = place.run(&["run", "job", &file, "sim:", "--set", "fill=no"]).with_code(2);
    assert!(slow.stderr.contains("it would last 73 days"), "{}", slow.stderr);
}

#[test]
fn jobs_run_on_a_real_drive_too() {
    let place = Place::new();
    let (file, directory) = (place.file("mix.fio", JOBS), place.directory("drive"));
    let arguments = ["run", "job", &file, &directory, "--allow-buffered", "--quick", "--json"];
    let report = place.run(&arguments).with_code(0).json();
    assert_eq!(report["tables"][0]["rows"].as_array().unwrap().len(), 5);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn a_job_file_that_is_not_understood_is_an_error_with_its_line() {
    let place = Place::new();
    let file = place.file("odd.fio", "[a]\nrw=read\nbssplit=4k/50:64k/50\n");
    place.run(&["run", "job", &file]).fails(2, &["odd.fio: line 3", "'bssplit'"]);
    place.run(&["run", "job"]).fails(2, &["ssdlab run job FILE"]);
    place.run(&["run", "job", "./none.fio"]).fails(2, &["none.fio"]);
    let file = place.file("large.fio", "[a]\nrw=read\nsize=9000g\n");
    place.run(&["run", "job", &file]).fails(2, &["line 1", "past the end"]);
    place.run(&["run", "fragmentation", "sim:", "sim:"]).fails(2, &["one argument too many"]);
}

/// A trace of 2000 requests, one each 100 us, over 8 GiB.
pub fn trace() -> String {
    let line = |index: u64| {
        let kind = if index.is_multiple_of(3) { "Read" } else { "Write" };
        let offset = index * 0x9e37_79b9 % (8 << 18) * 4096;
        format!("{},hm,1,{kind},{offset},4096,413\n", 128_166_372_003_061_629 + index * 1000)
    };
    (0..2000).map(line).collect()
}

#[test]
fn a_trace_is_replayed_at_its_times_and_as_fast_as_the_drive_can() {
    let place = Place::new();
    let slip = place.run(&["run", "replay", "sim:"]);
    slip.fails(2, &["comes before the target", "ssdlab run replay FILE sim:"]);
    let file = place.file("hm_1.csv", trace());
    let replay = |set: &str| {
        let arguments = ["run", "replay", &file, "sim:,scale=1/64", "--json", "--set", set];
        place.run(&arguments).with_code(0).json()
    };
    let recorded = replay("timing=recorded");
    let rows = recorded["tables"][0]["rows"].as_array().unwrap();
    assert_eq!((&rows[0][8], &rows[1][8]), (&667.into(), &1333.into()));
    let seconds = rows[0][9].as_f64().unwrap();
    assert!((0.199..0.21).contains(&seconds), "{seconds}");
    let codes: Vec<&str> = recorded["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    for code in ["kept-up", "trace", "addresses-scaled"] {
        assert!(codes.contains(&code), "{codes:?}");
    }
    let fast = replay("timing=fast");
    assert!(fast["tables"][0]["rows"][0][9].as_f64().unwrap() < seconds / 2.0);
}

#[test]
fn a_trace_runs_on_a_real_drive_too() {
    let place = Place::new();
    let log = "fio version 2 iolog\n/a add\n/a open\n/a write 0 8192\n/a wait 1000\n/a read 4096 4096\n\
               /a trim 0 4096\n/a sync 0 0\n/a close\n";
    let (file, directory) = (place.file("a.iolog", log), place.directory("drive"));
    let report = place
        .run(&["run", "replay", &file, &directory, "--allow-buffered", "--json"])
        .with_code(0)
        .json();
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    let kinds: Vec<&str> = rows.iter().map(|row| row[1].as_str().unwrap()).collect();
    assert_eq!(kinds, ["read", "write", "trim", "flush"]);
}

#[test]
fn a_bad_line_of_a_trace_is_named_before_anything_is_sent() {
    let place = Place::new();
    let file = place.file("hm_1.csv", trace() + "1,hm,1,Erase,0,4096,1\n");
    place
        .run(&["run", "replay", &file])
        .fails(2, &["hm_1.csv: line 2001", "neither Read nor Write"]);
    let file = place.file("two.csv", "7,R,0,4096,1\n8,R,0,4096,2\n");
    place.run(&["run", "replay", &file]).fails(2, &["line 2", "7 or 8"]);
    place.run(&["run", "replay", &file, "--set", "volume=8", "--json"]).with_code(0);
    let file = place.file("odd.txt", "once upon a time\n");
    place.run(&["run", "replay", &file]).fails(2, &["line 1", "format was not recognised"]);
}

/// As `fio --output-format=json+` writes it, shortened, with a notice before.
pub const RESULT: &str = r#"reads: Laying out IO file (1 file / 64MiB)
{"fio version":"fio-3.33","timestamp":1700000000,
"global options":{"ioengine":"libaio","direct":"1","size":"64m","filename":"/dev/sdx"},
"jobs":[{"jobname":"reads","groupid":0,"error":0,"usr_cpu":5,"sys_cpu":10,
"job options":{"rw":"randread","iodepth":"16"},
"read":{"io_bytes":67108864,"runtime":500,"total_ios":16384,
"lat_ns":{"min":1000,"max":900000,"mean":480000.5,"stddev":9.0,"N":16384},
"clat_ns":{"mean":479000.0,"N":16384,"percentile":{"50.000000":470000,"99.000000":800000,
"99.900000":880000},"bins":{"470000":16000,"800000":384}}}}]}
"#;

#[test]
fn what_fio_measured_is_a_report_that_can_be_shown_and_compared() {
    let place = Place::new();
    let file = place.file("fio.json", RESULT);
    let imported = place.run(&["import", &file, "--json"]).with_code(0).json();
    let row = &imported["tables"][0]["rows"][0];
    assert_eq!((&row[0], &row[8]), (&"reads".into(), &16384.into()));
    assert_eq!(row[4], 480.0005);
    assert_eq!(imported["histograms"][0]["bucket_count"][1], 384);
    place.run(&["show", "last"]).with_code(0);
    let jobs = JOBS.split("[writes]").next().unwrap();
    let file = place.file("reads.fio", jobs);
    place.run(&["run", "job", &file]).with_code(0);
    let compared = place.run(&["compare", "last~1", "last", "--json"]).with_code(0).json();
    let codes: Vec<&str> = compared["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    assert!(!codes.contains(&"parameters-differ"), "{}", compared["findings"]);
    let file = place.file("none.json", "fio: file not found\n");
    place.run(&["import", &file]).fails(2, &["none.json", "no JSON output of fio"]);
}

#[test]
fn a_script_brings_back_the_report_that_the_experiment_would_have_made() {
    let place = Place::new();
    let target = place.path("new.dat");
    let arguments = [
        "export",
        "fragmentation",
        target.to_str().unwrap(),
        "--set",
        "file_size=64M",
        "--set",
        "rest=0s",
        "--set",
        "reads=1",
        "-o",
        "script.sh",
    ];
    place.run(&arguments).with_code(0);
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("a_script_brings_back_the_report", "fio is not installed");
    }
    let mut shell = Command::new("sh");
    let ran = shell.arg("script.sh").current_dir(place.path("")).output().unwrap();
    let words = String::from_utf8_lossy(&ran.stderr);
    if words.contains("Operation not supported") || words.contains("direct") {
        return skipped("a_script_brings_back_the_report", "no direct I/O here");
    }
    assert!(ran.status.success(), "{words}");
    assert!(!target.exists(), "the script removes its file");
    let results = crate::support::names_in(place.path("ssdlab-fragmentation"));
    let mut import = vec!["import", "--json"];
    let paths: Vec<String> =
        results.iter().map(|name| format!("ssdlab-fragmentation/{name}")).collect();
    import.extend(paths.iter().map(String::as_str));
    let report = place.run(&import).with_code(0).json();
    assert_eq!(report["experiment"], "fragmentation");
    assert_eq!(report["tables"][0]["name"], "reads");
    assert_eq!(report["tables"][0]["rows"].as_array().unwrap().len(), 6);
    // Without one of its steps it is no run of the experiment.
    place.run(&import[..4]).fails(4, &["no result of step"]);
    // What is there already is not written over.
    let ran = shell.output().unwrap();
    assert!(!ran.status.success());
}

#[test]
fn rounds_that_a_script_ran_in_one_go_are_judged_when_they_are_imported() {
    let test = "rounds_that_a_script_ran";
    let place = Place::new();
    let target = place.path("new.dat");
    let export = ["export", "overprovision", target.to_str().unwrap()];
    place.run(&export).fails(2, &["give the size of the file", "--capacity"]);
    let short = ["area=80GB", "time=1s", "limit=2s"].map(|set| ["--set", set]).concat();
    let whole = ["--capacity", "128M", "-o", "script.sh"];
    place.run(&[&export[..], &short, &whole].concat()).with_code(0);
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped(test, "fio is not installed");
    }
    let mut shell = Command::new("sh");
    let ran = shell.arg("script.sh").current_dir(place.path("")).output().unwrap();
    let words = String::from_utf8_lossy(&ran.stderr);
    if words.contains("Operation not supported") || words.contains("direct") {
        return skipped(test, "no direct I/O or no holes in files here");
    }
    assert!(ran.status.success(), "{words}");
    let results = crate::support::names_in(place.path("ssdlab-overprovision"));
    let paths: Vec<String> =
        results.iter().map(|name| format!("ssdlab-overprovision/{name}")).collect();
    let import = ["import", "--json"].into_iter().chain(paths.iter().map(String::as_str));
    let report = place.run(&import.collect::<Vec<_>>()).with_code(0).json();
    assert_eq!(report["experiment"], "overprovision");
    let states = &report["tables"][0];
    assert_eq!(states["name"], "states");
    let rows = states["rows"].as_array().unwrap();
    // Two states of four operations each.
    assert_eq!(rows.len(), 8);
    for row in rows {
        let column = |name: &str| {
            let columns = states["columns"].as_array().unwrap();
            let index = columns.iter().position(|column| column["name"] == name).unwrap();
            row[index].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
        };
        assert!(column("iops") > 0.0 && column("latency_mean_us") > 0.0, "{row}");
        // Little's law: no more are under way than were asked for. On a busy machine fio sends too late, and they are
        // fewer; in another unit they would be a thousandth.
        let under_way = column("iops") * column("latency_mean_us") / 1e6;
        assert!((0.5..=40.0).contains(&under_way), "{under_way} of 32 in {row}");
    }
    let findings = report["findings"].as_array().unwrap();
    let found = |code: &str| findings.iter().find(|finding| finding["code"] == code);
    // Two rounds are never enough, and what the operations found is not called the same state.
    assert!(found("not-reached").is_some(), "{findings:?}");
    let states = found("states").unwrap()["text"].as_str().unwrap();
    assert!(states.contains("what the one before had left"), "{states}");
}

#[test]
fn what_a_script_cannot_be_made_of_is_said() {
    let place = Place::new();
    place
        .run(&["export", "barrier", "/dev/sdx", "--capacity", "32G"])
        .fails(4, &["fio alone cannot"]);
    place.run(&["export", "blocksize", "/dev/sdx"]).fails(2, &["--capacity"]);
    place.run(&["export", "blocksize", "sim:"]).fails(2, &["exists only in ssdlab"]);
    let latency = ["export", "latency", "/dev/sdx", "--capacity", "32G", "--format"];
    place.run(&[&latency[..], &["fio"]].concat()).fails(2, &["--format sh"]);
    let script = place.run(&[&latency[..], &["powershell"]].concat()).with_code(0).stdout;
    assert!(script.contains("NOT TRIED ON WINDOWS") && script.contains("Read-Host"));
    let script = place.run(&[&latency[..], &["sh"]].concat()).with_code(0).stdout;
    assert!(script.contains("Type its name to go on"), "{script}");
}

#[test]
fn figures_are_written_for_other_programs() {
    let place = Place::new();
    let arguments = ["run", "fragmentation", "--quick", "--csv", "figures", "--hdr", "run.hlog"];
    place.run(&arguments).with_code(0);
    let table = std::fs::read_to_string(place.path("figures/table-reads.csv")).unwrap();
    assert!(table.starts_with("step,written_bytes,best_seconds,"), "{table}");
    assert_eq!(table.lines().count(), 7);
    let log = std::fs::read_to_string(place.path("run.hlog")).unwrap();
    assert!(log.contains("Tag=read_as_filled,") || log.contains("Tag="), "{log}");
    place.run(&["show", "last", "--csv", "again"]).with_code(0);
    assert_eq!(std::fs::read_to_string(place.path("again/table-reads.csv")).unwrap(), table);
}

#[test]
fn more_copies_of_jobs_than_can_run_at_once_are_refused_before_anything_runs() {
    let place = Place::new();
    place.file("many.fio", "[readers]\nrw=randread\nsize=16m\nnumjobs=300\n");
    let words = "300 copies of readers would run at once (numjobs); the maximum is 256";
    place.run(&["run", "job", "many.fio", "sim:,scale=1/64"]).fails(2, &[words]);
    assert!(!place.path("runs.sqlite").exists(), "nothing was begun");
}

#[test]
fn a_rate_that_a_drive_does_not_reach_is_said() {
    let place = Place::new();
    let said = |rate: &str| {
        let job =
            format!("[reads]\nrw=randread\nsize=16m\nrate_iops={rate}\nruntime=1\ntime_based\n");
        place.file("paced.fio", job);
        let run = ["run", "job", "paced.fio", "sim:,scale=1/64", "--json"];
        let report = place.run(&run).with_code(0).json();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|it| it["code"] == "rate-not-reached")
    };
    let over = said("1000000").expect("it is said");
    let text = over["text"].as_str().unwrap();
    assert!(text.starts_with("reads asks for 1,000,000 requests a second and made"), "{text}");
    assert_eq!(said("1000"), None);
}
