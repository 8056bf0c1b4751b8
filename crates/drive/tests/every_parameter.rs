//! Every parameter of a profile makes a difference, or is refused where it would make none.
//!
//! The table names for each key a drive on which it means something, and a value. A drive with
//! the value and one without go through the same work; something that can be seen from outside has
//! to differ. A new key fails the test until it is in the table.

use std::collections::HashSet;
use std::fmt::Write as _;

use ssdlab_drive::simulated::{Request, SimulatedDrive};
use ssdlab_drive::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};
use ssdlab_model::profile::{DEFAULT, Profile, parameter_keys};
use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

type Changes = &'static [(&'static str, &'static str)];

/// A drive of 64 MiB.
const SMALL: Changes = &[
    ("capacity.logical", "64M"),
    ("capacity.physical", "128M"),
    ("flash.channels", "2"),
    ("flash.dies", "4"),
    ("flash.pages_per_block", "12"),
    ("controller.write_buffer", "2M"),
    ("controller.idle_before_flush", "2s"),
    ("wear.pe_cycles", "300"),
];

const PLAIN: Changes = &[];
const PROTECTED: Changes = &[("controller.power_loss_protection", "on")];
const SUSPEND: Changes = &[
    ("flash.suspend", "both"),
    ("flash.suspend_time", "20us"),
    ("flash.resume_time", "20us"),
    ("flash.suspends_most", "4"),
];
const BURSTY: Changes = &[("collection.pacing", "bursty"), ("collection.high_water", "6")];
const RATIO: Changes =
    &[("collection.pacing", "ratio"), ("collection.high_water", "9"), ("collection.ratio", "2")];
const CHOICES: Changes = &[("collection.policy", "d-choices"), ("collection.choices", "3")];
const SINGLE_BLOCKS: Changes =
    &[("controller.power_loss_protection", "on"), ("collection.unit", "block")];
const STATIC: Changes =
    &[("wear.levelling", "static"), ("wear.static_every", "8"), ("wear.static_spread", "1")];
const LIFE: Changes = &[
    ("wear.life", "6"),
    ("wear.life_shape", "3"),
    ("wear.reserve", "20"),
    ("wear.retire_most", "0.3"),
];
const RETENTION: Changes = &[
    ("retention.retry", "50us"),
    ("retention.free_for", "10d"),
    ("retention.steps", "4"),
    ("retention.worn_steps", "9"),
];
const STREAMS: Changes = &[
    ("controller.power_loss_protection", "on"),
    ("streams.count", "2"),
    ("streams.hot_within", "0.1"),
];
const CACHED: Changes =
    &[("mapping.scheme", "cached"), ("mapping.cache", "32K"), ("collection.metadata_units", "8")];
const EXTENT: Changes = &[
    ("mapping.scheme", "extent"),
    ("mapping.table", "4K"),
    ("mapping.search", "1us"),
    ("mapping.per_extent", "1us"),
];
const LOG_BLOCKS: Changes = &[("mapping.scheme", "log-block"), ("mapping.log_blocks", "4")];
const JOURNAL: Changes = &[("flush.journal", "on"), ("flush.journal_program", "1ms")];
const CHECKPOINT: Changes = &[("mapping.checkpoint", "16M"), ("collection.metadata_units", "8")];
const LIMITED: Changes = &[
    ("trim.command", "100us"),
    ("trim.range", "10us"),
    ("trim.ranges_most", "2"),
    ("trim.range_most", "1M"),
];
const UNDEFINED: Changes = &[("trim.reads_after", "undefined")];
const HOT: Changes = &[("thermal.limit", "1M"), ("thermal.mb_per_second", "100")];
const SLC: Changes = &[
    ("slc.size", "4M"),
    ("slc.space", "dynamic"),
    ("slc.when_full", "fold"),
    ("slc.bits", "3"),
    ("slc.program", "200us"),
    ("slc.page_read", "30us"),
    ("flash.pages_per_shot", "1"),
];

/// For each key a drive on which it means something, and what it is set to.
const TABLE: &[(&str, Changes, &str)] = &[
    ("capacity.logical", PLAIN, "56M"),
    ("capacity.physical", PLAIN, "160M"),
    ("flash.channels", PLAIN, "4"),
    ("flash.dies", PLAIN, "2"),
    ("flash.planes_per_die", PLAIN, "1"),
    ("flash.multi_plane_read", PLAIN, "off"),
    ("flash.page_size", PLAIN, "8K"),
    ("flash.pages_per_block", PLAIN, "6"),
    ("flash.pages_per_shot", PLAIN, "1"),
    ("flash.page_read", PLAIN, "90us"),
    ("flash.page_read_spread", PLAIN, "0.3"),
    ("flash.program", PLAIN, "900us"),
    ("flash.erase", PLAIN, "9ms"),
    ("flash.channel_mb_per_second", PLAIN, "200"),
    ("flash.suspend", SUSPEND, "off"),
    ("flash.suspend_step", SUSPEND, "80us"),
    ("flash.suspend_time", SUSPEND, "90us"),
    ("flash.resume_time", SUSPEND, "90us"),
    ("flash.suspends_most", SUSPEND, "1"),
    ("flash.suspend_when", SUSPEND, "buffer-has-room"),
    ("flash.page_register", PLAIN, "off"),
    ("controller.unit_size", PLAIN, "8K"),
    ("controller.command_latency", PLAIN, "90us"),
    ("controller.command_occupancy", PLAIN, "40us"),
    ("controller.mb_per_second", PLAIN, "400"),
    ("controller.latency_per_mib", PLAIN, "700us"),
    ("controller.write_buffer", PLAIN, "1M"),
    ("controller.power_loss_protection", PLAIN, "on"),
    ("controller.coalescing", PROTECTED, "1M"),
    ("controller.idle_before_flush", PLAIN, "100ms"),
    ("controller.trim", PLAIN, "off"),
    ("controller.flush", PLAIN, "ignored"),
    ("controller.write_cache", PLAIN, "write-through"),
    ("read_ahead.window", PLAIN, "256K"),
    ("read_ahead.segment", PLAIN, "64K"),
    ("read_ahead.trigger", PLAIN, "20"),
    ("collection.unit", PLAIN, "block"),
    ("collection.low_water", PLAIN, "6"),
    ("collection.idle_high_water", PLAIN, "20"),
    ("collection.debt_max", PLAIN, "1"),
    ("collection.metadata_units", PLAIN, "12"),
    ("collection.policy", PLAIN, "fifo"),
    ("collection.choices", CHOICES, "9"),
    ("collection.rotation", PLAIN, "0.5"),
    ("collection.allocation", SINGLE_BLOCKS, "static"),
    ("collection.copies", PLAIN, "host-block"),
    ("collection.pacing", BURSTY, "paced"),
    ("collection.high_water", BURSTY, "8"),
    ("collection.ratio", RATIO, "4"),
    ("collection.read_overhead", PLAIN, "300us"),
    ("collection.copy_occupancy", PLAIN, "300us"),
    ("collection.word_line_reads", PLAIN, "on"),
    ("wear.pe_cycles", PLAIN, "900"),
    ("wear.levelling", STATIC, "off"),
    ("wear.static_every", STATIC, "2"),
    ("wear.static_spread", STATIC, "6"),
    ("wear.static_stream", STATIC, "on"),
    ("wear.life", LIFE, "12"),
    ("wear.life_shape", LIFE, "9"),
    ("wear.factory_bad", LIFE, "0.1"),
    ("wear.reserve", LIFE, "30"),
    ("wear.retire_most", LIFE, "0.8"),
    ("wear.spare_threshold", LIFE, "33"),
    ("retention.retry", RETENTION, "80us"),
    ("retention.free_for", RETENTION, "100d"),
    ("retention.steps", RETENTION, "6"),
    ("retention.worn_steps", RETENTION, "200"),
    ("streams.count", STREAMS, "1"),
    ("streams.hot_within", STREAMS, "0.5"),
    ("streams.hot_blocks", STREAMS, "0.4"),
    ("link.mb_per_second", PLAIN, "500"),
    ("link.full_duplex", PLAIN, "off"),
    ("link.delivery", PLAIN, "when-complete"),
    ("mapping.scheme", CACHED, "page"),
    ("mapping.cache", CACHED, "48K"),
    ("mapping.cache_read", CACHED, "9us"),
    ("mapping.table", EXTENT, "8K"),
    ("mapping.search", EXTENT, "9us"),
    ("mapping.per_extent", EXTENT, "9us"),
    ("mapping.log_blocks", LOG_BLOCKS, "8"),
    ("mapping.checkpoint", CHECKPOINT, "4M"),
    ("flush.overhead", PLAIN, "700us"),
    ("flush.journal", PLAIN, "on"),
    ("flush.journal_program", JOURNAL, "3ms"),
    ("trim.command", PLAIN, "100us"),
    ("trim.range", PLAIN, "100us"),
    ("trim.per_mib", PLAIN, "100us"),
    ("trim.ranges_most", LIMITED, "1"),
    ("trim.range_most", LIMITED, "512K"),
    ("trim.reads_after", PLAIN, "undefined"),
    ("trim.settle", UNDEFINED, "10s"),
    ("slc.size", SLC, "8M"),
    ("slc.space", SLC, "fixed"),
    ("slc.fixed", SLC, "2M"),
    ("slc.when_full", SLC, "direct"),
    ("slc.bits", SLC, "2"),
    ("slc.program", SLC, "600us"),
    ("slc.page_read", SLC, "60us"),
    ("thermal.limit", HOT, "2M"),
    ("thermal.mb_per_second", HOT, "50"),
];

/// Drives on which keys may mean nothing.
const OTHER_DRIVES: &[(&str, Changes)] = &[
    ("plain", PLAIN),
    ("with capacitors", PROTECTED),
    ("that ignores flush", &[("controller.flush", "ignored")]),
    ("that ignores trim", &[("controller.trim", "off")]),
    ("write-through", &[("controller.write_cache", "write-through")]),
    ("that does not read ahead", &[("read_ahead.window", "0")]),
    ("with a map on flash", CACHED),
    ("with log blocks", LOG_BLOCKS),
    ("with extents", EXTENT),
    ("with a cache", SLC),
];

/// What is known to be taken and to do nothing, and why it is not refused.
const KNOWN_WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    // How long a range is counts for what a range costs, and for how many a command takes.
    ("", &["trim.range_most"]),
    // A journal that is left alone is what ignoring flushes means.
    ("that ignores flush", &["flush.journal"]),
    ("that ignores trim", &["trim.reads_after"]),
    // Nothing waits in the buffer, and a flush has nothing to do.
    (
        "write-through",
        &["controller.write_buffer", "controller.idle_before_flush", "controller.flush"],
    ),
    // A profile has to say it, whatever the window is.
    ("that does not read ahead", &["read_ahead.segment"]),
    // It merges, and collects nothing ahead; and a profile has to say these.
    ("with log blocks", &["collection.low_water", "collection.idle_high_water"]),
];

fn profile(changes: &[(&str, &str)]) -> Result<Profile, String> {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    for (key, value) in changes {
        profile.set(key, value).map_err(|error| error.to_string())?;
    }
    profile.check().map_err(|error| error.to_string())?;
    Ok(profile)
}

/// `base` with what `changes` say instead.
fn changed(
    base: &[(&'static str, &'static str)],
    changes: Changes,
) -> Vec<(&'static str, &'static str)> {
    let kept = base.iter().filter(|(key, _)| changes.iter().all(|(other, _)| other != key));
    kept.chain(changes).copied().collect()
}

/// Returns what can be seen of a drive that has some of everything to do: one line for each thing.
fn observable_results(changes: &[(&str, &str)]) -> Result<String, String> {
    let configuration = profile(changes)?.configuration().map_err(|error| error.to_string())?;
    let mut drive = SimulatedDrive::new("drive", configuration).map_err(|it| it.to_string())?;
    let mut text = format!("{}\n", drive.description().capacity);
    // The part that all of these drives have.
    let region = Region::first(MIB * 56);
    let phase = |name: &str, pattern, block: ByteLength, depth, reads, bytes: ByteLength| Phase {
        name: name.to_owned(),
        pattern,
        block_size: block,
        depth,
        mix: Mix { read_percent: reads },
        region,
        amount: Amount::Bytes(bytes),
        rate: None,
        seed: 7,
        flush_at_end: true,
        interval: Nanoseconds::ZERO,
    };
    let small = ByteLength::new(512);
    let phases = [
        phase("fill", Pattern::Sequential, KIB * 128, 8, 0, MIB * 56),
        phase("fresh stream", Pattern::Sequential, KIB * 8, 1, 100, MIB * 8),
        Phase {
            region: Region::first(MIB * 6),
            ..phase("hot", Pattern::Random, KIB * 8, 8, 0, MIB * 128)
        },
        phase("overwrite", Pattern::Random, KIB * 8, 8, 0, MIB * 96),
        phase("mixed", Pattern::Random, KIB * 8, 8, 60, MIB * 32),
        phase("parts", Pattern::Random, small, 2, 0, small * 2_000),
        phase("stream", Pattern::Sequential, KIB * 8, 2, 100, MIB * 4),
        phase("large reads", Pattern::Random, KIB * 256, 8, 100, MIB * 32),
        phase("small reads", Pattern::Random, KIB * 8, 32, 100, MIB * 4),
    ];
    for phase in &phases {
        // A worn-out drive ends here; how soon is a part of what is seen.
        match drive.run_phase(phase, &mut Unobserved) {
            Ok(result) => {
                let latencies = [&result.read_latencies, &result.write_latencies];
                let means = latencies.map(|it| (it.mean(), it.percentile(99.0)));
                let _ = writeln!(text, "{}: {} {means:?}", phase.name, result.elapsed.nanos());
            }
            Err(error) => drop(writeln!(text, "{}: {error}", phase.name)),
        }
    }
    let block = |at: u64| Region { offset: KIB * 8 * at, length: KIB * 8 };
    let (mut at, gap) = (drive.now(), Nanoseconds::from_millis(20));
    let part = Region { offset: MIB * 8, length: MIB * 9 };
    for request in [
        Request::WriteThrough(block(9)),
        Request::Write(block(10)),
        Request::Flush,
        Request::Read(block(9)),
        Request::Trim(part),
        Request::Flush,
        Request::Read(part),
        Request::Write(block(11)),
    ] {
        at += gap;
        let end = drive.send(at, request).map_err(|error| error.to_string())?;
        let _ = writeln!(text, "{request:?}: {}", end.since(at).nanos());
        at = at.max(end);
    }
    drive.advance_to(at);
    // Less than a moment of idleness for some drives, and a night.
    for seconds in [1, 3600] {
        drive.rest(Nanoseconds::from_secs(seconds), &mut Unobserved).expect("a rest");
        let _ = writeln!(text, "{:?}", drive.inside());
        let trimmed = drive.send(drive.now() + gap, Request::Read(part));
        let _ = writeln!(text, "trimmed: {trimmed:?}");
        drive.advance_to(trimmed.expect("it lies within the drive"));
    }
    let stored = drive.store(Nanoseconds::from_secs(400 * 86_400));
    let read = drive.send(drive.now() + gap, Request::Read(Region::first(MIB * 4)));
    let _ = writeln!(text, "{stored:?} {read:?} {:?}", drive.trim_path());
    Ok(text)
}

#[test]
fn every_key_is_in_the_table() {
    let listed: Vec<&str> = TABLE.iter().map(|(key, ..)| *key).collect();
    assert_eq!(listed, parameter_keys(), "a key that nothing here asks for");
}

#[test]
fn every_key_changes_something() {
    let mut without_effect = Vec::new();
    for (key, with, value) in TABLE {
        let base = changed(SMALL, with);
        let without =
            observable_results(&base).unwrap_or_else(|error| panic!("{key}, without: {error}"));
        assert_eq!(Ok(&without), observable_results(&base).as_ref(), "{key}: the same drive twice");
        let change: Changes = Box::leak(Box::new([(*key, *value)]));
        // Switched off, what says how it is goes with it.
        let off = keys_switched_off_with(key, value);
        let goes = |key: &str| off.iter().any(|prefix| key.starts_with(prefix));
        let kept: Vec<_> = base.iter().copied().filter(|(key, _)| !goes(key)).collect();
        let with_it = changed(&kept, change);
        match observable_results(&with_it) {
            Ok(text) if text == without => without_effect.push(*key),
            Ok(_) => {}
            Err(error) => panic!("{key} = {value}: {error}"),
        }
    }
    assert!(without_effect.is_empty(), "these change nothing: {without_effect:?}");
}

#[test]
fn a_key_changes_something_on_another_drive_too_or_is_refused() {
    let (mut without_effect, mut found) = (Vec::new(), HashSet::new());
    for (other, with) in OTHER_DRIVES {
        let base = changed(SMALL, with);
        let without = observable_results(&base).unwrap_or_else(|error| panic!("{other}: {error}"));
        for (key, _, value) in TABLE {
            let change: Changes = Box::leak(Box::new([(*key, *value)]));
            let changes = changed(&base, change);
            if is_same_configuration(&base, &changes)
                || !observable_results(&changes).is_ok_and(|text| text == without)
            {
                continue;
            }
            let is_known =
                |(at, keys): &(&str, &[&str])| (at.is_empty() || at == other) && keys.contains(key);
            match KNOWN_WITHOUT_EFFECT.iter().position(is_known) {
                Some(place) => drop(found.insert((place, *key))),
                None => without_effect.push((*other, *key)),
            }
        }
    }
    assert!(
        without_effect.is_empty(),
        "these change nothing, and are not refused: {without_effect:?}"
    );
    let listed = KNOWN_WITHOUT_EFFECT.iter().enumerate();
    let mended: Vec<_> = listed
        .flat_map(|(place, (at, keys))| keys.iter().map(move |key| (place, *at, *key)))
        .filter(|&(place, _, key)| !found.contains(&(place, key)))
        .collect();
    assert!(mended.is_empty(), "these are refused or change something by now: {mended:?}");
}

/// Returns true if the drives are alike before anything is asked of them.
fn is_same_configuration(base: &[(&str, &str)], changes: &[(&str, &str)]) -> bool {
    let made = |changes| {
        let configuration = profile(changes)?.configuration();
        configuration.map(|it| format!("{it:?}")).map_err(|error| error.to_string())
    };
    made(changes).is_ok_and(|made_of| made(base) == Ok(made_of))
}

/// The keys, by how they begin, that have to be left out together with one that is switched off.
fn keys_switched_off_with(key: &str, value: &str) -> &'static [&'static str] {
    match (key, value) {
        ("flash.suspend", "off") => &["flash.suspend", "flash.resume"],
        ("collection.pacing", "paced") => &["collection.high_water"],
        ("wear.levelling", "off") => &["wear.static"],
        ("streams.count", "1") => &["streams.hot"],
        ("mapping.scheme", "page") => &["mapping.cache"],
        _ => &[],
    }
}
