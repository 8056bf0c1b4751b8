//! Mistakes in the order of writes to an image, planted in the record of a history.
//!
//! A drive with such a mistake does the same to its image, as long as nothing crashes; so the record can be
//! changed afterwards. Some mistakes are in opening an image, and change the image instead ([`faulty_readers`]). The
//! explorer of crashes has to find each of them.

use ssdlab_attach::image::layout::Layout;
use ssdlab_attach::image::spare::{Record, RecordState};

use crate::crash::Region;
use crate::faulty_readers;
use crate::memory_storage::Event;
use crate::pages::Pages;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// A flush is answered without a sync.
    FlushWithoutSync,
    /// The promise mark is written before the sync that makes the data durable.
    PromiseBeforeSync,
    /// Nothing makes durable what the image says of itself.
    StateNotSynced,
    /// Dumps of the buffer are written to one slot, over the latest.
    OneSlotForDumps,
    /// A dump relies on program units that only the next sync makes durable.
    DumpWithoutProgrammed,
    /// The data of an erased block is punched out before its replacement is durable.
    PunchBeforeSync,
    /// The data of an erased block is never punched out.
    NeverPunched,
    /// Records are durable before the data that they are of.
    RecordBeforeData,
    /// A record says of itself, and of all before, that it is durable.
    RecordClaimsDurable,
    /// Records of trims are not written.
    TrimsForgotten,
    /// Records of trims are durable later than the flush that they are promised with.
    TrimsAfterSync,
    /// Batches of the log of trims do not name their predecessor.
    TrimsUnchained,
    /// Opening an image trusts a dump of the buffer whatever its checksums say.
    DumpUnchecked,
}

fn region(layout: &Layout, event: &Event) -> Option<Region> {
    match event {
        Event::Write { at, .. } | Event::Punch { at, .. } => Some(Region::of(layout, *at)),
        _ => None,
    }
}

fn is_trims(region: Option<Region>) -> bool {
    matches!(region, Some(Region::Trims(_)))
}

impl Fault {
    /// Returns the record that a drive with this mistake would have made instead of `log`.
    pub fn inject(self, log: Vec<Event>, layout: &Layout) -> Vec<Event> {
        let of = |event: &Event| region(layout, event);
        match self {
            Fault::FlushWithoutSync => without_syncs(log, |_, next| {
                next.is_some_and(|event| of(event) == Some(Region::State))
            }),
            Fault::PromiseBeforeSync => {
                move_before_sync(log, |event| of(event) == Some(Region::State))
            }
            Fault::StateNotSynced => without_syncs(log, |before, _| {
                before.is_some_and(|event| of(event) == Some(Region::State))
            }),
            Fault::OneSlotForDumps => relocate_writes(log, |at| match Region::of(layout, at) {
                Region::Dump(1) => at - layout.dump_size,
                _ => at,
            }),
            Fault::DumpWithoutProgrammed => dump_without_programmed(log, layout),
            Fault::PunchBeforeSync => move_before_sync(log, |event| {
                let is_flash = matches!(of(event), Some(Region::Spare(_) | Region::Data));
                is_flash && matches!(event, Event::Punch { .. })
            }),
            Fault::NeverPunched => {
                let is_record = |event: &Event| matches!(of(event), Some(Region::Spare(_)));
                let is_kept =
                    |event: &Event| !(matches!(event, Event::Punch { .. }) && is_record(event));
                log.into_iter().filter(is_kept).collect()
            }
            Fault::RecordBeforeData => move_after_sync(log, |event| {
                matches!(event, Event::Write { .. }) && of(event) == Some(Region::Data)
            }),
            Fault::RecordClaimsDurable => {
                log.into_iter().map(|it| claim_durable(it, layout)).collect()
            }
            Fault::TrimsForgotten => log.into_iter().filter(|it| !is_trims(of(it))).collect(),
            Fault::TrimsAfterSync => move_after_sync(log, |event| is_trims(of(event))),
            Fault::TrimsUnchained => log.into_iter().map(|it| unchain_batch(it, layout)).collect(),
            Fault::DumpUnchecked => log,
        }
    }

    /// Changes `image` to what a drive with this mistake sees when it opens the image.
    pub fn apply_to_image(self, image: &mut Pages, layout: &Layout) {
        if self == Fault::DumpUnchecked {
            faulty_readers::accept_any_dump(image, layout);
        }
    }
}

/// Returns the log without the syncs for which `goes` returns true; it gets the event before and the event
/// after the sync.
fn without_syncs(
    log: Vec<Event>,
    goes: impl Fn(Option<&Event>, Option<&Event>) -> bool,
) -> Vec<Event> {
    let is_sync = |event: &Event| matches!(event, Event::SyncBegun { .. } | Event::SyncDone { .. });
    let is_storage = |event: &&Event| !matches!(event, Event::Host(_));
    let mut gone = Vec::new();
    for (index, event) in log.iter().enumerate() {
        let Event::SyncBegun { number } = event else { continue };
        let before = log[..index].iter().rev().filter(is_storage).find(|event| !is_sync(event));
        let next = log[index..].iter().find(|event| !is_sync(event));
        if goes(before, next) {
            gone.push(*number);
        }
    }
    let is_gone = |event: &Event| match event {
        Event::SyncBegun { number } | Event::SyncDone { number } => gone.contains(number),
        _ => false,
    };
    log.into_iter().filter(|event| !is_gone(event)).collect()
}

/// Returns the log with all writes and punches moved `to` other places.
fn relocate_writes(log: Vec<Event>, to: impl Fn(u64) -> u64) -> Vec<Event> {
    let relocate = |event| match event {
        Event::Write { at, data } => Event::Write { at: to(at), data },
        Event::Punch { at, length } => Event::Punch { at: to(at), length },
        other => other,
    };
    log.into_iter().map(relocate).collect()
}

/// Returns the log with the events for which `is_moved` is true moved before the sync that precedes them.
fn move_before_sync(log: Vec<Event>, is_moved: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut reordered: Vec<Event> = Vec::new();
    for event in log {
        let sync = reordered.iter().rposition(|it| matches!(it, Event::SyncBegun { .. }));
        match sync.filter(|_| is_moved(&event)) {
            Some(sync) => reordered.insert(sync, event),
            None => reordered.push(event),
        }
    }
    reordered
}

/// Returns the log with the events for which `is_moved` is true moved behind the sync that follows them.
fn move_after_sync(log: Vec<Event>, is_moved: impl Fn(&Event) -> bool) -> Vec<Event> {
    let (mut reordered, mut waiting) = (Vec::new(), Vec::new());
    for event in log {
        if is_moved(&event) {
            waiting.push(event);
            continue;
        }
        let is_sync = matches!(event, Event::SyncDone { .. });
        reordered.push(event);
        if is_sync {
            reordered.append(&mut waiting);
        }
    }
    reordered.append(&mut waiting);
    reordered
}

/// Changes a record of a spare area so that it claims to be durable itself.
fn claim_durable(event: Event, layout: &Layout) -> Event {
    match event {
        Event::Write { at, data } if matches!(Region::of(layout, at), Region::Spare(_)) => {
            let mut data = data.to_vec();
            for bytes in data.chunks_exact_mut(layout.record as usize) {
                if let RecordState::Written(mut record) =
                    Record::decode(bytes, layout.units_per_program)
                {
                    record.durable = record.stamp;
                    record.encode(bytes);
                }
            }
            Event::Write { at, data: data.into() }
        }
        other => other,
    }
}

/// Clears the checksum of the previous batch in a batch of the log of trims.
fn unchain_batch(event: Event, layout: &Layout) -> Event {
    match event {
        Event::Write { at, data } if is_trims(Some(Region::of(layout, at))) => {
            let mut data = data.to_vec();
            data[24..28].fill(0);
            set_sum(&mut data);
            Event::Write { at, data: data.into() }
        }
        other => other,
    }
}

/// Bytes in the head of a dump before its entries, or of a batch of trims before its records (docs/FORMAT.md).
pub(crate) const HEAD: usize = 32;

/// Bytes of a unit's entry in the head of a dump.
pub(crate) const ENTRY: usize = 16;

/// Corrects the checksum of the head of a dump, or of a batch of trims: the last four of the first 32 bytes.
pub(crate) fn set_sum(bytes: &mut [u8]) {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..HEAD - 4]);
    sum.update(&bytes[HEAD..]);
    bytes[HEAD - 4..HEAD].copy_from_slice(&sum.finalize().to_le_bytes());
}

/// Returns the log with dumps that leave out units programmed since the last sync: their durable copies count
/// instead.
fn dump_without_programmed(log: Vec<Event>, layout: &Layout) -> Vec<Event> {
    let mut programmed: Vec<u32> = Vec::new();
    let forget = |event: Event| match event {
        Event::SyncBegun { .. } => {
            programmed.clear();
            event
        }
        Event::Write { at, data } => match Region::of(layout, at) {
            Region::Spare(_) => {
                for bytes in data.chunks_exact(layout.record as usize) {
                    if let RecordState::Written(record) =
                        Record::decode(bytes, layout.units_per_program)
                    {
                        programmed.extend(record.logical.iter().filter_map(|it| it.checked_sub(1)));
                    }
                }
                Event::Write { at, data }
            }
            Region::Dump(_) if data.starts_with(b"SSDSAVED") => {
                Event::Write { at, data: without_units(&data, &programmed).into() }
            }
            _ => Event::Write { at, data },
        },
        other => other,
    };
    log.into_iter().map(forget).collect()
}

/// Returns a dump in which the `programmed` units are older than anything on the flash.
fn without_units(dump: &[u8], programmed: &[u32]) -> Vec<u8> {
    let mut dump = dump.to_vec();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let end = HEAD + ENTRY * word(&dump[24..]) as usize;
    for entry in dump[HEAD..end].chunks_exact_mut(ENTRY) {
        if programmed.contains(&word(entry)) {
            // The highest bits mark units without data.
            entry[8..15].fill(0);
            entry[15] &= 0xc0;
        }
    }
    set_sum(&mut dump[..end]);
    dump
}
