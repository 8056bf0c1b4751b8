//! Key of a run: a digest of everything that determines its result.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ssdlab_lab::LabError;
use ssdlab_lab::experiment::{Experiment, Kind};

use crate::design::RunSetup;

/// The SHA-256 of version, experiment, settings, files, target and seed, as 64 hexadecimal digits.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Key(String);

impl Key {
    /// Returns the key of a run of `experiment` with `seed`.
    ///
    /// # Errors
    /// Returns an error if a file that the run depends on cannot be read.
    pub fn of(experiment: &dyn Experiment, case: &RunSetup, seed: u64) -> Result<Key, LabError> {
        let mut sink = DigestWriter(Sha256::new());
        write_identity(experiment, case, seed, &mut sink)?;
        let digits = sink.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Key(digits))
    }

    /// Returns the hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writer that adds all bytes to the digest.
struct DigestWriter(Sha256);

impl Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes everything that determines the result of a run. Each part is delimited, so that different contents never give
/// the same bytes.
fn write_identity(
    experiment: &dyn Experiment,
    case: &RunSetup,
    seed: u64,
    sink: &mut dyn Write,
) -> Result<(), LabError> {
    let (version, name) = (env!("CARGO_PKG_VERSION"), experiment.name());
    let divisor = case.settings.divisor();
    let wrote = (|| {
        writeln!(sink, "ssdlab {version}\nexperiment {name}\ndivisor {divisor}\nseed {seed}")?;
        for (spec, value) in case.settings.values() {
            if spec.kind != Kind::File {
                writeln!(sink, "setting {} {}={value}", value.len(), spec.name)?;
            }
        }
        case.target.write_content(sink)
    })();
    wrote.map_err(|source| LabError::Read { path: case.target.name().into(), source })?;
    let files = experiment.parameters().iter().filter(|spec| spec.kind == Kind::File);
    for spec in files {
        let Ok(path) = case.settings.file(spec.name) else { continue };
        let copy = |sink: &mut dyn Write| -> io::Result<()> {
            let mut file = File::open(path)?;
            writeln!(sink, "file {} {}", spec.name, file.metadata()?.len())?;
            io::copy(&mut file, sink).map(|_| ())
        };
        copy(sink).map_err(|source| LabError::Read { path: path.to_owned(), source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_lab::Target;
    use ssdlab_lab::experiment::{self, Settings};

    fn key(target: &str, set: &[(&str, &str)], seed: u64) -> Key {
        let steady = experiment::named("steady").unwrap();
        let set: Vec<_> =
            set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let case = RunSetup {
            target: Target::seeded(target, seed).unwrap(),
            settings: Settings::new(steady, true, &set).unwrap(),
        };
        Key::of(steady, &case, seed).unwrap()
    }

    #[test]
    fn what_decides_a_result_is_in_the_key_and_nothing_else() {
        let first = key("sim:", &[], 1);
        assert_eq!(first.as_str().len(), 64);
        assert_eq!(first, key("sim:generic-tlc", &[], 1), "a name is no content");
        let others = [
            key("sim:,spare=28%", &[], 1),
            key("sim:toshiba-xg5", &[], 1),
            key("sim:", &[("depth", "4")], 1),
            key("sim:", &[], 2),
        ];
        for (index, one) in others.iter().enumerate() {
            assert_ne!(*one, first, "{index}");
            assert!(!others[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn a_file_is_in_the_key_by_what_it_holds() {
        let replay = experiment::named("replay").unwrap();
        let spec = replay.parameters().iter().find(|spec| spec.kind == Kind::File).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            let set = [(spec.name.to_owned(), path.to_str().unwrap().to_owned())];
            let case = RunSetup {
                target: Target::parse("sim:").unwrap(),
                settings: Settings::new(replay, true, &set).unwrap(),
            };
            Key::of(replay, &case, 1).unwrap()
        };
        let text = "128166372003061629,hm,1,Write,8192,4096,100\n";
        let one = of("one.csv", text);
        assert_eq!(one, of("other.csv", text));
        assert_ne!(one, of("other.csv", "128166372003061629,hm,1,Write,8192,8192,100\n"));
    }
}
