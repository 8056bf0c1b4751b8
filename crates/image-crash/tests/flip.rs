//! Damage to an image is told: every sector reads as it should, or fails, and then `check` says so.

use std::collections::BTreeMap;

use ssdlab_attach::image::layout::Layout;
use ssdlab_attach::image::spare::{Record, RecordState};
use ssdlab_image_crash::corruption::{Case, Damage, Verdict};
use ssdlab_image_crash::crash::Region;
use ssdlab_image_crash::faulty_readers::use_older_state;
use ssdlab_image_crash::history::{Step, UNIT};
use ssdlab_image_crash::pages::Pages;
use ssdlab_image_crash::setup::Setup;

/// Damages of each kind of drive.
const DAMAGES: usize = 4000;

/// Damages images of one kind of drive, of which every other was closed in order.
fn damaged(drive: &str) {
    let setup = Setup::named(drive).expect("it is there");
    let (mut tried, mut told) = (BTreeMap::<Region, usize>::new(), 0);
    for number in 1.. {
        let case = Case::numbered(setup, number).expect("a life without crashes");
        for (index, damage) in case.sample(200).into_iter().enumerate() {
            *tried.entry(case.region(damage)).or_default() += 1;
            match case.examine(damage) {
                Verdict::Right => {}
                Verdict::Reported => told += 1,
                verdict @ (Verdict::Unreported(_) | Verdict::WrongData { .. }) => {
                    let case = format!("flip --drive {drive} --seed {number} --only {index}");
                    panic!("{case} --most 200: {damage:?}: {verdict:?}");
                }
            }
        }
        if tried.values().sum::<usize>() > DAMAGES {
            break;
        }
    }
    println!("{drive}: {tried:?}, {told} of them told");
    assert!(told > DAMAGES / 100, "{told} damages were told of");
    let has = |region| tried.contains_key(&region);
    assert!(
        has(Region::Header) && has(Region::State) && has(Region::Spare(0)) && has(Region::Data)
    );
}

#[test]
fn damage_is_told() {
    damaged("plain");
}

#[test]
fn so_it_is_with_capacitors() {
    damaged("protected");
}

#[test]
fn so_it_is_when_single_blocks_are_collected() {
    damaged("single-blocks");
}

#[test]
fn so_it_is_with_a_map_on_flash() {
    damaged("map-on-flash");
}

/// Has damage found that a reader does not see who takes `seen` for the image.
fn find(seen: fn(&mut Pages, &Layout)) {
    let setup = Setup::named("plain").expect("it is there");
    for number in 1..20 {
        let case = Case::numbered(setup, number).expect("a life without crashes");
        let found = case.sample(300).into_iter().any(|damage| {
            matches!(
                case.examine_with(damage, seen),
                Verdict::Unreported(_) | Verdict::WrongData { .. }
            )
        });
        if found {
            return;
        }
    }
    panic!("nothing was found");
}

#[test]
fn a_reader_who_falls_back_to_an_older_state_is_found_out() {
    let setup = Setup::named("plain").expect("it is there");
    let sectors = 256 * UNIT;
    // The state before the latest says that the drive was closed in order, and nothing was erased since.
    let mut steps = vec![Step::Write(0, sectors / 4, false), Step::Flush, Step::Close];
    steps.extend((0..64).map(|unit| Step::Write(unit * UNIT, UNIT, false)));
    let case = Case::from_steps(setup, &steps, 1).expect("a life without crashes");
    let damages: Vec<Damage> = case.sample(2000);
    let of_state = damages.into_iter().filter(|it| case.region(*it) == Region::State);
    let mut outcomes = [0, 0];
    for damage in of_state {
        assert!(matches!(case.examine(damage), Verdict::Right | Verdict::Reported), "{damage:?}");
        let verdict = case.examine_with(damage, use_older_state);
        let is_found = matches!(verdict, Verdict::Unreported(_) | Verdict::WrongData { .. });
        outcomes[usize::from(is_found)] += 1;
    }
    println!("missed and found: {outcomes:?}");
    assert!(outcomes[1] > 0, "nothing was found");
}

/// Changes the records of all program units that were written, in both copies.
fn change_records(
    image: &mut Pages,
    layout: &Layout,
    change: impl Fn(&mut Record, [&[u8]; 2], &[u8]),
) {
    for program in 0..layout.programs() {
        let copies = layout.records_at(program).map(|at| {
            let mut bytes = vec![0; layout.record as usize];
            image.read(&mut bytes, at);
            bytes
        });
        let [first, second] =
            [&copies[0], &copies[1]].map(|it| Record::decode(it, layout.units_per_program));
        let ((RecordState::Written(mut record), _) | (_, RecordState::Written(mut record))) =
            (first, second)
        else {
            continue;
        };
        let mut data = vec![0; layout.program_size() as usize];
        image.read(&mut data, layout.data_at(program));
        change(&mut record, [&copies[0], &copies[1]], &data);
        let mut bytes = vec![0; layout.record as usize];
        record.encode(&mut bytes);
        for at in layout.records_at(program) {
            image.write(&bytes, at);
        }
    }
}

#[test]
fn a_reader_who_does_not_compare_data_with_its_checksums_is_found_out() {
    find(|image, layout| {
        change_records(image, layout, |record, _, data| {
            let units = data.chunks(layout.unit as usize);
            for ((sum, logical), data) in record.sums.iter_mut().zip(&record.logical).zip(units) {
                if *logical != 0 {
                    *sum = crc32fast::hash(data);
                }
            }
        });
    });
}

#[test]
fn a_reader_who_does_not_compare_records_with_their_checksums_is_found_out() {
    find(|image, layout| {
        let first_logical = 40;
        change_records(image, layout, |record, [first, second], _| {
            // What a copy names counts, right or wrong.
            for (index, logical) in record.logical.iter_mut().enumerate() {
                let word = |bytes: &[u8]| {
                    let at = first_logical + 4 * index;
                    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
                };
                let changed = [first, second].map(word).into_iter().find(|it| it != logical);
                *logical = changed.unwrap_or(*logical);
            }
        });
    });
}
