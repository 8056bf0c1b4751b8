//! `status --watch` on a terminal: a full-screen display that is redrawn in place, with bars and with curves of the
//! last minutes. Elsewhere `--watch` prints plain text repeatedly.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustix::time::Timespec;
use serde_json::Value;
use ssdlab_lab::output::shades;

use super::{bytes, flash_units, number, text};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Number of samples in a curve.
const MAX_SAMPLES: usize = 40;

/// Escape sequences that enter the alternate screen and hide the cursor, and that leave it.
const ENTER_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE_SCREEN: &str = "\x1b[?25h\x1b[?1049l";

/// Picture of the blocks: signs in a line, and largest number of lines.
const CELLS_PER_LINE: usize = 64;
const MAX_CELL_LINES: usize = 4;

/// State of a drive at one moment.
pub struct Snapshot<'a> {
    /// Figures of the drive.
    pub status: &'a Value,
    /// Figures at the previous moment, if any.
    pub before: Option<&'a Value>,
    /// Cells of the blocks, four bytes each, if known.
    pub cells: Option<Vec<u8>>,
}

/// Alternate screen, while it is shown. The previous screen is restored when this is dropped.
pub struct Screen {
    /// Terminal settings before, if stdin is a terminal.
    before: Option<Termios>,
    history: History,
}

impl Screen {
    /// Switches to the alternate screen; returns `None` if stdout is not a terminal.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn open(terminal: &Terminal) -> Result<Option<Screen>, Failure> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(io::stdin()).ok();
        if let Some(mut now) = before.clone() {
            // Read single keys without echo; Ctrl-C remains a signal.
            now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // If this fails, 'q' needs Enter.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &now);
        }
        let screen = Screen { before, history: History::default() };
        terminal.print(ENTER_SCREEN)?;
        Ok(Some(screen))
    }

    /// Draws the state of a drive.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn draw(&mut self, snapshot: &Snapshot, terminal: &Terminal) -> Result<(), Failure> {
        self.history.add_sample(snapshot.status, snapshot.before);
        let (width, height) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (terminal.width, 24),
        };
        let mut picture = String::from("\x1b[H");
        let lines = self.history.frame(snapshot, width, terminal.ascii);
        for (index, line) in lines.iter().take(height).enumerate() {
            // A line break after the last line would scroll the screen.
            picture += if index > 0 { "\r\n" } else { "" };
            picture += line;
            picture += "\x1b[K";
        }
        terminal.print(&(picture + "\x1b[J"))
    }

    /// Waits for `duration` or until a key is pressed; returns true if the key was 'q' or stdin has ended.
    pub fn wait(&self, duration: Duration) -> bool {
        let stdin = io::stdin();
        if self.before.is_none() {
            std::thread::sleep(duration);
            return false;
        }
        let time = Timespec {
            tv_sec: duration.as_secs() as i64,
            tv_nsec: i64::from(duration.subsec_nanos()),
        };
        let is_there = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time));
        let mut key = [0];
        matches!(is_there, Ok(1..))
            && stdin.lock().read(&mut key).is_ok_and(|count| count == 0 || key[0] == b'q')
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        let _ = io::Write::write_all(&mut io::stdout(), LEAVE_SCREEN.as_bytes());
        let _ = io::Write::flush(&mut io::stdout());
    }
}

/// Samples of the curves, one for each poll of the drive, the newest last.
#[derive(Debug, Default)]
struct History {
    /// Bytes a second that the host wrote, that the host read, and that were programmed to the flash.
    rates: [VecDeque<f64>; 3],
}

/// Returns the units that the host wrote, that the host read, and that were programmed to the flash.
fn totals(status: &Value) -> [f64; 3] {
    let n = |key: &str| number(status, &format!("/counters/{key}"));
    [n("host_write_units"), n("host_read_units"), flash_units(status)]
}

impl History {
    fn add_sample(&mut self, status: &Value, before: Option<&Value>) {
        let Some(before) = before else { return };
        let time = (number(status, "/attached_s") - number(before, "/attached_s")).max(1e-9);
        let unit = number(status, "/unit_bytes");
        for (rates, (now, then)) in
            self.rates.iter_mut().zip(totals(status).into_iter().zip(totals(before)))
        {
            rates.push_back((now - then) * unit / time);
            if rates.len() > MAX_SAMPLES {
                rates.pop_front();
            }
        }
    }

    /// Returns the lines of the display, each of at most `width` characters.
    fn frame(&self, snapshot: &Snapshot, width: usize, ascii: bool) -> Vec<String> {
        let Snapshot { status, before, cells } = snapshot;
        let (status, before) = (*status, *before);
        let n = |path: &str| number(status, path);
        let mut lines = vec![
            format!(
                "{} on {} ({}), attached for {}    q: quit",
                text(status, "/profile"),
                text(status, "/place"),
                bytes(n("/capacity_bytes")),
                clock_text(n("/attached_s")),
            ),
            String::new(),
        ];
        let most = self.rates.iter().flatten().copied().fold(1.0, f64::max);
        for (name, rates) in ["host writes", "host reads", "flash writes"].iter().zip(&self.rates) {
            let latest = rates.back().map_or("-".to_owned(), |rate| format!("{}/s", bytes(*rate)));
            lines.push(format!(
                "{name:<13}{:<MAX_SAMPLES$} {latest:>13}",
                sparkline(rates, most, ascii)
            ));
        }
        lines.push(String::new());
        let [host, _, flash] = totals(status);
        let now = before.map(totals).and_then(|[host_then, _, flash_then]| {
            (host > host_then).then(|| format!("{:.2}", (flash - flash_then) / (host - host_then)))
        });
        lines.push(format!(
            "amplification  {} now, {} over its life",
            now.unwrap_or_else(|| "-".to_owned()),
            status["write_amplification"].as_f64().map_or("-".to_owned(), |it| format!("{it:.2}")),
        ));
        let (free, blocks) = (n("/free_blocks"), n("/blocks"));
        let gauge = |share: f64| bar(share, 30, ascii);
        lines.push(format!("free blocks    {} {free} of {blocks}", gauge(free / blocks.max(1.0))));
        if status["map_cache"].is_object() {
            let (hits, misses) = (n("/counters/map_hits"), n("/counters/map_misses"));
            lines.push(format!(
                "map cache      {} {} of {} pages, {:.1} % hits",
                gauge(n("/map_cache/pages") / n("/map_cache/capacity").max(1.0)),
                n("/map_cache/pages"),
                n("/map_cache/capacity"),
                hits / (hits + misses).max(1.0) * 100.0,
            ));
        }
        lines.push(format!(
            "wear           {} to {} erases a block, {} in all",
            n("/wear/erases_min"),
            n("/wear/erases_max"),
            n("/counters/erases"),
        ));
        lines.push(String::new());
        if let Some(cells) = cells {
            let signs = shades(cells, CELLS_PER_LINE * MAX_CELL_LINES, ascii);
            let (none, all) = if ascii { ('.', '#') } else { ('\u{b7}', '\u{2588}') };
            lines.push(format!(
                "the blocks in their order, {none} nothing valid to {all} all valid"
            ));
            let signs: Vec<char> = signs.chars().collect();
            lines.extend(
                signs
                    .chunks(CELLS_PER_LINE)
                    .map(|line| format!("  {}", line.iter().collect::<String>())),
            );
            lines.push(String::new());
        }
        lines.push("blocks by their share of valid units".to_owned());
        let shares: Vec<f64> =
            (0..10).map(|it| n(&format!("/blocks_by_valid_share/{it}"))).collect();
        let most = shares.iter().copied().fold(1.0, f64::max);
        for (tenth, count) in shares.iter().enumerate() {
            lines.push(format!("  to {:>3} % {} {count}", (tenth + 1) * 10, gauge(count / most)));
        }
        let rest = super::request_table(status, before) + &super::attribution_text(status);
        lines.extend(rest.lines().map(str::to_owned));
        lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
    }
}

fn clock_text(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Returns a bar of `width` characters, of which `share` is full.
fn bar(share: f64, width: usize, ascii: bool) -> String {
    let (full, empty) = if ascii { ("#", ".") } else { ("\u{2588}", "\u{2591}") };
    let count = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    full.repeat(count) + &empty.repeat(width - count)
}

/// Returns values up to `most` as columns of eight heights.
fn sparkline(values: &VecDeque<f64>, most: f64, ascii: bool) -> String {
    let steps: Vec<char> = if ascii { "_.-:=+*#" } else { "▁▂▃▄▅▆▇█" }.chars().collect();
    let height = |value: &f64| steps[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1];
    values.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(seconds: f64, written: u64) -> Value {
        json!({
            "profile": "a drive", "place": "/dev/loop0", "capacity_bytes": 1 << 30,
            "unit_bytes": 4096, "attached_s": seconds, "write_amplification": 1.5,
            "free_blocks": 5, "blocks": 10, "blocks_by_valid_share": [0, 0, 0, 0, 0, 0, 0, 0, 4, 2],
            "counters": {
                "host_write_units": written, "program_units_host": written,
                "program_units_collection": written / 2, "map_hits": 3, "map_misses": 1
            },
            "map_cache": { "pages": 2, "capacity": 4, "dirty": 1 },
            "wear": { "erases_min": 1, "erases_max": 2 },
        })
    }

    #[test]
    fn the_picture_shows_rates_shares_and_hits_and_fits_the_width() {
        let mut history = History::default();
        let (first, second) = (status(1.0, 1000), status(3.0, 3000));
        history.add_sample(&first, None);
        history.add_sample(&second, Some(&first));
        let cells = Some([3, 255, 0, 0].repeat(500).into_iter().chain([0; 500 * 4]).collect());
        let snapshot = Snapshot { status: &second, before: Some(&first), cells };
        let lines = history.frame(&snapshot, 72, true);
        assert!(lines.iter().all(|line| line.chars().count() <= 72), "{lines:#?}");
        let has =
            |words: &str| assert!(lines.iter().any(|line| line.contains(words)), "{lines:#?}");
        // 2000 units in two seconds are 3.9 MiB a second, and half as much again on the flash.
        has(&format!("  {}", "#".repeat(CELLS_PER_LINE)));
        has(&format!("  {}", ".".repeat(CELLS_PER_LINE - 6)));
        has("3.9 MiB/s");
        has("5.9 MiB/s");
        has("1.50 now, 1.50 over its life");
        has("###############............... 5 of 10");
        has("2 of 4 pages, 75.0 % hits");
        has("to  90 % ############################## 4");
    }

    #[test]
    fn a_curve_is_as_high_as_its_values() {
        let values = VecDeque::from([0.0, 4.0, 8.0]);
        assert_eq!(sparkline(&values, 8.0, true), "_:#");
        assert_eq!(sparkline(&values, 8.0, false), "▁▄█");
    }
}
