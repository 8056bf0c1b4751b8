//! What trims free space now and then, and which mounts: systemd's timer and lines of cron.
//!
//! systemd's service runs `fstrim --listed-in /etc/fstab:/proc/self/mountinfo` (earlier `--fstab`): that
//! takes the first of these files that lists anything (fstrim(8)), so that what is mounted and not in
//! fstab is passed by, and so is what has the option `X-fstrim.notrim` there. What is listed counts for
//! all places where the same file system is mounted.

use ssdlab_drive::real::Mount;

use crate::facts::{Absent, Facts};
use crate::layers::Mounted;
use crate::mounts::{self, fstab_lines};

/// Where systemd looks for what is to be started, the first counting most.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// What trims free space now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regular {
    /// Whether systemd's timer is on, where there is systemd.
    pub(crate) timer: Option<bool>,
    /// When that ran last, in seconds since 1970.
    pub(crate) last_run: Option<u64>,
    /// Files of cron that call fstrim, and what they have it trim.
    cron: Vec<(String, Extent)>,
}

/// What a call of fstrim trims.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// All that is mounted.
    All,
    /// What `/etc/fstab` lists, or all that is mounted where that lists nothing.
    Listed,
    /// These mount points.
    Points(Vec<String>),
    /// What only a shell could tell.
    Unknown,
}

/// What of it trims one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covering {
    /// What does.
    pub(crate) by: Vec<String>,
    /// Whether systemd's timer is among that.
    pub(crate) by_timer: bool,
    /// What may.
    pub(crate) unknown: Vec<String>,
    /// What does not, and why, in words.
    pub(crate) passed_by: Vec<String>,
}

impl Covering {
    /// Whether anything does.
    pub(crate) fn is_any(&self) -> bool {
        !self.by.is_empty()
    }
}

impl Regular {
    pub(crate) fn of(facts: &dyn Facts) -> Regular {
        let is_there = |path: &str| facts.resolve(path).is_ok() || facts.read(path).is_ok();
        // Its files may lie about on a machine that systemd does not run (sd_booted(3)).
        let is_running = facts.list("/run/systemd/system") != Err(Absent::Missing);
        let is_installed = UNITS.iter().any(|place| is_there(&format!("{place}/fstrim.timer")));
        let wants = format!("{}/timers.target.wants", UNITS[0]);
        let is_on = || {
            // A link to a unit of a captured machine may lead nowhere: its name counts.
            let names = facts.list(&wants).unwrap_or_default();
            names.iter().any(|name| name == "fstrim.timer")
        };
        Regular {
            timer: (is_running && (is_installed || is_on())).then(is_on),
            last_run: facts.modified("/var/lib/systemd/timers/stamp-fstrim.timer").ok(),
            cron: cron(facts),
        }
    }

    /// Whether anything trims anything.
    pub(crate) fn is_any(&self) -> bool {
        self.timer == Some(true) || !self.cron.is_empty()
    }

    /// What of it trims this mount.
    pub(crate) fn covering(&self, facts: &dyn Facts, mount: &Mounted) -> Covering {
        let mut covering = Covering::default();
        let all = mounts::mounted(facts);
        let timer = (self.timer == Some(true)).then_some(("fstrim.timer", &Extent::Listed));
        let cron = self.cron.iter().map(|(file, extent)| (file.as_str(), extent));
        for (name, extent) in timer.into_iter().chain(cron) {
            match reaches(facts, extent, mount, &all) {
                Ok(()) => {
                    covering.by_timer |= name == "fstrim.timer";
                    covering.by.push(name.to_owned());
                }
                Err(None) => covering.unknown.push(name.to_owned()),
                Err(Some(why)) => covering.passed_by.push(format!("{name} {why}")),
            }
        }
        covering
    }
}

/// Whether a call trims a mount; if not, why, where that is known.
fn reaches(
    facts: &dyn Facts,
    extent: &Extent,
    mount: &Mounted,
    all: &[Mount],
) -> Result<(), Option<String>> {
    let same = points_of(mount, all);
    match extent {
        Extent::All => Ok(()),
        Extent::Unknown => Err(None),
        Extent::Points(points) => match points.iter().any(|point| same.contains(point)) {
            true => Ok(()),
            false => Err(Some(format!("trims {}", points.join(", ")))),
        },
        Extent::Listed => {
            let text = match facts.read("/etc/fstab") {
                Ok(text) => String::from_utf8_lossy(&text).into_owned(),
                Err(Absent::Missing) => String::new(),
                Err(_) => return Err(None),
            };
            let lines = fstab_lines(&text);
            let ours: Vec<_> = lines.iter().filter(|it| same.contains(&plain(&it.point))).collect();
            let is_left_out =
                |options: &[String]| options.iter().any(|option| option == "X-fstrim.notrim");
            match () {
                () if lines.is_empty() => Ok(()),
                () if ours.is_empty() => {
                    Err(Some("is on, and goes by /etc/fstab, where no line mounts it".to_owned()))
                }
                () if ours.iter().all(|line| is_left_out(&line.options)) => Err(Some(
                    "is on, and leaves it out for X-fstrim.notrim in /etc/fstab".to_owned(),
                )),
                () => Ok(()),
            }
        }
    }
}

/// All places where the file system of a mount is mounted.
fn points_of(mount: &Mounted, all: &[Mount]) -> Vec<String> {
    let text = |it: &Mount| plain(&it.point.to_string_lossy());
    let ours = all.iter().find(|it| text(it) == plain(&mount.point));
    let same = all.iter().filter(|it| ours.is_some_and(|ours| ours.device == it.device));
    std::iter::once(plain(&mount.point)).chain(same.map(text)).collect()
}

/// A path without a slash at its end.
fn plain(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

fn cron(facts: &dyn Facts) -> Vec<(String, Extent)> {
    let mut files = vec!["/etc/crontab".to_owned(), "/var/spool/cron/crontabs/root".to_owned()];
    for place in ["cron.d", "cron.hourly", "cron.daily", "cron.weekly", "cron.monthly"] {
        let names = facts.list(&format!("/etc/{place}")).unwrap_or_default();
        files.extend(names.iter().map(|name| format!("/etc/{place}/{name}")));
    }
    let calls_in = |path: String| {
        let lines = facts.lines_with(&path, "fstrim").unwrap_or_default();
        lines
            .iter()
            .flat_map(|line| calls(line))
            .map(|call| (path.clone(), call))
            .collect::<Vec<_>>()
    };
    files.into_iter().flat_map(calls_in).collect()
}

/// The calls of fstrim in a line of a script or a table of cron.
fn calls(line: &str) -> Vec<Extent> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return Vec::new();
    }
    let is_end = |letter: char| matches!(letter, ';' | '&' | '|' | '(' | ')' | '`');
    line.split(is_end).filter_map(call).collect()
}

/// The call of fstrim in a command, if there is one.
fn call(command: &str) -> Option<Extent> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let at = words.iter().position(|word| word.rsplit('/').next() == Some("fstrim"))?;
    // Looking whether it is there is no call.
    let looks = ["-x", "-f", "-e", "-v", "test", "[", "which", "type", "hash"];
    if at > 0 && looks.contains(&words[at - 1]) {
        return None;
    }
    let mut points = Vec::new();
    let mut rest = words[at + 1..].iter();
    while let Some(word) = rest.next() {
        match *word {
            word if word.contains(['$', '*', '?', '"', '\'', '\\', '{']) => {
                return Some(Extent::Unknown);
            }
            "-a" | "--all" | "-av" | "-va" => return Some(Extent::All),
            "-A" | "--fstab" | "-Av" | "-vA" => return Some(Extent::Listed),
            "-I" | "--listed-in" => {
                let files = rest.next().copied().unwrap_or_default();
                return Some(listed_in(files));
            }
            "-o" | "--offset" | "-l" | "--length" | "-m" | "--minimum" => {
                rest.next();
            }
            word if word.starts_with("--listed-in=") => {
                return Some(listed_in(word.trim_start_matches("--listed-in=")));
            }
            word if word.contains(['<', '>']) => break,
            word if word.starts_with('-') => {}
            point => points.push(plain(point)),
        }
    }
    Some(if points.is_empty() { Extent::Unknown } else { Extent::Points(points) })
}

fn listed_in(files: &str) -> Extent {
    match files.split(':').next() {
        Some("/etc/fstab") => Extent::Listed,
        Some("/proc/self/mountinfo" | "/proc/mounts" | "/proc/self/mounts") => Extent::All,
        _ => Extent::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_what_only_names_the_program() {
        let points = |points: &[&str]| Extent::Points(points.iter().map(|&it| it.into()).collect());
        for (line, expected) in [
            ("/sbin/fstrim --all || exit 1", vec![Extent::All]),
            ("0 3 * * 0 root /sbin/fstrim /boot/", vec![points(&["/boot"])]),
            (
                "fstrim -v / && fstrim -m 1M -v /home >/dev/null",
                vec![points(&["/"]), points(&["/home"])],
            ),
            ("[ -x /sbin/fstrim ] || exit 0", vec![]),
            ("  # fstrim -a", vec![]),
            ("for d in $disks; do fstrim \"$d\"; done", vec![Extent::Unknown]),
            ("fstrim -I /etc/fstab:/proc/self/mountinfo", vec![Extent::Listed]),
            ("echo done", vec![]),
        ] {
            assert_eq!(calls(line), expected, "{line}");
        }
    }
}
