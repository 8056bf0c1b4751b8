//! The experiments beyond the first, each on a small simulated drive.

use serde_json::Value;

use crate::report::{codes, column, numbers, table};
use crate::support::Place;

const SMALL: &str = "sim:generic-tlc,capacity.physical=2GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%";

#[track_caller]
fn same_figures(first: &Value, second: &Value) {
    for part in ["tables", "series", "histograms", "findings", "counters"] {
        assert_eq!(first[part], second[part], "{part}");
    }
}

#[test]
fn blocksize_measures_every_operation_with_every_size() {
    let place = Place::new();
    let arguments = [
        "run",
        "blocksize",
        SMALL,
        "--json",
        "--quick",
        "--set",
        "sizes=4K,64K,1M",
        "--set",
        "time=200ms",
        "--set",
        "area=all",
    ];
    let report = place.run(&arguments).with_code(0).json();
    let throughput = table(&report, "throughput");
    assert_eq!(report["tables"][0]["name"], "throughput");
    let operations = ["seq_read", "rand_read", "seq_write_new", "seq_write_used"];
    let expected: Vec<&str> = operations.iter().flat_map(|name| [*name; 3]).collect();
    assert_eq!(column(throughput, "operation"), expected);
    assert_eq!(numbers(throughput, "request_bytes")[..3], [4096.0, 65536.0, 1048576.0]);
    let (mb_per_s, iops) = (numbers(throughput, "mb_per_s"), numbers(throughput, "iops"));
    let sizes = numbers(throughput, "request_bytes");
    for index in 0..12 {
        let expected = iops[index] * sizes[index] / 1e6;
        assert!((mb_per_s[index] / expected - 1.0).abs() < 1e-9 && iops[index] > 10.0);
    }
    assert!(codes(&report).contains(&"peaks") && codes(&report).contains(&"shortened"));
    // What the copies did is counted, too.
    assert!(report["counters"]["host_reads"].as_u64().unwrap() > 10_000);
    assert!(report["cost"]["simulated_seconds"].as_f64().unwrap() > 2.4);
    same_figures(&report, &place.run(&arguments).with_code(0).json());
}

#[test]
fn random_write_shows_minutes_and_the_first_one_second_by_second() {
    let place = Place::new();
    let small = "sim:generic-tlc,capacity.physical=2GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%";
    let arguments = [
        "run",
        "random-write",
        small,
        "--json",
        "--quick",
        "--set",
        "sizes=64K,256K",
        "--set",
        "area=all",
    ];
    let report = place.run(&arguments).with_code(0).json();
    let names = ["throughput_64k", "throughput_256k", "throughput_64k_first_minute"];
    let series = report["series"].as_array().unwrap();
    assert_eq!(series.len(), 4);
    for (one, name) in series.iter().zip(names) {
        assert_eq!(one["name"], name);
        let points = if name.ends_with("minute") { 60 } else { 3 };
        assert_eq!(one["y"].as_array().unwrap().len(), points);
        assert_eq!(one["unit_y"], "MB/s");
    }
    // A full drive of this size is written over within seconds.
    assert_eq!(codes(&report)[0], "writes-slower");
    let speed = table(&report, "speed");
    let (start, later) =
        (numbers(speed, "first_seconds_mb_per_s"), numbers(speed, "later_half_mb_per_s"));
    assert!(later[0] < 0.8 * start[0], "{start:?} {later:?}");
    same_figures(&report, &place.run(&arguments).with_code(0).json());
}

#[test]
fn settings_of_every_kind_are_checked_before_anything_runs() {
    let place = Place::new();
    let run = |experiment: &str, set: &str| {
        place.run(&["run", experiment, SMALL, "--no-store", "--set", set])
    };
    run("blocksize", "sizes=64K,4K").fails(2, &["sizes", "rising"]);
    run("blocksize", "sizes=1000").fails(2, &["sizes", "multiple of 512"]);
    run("blocksize", "used=-1").fails(2, &["used", "from 0 to less than a million"]);
    run("blocksize", "time=0s").fails(2, &["time is 0s", "more than 0"]);
    run("blocksize", "area=some").fails(2, &["area", "'all' of the drive"]);
    run("blocksize", "area=1M").fails(2, &["area is 1M", "at least"]);
    run("blocksize", "time=29d").fails(2, &["time is 29d", "at most 25 days"]);
    run("barrier", "sizes=16T").fails(2, &["sizes is 16T", "fit into the area"]);
    run("barrier", "host=999999h").fails(2, &["host is 999999h", "at most 10 s"]);
    run("discard", "remove=999999h").fails(2, &["remove is 999999h", "at most 10 s"]);
    run("discard", "unpack=11s").fails(2, &["unpack is 11s", "at most 10 s"]);
    run("random-write", "area=2T").fails(4, &["holds", "are needed"]);
}

#[test]
fn a_directory_needs_the_size_of_its_file() {
    let place = Place::new();
    let directory = place.directory("data");
    let run = ["run", "random-write", &directory, "--no-store", "--allow-buffered"];
    place.run(&run).fails(2, &["area is all", "--set area=8G"]);
    assert!(crate::support::names_in(&directory).is_empty());
}

#[test]
fn a_workload_can_be_measured_once_for_a_given_time() {
    let place = Place::new();
    let run = ["run", "steady", SMALL, "--json", "--set", "fill=0", "--set", "area=64M"];
    let mixed = [&run[..], &["--set", "time=500ms", "--set", "read_percent=50"]].concat();
    let report = place.run(&mixed).with_code(0).json();
    assert_eq!(codes(&report)[0], "not-judged", "{}", report["findings"]);
    let measured = table(&report, "measured");
    assert_eq!(column(measured, "operation"), ["read", "write"]);
    let requests: f64 = numbers(measured, "iops").iter().sum::<f64>() * 0.5;
    let counted = report["cost"]["requests"].as_f64().unwrap();
    assert!((requests / counted - 1.0).abs() < 0.01, "{requests} and {counted}");
    let seconds = report["cost"]["simulated_seconds"].as_f64().unwrap();
    assert!((0.5..0.6).contains(&seconds), "{seconds}");
}

#[test]
fn steady_state_is_reached_or_it_is_said_how_much_is_missing() {
    let place = Place::new();
    let run = |limit: &str, round: &str| {
        let (limit, round) = (format!("limit={limit}"), format!("round={round}"));
        let set = ["--set", "area=all", "--set", &limit, "--set", &round];
        let run = ["run", "steady", SMALL, "--json", "--quick"];
        place.run(&[&run[..], &set].concat()).with_code(0).json()
    };
    let report = run("10m", "5s");
    assert_eq!(codes(&report)[0], "steady", "{}", report["findings"]);
    let steady = table(&report, "steady");
    assert_eq!(column(steady, "reached")[0], true);
    let minutes = numbers(steady, "after_minutes");
    // Five rounds see less than the growing window does.
    assert!(minutes[1] < minutes[0], "{minutes:?}");
    let mean = column(steady, "mb_per_s")[0].as_f64().unwrap();
    let curve = report["series"][0]["y"].as_array().unwrap();
    let later: Vec<f64> =
        curve[curve.len() / 2..].iter().map(|point| point.as_f64().unwrap()).collect();
    let expected = later.iter().sum::<f64>() / later.len() as f64;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean}, not {expected}");
    assert!(column(steady, "write_amplification")[0].as_f64().unwrap() > 1.0);

    let short = run("20s", "2s");
    assert_eq!(codes(&short)[0], "not-reached");
    let text = short["findings"][0]["text"].as_str().unwrap();
    assert!(text.contains(" more and") && text.contains("GB of writes"), "{text}");
    assert!(column(table(&short, "steady"), "mb_per_s")[0].is_null());
    same_figures(&short, &run("20s", "2s"));
}

#[test]
fn figures_of_ones_own_are_held_against_a_profile() {
    let place = Place::new();
    let figures = "target = \"sim:toshiba-xg5\"\n[[run]]\nexperiment = \"fragmentation\"\n\
                   set = [\"file_size=64M\"]\n[[run.figure]]\nname = \"as filled\"\ntable = \"reads\"\n\
                   row = { step = \"fill\" }\ncolumn = \"slowdown\"\npublished = 0.8\nunit = \"x\"\n\
                   use = \"held out\"\nsource = \"a test\"\n";
    std::fs::write(place.path("mine.toml"), figures).unwrap();
    let file = place.path("mine.toml").display().to_string();
    let report = place.run(&["truth", "--file", &file, "--json"]).with_code(0).json();
    assert_eq!(numbers(table(&report, "figures"), "error_percent"), [25.0]);
    assert_eq!(codes(&report), ["truth", "far-off"]);
    std::fs::write(place.path("mine.toml"), figures.replace("\"reads\"", "\"read\"")).unwrap();
    place.run(&["truth", "--file", &file]).fails(2, &["mine.toml", "no table 'read'", "reads"]);
    place.run(&["truth", "samsung-pm982"]).fails(2, &["samsung-pm982", "samsung-pm983"]);
}

#[test]
fn reads_take_longer_beside_a_load_of_writes_until_the_drive_is_overrun() {
    let place = Place::new();
    let set =
        ["area=256M", "rates=5000,20000,1000000", "time=1s"].map(|set| ["--set", set]).concat();
    let run = |set: &[&str]| {
        place.run(&[&["run", "load-latency", SMALL, "--json", "--quick"], set].concat())
    };
    let report = run(&set).with_code(0).json();
    let rows = table(&report, "beside_a_load");
    let (asked, written) =
        (numbers(rows, "writes_per_second_asked"), numbers(rows, "writes_per_second"));
    assert_eq!(asked, [5_000.0, 20_000.0, 1_000_000.0]);
    // Of 5,000 arrivals at random moments, five deviations.
    assert!((written[0] - 5_000.0).abs() < 360.0, "{written:?}");
    assert!(written[2] < 500_000.0, "{written:?}");
    let p99 = numbers(rows, "read_p99_us");
    assert!(p99[0] < p99[1] && p99[1] < p99[2], "{p99:?}");
    assert_eq!(codes(&report)[..2], ["beside-a-load", "load-not-written"]);
    run(&["--set", "rates=5000,5000"]).fails(2, &["rates", "writes per second in rising order"]);
    // The measured stream alone makes 5,000 writes a second.
    let set = ["area=256M", "rates=1000", "time=1s"].map(|set| ["--set", set]).concat();
    let report = run(&set).with_code(0).json();
    assert_eq!(codes(&report)[..2], ["beside-a-load", "probes-write-more"]);
    let findings = report["findings"].as_array().unwrap();
    let said: Vec<&str> = findings.iter().map(|it| it["text"].as_str().unwrap()).collect();
    assert!(!said[0].contains("load of 1000 writes/s"), "{said:?}");
    assert!(said[1].starts_with("The load exceeded 1000 writes/s"), "{said:?}");
}

#[test]
fn settings_that_make_no_measurement_are_refused_by_name() {
    let place = Place::new();
    for (experiment, set, code, words) in [
        ("write-cliff", "block=0", 2, "it must be more than 0"),
        ("write-cliff", "interval=1ns", 2, "at least 1 ms"),
        ("overprovision", "time=1ns", 2, "at least 10 ms"),
        ("overprovision", "free=0", 2, "from 1 to 99"),
        ("overprovision", "spare=0", 2, "more than 0"),
        ("overprovision", "states=full,new", 2, "all, or names of full, trimmed"),
        ("trim-check", "wait=500y", 2, "at most 1 day"),
        ("steady", "block=4097", 4, "blocks of 4097 bytes"),
    ] {
        let run = place.run(&["run", experiment, SMALL, "--quick", "--set", set]);
        run.fails(code, &[words]);
    }
}

#[test]
fn latency_rises_with_the_load_and_counts_from_the_arrival() {
    let place = Place::new();
    let arguments = [
        "run",
        "latency",
        SMALL,
        "--json",
        "--quick",
        "--set",
        "read_percent=100",
        "--set",
        "area=256M",
    ];
    let report = place.run(&arguments).with_code(0).json();
    let response = table(&report, "response");
    let mean = numbers(response, "mean_us");
    assert_eq!(mean.len(), 4);
    assert!(mean[1] < mean[2] && mean[2] < mean[3], "{mean:?}");
    let rate = numbers(response, "requests_per_second");
    assert!((rate[1] / rate[0] - 0.5).abs() < 1e-9);
    // Nothing arrives at the peak, so there is nothing to keep up with.
    let kept_up = column(response, "kept_up");
    assert!(kept_up[0].is_null() && kept_up[1..].iter().all(serde_json::Value::is_boolean));
    assert_eq!(codes(&report)[0], "response");
    same_figures(&report, &place.run(&arguments).with_code(0).json());
}

#[test]
fn a_barrier_costs_and_a_swallowed_one_is_not_believed() {
    let place = Place::new();
    let run = |target: &str| {
        let set = ["area=64M", "operations=256", "sizes=4K,64K,256K", "inserts=20"];
        let set = set.map(|set| ["--set", set]).concat();
        let run = ["run", "barrier", target, "--json", "--quick"];
        place.run(&[&run[..], &set].concat()).with_code(0).json()
    };
    let report = run(SMALL);
    let flush = table(&report, "flush");
    let patterns = column(flush, "pattern");
    assert_eq!(patterns.len(), 15);
    let of = |name: &str| {
        let row = patterns.iter().position(|pattern| pattern == name).unwrap();
        numbers(flush, "ops_per_second")[row]
    };
    assert!(of("write") > 3.0 * of("write_flush"), "{flush}");
    assert!(of("64_writes_flush") > of("8_writes_flush"));
    assert!(of("8_writes_flush") > 2.0 * of("write_flush"));
    let first = ["believable", "sqlite-barriers", "sqlite-wal", "durability-cost"];
    assert_eq!(codes(&report)[..4], first);
    let sqlite = table(&report, "sqlite");
    assert_eq!(column(sqlite, "journal_mode").len(), 12);
    assert_eq!(column(sqlite, "barrier")[..2], [true, false]);
    assert!((numbers(sqlite, "flushes_per_insert")[0] / 4.0 - 1.0).abs() < 0.1, "{sqlite}");
    same_figures(&report, &run(SMALL));
    let swallowed = run(&format!("usb({SMALL}),flush=swallow"));
    assert_eq!(codes(&swallowed)[0], "not-believable");
    // 256 commits are enough for the 90th percentile, not for the 99th.
    let at = |percent: &str| column(flush, &format!("commit_{percent}_us"))[0].clone();
    assert!(at("p90").is_number() && at("p99").is_null());
    // Each latency says what it is of, and a commit takes longer than the flush in it.
    let alone = table(&report, "flush_alone");
    let flushed = ["write_flush", "8_writes_flush", "64_writes_flush"].map(|name| [name; 3]);
    assert_eq!(column(alone, "pattern"), flushed.concat());
    let row = patterns.iter().position(|pattern| pattern == "write_flush").unwrap();
    let commit = numbers(flush, "commit_mean_us")[row];
    let of_it = numbers(alone, "flush_mean_us")[0];
    assert!(0.0 < of_it && of_it < commit, "{of_it} in {commit}");
}

#[test]
fn overprovision_leaves_out_states_that_a_drive_cannot_be_brought_into() {
    let place = Place::new();
    let states = |target: &str, how: &[&str]| {
        let set = ["--set", "time=100ms", "--set", "limit=300ms"];
        let run = ["run", "overprovision", target, "--quick", "--json"];
        let report = place.run(&[&run[..], &set, how].concat()).with_code(0).json();
        let mut states: Vec<String> = column(table(&report, "states"), "state")
            .iter()
            .map(|state| state.as_str().unwrap().to_owned())
            .collect();
        states.dedup();
        (states, codes(&report).iter().map(|code| code.to_string()).collect::<Vec<_>>())
    };
    let (behind_usb, said) = states(&format!("usb({SMALL})"), &[]);
    assert!(!behind_usb.contains(&"trimmed".to_owned()), "{behind_usb:?}");
    assert!(said.contains(&"no-trim".to_owned()), "{said:?}");
    let (ignored, said) = states(&format!("{SMALL},trim=off"), &[]);
    assert_eq!(ignored, ["full", "raid1_full", "raid1_spare", "raid1_spare_used"]);
    assert!(said.contains(&"no-trim".to_owned()), "{said:?}");
    let (discarded, said) = states(SMALL, &["--purge", "discard"]);
    assert_eq!(discarded, ["full", "trimmed"]);
    assert!(said.contains(&"no-pairs".to_owned()), "{said:?}");
    let (asked, said) = states(SMALL, &["--purge", "discard", "--set", "states=trimmed,full"]);
    assert_eq!(asked, ["full", "trimmed"]);
    assert!(!said.contains(&"no-pairs".to_owned()), "{said:?}");
    let run = ["run", "overprovision", SMALL, "--quick", "--purge", "discard"];
    let done = place.run(&[&run[..], &["--set", "states=raid1_full"]].concat()).with_code(2);
    assert!(done.stderr.contains("cannot be brought into any of them"), "{}", done.stderr);
    assert_eq!(done.stdout, "", "nothing was measured");
    let unused = ["--set", "used=0", "--set", "states=raid1_spare_used"];
    let done = place.run(&[&["run", "overprovision", SMALL][..], &unused].concat()).with_code(2);
    assert!(done.stderr.contains("name raid1_spare"), "{}", done.stderr);
}

#[test]
fn overprovision_measures_four_operations_in_five_states() {
    let place = Place::new();
    let arguments = [
        "run",
        "overprovision",
        SMALL,
        "--json",
        "--quick",
        "--set",
        "spare=40",
        "--set",
        "time=9s",
        "--set",
        "limit=120s",
    ];
    let report = place.run(&arguments).with_code(0).json();
    let states = table(&report, "states");
    let names = ["full", "trimmed", "raid1_full", "raid1_spare", "raid1_spare_used"];
    let expected: Vec<&str> = names.iter().flat_map(|name| [*name; 4]).collect();
    assert_eq!(column(states, "state"), expected);
    assert_eq!(column(states, "operation")[..2], ["seq_read", "rand_read"]);
    let random_write = |name: &str, figure: &str| {
        let place = names.iter().position(|state| *state == name).unwrap() * 4 + 3;
        column(states, figure)[place].as_f64().unwrap()
    };
    assert!((random_write("full", "spare_percent") - 20.0).abs() < 1.0);
    assert!((random_write("raid1_spare", "spare_percent") - 40.0).abs() < 0.1);
    assert!(random_write("trimmed", "iops") > random_write("full", "iops"));
    assert!(random_write("raid1_spare_used", "iops") > random_write("raid1_full", "iops"));
    assert!(random_write("raid1_spare", "iops") > random_write("raid1_spare_used", "iops"));
    let amplification = random_write("full", "write_amplification");
    assert!(amplification > random_write("trimmed", "write_amplification"), "{states}");
    let texts = report["findings"].to_string();
    assert!(texts.contains("State before each test") && texts.contains("sync=none"), "{texts}");
    assert_eq!(report["series"].as_array().unwrap().len(), names.len());
    same_figures(&report, &place.run(&arguments).with_code(0).json());
}

#[test]
fn overprovision_gives_no_mean_of_a_speed_that_moves() {
    let place = Place::new();
    // So few random reads are timed that their speed is not the same at the beginning and at the end.
    let short = ["--set", "spare=40", "--set", "time=2s", "--set", "limit=20s"];
    let run = ["run", "overprovision", SMALL, "--json", "--quick"];
    let report = place.run(&[&run[..], &short].concat()).with_code(0).json();
    let states = table(&report, "states");
    let (is_steady, iops) = (column(states, "steady"), column(states, "iops"));
    let moving = iops.iter().position(serde_json::Value::is_null).expect("a row that moves");
    let steady = is_steady.iter().position(|it| *it == true).expect("a row that is steady");
    assert_eq!(is_steady[moving], false);
    for figure in ["iops", "mb_per_s", "latency_mean_us", "latency_stddev_us"] {
        assert!(column(states, figure)[moving].is_null(), "{figure}");
        assert!(column(states, figure)[steady].is_number(), "{figure} of what is steady");
    }
    let findings = report["findings"].to_string();
    assert!(findings.contains("No mean is given, since the speed still changes"), "{findings}");
}

#[test]
fn as_many_requests_are_in_flight_as_were_asked_for() {
    let place = Place::new();
    let report =
        place.run(&["run", "overprovision", SMALL, "--json", "--quick"]).with_code(0).json();
    let states = table(&report, "states");
    // By Little's law; what a round loses at its ends is less than 2 %. A row that moves has no mean.
    let means = column(states, "iops").into_iter().zip(column(states, "latency_mean_us"));
    let mut seen = 0;
    for (index, (iops, latency)) in means.enumerate() {
        let (Some(iops), Some(latency)) = (iops.as_f64(), latency.as_f64()) else { continue };
        let in_flight = iops * latency / 1e6;
        assert!((32.0 * 0.98..32.001).contains(&in_flight), "row {index}: {in_flight:.2}");
        seen += 1;
    }
    assert!(seen > 2, "{states}");
}

#[test]
fn a_drive_is_called_new_only_where_it_was_measured_as_such() {
    let place = Place::new();
    let small = "sim:generic-tlc,capacity.physical=1GiB,flash.dies=2,flash.channels=2,flash.pages_per_block=96,spare=20%";
    let is_called_new = |experiment: &str, set: &[&str]| {
        let run = ["run", experiment, small, "--json", "--quick"];
        let set = set.iter().flat_map(|set| ["--set", set]);
        let run: Vec<&str> = run.into_iter().chain(set).collect();
        let caveats = place.run(&run).with_code(0).json()["target"]["caveats"].to_string();
        caveats.contains("the drive began new and empty")
    };
    let short = ["time=4s", "limit=4s", "area=100GB"];
    let with = |set| [&short[..], &[set]].concat();
    assert!(!is_called_new("overprovision", &with("states=all")));
    assert!(is_called_new("overprovision", &with("used=0")));
    let filled = |times| ["area=all", times, "limit=10s", "round=1s"];
    assert!(!is_called_new("steady", &filled("fill=2")));
    assert!(is_called_new("steady", &filled("fill=1")));
    assert!(is_called_new("random-write", &["sizes=256K", "area=all"]));
}

#[test]
fn a_short_protocol_takes_all_of_a_drive_that_is_smaller_than_its_area() {
    let place = Place::new();
    let tiny = "sim:generic-tlc,scale=1/256";
    for experiment in ["blocksize", "steady"] {
        let done = place.run(&["run", experiment, tiny, "--quick", "--json", "--no-store"]);
        let report = done.with_code(0).json();
        let parameters = report["parameters"].as_array().unwrap();
        let area = parameters.iter().find(|one| one["name"] == "area").unwrap();
        assert_eq!(area["value"], "all", "{experiment}");
    }
    // What was asked for is not made less in silence.
    let asked = place.run(&["run", "steady", tiny, "--quick", "--set", "area=2G", "--no-store"]);
    asked.fails(4, &["2 GiB are needed"]);
}
