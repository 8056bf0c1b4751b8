//! Profiles: listing them, changing them, and the mistakes in one's own.

use crate::support::{Done, Place};

fn quick(place: &Place, target: &str) -> Done {
    place.run(&["run", "fragmentation", target, "--quick"])
}

/// A profile that works, to spoil.
fn profile(place: &Place) -> String {
    place.run(&["list", "profiles", "toshiba-xg5", "--toml"]).with_code(0).stdout
}

fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|line| line.starts_with(key)).unwrap() + 1
}

#[test]
fn unknown_profiles_and_keys_are_named_with_what_there_is() {
    let place = Place::new();
    quick(&place, "sim:toshiba").fails(2, &["'toshiba'", "toshiba-xg5"]);
    quick(&place, "toshiba-xg5").fails(2, &["write sim:toshiba-xg5"]);
    quick(&place, "sim:toshiba-xg5,page_read=60us")
        .fails(2, &["did you mean flash.page_read or slc.page_read?"]);
    quick(&place, "sim:toshiba-xg5,colour=red").fails(2, &["'colour'", "--keys"]);
    quick(&place, "sim:toshiba-xg5,spare").fails(2, &["not key=value"]);
    quick(&place, "sim:missing.toml").fails(2, &["missing.toml", "No such file"]);
}

#[test]
fn a_drive_without_spare_area_is_refused() {
    let place = Place::new();
    for spare in ["0%", "-5%", "100%"] {
        let target = format!("sim:toshiba-xg5,spare={spare}");
        quick(&place, &target).fails(2, &["spare", "above 0%"]);
    }
    quick(&place, "sim:toshiba-xg5,spare=much").fails(2, &["spare", "'much'"]);
}

#[test]
fn a_profile_of_ones_own_runs_and_is_the_same_drive() {
    let place = Place::new();
    place.file("my.toml", profile(&place));
    let run = |target| place.run(&["run", "fragmentation", target, "--quick", "--json"]);
    let own = run("sim:./my.toml").with_code(0).json();
    let embedded = run("sim:toshiba-xg5").with_code(0).json();
    assert_eq!(own["target"]["name"], "sim:./my.toml");
    assert_eq!(own["tables"], embedded["tables"]);
}

#[test]
fn a_profile_that_is_there_is_not_written_over() {
    let place = Place::new();
    let sheet = ["profile", "new", "A drive", "--capacity", "960GB", "--sequential-read", "6500"];
    let rates = ["--sequential-write", "1500", "--random-read", "580k", "-o", "some.toml"];
    let new = || place.run(&[sheet.as_slice(), rates.as_slice()].concat());
    new().with_code(0);
    let made = std::fs::read(place.path("some.toml")).expect("it was made");
    new().fails(2, &["some.toml exists and is not replaced", "name another file"]);
    assert_eq!(std::fs::read(place.path("some.toml")).expect("it is there"), made);
}

#[test]
fn endurance_and_memory_of_a_data_sheet_go_into_the_profile() {
    let place = Place::new();
    let sheet = ["profile", "new", "A drive", "--capacity", "500GB", "--sequential-read", "550"];
    let rates = ["--sequential-write", "100", "--random-read", "90k"];
    let new = |more: &[&str]| place.run(&[sheet.as_slice(), &rates, more].concat());
    let made = |more: &[&str]| new(more).with_code(0).stdout;
    let plain = made(&["--dram", "1G"]);
    assert!(!plain.contains("[mapping]") && !plain.contains("pe_cycles"), "{plain}");
    let worn = made(&["--dwpd", "0.3", "--warranty", "3"]);
    assert_eq!(worn, made(&["--tbw", "164250GB"]));
    assert!(worn.contains("pe_cycles = { value = "), "{worn}");
    let host = made(&["--dram", "0"]);
    assert!(host.contains("cache = { value = \"64 MiB\"") && host.contains("cache_read"), "{host}");
    let none = made(&["--dram", "0", "--interface", "sata"]);
    assert!(none.contains("cache = { value = \"1 MiB\"") && !none.contains("cache_read"), "{none}");

    new(&["--dwpd", "1", "--tbw", "600TB"]).fails(2, &["--dwpd", "cannot be used with"]);
    new(&["--dwpd", "nan"]).fails(2, &["--dwpd NaN is not within 0.01 to 100"]);
    new(&["--dram", "1G", "--host-memory", "64M"]).fails(2, &["--dram 0"]);
    new(&["--dram", "0", "--host-memory", "64M", "--interface", "sata"]).fails(2, &["NVMe"]);
    let nameless = [&["profile", "new", " "], &sheet[3..], &rates].concat();
    place.run(&nameless).fails(2, &["needs a name"]);
    new(&["-o", "missing/some.toml"]).fails(2, &["cannot make the file missing/some.toml"]);
}

#[test]
fn mistakes_in_a_profile_are_named_with_file_and_line() {
    let place = Place::new();
    let good = profile(&place);
    let line = line_of(&good, "page_read");
    let page_read = good.lines().nth(line - 1).unwrap();

    place.file("missing.toml", good.replace(page_read, ""));
    quick(&place, "sim:missing.toml").fails(2, &["missing.toml", "page_read", "line"]);

    place.file("twice.toml", good.replace(page_read, &format!("{page_read}\n{page_read}")));
    let twice = format!("line {}", line + 1);
    quick(&place, "sim:twice.toml").fails(2, &["twice.toml", "duplicate", &twice]);

    place.file("absurd.toml", good.replace(page_read, &value_changed(page_read, "2h")));
    let absurd = format!("absurd.toml, line {line}");
    quick(&place, "sim:absurd.toml").fails(2, &[&absurd, "flash.page_read", "not within"]);

    let spoilt = |name: &str, from: &str, to: &str, words: &[&str]| {
        place.file(name, good.replace(page_read, &page_read.replace(from, to)));
        quick(&place, &format!("sim:{name}")).fails(2, words);
    };
    let source = page_read.split("source = ").nth(1).unwrap().trim_end_matches(" }");
    let at = |name: &str| format!("{name}, line {line}");
    spoilt("empty.toml", source, "\"  \"", &[&at("empty.toml"), "source says too little"]);
    spoilt("short.toml", source, "\"me!\"", &[&at("short.toml"), "flash.page_read"]);
    let words = [&at("given.toml"), "flash.page_read", "command line"];
    spoilt("given.toml", "basis = \"fitted\"", "basis = \"given\"", &words);

    let unknown = format!("{page_read}\npage_raed = {{ value = 1 }}");
    place.file("unknown.toml", good.replace(page_read, &unknown));
    quick(&place, "sim:unknown.toml").fails(2, &["unknown.toml", "page_raed", &twice]);
}

#[test]
fn a_read_ahead_that_could_read_nothing_ahead_is_refused() {
    let place = Place::new();
    for window in ["512", "64KiB", "128KiB"] {
        let target = format!("sim:toshiba-xg5,read_ahead.window={window}");
        quick(&place, &target).fails(2, &["toshiba-xg5", "read_ahead.window", "nothing would be"]);
    }
    quick(&place, "sim:toshiba-xg5,read_ahead.window=0").with_code(0);
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    let place = Place::new();
    quick(&place, "sim:toshiba-xg5,spare=7%,spare=28%").fails(2, &["spare is set more than once"]);
    let both = "sim:toshiba-xg5,capacity.logical=400GB,spare=7%";
    quick(&place, both).fails(2, &["capacity.logical and spare contradict"]);
    let twice = ["run", "fragmentation", "--set", "reads=1", "--set", "reads=2"];
    place.run(&twice).fails(2, &["reads is set more than once"]);
}

#[test]
fn a_drive_of_larger_units_programs_more_than_the_host_writes() {
    let place = Place::new();
    let amplification = |target: &str| {
        let arguments = ["run", "fragmentation", "--quick", "--json", target];
        let report = place.run(&arguments).with_code(0).json();
        let bytes = |name: &str| report["counters"][name].as_f64().unwrap();
        bytes("flash_written_bytes") / bytes("host_written_bytes")
    };
    let units_of_4k = amplification("sim:toshiba-xg5");
    let units_of_16k = amplification("sim:toshiba-xg5,controller.unit_size=16K");
    assert!(units_of_16k > 1.5 * units_of_4k, "{units_of_16k}, {units_of_4k}");
}

/// The line of a profile with another value in its first quotes.
fn value_changed(line: &str, value: &str) -> String {
    let mut parts: Vec<&str> = line.split('"').collect();
    parts[1] = value;
    parts.join("\"")
}

#[test]
fn lists_say_what_there_is_and_where_numbers_come_from() {
    let place = Place::new();
    let list = |arguments: &[&str]| place.run(&[&["list"], arguments].concat()).with_code(0);
    let profiles = list(&["profiles", "--json"]).json();
    let profiles = profiles.as_array().unwrap();
    assert_eq!(profiles.iter().filter(|profile| profile["default"] == true).count(), 1);
    let text = list(&["profiles"]).stdout;
    for profile in profiles {
        assert!(text.contains(profile["name"].as_str().unwrap()));
        let counts = ["published", "fitted", "assumed"].map(|key| profile[key].as_u64().unwrap());
        assert!(counts.iter().sum::<u64>() > 20, "{counts:?}");
    }

    let parameters = list(&["profiles", "toshiba-xg5", "--json"]).json();
    let parameters = parameters.as_array().unwrap();
    let page_read = parameters.iter().find(|one| one["key"] == "flash.page_read").unwrap();
    assert!(page_read["source"].as_str().unwrap().len() > 8);
    assert!(list(&["profiles", "--keys"]).stdout.contains("flash.page_read"));
    // What it does not set can be found, too.
    for key in ssdlab_model::profile::parameter_keys() {
        assert!(list(&["profiles", "--keys"]).stdout.contains(key), "{key}");
    }
    assert!(!list(&["profiles", "toshiba-xg5"]).stdout.contains("slc.size"));
    assert!(list(&["profiles", "toshiba-xg5", "--keys"]).stdout.contains("slc.size"));
    place.run(&["list", "profiles", "nosuch"]).fails(2, &["'nosuch'"]);

    let experiments = list(&["experiments", "--json"]).json();
    assert_eq!(experiments[0]["name"], "fragmentation");
    let file_size = &experiments[0]["parameters"][0];
    assert_eq!((&file_size["name"], &file_size["full"]), (&"file_size".into(), &"4G".into()));
    for arguments in [&["experiments", "fragmentation"], &["experiments", "--keys"]] {
        let text = list(arguments).stdout;
        assert!(text.contains("file_size") && text.contains("256M"), "{text}");
    }
    place.run(&["list", "experiments", "nosuch"]).fails(2, &["'nosuch'"]);
}
