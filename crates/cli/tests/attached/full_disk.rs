//! The host's disk is full: writes fail, and nothing that was flushed is lost.

use crate::client::{Client, FLUSH, WRITE};
use crate::support::{Place, has_tools, once_closed, skipped, tool};

/// A file system in memory that is unmounted with the test.
struct Tiny(String);

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = once_closed("umount", &[&self.0]);
    }
}

#[test]
fn writes_fail_what_was_flushed_stays_and_with_room_it_goes_on() {
    let test = "full disk";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "needs root to mount");
    }
    if !has_tools(test, &["mount"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let point = place.path("tiny").display().to_string();
    std::fs::create_dir(&point).unwrap();
    tool("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs", &point]);
    let tiny = Tiny(point.clone());
    place.done(&["create", "sim:,scale=1/2048", "tiny/disk.ssd"]);
    // The helper attaches `disk.ssd`: here it is a link to the one on the tiny disk.
    std::fs::remove_file(place.path("disk.ssd")).unwrap();
    std::os::unix::fs::symlink(place.path("tiny/disk.ssd"), place.path("disk.ssd")).unwrap();
    let ballast = place.path("tiny/ballast");
    std::fs::write(&ballast, vec![1; 8 << 20]).unwrap();

    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let mut client = Client::connect(&place.path("socket")).unwrap();
    let unit = |number: u64| vec![(number % 255) as u8 + 1; 1 << 16];
    let mut flushed = 0;
    let mut refused = 0;
    for number in 0..400u64 {
        let error = client.ask(WRITE, number << 16, 1 << 16, &unit(number)).unwrap();
        let flush = client.ask(FLUSH, 0, 0, &[]).unwrap();
        if error == 0 && flush == 0 && refused == 0 {
            flushed = number + 1;
        } else {
            refused += 1;
        }
        if refused > 20 {
            break;
        }
    }
    assert!(flushed > 20 && refused > 20, "{flushed} flushed, {refused} refused");
    let holds = |client: &mut Client| {
        for number in 0..flushed {
            let mut data = vec![0; 1 << 16];
            assert_eq!(client.read(number << 16, &mut data).unwrap(), 0, "{number}");
            assert!(data == unit(number), "{number}");
        }
    };
    holds(&mut client);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(client.ask(WRITE, 500 << 16, 1 << 16, &unit(1)).unwrap(), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, &[]).unwrap(), 0);
    attached.kill();
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let mut client = Client::connect(&place.path("socket")).unwrap();
    holds(&mut client);
    drop(client);
    attached.detach();
    drop(tiny);
}
