//! What wrong calls print, as a user reads it.

use crate::support::Place;

/// Calls that people make, each refused with what would have been right.
const CALLS: [&str; 32] = [
    "run fragmentaton",
    "run Steady",
    "run sim:toshiba-xg5",
    "run fragmentation /tmp/no/such/place",
    "run fragmentation ./mistyped",
    "run fragmentation ./scartch",
    "run fragmentation ./scratch --create-file",
    "run fragmentation sim: --create-file",
    "run fragmentation toshiba-xg6",
    "run fragmentation Toshiba-XG5",
    "run fragmentation sim:toshiba-xg6",
    "run fragmentation sim:samsung-pm98",
    "run fragmentation sim:,page_raed=70us",
    "run fragmentation sim:,Flash.Page_Read=70us",
    "run fragmentation sim:,flash.page_read=2h",
    "run fragmentation sim:,file_size=1G",
    "run fragmentation sim:,scale=1/64,controller.write_buffer=64K",
    "run fragmentation --set flash.page_read=70us",
    "run fragmentation --set spare=7%",
    "run steady --set Dpeth=4",
    "run fragmentation --set file_size=99.73MiB",
    "run fragmentation raid6(sim:;sim:)",
    "create sim:,capacity.logical=4G,capacity.physical=5G disk.ssd",
    "create sim:,capacity.logical=100M,capacity.physical=500M disk.ssd",
    "create sim:,capacity.physical=60T disk.ssd",
    "attach disk.ssd --file scartch",
    "attach disk.ssd --mount note",
    "profile new X --capacity 960GB --sequential-read 3000 --sequential-write 1000 --random-read 300000 \
     --read-latency 1s",
    "layers /dev/null",
    "truth ./mine.toml",
    "list experiments latncy",
    "show",
];

#[test]
fn wrong_calls_are_answered_with_the_right_one() {
    let place = Place::new();
    place.directory("scratch");
    place.file("note", "a file");
    let mut text = String::new();
    for call in CALLS {
        let done = place.run(&call.split(' ').collect::<Vec<_>>());
        assert!(done.stdout.is_empty() && !done.stderr.contains("panicked"), "{call}: {done:?}");
        let stderr = done.stderr.replace(place.path("").to_str().unwrap(), "./");
        text += &format!("$ ssdlab {call}\n{stderr}[{}]\n\n", done.code);
    }
    insta::assert_snapshot!(text);
}
