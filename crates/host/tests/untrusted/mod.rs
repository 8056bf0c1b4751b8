//! What a stranger's capture may hold: anything. Whatever it is, it is refused or examined, and
//! nothing panics.

use ssdlab_host::doctor::{self, Options};
use ssdlab_host::{Captured, Facts, layers};

/// A capture of any bytes.
pub fn capture(bytes: &[u8]) {
    if let Ok(captured) = Captured::read_from(bytes) {
        examined(&captured);
    }
}

/// A machine of which anything is told: a line a file, its path and its text with a blank between
/// them; `path -> path` for a link.
pub fn machine(text: &str, captured: &mut Captured) {
    for line in text.lines() {
        let Some((path, text)) = line.split_once(' ') else { continue };
        match text.strip_prefix("-> ") {
            Some(to) => captured.link(path, to),
            None => captured.put(path, &text.replace("\\n", "\n")),
        }
    }
    examined(captured);
}

/// A report of a drive, as smartctl or nvme-cli might print it.
pub fn smart(text: &str, captured: &mut Captured) {
    captured.set_output("smartctl", &["--json=c", "-x", "/dev/sda"], 0, text);
    captured.set_output("smartctl", &["--json=c", "-x", "/dev/nvme0n1"], 0, text);
    for verb in ["id-ctrl", "id-ns", "smart-log"] {
        captured.set_output("nvme", &[verb, "/dev/nvme0n1", "-o", "json"], 0, text);
    }
    examined(captured);
}

fn examined(facts: &dyn Facts) {
    let diagnosis = doctor::examine(facts, None).expect("the whole machine is always there");
    let options = Options { width: 80, ascii: true, all: true };
    assert!(!diagnosis.to_text(&options).chars().any(|it| it.is_control() && it != '\n'));
    assert!(!diagnosis.prometheus().is_empty());
    for stack in layers::all_stacks(facts) {
        assert!(stack.top.self_and_below().len() < 5_000);
    }
    let _ = doctor::examine(facts, Some("/"));
}
