//! Protocols of experiments as scripts for machines on which only fio may be installed: a job file for fio, a POSIX
//! shell script, or a PowerShell script.

mod fio_options;
mod job;
mod powershell;
mod sh;

pub use fio_options::step_name;

use ssdlab_drive::{Pattern, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

/// Step of a protocol; the steps run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a workload.
    Work {
        /// Workload. If `of_peak` is set, its rate is to be computed.
        phase: Box<Phase>,
        /// Index of the step whose requests per second are the peak, and the share of the peak that arrives.
        of_peak: Option<(usize, f64)>,
    },
    /// Makes all writes durable.
    Flush,
    /// Trims a region.
    Trim(Region),
    /// Leaves the drive idle.
    Rest(Nanoseconds),
    /// Trims the whole target; a file is replaced by a new one.
    Purge,
}

/// Protocol of an experiment, with the target and the texts of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Name of the experiment.
    pub experiment: String,
    /// SweepRequest that the experiment answers.
    pub question: String,
    /// Tag by which `import` recognises the results; see [`Tag`].
    pub tag: Tag,
    /// Path of the device or file on the other machine.
    pub target: String,
    /// True if the target is a block device.
    pub is_device: bool,
    /// Bytes that are needed: the size of the file, or the least capacity of the device.
    pub space: ByteLength,
    /// Steps of the protocol.
    pub steps: Vec<Step>,
    /// True if some of the steps are rounds until a workload is steady. Which of them count is decided by the reports
    /// that fio makes while they run.
    pub has_rounds: bool,
    /// Remarks for the reader of the script, one sentence each.
    pub remarks: Vec<String>,
}

/// Tag by which results of a script are recognised: experiment, seed and settings. It is the description of each of the
/// script's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name of the experiment.
    pub experiment: String,
    /// Random seed of the experiment.
    pub seed: u64,
    /// True if the quick protocol is used.
    pub quick: bool,
    /// Bytes of the drive that the script was written for: the experiment may depend on them, and the results do not
    /// contain them.
    pub capacity: ByteLength,
    /// Parameters that were set, with their values.
    pub set: Vec<(String, String)>,
}

const TAG: &str = "ssdlab";

/// Prefix of the capacity in a description.
const CAPACITY_PREFIX: &str = "capacity=";

/// Longest description that fio keeps, in bytes.
const MAX_DESCRIPTION_LENGTH: usize = 250;

impl Tag {
    /// Returns the tag as a description of a job; `None` if fio would cut it, or if it has characters that are not safe
    /// there.
    pub fn text(&self) -> Option<String> {
        let mut words =
            vec![TAG.to_owned(), self.experiment.clone(), format!("seed={}", self.seed)];
        words.extend(self.quick.then(|| "quick".to_owned()));
        words.push(format!("{CAPACITY_PREFIX}{}", self.capacity.bytes()));
        words.extend(self.set.iter().map(|(name, value)| format!("{name}={value}")));
        let plain = |word: &String| {
            word.chars().all(|it| it.is_ascii_alphanumeric() || "._=:%-,".contains(it))
        };
        let text = words.join(" ");
        (words.iter().all(plain) && text.len() <= MAX_DESCRIPTION_LENGTH).then_some(text)
    }

    /// Reads a description; `None` if it is not one of a script.
    pub fn parse(text: &str) -> Option<Tag> {
        let mut words = text.split_ascii_whitespace();
        let (TAG, experiment) = (words.next()?, words.next()?) else { return None };
        let seed = words.next()?.strip_prefix("seed=")?.parse().ok()?;
        let mut tag = Tag {
            experiment: experiment.to_owned(),
            seed,
            quick: false,
            capacity: ByteLength::ZERO,
            set: Vec::new(),
        };
        let mut is_whole = false;
        for word in words {
            if let Some(bytes) = word.strip_prefix(CAPACITY_PREFIX).filter(|_| !is_whole) {
                tag.capacity = ByteLength::new(bytes.parse().ok()?);
                is_whole = true;
                continue;
            }
            match word.split_once('=') {
                Some((name, value)) => tag.set.push((name.to_owned(), value.to_owned())),
                None if word == "quick" => tag.quick = true,
                None => return None,
            }
        }
        is_whole.then_some(tag)
    }
}

/// Format of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// fio job file.
    Fio,
    /// POSIX shell, for Linux and FreeBSD.
    Sh,
    /// PowerShell, for Windows.
    PowerShell,
}

impl Script {
    /// Returns the text of the script.
    ///
    /// # Errors
    /// Returns in words what the format cannot express.
    pub fn render(&self, form: Form) -> Result<String, String> {
        let is_mixed_stream = |step: &Step| {
            matches!(step, Step::Work { phase, .. }
                if phase.pattern.is_sequential() && !matches!(phase.mix.read_percent, 0 | 100))
        };
        if self.steps.iter().any(is_mixed_stream) {
            return Err(
                "fio keeps separate positions for sequential reads and sequential writes; it \
                 cannot run one stream of both"
                    .to_owned(),
            );
        }
        for step in &self.steps {
            if let Step::Work { phase, .. } = step
                && let Pattern::Skewed(skew) = phase.pattern
                && skew.of_fio().is_none()
            {
                return Err(format!("fio has no distribution {skew}"));
            }
        }
        match form {
            Form::Fio => job::render(self),
            Form::Sh => Ok(sh::render(self)),
            Form::PowerShell => Ok(powershell::render(self)),
        }
    }

    /// Returns the name of the directory for results.
    fn results_directory(&self) -> String {
        format!("ssdlab-{}", self.experiment)
    }

    /// Returns the bytes that are written by steps that end by amount, and the time of steps that end by time.
    fn totals(&self) -> (ByteLength, Nanoseconds) {
        let (mut bytes, mut time) = (ByteLength::ZERO, Nanoseconds::ZERO);
        for step in &self.steps {
            match step {
                Step::Work { phase, .. } => match phase.amount {
                    ssdlab_drive::Amount::Bytes(amount) if phase.mix.read_percent < 100 => {
                        bytes += amount
                    }
                    ssdlab_drive::Amount::Bytes(_) => {}
                    ssdlab_drive::Amount::Time(duration) => time += duration,
                },
                Step::Rest(duration) => time += *duration,
                _ => {}
            }
        }
        (bytes, time)
    }

    /// Returns true if the protocol trims a part of the target.
    fn has_trim_step(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Trim(_)))
    }

    /// Returns the lines at the head of the script, in any format.
    fn header(&self) -> Vec<String> {
        let (bytes, time) = self.totals();
        let mut lines = vec![
            format!("{}: {}", self.experiment, self.question),
            format!(
                "Written by ssdlab {}. Needs fio 3 and nothing else.",
                env!("CARGO_PKG_VERSION")
            ),
            format!(
                "Writes {bytes} (steps by amount) and runs {time} (steps by time); to {} of {}.",
                if self.is_device { "a device, ALL OF WHOSE DATA IS LOST," } else { "a new file" },
                self.space
            ),
        ];
        lines.extend(self.remarks.iter().cloned());
        lines
    }

    fn description(&self) -> String {
        self.tag.text().unwrap_or_else(|| format!("{TAG} script"))
    }
}

#[cfg(test)]
mod tests;
