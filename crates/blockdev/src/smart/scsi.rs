//! SCSI and SAS: grown defects, error counters, the endurance indicator and the newest self-test.

use ssdlab_units::ByteLength;

use super::signs::Counter;
use super::smartctl::{Report, ScsiSelfTest};
use super::{SelfTest, Smart, hours_since};

/// Returns the state of a SCSI drive.
pub(super) fn smart(report: &Report) -> Smart {
    let counters = &report.scsi_error_counter_log;
    let gigabytes = counters.write.gigabytes_processed.0;
    let counted = [
        (Counter::GrownDefects, report.scsi_grown_defect_list.0),
        (Counter::Pending, report.scsi_pending_defects.count.0),
        (Counter::UncorrectedReads, counters.read.total_uncorrected_errors.0),
        (Counter::UncorrectedWrites, counters.write.total_uncorrected_errors.0),
        (Counter::UncorrectedVerifies, counters.verify.total_uncorrected_errors.0),
    ];
    let told: Vec<u64> = counted.iter().filter_map(|(_, count)| *count).collect();
    let mut smart = Smart {
        percentage_used: report
            .scsi_percentage_used_endurance_indicator
            .0
            .or(report.endurance_used.current_percent.0),
        written: gigabytes.map(|gigabytes| ByteLength::new((gigabytes * 1e9) as u64)),
        hours_on: report.power_on_time.hours.0,
        media_errors: (!told.is_empty())
            .then(|| told.iter().fold(0, |sum, it| it.saturating_add(sum))),
        ..Smart::default()
    };
    for (counter, count) in counted {
        smart.add_count(counter, count);
    }
    let tests = report.scsi_self_tests.iter();
    smart.add_self_tests(tests.filter_map(|test| test.outcome(smart.hours_on)).collect());
    smart
}

impl ScsiSelfTest {
    /// Returns the outcome; `None` if the test was aborted (1, 2) or still runs (15): SPC-5, log page
    /// 10h.
    fn outcome(&self, now: Option<u64>) -> Option<SelfTest> {
        let passed = match self.result.value.0? {
            0 => true,
            3..=7 => false,
            _ => return None,
        };
        Some(SelfTest {
            passed,
            // Extended, in the background or in the foreground.
            is_extended: matches!(self.code.value.0, Some(2 | 6)),
            said: self.result.string.get().unwrap_or_default(),
            hours_ago: hours_since(self.power_on_time.hours.0, now),
        })
    }
}
