//! Protocols for machines where nothing but fio may be installed: as a job file for fio, as a POSIX
//! shell script, as a PowerShell script.

mod arguments;
mod job;
mod powershell;
mod sh;

pub use arguments::step_name;

use ssdlab_drive::{Pattern, Phase, Region};
use ssdlab_units::{ByteLength, Nanoseconds};

/// What is to be done, one thing after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A workload.
    Work {
        /// The workload. Where `of_peak` is set, its rate is to be worked out.
        phase: Box<Phase>,
        /// The step whose requests per second are the peak, and the share of it that arrives.
        of_peak: Option<(usize, f64)>,
    },
    /// All writes made durable.
    Flush,
    /// A region out of use.
    Trim(Region),
    /// Nothing for a while.
    Rest(Nanoseconds),
    /// Everything trimmed; of a file, a new one.
    MakeNew,
}

/// What a script is written for.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The experiment's name.
    pub experiment: String,
    /// The question it answers.
    pub question: String,
    /// What `import` recognises its results by; see [`Tag`].
    pub tag: Tag,
    /// The device or file on the other machine.
    pub target: String,
    /// True if the target is a block device.
    pub is_device: bool,
    /// Bytes that have to be there: the length of the file, or the least of the device.
    pub space: ByteLength,
    /// What is done.
    pub steps: Vec<Step>,
    /// True if some of the steps are rounds until a workload is steady: which of them count is
    /// told by what fio reports while they run.
    pub has_rounds: bool,
    /// What a reader has to know, a sentence each.
    pub remarks: Vec<String>,
}

/// What the results of a script are recognised by: experiment, seed and settings, which stand in
/// the description of each of its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The experiment.
    pub experiment: String,
    /// The seed of its choices.
    pub seed: u64,
    /// True if the quick protocol was meant.
    pub quick: bool,
    /// Bytes of the drive that the script was written for: what an experiment does may depend on
    /// it, and the results do not say it.
    pub capacity: ByteLength,
    /// Parameters that were set.
    pub set: Vec<(String, String)>,
}

const TAG: &str = "ssdlab";

/// What the capacity in a description begins with.
const CAPACITY: &str = "capacity=";

/// fio keeps no more of a description.
const LONGEST_DESCRIPTION: usize = 250;

impl Tag {
    /// As a description of a job; `None` where fio would cut it.
    pub fn text(&self) -> Option<String> {
        let mut words =
            vec![TAG.to_owned(), self.experiment.clone(), format!("seed={}", self.seed)];
        words.extend(self.quick.then(|| "quick".to_owned()));
        words.push(format!("{CAPACITY}{}", self.capacity.bytes()));
        words.extend(self.set.iter().map(|(name, value)| format!("{name}={value}")));
        let plain = |word: &String| {
            word.chars().all(|it| it.is_ascii_alphanumeric() || "._=:%-,".contains(it))
        };
        let text = words.join(" ");
        (words.iter().all(plain) && text.len() <= LONGEST_DESCRIPTION).then_some(text)
    }

    /// Reads a description; `None` where it is none of a script's.
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
            if let Some(bytes) = word.strip_prefix(CAPACITY).filter(|_| !is_whole) {
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

/// The form of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A job file of fio.
    Fio,
    /// POSIX shell, for Linux and FreeBSD.
    Sh,
    /// PowerShell, for Windows.
    PowerShell,
}

impl Script {
    /// The script as text.
    ///
    /// # Errors
    /// Says what the form cannot express.
    pub fn render(&self, form: Form) -> Result<String, String> {
        let is_mixed_stream = |step: &Step| {
            matches!(step, Step::Work { phase, .. }
                if phase.pattern.is_sequential() && !matches!(phase.mix.read_percent, 0 | 100))
        };
        if self.steps.iter().any(is_mixed_stream) {
            return Err(
                "fio lets sequential reads and sequential writes each go their own way; one \
                        stream of both cannot be said"
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

    /// The directory that results are written to.
    fn results(&self) -> String {
        format!("ssdlab-{}", self.experiment)
    }

    /// Bytes written where that is known, and the time of steps that end by time.
    fn amounts(&self) -> (ByteLength, Nanoseconds) {
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

    /// Returns true if a part of the target is trimmed.
    fn trims(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Trim(_)))
    }

    /// Returns what a reader of any form has to know, a line each.
    fn header(&self) -> Vec<String> {
        let (bytes, time) = self.amounts();
        let mut lines = vec![
            format!("{}: {}", self.experiment, self.question),
            format!(
                "Written by ssdlab {}. Needs fio 3 and nothing else.",
                env!("CARGO_PKG_VERSION")
            ),
            format!(
                "Writes {bytes} by amount, and runs {time} by time; to {} of {}.",
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
