//! Findings about throughput over the request size.

use ssdlab_units::ByteLength;

use super::{Measured, Operation, Protocol, SMALL, State};
use crate::experiment::text_format::{join_names, throughput};
use crate::experiment::{Record, Settings};
use crate::output::format::{fixed, significant};
use crate::report::Level;

/// Share of the peak from which a curve counts as saturated.
const SATURATED: f64 = 0.95;

/// Maximum relative difference at which throughputs count as equal.
const SAME: f64 = 0.03;

/// Loss by preconditioning from which a finding is a warning.
const WARNING: f64 = 0.2;

/// Adds the findings of a run, even if it did not complete.
pub(super) fn conclude(
    protocol: &Protocol,
    measured: &[Measured],
    state: &State,
    settings: &Settings,
    record: &mut Record,
) {
    // A drive that was not written to is not a used one, whatever the name of its column.
    let was_used = protocol.used > ByteLength::ZERO;
    if was_used {
        new_versus_used_finding(measured, record);
    }
    saturation_finding(measured, record);
    random_versus_sequential_finding(measured, record);
    if was_used {
        small_write_finding(measured, record);
    }
    if !protocol.skipped.is_empty() {
        let sizes: Vec<String> = protocol.skipped.iter().map(ByteLength::to_string).collect();
        record.add_finding(
            Level::Info,
            "sizes-left-out",
            format!(
                "Requests of {} were left out: the drive does not take them.",
                join_names(&sizes)
            ),
        );
    }
    if let Some(purge) = state.purge {
        purge.add_finding(record);
    }
    let has_used = measured.iter().any(|one| one.operation == Operation::SeqWriteUsed);
    if has_used && !state.on_copies {
        record.add_finding(
            Level::Info,
            "one-after-the-other",
            "Writes to the used drive went from the smallest requests to the largest, each size \
             finding the drive as the one before had left it."
                .to_owned(),
        );
    }
    record.add_shortened_finding(settings);
}

fn curve(measured: &[Measured], operation: Operation) -> Vec<&Measured> {
    let mut curve: Vec<&Measured> =
        measured.iter().filter(|one| one.operation == operation).collect();
    curve.sort_by_key(|one| one.size);
    curve
}

fn peak_speed(curve: &[&Measured]) -> Option<f64> {
    curve.iter().map(|one| one.mb_per_second).reduce(f64::max)
}

/// Returns the smallest size from which a curve stays at or above `level`.
fn smallest_saturating_size(curve: &[(ByteLength, f64)], level: f64) -> Option<ByteLength> {
    let stays = curve.iter().rev().take_while(|(_, value)| *value >= level);
    stays.last().map(|(size, _)| *size)
}

/// Adds a finding with the peak of each curve, and the smallest request that reaches it.
fn saturation_finding(measured: &[Measured], record: &mut Record) {
    let peaks: Vec<String> = Operation::ALL
        .into_iter()
        .filter_map(|operation| {
            let curve = curve(measured, operation);
            let peak = peak_speed(&curve)?;
            let points: Vec<_> = curve.iter().map(|one| (one.size, one.mb_per_second)).collect();
            let at = match smallest_saturating_size(&points, SATURATED * peak) {
                Some(size) => format!("from {size} on"),
                None => {
                    let (size, _) = points.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
                    format!("at {size}, less with larger ones")
                }
            };
            Some(format!("{} {} ({at})", operation.words(), throughput(peak)))
        })
        .collect();
    if !peaks.is_empty() {
        record.add_finding(
            Level::Info,
            "peaks",
            format!(
                "Peaks, and the request size from which {:.0} % of them is reached: {}.",
                SATURATED * 100.0,
                join_names(&peaks)
            ),
        );
    }
}

/// Returns the sizes that both operations were measured with: size, first, second.
fn pairs(measured: &[Measured], a: Operation, b: Operation) -> Vec<(ByteLength, f64, f64)> {
    let second = curve(measured, b);
    curve(measured, a)
        .into_iter()
        .filter_map(|one| {
            let other = second.iter().find(|other| other.size == one.size)?;
            Some((one.size, one.mb_per_second, other.mb_per_second))
        })
        .collect()
}

fn new_versus_used_finding(measured: &[Measured], record: &mut Record) {
    let all = pairs(measured, Operation::SeqWriteNew, Operation::SeqWriteUsed);
    let pairs: Vec<_> = all.into_iter().filter(|pair| pair.0 >= SMALL).collect();
    let change = |pair: &(ByteLength, f64, f64)| pair.2 / pair.1 - 1.0;
    let worst = pairs.iter().min_by(|a, b| change(a).total_cmp(&change(b)));
    let best = pairs.iter().max_by(|a, b| change(a).total_cmp(&change(b)));
    let (Some(worst), Some(best)) = (worst, best) else { return };
    let largest = change(worst).abs().max(change(best).abs());
    if largest <= SAME {
        let differ = match fixed(largest * 100.0, 1) {
            nothing if nothing == "0.0" => "are equally fast".to_owned(),
            percent => format!("differ by at most {percent} %"),
        };
        record.add_finding(
            Level::Info,
            "writes-as-new",
            format!(
                "Sequential writes do not depend on use: new and used {differ} with requests of \
                 {SMALL} and more."
            ),
        );
    } else if change(worst) < -SAME {
        let level = if change(worst) <= -WARNING { Level::Warning } else { Level::Notice };
        let is_it =
            |one: &&Measured| (one.operation, one.size) == (Operation::SeqWriteUsed, worst.0);
        let cause = match measured.iter().find(is_it).and_then(|one| one.moved) {
            Some(0) => {
                "Garbage collection moved nothing meanwhile, so it is not the cause. A likely one \
                 is a write cache that the earlier writes filled: `run write-cliff` shows it."
            }
            _ => {
                "Likely cause: garbage collection has to move the valid data that the random \
                 writes left to free blocks. Trimming free space, or more over-provisioning, \
                 helps."
            }
        };
        record.add_finding(
            level,
            "writes-slower-used",
            format!(
                "Sequential writes are up to {:.0} % slower on the used drive: {} instead of {} \
                 with requests of {}. {cause}",
                -change(worst) * 100.0,
                throughput(worst.2),
                throughput(worst.1),
                worst.0
            ),
        );
    } else {
        record.add_finding(
            Level::Notice,
            "writes-faster-used",
            format!(
                "Sequential writes are up to {} on the used drive: {} instead of {} with requests \
                 of {}. Likely cause: a first write has to allocate its blocks, in a file system, \
                 a host below a virtual drive or the drive itself; or something else used the \
                 drive meanwhile. Repeat the run, with a longer time, before relying on it.",
                gain_text(change(best)),
                throughput(best.2),
                throughput(best.1),
                best.0
            ),
        );
    }
}

/// Returns a gain in words: in percent, or as a factor if it is at least one.
fn gain_text(gain: f64) -> String {
    if gain >= 1.0 {
        format!("{} times as fast", significant(gain + 1.0))
    } else {
        format!("{:.0} % faster", gain * 100.0)
    }
}

/// Adds a finding about writes smaller than most mapping units, which are slow because of read-modify-write,
/// not GC.
fn small_write_finding(measured: &[Measured], record: &mut Record) {
    let all = pairs(measured, Operation::SeqWriteNew, Operation::SeqWriteUsed);
    let loss = |pair: &&(ByteLength, f64, f64)| 1.0 - pair.2 / pair.1;
    let small = all.iter().filter(|pair| pair.0 < SMALL);
    let Some(worst) = small.max_by(|a, b| loss(a).total_cmp(&loss(b))) else { return };
    // Larger writes lose speed by GC, and small ones lose that, too.
    let of_larger = all.iter().filter(|pair| pair.0 >= SMALL).map(|pair| loss(&pair));
    if loss(&worst) > of_larger.fold(0.0, f64::max) + SAME {
        record.add_finding(
            Level::Info,
            "small-writes-merged",
            format!(
                "Sequential writes of {} are {:.0} % slower on the used drive, {} instead of {}. \
                 Likely cause: read-modify-write of requests smaller than the drive's mapping \
                 unit.",
                worst.0,
                loss(&worst) * 100.0,
                throughput(worst.2),
                throughput(worst.1)
            ),
        );
    }
}

fn random_versus_sequential_finding(measured: &[Measured], record: &mut Record) {
    let pairs = pairs(measured, Operation::SeqRead, Operation::RandRead);
    let small = pairs.iter().find(|pair| pair.0 >= SMALL).or(pairs.first());
    let Some(&(size, sequential, random)) = small else { return };
    if random >= sequential * (1.0 - SAME) {
        let is_faster = random > sequential * (1.0 + SAME);
        record.add_finding(
            Level::Info,
            if is_faster { "random-reads-faster" } else { "random-reads-as-fast" },
            format!(
                "Random reads of {size} are {} sequential ones: {} against {}.{}",
                if is_faster { "faster than" } else { "as fast as" },
                throughput(random),
                throughput(sequential),
                if is_faster {
                    " Likely cause: consecutive blocks lie on few dies or disks, and random \
                     requests spread over more of them. Larger sequential requests, or more in \
                     flight, do the same."
                } else {
                    ""
                }
            ),
        );
        return;
    }
    let shares: Vec<_> = pairs.iter().map(|pair| (pair.0, pair.2 / pair.1)).collect();
    let until = match smallest_saturating_size(&shares, SATURATED) {
        Some(size) => format!("; from {size} on there is no difference"),
        None if pairs.len() == 1 => String::new(),
        None => "; up to the largest size measured they do not catch up".to_owned(),
    };
    record.add_finding(
        Level::Info,
        "random-reads-slower",
        format!(
            "Random reads of {size} reach {:.0} % of sequential ones, {} against {}{until}. Likely \
             cause: consecutive blocks share a flash page and are read ahead, while each random \
             request needs a map lookup and a sense of its own. Larger requests, or more in \
             flight, help.",
            random / sequential * 100.0,
            throughput(random),
            throughput(sequential)
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::blocksize::BlockSize;
    use ssdlab_units::{GIB, KIB, Nanoseconds};

    fn found(curves: &[(Operation, &[(u64, f64)])]) -> Vec<(String, String)> {
        found_after(GIB, curves)
    }

    fn found_after(
        used: ByteLength,
        curves: &[(Operation, &[(u64, f64)])],
    ) -> Vec<(String, String)> {
        let measured: Vec<Measured> = curves
            .iter()
            .flat_map(|(operation, points)| {
                points.iter().map(|&(kib, mb_per_second)| Measured {
                    operation: *operation,
                    size: KIB * kib,
                    mb_per_second,
                    iops: 1.0,
                    moved: None,
                })
            })
            .collect();
        let settings = Settings::new(&BlockSize, false, &[]).unwrap();
        let protocol = Protocol {
            sizes: Vec::new(),
            skipped: vec![ByteLength::new(512)],
            time: Nanoseconds::from_secs(1),
            depth: 4,
            area: GIB,
            used,
        };
        let mut record = Record::default();
        conclude(&protocol, &measured, &State::default(), &settings, &mut record);
        record.findings.into_iter().map(|one| (one.code, one.text)).collect()
    }

    fn text(found: &[(String, String)], code: &str) -> String {
        let one = found.iter().find(|(own, _)| own == code);
        one.unwrap_or_else(|| panic!("no {code} in {found:?}")).1.clone()
    }

    #[test]
    fn peaks_name_the_size_that_reaches_them() {
        let read = [(4, 100.0), (64, 240.0), (128, 250.0), (1024, 249.0)];
        let found = found(&[(Operation::SeqRead, &read)]);
        assert!(text(&found, "peaks").contains("sequential read 250 MB/s (from 64 KiB on)"));
        assert!(text(&found, "sizes-left-out").contains("512 B"));
    }

    #[test]
    fn what_use_costs_is_said_only_where_it_costs() {
        let new = [(4, 100.0), (128, 170.0)];
        let of = |used: &[(u64, f64)]| {
            found(&[(Operation::SeqWriteNew, &new), (Operation::SeqWriteUsed, used)])
        };
        text(&of(&[(4, 99.0), (128, 171.0)]), "writes-as-new");
        let slower = of(&[(4, 100.0), (128, 85.0)]);
        assert!(text(&slower, "writes-slower-used").contains("50 % slower"));
        text(&of(&[(4, 110.0), (128, 170.0)]), "writes-faster-used");
    }

    #[test]
    fn equal_curves_do_not_differ_and_a_multiple_is_no_percentage() {
        let new = [(4, 100.0), (128, 170.0)];
        let of = |used: &[(u64, f64)]| {
            found(&[(Operation::SeqWriteNew, &new), (Operation::SeqWriteUsed, used)])
        };
        assert!(text(&of(&new), "writes-as-new").contains("new and used are equally fast"));
        assert!(text(&of(&[(4, 101.0)]), "writes-as-new").contains("at most 1.0 %"));
        let faster = text(&of(&[(4, 1750.0), (128, 170.0)]), "writes-faster-used");
        assert!(faster.contains("up to 17.5 times as fast"), "{faster}");
        assert!(faster.contains("Likely cause"), "{faster}");
    }

    #[test]
    fn a_drive_that_was_not_used_says_nothing_of_use() {
        let curve = [(1, 25.0), (4, 100.0)];
        let curves = [(Operation::SeqWriteNew, &curve[..]), (Operation::SeqWriteUsed, &curve[..])];
        let found = found_after(ByteLength::ZERO, &curves);
        assert!(found.iter().all(|(code, _)| !code.starts_with("writes-")), "{found:?}");
    }

    #[test]
    fn a_curve_that_falls_again_has_not_saturated() {
        let sequential = [(4, 100.0), (16, 200.0), (64, 250.0), (128, 180.0)];
        let random = [(4, 50.0), (16, 199.0), (64, 240.0), (128, 90.0)];
        let found = found(&[(Operation::SeqRead, &sequential), (Operation::RandRead, &random)]);
        let peaks = text(&found, "peaks");
        assert!(peaks.contains("sequential read 250 MB/s (at 64 KiB, less with larger ones)"));
        let slower = text(&found, "random-reads-slower");
        assert!(slower.contains("they do not catch up"), "{slower}");
    }

    #[test]
    fn small_writes_are_another_story() {
        let new = [(1, 10.0), (4, 100.0)];
        let used = [(1, 7.0), (4, 100.0)];
        let found = found(&[(Operation::SeqWriteNew, &new), (Operation::SeqWriteUsed, &used)]);
        assert_eq!(found[0].0, "writes-as-new");
        assert!(text(&found, "small-writes-merged").contains("30 % slower"));
    }

    #[test]
    fn small_writes_that_lose_what_larger_ones_lose_are_not_another_story() {
        let new = [(1, 10.0), (4, 100.0), (128, 300.0)];
        let used = [(1, 7.0), (4, 70.0), (128, 200.0)];
        let found = found(&[(Operation::SeqWriteNew, &new), (Operation::SeqWriteUsed, &used)]);
        assert!(found.iter().all(|(code, _)| code != "small-writes-merged"), "{found:?}");
    }

    #[test]
    fn collection_that_moved_nothing_is_not_blamed() {
        let one = |operation, mb_per_second, moved| Measured {
            operation,
            size: KIB * 128,
            mb_per_second,
            iops: 1.0,
            moved,
        };
        let said = |moved| {
            let mut record = Record::default();
            let new = one(Operation::SeqWriteNew, 300.0, Some(0));
            new_versus_used_finding(
                &[new, one(Operation::SeqWriteUsed, 100.0, moved)],
                &mut record,
            );
            record.findings.remove(0).text
        };
        assert!(said(Some(0)).contains("Garbage collection moved nothing meanwhile"));
        assert!(said(Some(9)).contains("collection has to move"));
        assert!(said(None).contains("collection has to move"));
    }

    #[test]
    fn random_reads_are_held_against_sequential_ones_of_4_kib() {
        let sequential = [(1, 10.0), (4, 100.0), (128, 250.0)];
        let of = |random: &[(u64, f64)]| {
            found(&[(Operation::SeqRead, &sequential), (Operation::RandRead, random)])
        };
        let slower = text(&of(&[(1, 1.0), (4, 30.0), (128, 245.0)]), "random-reads-slower");
        assert!(slower.contains("of 4 KiB reach 30 %") && slower.contains("from 128 KiB on"));
        text(&of(&[(4, 99.0)]), "random-reads-as-fast");
    }
}
