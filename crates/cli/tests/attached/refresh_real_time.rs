//! Whether a refresh is worth it, judged by reading a drive in real time. Its flash is made so slow
//! that what the machine adds is little beside it. Where the machine is too busy to tell, that is what
//! has to be said, and nothing else may be done; then this test says so, too.

use serde_json::Value;

use crate::refresh::Scene;
use crate::support::{Place, has_devices};

const MIB: u64 = 1 << 20;

/// Reads of a page take forty times as long as on the drive.
const SLOW: &str = "sim:toshiba-xg5,scale=1/64,flash.page_read=2ms";

/// Bytes that were found slow, whatever the cause.
fn slow(plan: &Value) -> u64 {
    plan["found"]["slow"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum()
}

/// Bytes of which nothing was said.
fn not_told(plan: &Value) -> u64 {
    ["not_told", "contradicted"].iter().map(|it| plan["found"][it].as_u64().unwrap()).sum()
}

fn told(plan: &Value) -> bool {
    let not_told = not_told(plan);
    if not_told > 0 {
        not_told_here(&format!("the machine is too busy to judge {} MiB", not_told / MIB));
    }
    not_told == 0
}

#[test]
fn what_is_scattered_is_found_worth_it_and_the_rest_is_left_as_it_is() {
    if !has_devices("refresh in real time") {
        return;
    }
    let place = Place::new(SLOW);
    let mut scene = Scene::timed(&place, "ext4", 32 * MIB, "real");
    scene.fill_in_order();
    let fresh = scene.pages_read();
    scene.scatter_from(16 * MIB);
    let scattered = scene.pages_read();
    let content = scene.content();

    let plan = scene.refresh(&["--dry-run"]);
    assert_eq!(plan["yardstick_bytes"], 32 * MIB, "{plan}");
    let rewrite = plan["rewrite"].as_array().unwrap();
    assert!(
        rewrite.iter().all(|span| span["offset"].as_u64().unwrap() >= 16 * MIB),
        "what is in order is not rewritten: {plan}"
    );
    let not_told = not_told(&plan);
    assert!(slow(&plan) + not_told >= 16 * MIB, "what is scattered is not fine: {plan}");
    if !told(&plan) {
        return scene.detach();
    }
    assert_eq!(
        (slow(&plan), &plan["bytes_to_write"]),
        (16 * MIB, &Value::from(16 * MIB)),
        "{plan}"
    );
    eprintln!("judged {} times slower: {}", plan["slowdown"]["middle"], plan["found"]);

    let before = scene.written();
    let summary = scene.refresh(&["--yes"]);
    let written = scene.written() - before;
    assert!(scene.content() == content, "the content is the same");
    if !told(&summary["plan"]) {
        return scene.detach();
    }
    let planned = summary["plan"]["bytes_to_write"].as_u64().unwrap()
        + summary["plan"]["yardstick_bytes"].as_u64().unwrap();
    assert_eq!(summary["bytes_written"], 16 * MIB, "{summary}");
    assert!(written <= planned * 105 / 100, "{written} bytes, {planned} planned: {summary}");
    let refreshed = scene.pages_read();
    // In real time a busy machine comes in between, so how near it comes to fresh data is for
    // other tests; scattered it was over twice that.
    assert!(
        refreshed * 100 <= fresh * 150,
        "{fresh} pages, {scattered} scattered, {refreshed} at last"
    );
    eprintln!(
        "{fresh} pages, {scattered} scattered, {refreshed} at last; gain {}",
        summary["gain"]
    );

    let before = scene.written();
    let again = scene.refresh(&["--yes"]);
    let written = scene.written() - before;
    assert_eq!(again["rewrite"], serde_json::json!([]), "{again}");
    match again["yardstick_bytes"].as_u64().unwrap() {
        // What it writes then are times of access and the like.
        0 => assert!(written < MIB, "{written} bytes"),
        length => {
            not_told_here("too little reads as fast as before; a yardstick is written");
            assert!(written <= length + MIB, "{written} bytes");
        }
    }
    scene.detach();
}

/// Says, past what the test harness keeps to itself, that the machine was too busy for a verdict.
fn not_told_here(why: &str) {
    use std::io::Write;

    let _ = writeln!(std::io::stderr(), "\nNOT TOLD: {why}");
}
