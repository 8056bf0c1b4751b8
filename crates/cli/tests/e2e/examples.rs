//! The commands that documents and help texts show are run, made quick, on files of a test's own. That
//! each of them is one that the program takes is tested beside its definitions.

use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::documents::{documents, in_markdown};
use crate::extract::{Example, in_help};
use crate::interchange::{JOBS, RESULT, trace};
use crate::support::{Done, Place};

/// Commands that are not run here, by how they begin, and why.
const NOT_RUN: [(&str, &str); 18] = [
    ("ssdlab attach disk.ssd", "stays; run by the tests of attached drives"),
    ("ssdlab detach", "needs an attached drive; run by the tests of attached drives"),
    ("ssdlab status", "needs an attached drive; run by the tests of attached drives"),
    ("ssdlab power-cut /dev/loop0", "needs an attached drive; run by the tests of attached drives"),
    ("ssdlab serve", "stays; run by the tests of the page"),
    ("ssdlab refresh", "rewrites a file or device; run by the tests of refresh"),
    ("ssdlab run steady /dev/sdx", "destroys a whole drive; the gate has tests of its own"),
    ("ssdlab doctor --fix automatic-trim", "changes the machine; fixes have tests of their own"),
    ("ssdlab doctor --undo", "changes the machine; fixes have tests of their own"),
    ("ssdlab doctor /home --proof", "needs root and writes to /home; run by the tests of doctor"),
    ("ssdlab layers /dev/md0", "needs a RAID; run in a guest by the tests of layers"),
    ("ssdlab advise /var/lib/postgresql", "asks for a directory that is seldom there"),
    ("ssdlab doctor /home", "asks for a directory that may not be there"),
    ("ssdlab layers /home", "asks for a directory that may not be there"),
    ("ssdlab run overprovision", "takes minutes in short, too; has tests of its own"),
    ("ssdlab run trim-check /mnt/ssd", "needs root and ext4; run by the tests of trim-check"),
    (
        "ssdlab run latency D:\\scratch",
        "names a directory of Windows; .ci/windows runs the like of it",
    ),
    ("ssdlab import ssdlab-fragmentation/*.json", "reads what a script of fio's has made"),
];

/// What is replaced to make a command quick, or one that can be run here.
const REPLACED: [(&str, &str); 35] = [
    (" [TARGET]", " sim:,scale=1/64 --quick"),
    ("export EXPERIMENT TARGET [--format sh|powershell|fio]", "export fragmentation new.dat"),
    ("FILE.fio", "mix.fio"),
    (" TRACE ", " hm_1.csv "),
    ("run job mix.fio sim:toshiba-xg5", "run job mix.fio sim:toshiba-xg5,scale=1/64"),
    ("run replay hm_1.csv sim:toshiba-xg5", "run replay hm_1.csv sim:toshiba-xg5,scale=1/64"),
    ("run fragmentation", "run fragmentation --quick"),
    ("sim:samsung-pm983 --quick", "sim:samsung-pm983,scale=1/128 --quick"),
    ("truth samsung-pm983", "truth samsung-970-evo-500"),
    ("run barrier /mnt/ssd --quick", "run barrier ssd --quick --allow-buffered --set area=16M"),
    ("run job mix.fio /mnt/ssd", "run job mix.fio ssd --allow-buffered"),
    ("--quick /mnt/ssd", "--quick ssd --allow-buffered --set file_size=16M --set rest=0s"),
    ("--set file_size=16M --set rest=0s --quick", "--set file_size=16M --set rest=0s"),
    ("--set rest=0s --set file_size=1G --set rest=0s", "--set rest=0s"),
    ("--set rest=0s --set file_size=1G --set rest=1s", "--set rest=0s"),
    ("precondition sim:toshiba-xg5,spare=28%", "precondition sim:toshiba-xg5,spare=28%,scale=1/64"),
    ("precondition sim:toshiba-xg5 ", "precondition sim:toshiba-xg5,scale=1/64 "),
    ("precondition --s", "precondition sim:,scale=1/64 --s"),
    (
        "sweep fragmentation sim: sim:toshiba-xg5 --quick",
        "sweep fragmentation sim:,scale=1/64 --quick",
    ),
    ("sweep steady --quick", "sweep steady sim:,scale=1/64 --quick"),
    ("steady sim:,scale=1/64", "steady sim:,scale=1/256"),
    ("random-write sim:,scale=1/64 --quick", "random-write sim:,scale=1/256 --quick --set time=1m"),
    (
        "random-write sim:samsung-pm983,scale=1/128 --quick",
        "random-write sim:samsung-pm983,scale=1/128 --quick --set time=1m",
    ),
    ("latency sim:./cheap.toml", "latency sim:./cheap.toml,scale=1/64"),
    ("% --seeds 2", "% --seeds 1"),
    ("% --seeds 3", "% --seeds 1"),
    ("fifo --seeds 2", "fifo --seeds 1"),
    ("load-latency sim:,scale=1/64", "load-latency sim:,scale=1/256"),
    ("discard sim:,scale=1/64", "discard sim:,scale=1/256"),
    ("advise sim:,", "advise sim:,scale=1/256,"),
    ("advise sim:toshiba-xg5", "advise sim:toshiba-xg5,scale=1/256"),
    ("advise sim:micron-5200", "advise sim:micron-5200,scale=1/256"),
    ("--histories 100", "--histories 5"),
    ("/var/lib/node_exporter/", "./"),
    ("--from machine.tar.gz /home", "--from machine.tar.gz"),
];

/// Files that examples read, by name; made once, and put where an example names them without making
/// them itself.
const FIXTURES: [&str; 11] = [
    "aged.ssd",
    "disk.ssd",
    "my.toml",
    "mix.fio",
    "database.fio",
    "hm_1.csv",
    "fio.json",
    "short.txt",
    "before.json",
    "after.json",
    "machine.tar.gz",
];

/// Options and commands behind which a file is named that they make.
const MAKES: [&str; 5] = ["-o ", "--output ", "--capture ", "> ", "create "];

fn examples(place: &Place) -> Vec<Example> {
    let mut found = Vec::new();
    helps(place, "ssdlab", &mut found);
    for (name, text) in documents() {
        found.extend(in_markdown(&text, &name));
    }
    let mut seen = Vec::new();
    found.retain(|it| {
        !seen.contains(&it.line) && {
            seen.push(it.line.clone());
            true
        }
    });
    found
}

/// The examples of a command's help and of those within it.
fn helps(place: &Place, command: &str, found: &mut Vec<Example>) {
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
    let help = place.run(&words).with_code(0).stdout;
    found.extend(in_help(&help, command));
    let (before, _) = help.split_once("\nOptions:").unwrap();
    let names = before.lines().filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        let name = line.split_whitespace().next()?;
        (line.starts_with(|c: char| c.is_ascii_lowercase()) && name != "help").then_some(name)
    });
    for name in names {
        helps(place, &format!("{command} {name}"), found);
    }
}

/// Returns a command after the first `count` replacements.
fn replaced(line: &str, count: usize) -> String {
    let replace = |line: String, (long, short): &(&str, &str)| line.replace(long, short);
    REPLACED[..count].iter().fold(line.to_owned(), replace)
}

fn quick(line: &str) -> String {
    let line = replaced(line, REPLACED.len());
    match line.match_indices(" --quick").nth(1) {
        Some((at, word)) => line[..at].to_owned() + &line[at + word.len()..],
        None => line,
    }
}

/// A place with every fixture in it, and twelve runs in its store.
fn furnished() -> Place {
    let place = Place::new();
    let run = |arguments: &[&str]| place.run(arguments).with_code(0);
    run(&["precondition", "sim:toshiba-xg5,scale=1/64", "-o", "aged.ssd"]);
    run(&["create", "sim:toshiba-xg5,scale=1/64", "disk.ssd"]);
    place.file("my.toml", run(&["list", "profiles", "toshiba-xg5", "--toml"]).stdout);
    place.file("mix.fio", JOBS);
    place.file("database.fio", "[writes]\nrw=randwrite\nbs=8k\niodepth=8\nsize=64m\n");
    place.file("hm_1.csv", trace());
    place.file("fio.json", RESULT);
    place.file("short.txt", "write unit 3\nflush\nwrite unit 3\n");
    for _ in 0..12 {
        let report = run(&["run", "fragmentation", "--quick", "--json"]).stdout;
        place.file("before.json", &report);
        place.file("after.json", &report);
    }
    run(&["doctor", "--capture", "machine.tar.gz"]);
    for directory in
        ["ssd", ".zfunc", ".config/fish/completions", ".local/share/bash-completion/completions"]
    {
        place.directory(directory);
    }
    place
}

/// Takes away what an example makes itself, so that it is not there already.
fn clear(place: &Place, line: &str) {
    if let Some((_, path)) = line.split_once(" -o ")
        && !FIXTURES.contains(&path)
    {
        let _ = std::fs::remove_file(place.path(path));
    }
    for fixture in FIXTURES {
        let is_made = MAKES.iter().any(|make| line.contains(&format!("{make}{fixture}")))
            || line.starts_with("ssdlab create ") && line.ends_with(fixture);
        if is_made {
            let _ = std::fs::rename(place.path(fixture), place.path("aside"));
        }
    }
}

fn put_back(place: &Place, line: &str) {
    for fixture in FIXTURES {
        if line.contains(fixture) && place.path("aside").exists() {
            std::fs::rename(place.path("aside"), place.path(fixture)).unwrap();
        }
    }
}

pub fn run_by_shell(place: &Place, line: &str) -> Done {
    let program = Path::new(assert_cmd::cargo::cargo_bin!("ssdlab")).to_owned();
    let mut path = program.parent().unwrap().as_os_str().to_owned().into_vec();
    path.extend(
        [&b":"[..], std::env::var_os("PATH").unwrap_or_default().as_encoded_bytes()].concat(),
    );
    let template = place.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(template.get_current_dir().unwrap());
    for (name, value) in template.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("PATH", std::ffi::OsString::from_vec(path)).stdin(std::process::Stdio::null());
    Done::of(shell.output().unwrap())
}

/// Places in which examples are run at the same time. Which page is whose is fixed, so that what an example finds does
/// not depend on who was faster.
const PLACES: usize = 2;

/// Runs an example; returns what is wrong with it.
fn run_example(place: &Place, Example { line, from }: &Example) -> Option<String> {
    let short = quick(line);
    clear(place, &short);
    let start = Instant::now();
    let done = run_by_shell(place, &short);
    // Shown with --nocapture: which example has become slow.
    eprintln!("{:6.2} s  {short}", start.elapsed().as_secs_f64());
    put_back(place, &short);
    // doctor tells by its exit code what it found.
    let is_fine = match line.starts_with("ssdlab doctor") {
        true => [0, 10, 11, 12].contains(&done.code),
        false if line.contains("--lie-about-flush") => [0, 1].contains(&done.code),
        false => done.code == 0,
    };
    (!is_fine || done.stderr.contains("panicked"))
        .then(|| format!("{from}: {line}\nas: {short}\nended with {}: {}", done.code, done.stderr))
}

#[test]
fn every_example_is_run_or_is_known_not_to_be() {
    let examples = examples(&Place::new());
    assert!(examples.len() > 80, "{}", examples.len());
    let why_not = |line: &str| NOT_RUN.iter().find(|(begins, _)| line.starts_with(begins));
    let (left_out, run): (Vec<&Example>, Vec<&Example>) =
        examples.iter().partition(|it| why_not(&it.line).is_some());
    // Those of a page may need what others of it have made.
    let pages: Vec<&[&Example]> = run.chunk_by(|one, next| one.from == next.from).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let pages = pages.iter().skip(number).step_by(PLACES);
            scope.spawn(move || {
                let place = furnished();
                pages.flat_map(|page| *page).filter_map(|it| run_example(&place, it)).collect()
            })
        };
        let workers: Vec<std::thread::ScopedJoinHandle<'_, Vec<String>>> =
            (0..PLACES).map(worker).collect();
        workers.into_iter().flat_map(|it| it.join().expect("it does not panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let is_used = |&number: &usize| {
        run.iter().any(|it| replaced(&it.line, number).contains(REPLACED[number].0))
    };
    let stale: Vec<&str> =
        (0..REPLACED.len()).filter(|it| !is_used(it)).map(|it| REPLACED[it].0).collect();
    assert!(stale.is_empty(), "no example has what is to be replaced: {stale:?}");
    for (begins, why) in NOT_RUN {
        let is_there = left_out.iter().any(|it| it.line.starts_with(begins));
        assert!(is_there, "no example begins with '{begins}' ({why})");
    }
}
