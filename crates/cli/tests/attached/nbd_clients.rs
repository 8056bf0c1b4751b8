//! Clients of other makers: libnbd's tools and fio.

use std::process::Command;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::support::{Place, count, has_tools, skipped, tool};

#[test]
fn libnbd_reads_what_it_wrote() {
    if !has_tools("libnbd", &["nbdinfo", "nbdcopy"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let uri = attached.at.clone();
    let info = tool("nbdinfo", &[&uri]);
    for word in ["can_flush: true", "can_fua: true", "can_trim: true", "can_multi_conn: true"] {
        assert!(info.contains(word), "{info}");
    }
    assert!(tool("nbdinfo", &["--list", &uri]).contains("export=\"disk\""));
    let size: usize = tool("nbdinfo", &["--size", &uri]).trim().parse().unwrap();
    let mut data = vec![0; size];
    Pcg64Mcg::seed_from_u64(1).fill_bytes(&mut data[..size / 3]);
    let (from, to) = (place.path("from"), place.path("to"));
    std::fs::write(&from, &data).unwrap();
    tool("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
    attached.detach();
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    tool("nbdcopy", &[&uri, to.to_str().unwrap()]);
    assert!(std::fs::read(&to).unwrap() == data);
    attached.detach();
    assert!(place.done(&["check", "disk.ssd"]).contains("all written data is there"));
}

#[test]
fn fio_verifies_what_it_wrote_at_depth_32() {
    let test = "fio";
    if !has_tools(test, &["fio"]) {
        return;
    }
    let engines = tool("fio", &["--enghelp"]);
    if !engines.contains("nbd") {
        return skipped(test, "this fio cannot speak NBD");
    }
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast", "--record", "trace"]);
    let seconds = count("SSDLAB_FIO_SECONDS", 8);
    let output = Command::new("fio")
        .args(["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bsrange=512-64k"])
        .args(["--iodepth=32", "--verify=crc32c", "--verify_backlog=512", "--fsync=200"])
        .args(["--bs_unaligned=0", "--size=160m", "--time_based", "--randrepeat=1"])
        .args([format!("--runtime={seconds}"), format!("--uri={}", attached.at)])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    let status = place.status();
    assert!(status["requests"]["writes"]["requests"].as_u64().unwrap() > 1000);
    attached.detach();
    let trace = std::fs::read_to_string(place.path("trace")).unwrap();
    assert!(trace.starts_with("fio version 3 iolog\n") && trace.contains(" write "));
}
