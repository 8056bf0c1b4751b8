//! What other programs write: fio's job files.

use crate::support::Place;

const JOBS: &str = "\
; two that run together, and one behind them
[global]
ioengine=libaio
direct=1
size=64m
filename=/dev/sdx

[reads]
rw=randread
iodepth=16
[writes]
rw=write
bs=64k
fsync=8

[later]
stonewall
rw=randrw
rwmixread=70
iodepth=8
";

#[test]
fn a_job_file_is_run_and_what_is_done_otherwise_is_said() {
    let place = Place::new();
    let file = place.file("mix.fio", JOBS);
    let report = place.run(&["run", "job", &file, "--json"]).with_code(0).json();
    assert_eq!(report["experiment"], "job");
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    let of = |index: usize| (rows[index][0].as_str().unwrap(), rows[index][1].as_str().unwrap());
    let expected = [
        ("reads", "read"),
        ("writes", "write"),
        ("writes", "flush"),
        ("later", "read"),
        ("later", "write"),
    ];
    assert_eq!((0..5).map(of).collect::<Vec<_>>(), expected);
    // 64 MiB in requests of 4 KiB, and of 64 KiB with a flush behind each eight but the last.
    assert_eq!((&rows[0][8], &rows[1][8], &rows[2][8]), (&16384.into(), &1024.into(), &127.into()));
    let remark = report["findings"][1]["text"].as_str().unwrap();
    assert!(remark.contains("line 6, filename: the target of the run is used instead"), "{remark}");
    let again = place.run(&["run", "job", &file, "sim:", "--json"]).with_code(0).json();
    assert_eq!(report["tables"], again["tables"]);
}

#[test]
fn jobs_run_on_a_real_drive_too() {
    let place = Place::new();
    let (file, directory) = (place.file("mix.fio", JOBS), place.directory("drive"));
    let arguments = ["run", "job", &file, &directory, "--allow-buffered", "--quick", "--json"];
    let report = place.run(&arguments).with_code(0).json();
    assert_eq!(report["tables"][0]["rows"].as_array().unwrap().len(), 5);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn a_job_file_that_is_not_understood_is_an_error_with_its_line() {
    let place = Place::new();
    let file = place.file("odd.fio", "[a]\nrw=read\nbssplit=4k/50:64k/50\n");
    place.run(&["run", "job", &file]).fails(2, &["odd.fio: line 3", "'bssplit'"]);
    place.run(&["run", "job"]).fails(2, &["ssdlab run job FILE"]);
    place.run(&["run", "job", "./none.fio"]).fails(2, &["none.fio"]);
    let file = place.file("large.fio", "[a]\nrw=read\nsize=9000g\n");
    place.run(&["run", "job", &file]).fails(2, &["line 1", "behind the end"]);
    place.run(&["run", "fragmentation", "sim:", "sim:"]).fails(2, &["one argument too many"]);
}
