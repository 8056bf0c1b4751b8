//! A table of reports, written from facts of drives that are or were sold, each with its right verdicts.

#[path = "../stacks/machine.rs"]
#[allow(dead_code)]
mod machine;
mod report;

use serde_json::json;
use ssdlab_host::Captured;
use ssdlab_host::doctor::Verdict::{self, Fine, Notice, Problem, Unknown, Warning};
use ssdlab_host::doctor::{self, Check, Diagnosis};

use crate::machine::MachineBuilder;
use crate::report::{Kind, Report, disk, nvme, sas, ssd};

/// A report with outcomes of checks, and words that they have.
type Case = (Report, &'static [(&'static str, Verdict, &'static str)]);

const SOUND: (&str, Verdict, &str) = ("errors", Fine, "none reported");

const MEDIA: (&str, Verdict, &str) = ("errors", Warning, "smartctl -t long");

/// SATA SSDs whose makers count writes in units of their own.
fn writes() -> Vec<Case> {
    let w = |model, id, name, raw| ssd(model).attribute(id, name, 100, raw);
    vec![
        // 2,000,000 sectors of 512 bytes: 976.6 MiB.
        (
            w("Samsung SSD 860 EVO 500GB", 241, "Total_LBAs_Written", 2_000_000),
            &[("endurance", Fine, "977 MiB written"), SOUND],
        ),
        (
            w("INTEL SSDSC2CW240A3", 225, "Host_Writes_32MiB", 320_000),
            &[("endurance", Fine, "9.77 TiB written"), SOUND],
        ),
        (
            w("INTEL SSDSC2BB480G6", 241, "Host_Writes_32MiB", 320_000),
            &[("endurance", Fine, "9.77 TiB written"), SOUND],
        ),
        (
            w("ADATA SU800", 241, "Host_Writes_32MiB", 64_000),
            &[("endurance", Fine, "1.95 TiB written"), SOUND],
        ),
        (
            w("TS256GSSD370S", 241, "Host_Writes_32MiB", 64_000),
            &[("endurance", Fine, "1.95 TiB written"), SOUND],
        ),
        (
            w("KINGSTON SV300S37A120G", 241, "Lifetime_Writes_GiB", 10_240),
            &[("endurance", Fine, "10 TiB written"), SOUND],
        ),
        (
            w("KINGSTON SA400S37240G", 241, "Host_Writes_GiB", 10_240),
            &[("endurance", Fine, "10 TiB written"), SOUND],
        ),
        // Against what the maker rates, by a figure that was read, that nobody has verified, or that there is not.
        (
            w("CT1000MX500SSD1", 241, "Host_Writes_GiB", 400_000),
            &[
                ("endurance", Warning, "of the 360 TB it is rated for (Crucial, product flyer"),
                SOUND,
            ],
        ),
        (
            w("CT1000MX500SSD1", 241, "Host_Writes_GiB", 300_000),
            &[("endurance", Notice, "89.5 % of the 360 TB"), SOUND],
        ),
        (
            w("KINGSTON SKC6001024G", 241, "Host_Writes_GiB", 600_000),
            &[
                (
                    "endurance",
                    Notice,
                    "of the 600 TB it is rated for by the project's table, unverified",
                ),
                SOUND,
            ],
        ),
        (
            w("KINGSTON SKC6001024G", 241, "Host_Writes_GiB", 10_240),
            &[
                ("endurance", Fine, "the maker's own figure: Kingston, data sheet of the KC600"),
                SOUND,
            ],
        ),
        (
            w("Samsung SSD 840 EVO 750GB", 241, "Host_Writes_GiB", 300_000),
            &[("endurance", Fine, "which gave no figure for the 840"), SOUND],
        ),
        (
            w("CT500MX500SSD1", 246, "Total_LBAs_Written", 20_000_000_000),
            &[("endurance", Fine, "9.31 TiB written"), SOUND],
        ),
        (
            w("Micron_5200_MTFDDAK960TDC", 246, "Total_LBAs_Written", 20_000_000_000),
            &[("endurance", Fine, "9.31 TiB written"), SOUND],
        ),
        (
            w("SanDisk SDSSDH3 500G", 241, "Total_Writes_GiB", 2_048),
            &[("endurance", Fine, "2 TiB written"), SOUND],
        ),
        (
            w("SanDisk SSD U110 32GB", 241, "Total_Writes_GB", 2_000),
            &[("endurance", Fine, "1.82 TiB written"), SOUND],
        ),
        (
            w("OCZ-VERTEX", 199, "Host_Writes_GiB", 1_024),
            &[("endurance", Fine, "1 TiB written"), SOUND],
        ),
        (
            w("ZA960NM10001", 241, "Lifetime_Wts_Frm_Hst_GB", 2_000),
            &[("endurance", Fine, "1.82 TiB written"), SOUND],
        ),
        (
            w("PLEXTOR PX-256M5P", 175, "Host_Writes_MiB", 1_048_576),
            &[("endurance", Fine, "1 TiB written"), SOUND],
        ),
        // The drive's own statistics count more than an attribute.
        (
            w("INTEL SSDSC2KG480G8", 241, "Host_Writes_32MiB", 7)
                .statistics(&[("Logical Sectors Written", 2_147_483_648)]),
            &[("endurance", Fine, "1 TiB written"), SOUND],
        ),
        // To the flash as well, by its own count or by pages.
        (
            w("INTEL SSDSC2BF180A4L", 241, "Host_Writes_32MiB", 32_768).attribute(
                249,
                "NAND_Writes_1GiB",
                100,
                2_048,
            ),
            &[("endurance", Fine, "write amplification 2.00"), SOUND],
        ),
        (
            w("CT1000MX500SSD1", 246, "Total_LBAs_Written", 2_147_483_648)
                .attribute(247, "Host_Program_Page_Count", 100, 1_000)
                .attribute(248, "FTL_Program_Page_Count", 100, 500),
            &[("endurance", Fine, "write amplification 1.50"), SOUND],
        ),
        (
            w("SanDisk SD8SB8U256G1122", 241, "Total_Writes_GB", 1_000)
                .attribute(233, "NAND_GB_Written_TLC", 100, 1_500)
                .attribute(234, "NAND_GB_Written_SLC", 100, 500),
            &[("endurance", Fine, "write amplification 2.00"), SOUND],
        ),
        // Of a drive that nobody described, the unit is not known, and that is said.
        (
            w("Nameless SSD 240GB", 241, "Total_LBAs_Written", 5_000)
                .set("in_smartctl_database", false),
            &[("endurance", Unknown, "241 (Total_LBAs_Written), which counts 5000"), SOUND],
        ),
        (
            w("KingSpec NT-256", 241, "Host_Writes", 5_000),
            &[("endurance", Unknown, "241 (Host_Writes), which counts 5000"), SOUND],
        ),
    ]
}

/// Wear, by each maker's count.
fn wear() -> Vec<Case> {
    let w = |model, id, name, value| ssd(model).attribute(id, name, value, 0);
    vec![
        (
            w("Samsung SSD 850 EVO 250GB", 177, "Wear_Leveling_Count", 84),
            &[("wear", Fine, "16 %"), SOUND],
        ),
        (
            w("INTEL SSDSC2BW240A4", 233, "Media_Wearout_Indicator", 97),
            &[("wear", Fine, "3 %"), SOUND],
        ),
        (w("KINGSTON SKC600512G", 231, "SSD_Life_Left", 15), &[("wear", Notice, "85 %"), SOUND]),
        (
            w("CT250MX500SSD1", 202, "Percent_Lifetime_Remain", 8),
            &[("wear", Warning, "92 %"), SOUND],
        ),
        (w("CT256M4SSD2", 202, "Perc_Rated_Life_Used", 70), &[("wear", Fine, "30 %"), SOUND]),
        (
            ssd("TS128GSSD230S").attribute(169, "Remaining_Lifetime_Perc", 100, 93),
            &[("wear", Fine, "7 %"), SOUND],
        ),
        (w("APPLE SSD SM0256F", 173, "Wear_Leveling_Count", 60), &[("wear", Fine, "40 %"), SOUND]),
        (
            ssd("SAMSUNG MZ7LH1T9HMLT-00005")
                .statistics(&[("Percentage Used Endurance Indicator", 99)]),
            &[("wear", Warning, "about 4 days"), SOUND],
        ),
        (
            ssd("SAMSUNG MZ7KM480HAHP").statistics(&[("Percentage Used Endurance Indicator", 104)]),
            &[("wear", Problem, "104 %"), SOUND],
        ),
        // WD counts in the raw value of 230; the normalised one says nothing.
        (
            w("WDC WDS500G2B0A-00SM50", 230, "Media_Wearout_Indicator", 1),
            &[("wear", Unknown, "not known"), SOUND],
        ),
        (
            ssd("INTEL SSDSC2BA400G3")
                .row(json!({"id": 170, "name": "Available_Reservd_Space", "value": 9,
                "thresh": 10, "when_failed": "now", "flags": {"prefailure": true}})),
            &[
                ("wear", Problem, "9 % of the spare"),
                ("errors", Problem, "170 (Available_Reservd_Space)"),
            ],
        ),
    ]
}

/// SATA drives, flash and spinning, that fail, or only look as if they did.
fn errors() -> Vec<Case> {
    vec![
        (
            ssd("Samsung SSD 870 EVO 1TB").attribute(187, "Uncorrectable_Error_Cnt", 99, 12),
            &[("errors", Warning, "12 uncorrectable errors"), MEDIA],
        ),
        (
            ssd("CT480BX500SSD1").attribute(187, "Reported_Uncorrect", 100, 1),
            &[("errors", Warning, "1 uncorrectable error reported")],
        ),
        (
            ssd("CT500MX500SSD1").attribute(197, "Current_Pending_ECC_Cnt", 100, 1),
            &[("errors", Warning, "1 sector that waits")],
        ),
        (
            ssd("Samsung SSD 840 Series").attribute(198, "Offline_Uncorrectable", 100, 4),
            &[("errors", Warning, "4 sectors that its own scan")],
        ),
        (
            ssd("INTEL SSDSC2BB240G7").attribute(184, "End-to-End_Error", 100, 2),
            &[("errors", Warning, "end-to-end")],
        ),
        (
            ssd("KINGSTON SUV400S37240G").attribute(171, "Program_Fail_Count", 100, 2),
            &[("errors", Notice, "2 programs")],
        ),
        (
            ssd("KINGSTON SUV400S37240G").attribute(172, "Erase_Fail_Count", 100, 1),
            &[("errors", Notice, "1 erase")],
        ),
        // Names that only share the number.
        (
            ssd("OCZ-VERTEX").attribute(198, "Host_Reads_GiB", 100, 900).attribute(
                197,
                "ECC_Error_Count",
                100,
                3,
            ),
            &[SOUND],
        ),
        (ssd("CT256M4SSD2").attribute(181, "Non4k_Aligned_Access", 100, 77_000), &[SOUND]),
        (
            ssd("Nameless").set("in_smartctl_database", false).attribute(
                181,
                "Program_Fail_Cnt_Total",
                100,
                9,
            ),
            &[SOUND],
        ),
        (
            ssd("INTEL SSDSA2M080G2GC").failed(5, "Reallocated_Sector_Ct", "now", true),
            &[("errors", Problem, "5 (Reallocated_Sector_Ct) is beyond")],
        ),
        (
            ssd("INTEL SSDSA2M080G2GC").failed(233, "Media_Wearout_Indicator", "now", false),
            &[("errors", Warning, "233")],
        ),
        (
            ssd("TOSHIBA THNSNH128GCST").failed(5, "Reallocated_Sector_Ct", "past", true),
            &[("errors", Warning, "was beyond")],
        ),
        (
            disk("ST1000DM003-1CH162").failed(190, "Airflow_Temperature_Cel", "past", false),
            &[("errors", Notice, "190")],
        ),
        (
            disk("ST1000DM003-1CH162").failed(190, "Airflow_Temperature_Cel", "now", true),
            &[("errors", Warning, "heat")],
        ),
        (
            ssd("Samsung SSD 850 PRO 512GB").attribute(199, "CRC_Error_Count", 99, 4),
            &[("errors", Notice, "cable")],
        ),
        (
            ssd("Samsung SSD 860 EVO 1TB").set("smart_status.passed", false),
            &[("errors", Problem, "FAILED")],
        ),
        // 43 failed commands of which the newest could not be read, three days ago or two years.
        (
            disk("WDC WD10EZEX-08WN4A0").errors(43, 9_928, 0x40, "Error: UNC at LBA = 0x0012 = 18"),
            &[("errors", Warning, "43 errors in its log: unreadable data, the newest 3 days")],
        ),
        (
            disk("ST3500418AS").set("power_on_time.hours", 40_000).errors(2, 22_000, 0x40, ""),
            &[("errors", Notice, "750 days of power-on time ago")],
        ),
        (
            ssd("SanDisk SDSSDA240G").errors(6, 10_000, 0x04, "Error: ABRT"),
            &[("errors", Notice, "refused commands")],
        ),
        (
            ssd("SPCC Solid State Disk").errors(3, 9_000, 0x84, "Error: ICRC, ABRT at LBA = 0"),
            &[("errors", Notice, "cable")],
        ),
        (
            ssd("Samsung SSD 840 EVO 120GB").tests(&[(false, 0x79, 9_976)]),
            &[("errors", Problem, "failed 24 hours of power-on time ago (Completed: read failure")],
        ),
        (
            disk("Hitachi HDS721010CLA332").tests(&[(false, 0, 9_990), (true, 0x79, 9_000)]),
            &[("errors", Warning, "41 days of power-on time ago")],
        ),
        (
            disk("Hitachi HDS721010CLA332").tests(&[(true, 0, 9_990), (true, 0x79, 9_000)]),
            &[("errors", Fine, "the last self-test passed 10 hours")],
        ),
        (
            disk("Hitachi HDS721010CLA332").tests(&[(true, 0x10, 9_990), (false, 0, 9_000)]),
            &[SOUND],
        ),
        // Logs of drives that have the older form alone.
        (
            disk("ST3500418AS").set("ata_smart_error_log", json!({"summary": {"count": 2, "table": [
                {"lifetime_hours": 9_990, "completion_registers": {"error": 64}}]}})),
            &[("errors", Warning, "2 errors in its log: unreadable data")],
        ),
        (
            disk("ST3500418AS").set("ata_smart_self_test_log", json!({"standard": {"table": [
                {"type": {"value": 1}, "status": {"value": 0x79, "string": "Completed: read failure"},
                 "lifetime_hours": 9_976}]}})),
            &[("errors", Problem, "failed 24 hours")],
        ),
        // A sector that is not found, and one whose mark is not.
        (
            disk("WDC WD10EZEX-08WN4A0").errors(1, 9_928, 0x10, ""),
            &[("errors", Warning, "1 error in its log: unreadable data")],
        ),
        (
            disk("WDC WD10EZEX-08WN4A0").errors(1, 9_928, 0x01, "Error: AMNF at LBA = 0"),
            &[("errors", Warning, "1 error in its log: unreadable data")],
        ),
        // The worst cause in the log counts, and the worst sign comes first.
        (
            disk("WDC WD10EZEX-08WN4A0").errors(2, 9_928, 0x04, "").set(
                "ata_smart_error_log.extended.table",
                json!([{"lifetime_hours": 9_928, "completion_registers": {"error": 4}},
                       {"lifetime_hours": 9_900, "completion_registers": {"error": 64}}]),
            ),
            &[("errors", Warning, "2 errors in its log: unreadable data")],
        ),
        (
            ssd("KINGSTON SUV400S37240G")
                .attribute(171, "Program_Fail_Count", 100, 2)
                .failed(5, "Reallocated_Sector_Ct", "now", true),
            &[("errors", Problem, "beyond the maker's threshold; 2 programs")],
        ),
        // The hours of a test that has just ended may be ahead of those of the drive.
        (
            disk("Hitachi HDS721010CLA332").tests(&[(false, 0x79, 10_002)]),
            &[("errors", Problem, "of power-on time ago (Completed: read failure)")],
        ),
        // Hours of a self-test have 16 bits.
        (
            disk("WDC WD20EARS-00MVWB0")
                .set("power_on_time.hours", 70_000)
                .tests(&[(false, 0, 4_440)]),
            &[("errors", Fine, "passed 24 hours")],
        ),
        (
            disk("ST2000DM001-1ER164").attribute(197, "Current_Pending_Sector", 100, 16).attribute(
                198,
                "Offline_Uncorrectable",
                100,
                16,
            ),
            &[("errors", Warning, "Sectors have failed")],
        ),
        (
            disk("ST8000NM0055").set("ata_pending_defects_log", json!({"size": 255, "count": 3})),
            &[("errors", Warning, "3 sectors that wait")],
        ),
        (
            disk("TOSHIBA DT01ACA200").attribute(5, "Reallocated_Sector_Ct", 100, 8),
            &[("errors", Warning, "8 replaced sectors")],
        ),
        (disk("WDC WD40EFRX-68N32N0").attribute(5, "Reallocated_Sector_Ct", 200, 0), &[SOUND]),
        (
            ssd("Samsung SSD 850 EVO 500GB").link(30, 60),
            &[("controller", Notice, "3.0 Gb/s; the drive supports 6.0 Gb/s"), SOUND],
        ),
        (ssd("Samsung SSD 850 EVO 500GB").link(60, 60), &[("controller", Fine, "6.0 Gb/s"), SOUND]),
        (
            ssd("Samsung SSD 850 EVO 500GB")
                .set("trim", json!({"supported": true, "deterministic": true, "zeroed": true})),
            &[("trim-reads", Fine, "zeros")],
        ),
        (
            ssd("INTEL SSDSC2CT120A3")
                .set("trim", json!({"supported": true, "deterministic": true, "zeroed": false})),
            &[("trim-reads", Fine, "always read the same")],
        ),
        (
            ssd("TRANSCEND").set("trim", json!({"supported": false})),
            &[("trim-reads", Fine, "does not know TRIM")],
        ),
        (
            disk("ST4000VN008").set("temperature.current", 61),
            &[("temperature", Warning, "60 C"), SOUND],
        ),
        (
            ssd("INTEL SSDSC2KB960G8").set("temperature.current", 61),
            &[("temperature", Fine, "70 C"), SOUND],
        ),
        // smartctl could not read the health, and prints an attribute alone.
        (
            ssd("OCZ-AGILITY3").set("smart_status", json!({})).attribute(
                5,
                "Retired_Block_Count",
                90,
                7,
            ),
            &[("errors", Warning, "7 replaced")],
        ),
    ]
}

fn over_nvme() -> Vec<Case> {
    let test = |result: u64, kind: u64| {
        json!({"table": [null, {"self_test_code": {"value": kind}, "power_on_hours": 9_000,
            "self_test_result": {"value": result, "string": "Completed: failed segments"}}]})
    };
    let logged = |kind: u64| json!({"table": [{"error_count": 5, "status_field": {"status_code_type": kind, "string": "x"}}]});
    vec![
        (
            nvme("Samsung SSD 980 PRO 1TB"),
            &[SOUND, ("wear", Fine, "3 %"), ("endurance", Fine, "18.2 TiB written")],
        ),
        // Numbers as text.
        (
            nvme("KXG50ZNV512G TOSHIBA")
                .log("percentage_used", "91")
                .log("data_units_written", "39,062,500"),
            &[("wear", Warning, "91 %"), ("endurance", Fine, "18.2 TiB")],
        ),
        (
            nvme("INTEL SSDPEKNW512G8").log("percentage_used", 255),
            &[("wear", Problem, "255 %"), SOUND],
        ),
        (nvme("CT1000P1SSD8").log("available_spare", 9), &[("wear", Problem, "Less than 10 %")]),
        (nvme("CT1000P1SSD8").log("available_spare", 10), &[("wear", Fine, "10 % of the spare")]),
        (
            nvme("WDC PC SN730").log("critical_warning", 1),
            &[("errors", Problem, "spare blocks run out")],
        ),
        (
            nvme("SKHynix_HFS512GDE9X084N")
                .log("critical_warning", 2)
                .set("smart_status.passed", false),
            &[("errors", Warning, "too hot")],
        ),
        (
            nvme("Samsung SSD 970 EVO 1TB")
                .log("critical_warning", 4)
                .set("smart_status.passed", false),
            &[("errors", Problem, "not reliable")],
        ),
        (
            nvme("INTEL SSDPE2KX020T8").log("critical_warning", 8),
            &[("errors", Problem, "read-only")],
        ),
        (
            nvme("SAMSUNG MZPLL1T6HAJQ-00005").log("critical_warning", 16),
            &[("errors", Problem, "volatile memory")],
        ),
        (
            nvme("SAMSUNG MZQL2960HCJR").log("critical_warning", 32),
            &[("errors", Problem, "persistent memory")],
        ),
        (nvme("Future One").log("critical_warning", 64), &[("errors", Problem, "does not know")]),
        (
            nvme("PC300 NVMe SK hynix 512GB").log("media_errors", 5),
            &[("errors", Warning, "5 media errors")],
        ),
        (
            nvme("SAMSUNG MZVLB256HAHQ")
                .log("num_err_log_entries", 1_234)
                .set("nvme_error_information_log", logged(0)),
            &[SOUND],
        ),
        (
            nvme("SAMSUNG MZVLB256HAHQ").set("nvme_error_information_log", logged(2)),
            &[("errors", Warning, "unreadable data")],
        ),
        (
            nvme("KINGSTON SKC3000S1024G").set("nvme_self_test_log", test(7, 1)),
            &[("errors", Problem, "41 days of power-on time ago (Completed: failed segments)")],
        ),
        (
            nvme("KINGSTON SKC3000S1024G").set("nvme_self_test_log", test(0, 2)),
            &[("errors", Fine, "passed 41 days")],
        ),
        (nvme("KINGSTON SKC3000S1024G").set("nvme_self_test_log", test(1, 2)), &[SOUND]),
        // An extended test has passed since a short one failed.
        (
            nvme("KINGSTON SKC3000S1024G").set("nvme_self_test_log", json!({"table": [
                {"self_test_code": {"value": 2}, "power_on_hours": 9_990, "self_test_result": {"value": 0}},
                {"self_test_code": {"value": 1}, "power_on_hours": 9_000, "self_test_result": {"value": 7}}]})),
            &[("errors", Fine, "passed 10 hours")],
        ),
        (
            nvme("QEMU NVMe Ctrl").log("available_spare", 0).log("available_spare_threshold", 0),
            &[SOUND, ("wear", Fine, "3 %")],
        ),
        (
            nvme("Samsung SSD 970 PRO 512GB").set("temperature.current", 72),
            &[("temperature", Warning, "70 C")],
        ),
        (
            nvme("Samsung SSD 990 PRO 2TB")
                .set("temperature", json!({"current": 78, "op_limit_max": 82})),
            &[("temperature", Notice, "82 C")],
        ),
    ]
}

fn over_sas() -> Vec<Case> {
    let uncorrected =
        |what: &str| format!("scsi_error_counter_log.{what}.total_uncorrected_errors");
    vec![
        (sas("SAMSUNG MZILT960HAHQ0D3", 0).set("scsi_percentage_used_endurance_indicator", 4), &[SOUND, ("wear", Fine, "4 %"), ("endurance", Fine, "38.1 TiB written")]),
        (sas("HITACHI HUSSL4010BSS600", 0).set("endurance_used", json!({"current_percent": 12})), &[SOUND, ("wear", Fine, "12 %"), ("endurance", Fine, "38.1 TiB written")]),
        (sas("HGST HUSMM1640ASS204", 0).set("scsi_percentage_used_endurance_indicator", 97), &[("wear", Warning, "97 %"), SOUND]),
        (sas("KIOXIA KPM61RUG960G", 0).set("endurance_used", json!({"current_percent": 101})), &[("wear", Problem, "101 %")]),
        (sas("SEAGATE ST600MM0088", 10_000), &[SOUND]),
        (sas("SEAGATE ST600MM0088", 10_000).set("scsi_grown_defect_list", 24), &[("errors", Warning, "24 grown defects")]),
        (sas("HITACHI HUS156060VLS600", 15_000).set(&uncorrected("read"), 3), &[("errors", Warning, "3 uncorrected errors of reads")]),
        (sas("TOSHIBA AL15SEB060N", 10_000).set(&uncorrected("write"), 1), &[("errors", Warning, "1 uncorrected error of writes")]),
        (sas("SEAGATE ST4000NM0025", 7_200).set(&uncorrected("verify"), "2"), &[("errors", Warning, "2 uncorrected errors of verif")]),
        (sas("SEAGATE ST4000NM0025", 7_200).set("scsi_pending_defects", json!({"count": 7})), &[("errors", Warning, "7 sectors that wait")]),
        (
            sas("IBM-ESXS ST9300603SS", 10_000).set("smart_status", json!({"passed": false,
                "scsi": {"asc": 93, "ascq": 16, "ie_string": "HARDWARE IMPENDING FAILURE GENERAL HARD DRIVE FAILURE"}})),
            &[("errors", Problem, "FAILED (HARDWARE IMPENDING FAILURE")],
        ),
        (
            sas("WDC WUSTR6440ASS204", 0).set("scsi_self_test_0", json!({"code": {"value": 1}, "result": {"value": 4,
                "string": "Failed in segment"}, "power_on_time": {"hours": 9_999}})),
            &[("errors", Problem, "failed 60 minutes of power-on time ago")],
        ),
        (
            sas("WDC WUSTR6440ASS204", 0)
                .set("scsi_self_test_0", json!({"code": {"value": 2}, "result": {"value": 0}, "power_on_time": {"hours": 9_990}}))
                .set("scsi_self_test_1", json!({"code": {"value": 2}, "result": {"value": 5}})),
            &[("errors", Fine, "passed 10 hours")],
        ),
        (sas("SEAGATE XS960SE70004", 0).set("temperature.current", 66), &[("temperature", Warning, "65 C")]),
    ]
}

fn machine(report: &Report) -> Captured {
    let mut made = MachineBuilder::new();
    let (name, path) = match report.kind {
        Kind::Sata => ("sda", "/dev/sda"),
        Kind::Sas => ("sda", "/dev/sda"),
        Kind::Nvme => ("nvme0n1", "/dev/nvme0n1"),
    };
    match report.kind {
        Kind::Sata => made.sata("sda", true),
        Kind::Sas => made.sas("sda"),
        Kind::Nvme => made.nvme("nvme0n1"),
    }
    if report.data["rotation_rate"].as_u64().is_some_and(|rate| rate > 0) {
        made.set(name, "queue/rotational", "1");
    }
    let mut facts = made.build();
    facts.set_output("smartctl", &["--json=c", "-x", path], 0, &report.data.to_string());
    facts
}

fn examined(report: &Report) -> Diagnosis {
    doctor::examine(&machine(report), None).expect("the whole machine is always there")
}

fn checks(report: &Report) -> Vec<Check> {
    examined(report).drives.remove(0).checks
}

fn all() -> Vec<Case> {
    [writes(), wear(), errors(), over_nvme(), over_sas()].concat()
}

#[test]
fn every_report_gets_its_right_verdicts() {
    let cases = all();
    assert!(cases.len() >= 60, "{} reports", cases.len());
    let mut wrong = Vec::new();
    for (report, expected) in &cases {
        let checks = checks(report);
        for (name, verdict, words) in *expected {
            let Some(check) = checks.iter().find(|check| check.check == *name) else {
                wrong.push(format!("{}: no {name}", report.model()));
                continue;
            };
            let text = format!("{check:?}");
            if check.verdict != *verdict || !text.contains(words) {
                wrong.push(format!("{}: not {verdict:?} with '{words}': {text}", report.model()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The rule of the table as a whole: a sound drive is not said to be bad, a bad one not to be fine.
#[test]
fn the_worst_verdict_is_that_of_the_checks_that_are_named() {
    let named = ["errors", "wear", "endurance", "temperature", "controller", "trim-reads"];
    for (report, expected) in all() {
        let worst =
            expected.iter().map(|(_, verdict, _)| *verdict).filter(|it| *it > Unknown).max();
        let found = checks(&report);
        let found =
            found.iter().filter(|check| named.contains(&check.check) && check.verdict > Unknown);
        let found: Vec<_> = found.map(|check| (check.check, check.verdict, &check.seen)).collect();
        let most = found.iter().map(|it| it.1).max();
        assert_eq!(most, worst, "{}: {found:?}", report.model());
    }
}

/// Words of flash.
const FLASH: [&str; 8] =
    ["flash", "Flash", "SSD", "spare", "TRIM", "trimmed", "garbage", "rated life"];

#[test]
fn a_disk_that_spins_is_told_nothing_of_flash() {
    let mut spinning = 0;
    for (report, _) in all() {
        if report.data["rotation_rate"].as_u64().is_none_or(|rate| rate == 0) {
            continue;
        }
        spinning += 1;
        let mut report = report;
        for degrees in [34, 58, 75] {
            report = report.set("temperature.current", degrees);
            for check in checks(&report) {
                let text = format!(
                    "{} {} {:?} {:?}",
                    check.seen, check.why, check.remedies, check.missing
                );
                let of_flash = FLASH.iter().find(|word| text.contains(*word));
                assert!(of_flash.is_none(), "{}: {text}", report.model());
            }
        }
    }
    assert!(spinning > 10, "{spinning}");
}

/// A drive behind which smartctl finds nothing is not said to be fine.
#[test]
fn without_a_report_nothing_is_fine() {
    for data in [json!({}), json!({"model_name": "x", "rotation_rate": 0}), json!([]), json!(7)] {
        let report = Report { kind: Kind::Sata, data };
        for check in checks(&report) {
            if ["errors", "wear", "endurance", "temperature"].contains(&check.check) {
                assert_eq!(check.verdict, Unknown, "{check:?}");
            }
        }
    }
}

/// nvme-cli says what smartctl could not.
#[test]
fn nvme_cli_is_read_where_smartctl_is_not_there() {
    let mut made = MachineBuilder::new();
    made.nvme("nvme0n1");
    let mut facts = made.build();
    let answer = |facts: &mut Captured, verb: &str, data: serde_json::Value| {
        facts.set_output("nvme", &[verb, "/dev/nvme0n1", "-o", "json"], 0, &data.to_string());
    };
    let log = json!({"critical_warning": {"value": 0, "available_spare": 0}, "temperature": 314,
        "avail_spare": 4, "spare_thresh": "10", "percent_used": "97", "data_units_written": "39062500",
        "power_on_hours": "10000", "media_errors": "0"});
    answer(&mut facts, "smart-log", log);
    answer(
        &mut facts,
        "id-ctrl",
        json!({"mn": "X  ", "vwc": 1, "unvmcap": "107374182400",
        "tnvmcap": "512110190592"}),
    );
    answer(&mut facts, "id-ns", json!({"dlfeat": "1"}));
    let diagnosis = doctor::examine(&facts, None).unwrap();
    let of = |name: &str| {
        let checks = &diagnosis.drives[0].checks;
        checks.iter().find(|check| check.check == name).unwrap().clone()
    };
    assert_eq!(of("wear").verdict, Problem, "{:?}", of("wear"));
    assert!(of("endurance").seen.contains("18.2 TiB"), "{:?}", of("endurance"));
    assert!(of("spare-area").seen.contains("100 GiB in no namespace"), "{:?}", of("spare-area"));
    assert!(of("trim-reads").seen.contains("zeros"), "{:?}", of("trim-reads"));
    assert_eq!(of("temperature").verdict, Fine, "{:?}", of("temperature"));
    assert_eq!(of("errors").verdict, Fine, "{:?}", of("errors"));
}
