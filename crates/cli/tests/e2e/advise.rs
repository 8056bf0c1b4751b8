//! Advice on over-provisioning for a workload.

use crate::support::Place;

const SMALL: &str = "sim:,scale=1/512";

#[test]
fn a_job_file_of_fio_is_a_workload_and_its_settings_stand_in_the_report() {
    let place = Place::new();
    let text = "[log]\nioengine=libaio\ndirect=1\nrw=write\nbs=128k\niodepth=4\n";
    let file = place.file("log.fio", text);
    let output = place.run(&["advise", SMALL, "--spare", "7%", "--workload", &file, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&output.with_code(0).stdout).unwrap();
    let parameters = report["parameters"].as_array().unwrap();
    let has = |name: &str, value: &str| {
        parameters.iter().any(|it| it["name"] == name && it["value"] == value)
    };
    assert!(has("log.rw", "write") && has("log.iodepth", "4"), "{report}");
    let table = &report["tables"][0];
    let column = |name: &str| {
        let columns = table["columns"].as_array().unwrap();
        columns.iter().position(|it| it["name"] == name).unwrap()
    };
    let row = table["rows"][0].as_array().unwrap();
    assert!(row[column("write_amplification")].as_f64().unwrap() < 1.2, "{report}");
    assert!(row[column("theory")].is_null(), "{report}");
}

#[test]
fn a_write_of_part_of_a_unit_wears_the_flash_as_one_of_the_whole_unit_does() {
    let place = Place::new();
    // Terabytes until the flash is worn out, of writes of half a KiB and of a whole unit.
    let [part, whole] = ["512", "4K"].map(|size| {
        let arguments = ["advise", SMALL, "--spare", "7%", "--block-size", size, "--json"];
        let report = place.run(&arguments).with_code(0).json();
        let columns = report["tables"][0]["columns"].as_array().unwrap();
        let life = columns.iter().position(|it| it["name"] == "life").unwrap();
        report["tables"][0]["rows"][0][life].as_f64().unwrap()
    });
    let ratio = whole / part;
    assert!((7.5..8.5).contains(&ratio), "{whole} TB in whole units, {part} in eighths");
}

#[test]
fn a_workload_that_cannot_be_is_refused_with_its_line() {
    let place = Place::new();
    let file = place.file("read.fio", "[a]\nioengine=libaio\ndirect=1\nrw=read\n");
    place.run(&["advise", SMALL, "--workload", &file]).fails(2, &["line 1", "writes nothing"]);
    place.run(&["advise", SMALL, "--workload", "none.fio"]).fails(2, &["none.fio"]);
    place.run(&["advise", SMALL, "--workload", &file, "--depth", "4"]).fails(2, &["--depth"]);
    place.run(&["advise", SMALL, "--block-size", "777"]).fails(2, &["777"]);
}
