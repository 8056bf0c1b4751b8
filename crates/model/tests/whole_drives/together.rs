//! Any two mechanisms work together, but for those that the table of docs/MODEL.md has.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::collection_ends::{Changes, Says, configuration, put_through};

/// A drive of some 26 superblocks of 384 KiB on four dies, beside those for metadata.
const SMALL: [(&str, &str); 13] = [
    ("flash.channels", "2"),
    ("flash.dies", "4"),
    ("flash.planes_per_die", "1"),
    ("flash.pages_per_shot", "3"),
    ("flash.pages_per_block", "24"),
    ("flash.page_size", "4K"),
    ("read_ahead.window", "0"),
    ("read_ahead.segment", "12K"),
    ("collection.metadata_units", "16"),
    ("collection.low_water", "3"),
    ("controller.write_buffer", "256K"),
    ("capacity.physical", "16M"),
    ("capacity.logical", "4M"),
];

/// A mechanism: its name in the table, and the keys that turn it on.
type Mechanism = (&'static str, &'static [(&'static str, &'static str)]);

/// Mechanisms that decide where data goes, when it moves, and what makes it durable or slow.
const MECHANISMS: [Mechanism; 35] = [
    ("cached map", &[("mapping.scheme", "cached"), ("mapping.cache", "32K")]),
    (
        "map in the host's memory",
        &[("mapping.scheme", "cached"), ("mapping.cache", "32K"), ("mapping.cache_read", "2us")],
    ),
    ("extents", &[("mapping.scheme", "extent"), ("mapping.table", "8K")]),
    ("log blocks", &[("mapping.scheme", "log-block"), ("mapping.log_blocks", "3")]),
    ("saved map", &[("mapping.checkpoint", "1M")]),
    ("journal", &[("flush.journal", "on")]),
    ("fifo", &[("collection.policy", "fifo")]),
    ("random victims", &[("collection.policy", "random")]),
    ("d-choices", &[("collection.policy", "d-choices"), ("collection.choices", "4")]),
    ("cost-benefit", &[("collection.policy", "cost-benefit")]),
    ("rotation", &[("collection.rotation", "0.5")]),
    ("copies in the host's block", &[("collection.copies", "host-block")]),
    ("bursts", &[("collection.pacing", "bursty"), ("collection.high_water", "4")]),
    (
        "ratio",
        &[
            ("collection.pacing", "ratio"),
            ("collection.ratio", "2"),
            ("collection.high_water", "5"),
        ],
    ),
    ("reads of word lines", &[("collection.word_line_reads", "on")]),
    ("longer reads for copies", &[("collection.read_overhead", "20us")]),
    ("a controller that copies take up", &[("collection.copy_occupancy", "20us")]),
    (
        "streams",
        &[
            ("streams.count", "2"),
            ("streams.hot_within", "0.3"),
            ("controller.power_loss_protection", "on"),
        ],
    ),
    (
        "hot blocks",
        &[
            ("streams.count", "2"),
            ("streams.hot_within", "0.3"),
            ("streams.hot_blocks", "0.3"),
            ("controller.power_loss_protection", "on"),
        ],
    ),
    (
        "slc cache",
        &[
            ("slc.size", "512K"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
        ],
    ),
    (
        "slc cache of free blocks, folded",
        &[
            ("slc.size", "1M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
            ("slc.space", "dynamic"),
            ("slc.when_full", "fold"),
        ],
    ),
    ("single blocks", &[("collection.unit", "block")]),
    (
        "static allocation",
        &[
            ("collection.allocation", "static"),
            ("collection.unit", "block"),
            ("controller.power_loss_protection", "on"),
        ],
    ),
    ("dynamic levelling", &[("wear.levelling", "dynamic")]),
    (
        "static levelling",
        &[("wear.levelling", "static"), ("wear.static_every", "3"), ("wear.static_spread", "2")],
    ),
    (
        "levelling apart",
        &[
            ("wear.levelling", "static"),
            ("wear.static_every", "3"),
            ("wear.static_spread", "2"),
            ("wear.static_stream", "on"),
        ],
    ),
    (
        "bad blocks",
        &[
            ("wear.life", "30"),
            ("wear.life_shape", "4"),
            ("wear.reserve", "1"),
            ("wear.retire_most", "0.5"),
        ],
    ),
    (
        "retention",
        &[("retention.retry", "80us"), ("retention.free_for", "1d"), ("retention.steps", "4")],
    ),
    (
        "suspend",
        &[
            ("flash.suspend", "both"),
            ("flash.suspend_time", "20us"),
            ("flash.resume_time", "10us"),
            ("flash.suspends_most", "4"),
        ],
    ),
    ("capacitors", &[("controller.power_loss_protection", "on")]),
    ("coalescing", &[("controller.coalescing", "48K"), ("controller.power_loss_protection", "on")]),
    ("write-through", &[("controller.write_cache", "write-through")]),
    ("ignored flushes", &[("controller.flush", "ignored")]),
    ("cost of a flush", &[("flush.overhead", "100us")]),
    ("reads after a trim", &[("trim.reads_after", "undefined"), ("trim.settle", "1s")]),
];

/// The rows of the table: none of the first goes with any of the second.
const APART: [(&[&str], &[&str]); 6] = [
    (
        &["log blocks"],
        &[
            "fifo",
            "random victims",
            "d-choices",
            "cost-benefit",
            "rotation",
            "copies in the host's block",
            "bursts",
            "ratio",
            "reads of word lines",
            "longer reads for copies",
            "a controller that copies take up",
            "streams",
            "hot blocks",
            "slc cache",
            "slc cache of free blocks, folded",
            "static allocation",
            "static levelling",
            "levelling apart",
            "bad blocks",
            "coalescing",
        ],
    ),
    (
        &["extents"],
        &[
            "streams",
            "hot blocks",
            "levelling apart",
            "slc cache",
            "slc cache of free blocks, folded",
            "copies in the host's block",
            "reads of word lines",
            "longer reads for copies",
            "a controller that copies take up",
            "single blocks",
            "static allocation",
        ],
    ),
    (&["cached map", "map in the host's memory", "log blocks"], &["saved map", "journal"]),
    (
        &["copies in the host's block"],
        &[
            "streams",
            "hot blocks",
            "levelling apart",
            "slc cache",
            "slc cache of free blocks, folded",
            "static allocation",
        ],
    ),
    (
        &["hot blocks"],
        &[
            "fifo",
            "random victims",
            "d-choices",
            "rotation",
            "slc cache",
            "slc cache of free blocks, folded",
        ],
    ),
    (
        &["capacitors", "streams", "hot blocks", "coalescing", "static allocation"],
        &["journal", "write-through", "ignored flushes"],
    ),
];

/// Returns true if the two set a key to different values: two choices of one thing.
fn are_choices_of_one_thing(one: &Mechanism, other: &Mechanism) -> bool {
    one.1.iter().any(|(key, value)| other.1.iter().any(|(its, it)| key == its && value != it))
}

/// Returns true if the table says that the two do not go together.
fn are_apart(one: &str, other: &str) -> bool {
    let has = |(first, second): &(&[&str], &[&str]), one, other| {
        first.contains(&one) && second.contains(&other)
    };
    APART.iter().any(|row| has(row, one, other) || has(row, other, one))
}

/// A profile with both, on a small drive.
fn changes(of: [&Mechanism; 2]) -> Changes {
    let mut all: Vec<(&str, &str)> = SMALL.to_vec();
    for &(key, value) in of.iter().flat_map(|it| it.1) {
        all.retain(|it| it.0 != key);
        all.push((key, value));
    }
    let needs_low_water = of.iter().any(|it| matches!(it.0, "streams" | "hot blocks"))
        && of.iter().any(|it| it.0 == "levelling apart");
    if needs_low_water {
        all.retain(|it| it.0 != "collection.low_water");
        all.push(("collection.low_water", "4"));
    }
    all.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

#[test]
fn any_two_mechanisms_work_together_or_are_in_the_table() {
    let mut worked = 0;
    for (place, one) in MECHANISMS.iter().enumerate() {
        for other in &MECHANISMS[place + 1..] {
            if are_choices_of_one_thing(one, other) {
                continue;
            }
            let mut changes = changes([one, other]);
            let pair = format!("{} and {}", one.0, other.0);
            let made = configuration(&mut changes, 0.9);
            match (made, are_apart(one.0, other.0)) {
                (Ok(configuration), false) => {
                    let _says = Says(&changes);
                    for seed in 0..3 {
                        put_through(&configuration, &mut Pcg64Mcg::seed_from_u64(seed));
                    }
                    worked += 1;
                }
                (Err(error), true) => assert!(!error.contains("spare"), "{pair}: {error}"),
                (Ok(_), true) => panic!("{pair} are in the table, and nothing refuses them"),
                (Err(error), false) => panic!("{pair} are not in the table: {error}"),
            }
        }
    }
    println!("{worked} pairs of {} mechanisms work together", MECHANISMS.len());
}
