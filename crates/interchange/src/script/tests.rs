//! Tests of scripts: the shell, a PowerShell grammar and our own parser of job files read them.

use std::io::Write;
use std::process::{Command, Stdio};

use ssdlab_drive::{Amount, Mix, Pattern, Rate};
use ssdlab_units::{KIB, MIB};

use super::*;
use crate::fio::JobFile;
use crate::fio::work::{Space, Work};

fn phase(name: &str, pattern: Pattern, mix: Mix) -> Phase {
    Phase {
        name: name.to_owned(),
        pattern,
        block_size: KIB * 4,
        depth: 4,
        mix,
        region: Region { offset: MIB, length: MIB * 4 },
        amount: Amount::Bytes(MIB * 8),
        rate: None,
        seed: 7,
        flush_at_end: true,
        interval: Nanoseconds::ZERO,
    }
}

fn work(phase: Phase) -> Step {
    Step::Work { phase: Box::new(phase), of_peak: None }
}

fn script(is_device: bool, steps: Vec<Step>) -> Script {
    Script {
        experiment: "fragmentation".to_owned(),
        question: "Isn't it \"slow\"; $HOME `id`?".to_owned(),
        tag: Tag {
            experiment: "fragmentation".to_owned(),
            seed: 3,
            quick: true,
            capacity: MIB * 64,
            set: vec![("file_size".to_owned(), "1G".to_owned())],
        },
        target: if is_device { "/dev/sd'x".to_owned() } else { "/tmp/it's $new".to_owned() },
        is_device,
        space: MIB * 5,
        steps,
        has_rounds: false,
        remarks: Vec::new(),
    }
}

fn all_steps() -> Vec<Step> {
    let mut timed = phase("steady, writes", Pattern::Random, Mix::WRITE);
    timed.amount = Amount::Time(Nanoseconds::from_secs(3));
    timed.interval = Nanoseconds::from_secs(1);
    let mut open = phase("arrivals, 50 %", Pattern::Random, Mix { read_percent: 70 });
    open.rate = Some(Rate::Open(1.0));
    vec![
        Step::Purge,
        work(phase("fill", Pattern::Sequential, Mix::WRITE)),
        Step::Flush,
        Step::Rest(Nanoseconds::from_millis(1500)),
        work(timed),
        Step::Work { phase: Box::new(open), of_peak: Some((4, 0.5)) },
        Step::Trim(Region::first(MIB)),
    ]
}

#[test]
fn shells_understand_the_script() {
    for is_device in [false, true] {
        let text = script(is_device, all_steps()).render(Form::Sh).unwrap();
        let mut shell = Command::new("sh")
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.is_ascii());
    }
}

#[test]
fn powershell_is_grammatical() {
    for is_device in [false, true] {
        let text = script(is_device, all_steps()).render(Form::PowerShell).unwrap();
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
        let tree = parser.parse(&text, None).unwrap();
        assert!(!tree.root_node().has_error(), "{}\n{text}", tree.root_node().to_sexp());
        assert!(text.contains("NOT TRIED ON WINDOWS"));
        // The grammar does find errors.
        let broken = text.replacen("param(", "param((", 1);
        assert!(parser.parse(&broken, None).unwrap().root_node().has_error());
    }
}

#[test]
fn a_job_file_says_the_phases_that_it_was_made_of() {
    let mut steps = all_steps();
    steps.remove(5);
    steps.truncate(5);
    let text = script(false, steps.clone()).render(Form::Fio).unwrap();
    let file = JobFile::parse(&text).unwrap();
    let space = Space { capacity: MIB * 64, unit: KIB * 4, is_fixed: false };
    let works: Vec<Work> = file.jobs().map(|job| Work::new(job, space).unwrap()).collect();
    let phases: Vec<Phase> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Work { phase, .. } => Some((**phase).clone()),
            _ => None,
        })
        .collect();
    assert_eq!(works.len(), phases.len());
    for (work, phase) in works.iter().zip(phases) {
        let mut read = work.phase(7, phase.interval).unwrap();
        read.name = phase.name.clone();
        assert_eq!(read, phase);
    }
    assert_eq!(file.groups[1].rest, Nanoseconds::from_secs(2));
}

#[test]
fn a_job_file_for_a_device_does_not_run_by_mistake() {
    let text = script(true, vec![work(phase("fill", Pattern::Sequential, Mix::WRITE))])
        .render(Form::Fio)
        .unwrap();
    let error = JobFile::parse(&text).unwrap_err();
    assert!(error.why.contains("readonly_until_you_remove_this"), "{error}");
}

#[test]
fn what_a_job_file_cannot_say_is_an_error() {
    let error = script(false, all_steps()).render(Form::Fio).unwrap_err();
    assert!(error.contains("--format sh"), "{error}");
    let mixed = phase("both", Pattern::Sequential, Mix { read_percent: 50 });
    let error = script(false, vec![work(mixed)]).render(Form::Sh).unwrap_err();
    assert!(error.contains("separate positions"), "{error}");
}

#[test]
fn tags_are_read_back() {
    let tag = script(false, Vec::new()).tag;
    assert_eq!(Tag::parse(&tag.text().unwrap()), Some(tag.clone()));
    assert_eq!(Tag::parse("a job of mine"), None);
    let odd = Tag { set: vec![("file".to_owned(), "a b".to_owned())], ..tag };
    assert_eq!(odd.text(), None);
}

#[test]
fn a_flush_is_in_every_format() {
    let mut unflushed = phase("fill", Pattern::Sequential, Mix::WRITE);
    unflushed.flush_at_end = false;
    let text = |steps: &[Step], form| script(false, steps.to_vec()).render(form).unwrap();
    let work = [work(unflushed)];
    let flushed = [work[0].clone(), Step::Flush];
    for (form, words) in [
        (Form::Fio, "end_fsync=1"),
        (Form::PowerShell, "--end_fsync=1"),
        // Of the file or device itself: a disk is flushed by no other.
        (Form::Sh, "sync \"$target\""),
    ] {
        assert!(!text(&work, form).contains(words), "{words}");
        assert!(text(&flushed, form).contains(words), "{words}");
    }
}
