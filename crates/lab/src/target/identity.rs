//! Names of targets with changed keys, and the content that identifies equal targets.

use std::io::{self, Write};

use ssdlab_model::profile::Profile;

use super::Target;

impl Target {
    /// Returns the name of the target in the user's notation.
    pub fn name(&self) -> String {
        match self {
            Target::Simulated { name, .. } | Target::Saved { name, .. } => name.clone(),
            Target::Stack(stack) => stack.name_of(Target::name),
            Target::Path(path) => path.display().to_string(),
        }
    }

    /// Returns the name of the target with `changes`, keys and values: an option of a stack changes the
    /// stack, any other key each simulated drive in it. `None` for a path. The keys and values are not
    /// checked; [`Target::parse`] does that.
    pub fn name_with(&self, changes: &[(&str, &str)]) -> Option<String> {
        let append = |name: String, changes: &[(&str, &str)]| {
            changes.iter().fold(name, |name, (key, value)| format!("{name},{key}={value}"))
        };
        match self {
            Target::Simulated { name, .. } | Target::Saved { name, .. } => {
                Some(append(name.clone(), changes))
            }
            Target::Stack(stack) => {
                let (own, inner): (Vec<_>, Vec<_>) =
                    changes.iter().partition(|(key, _)| self.has_option(key));
                let of_member =
                    |member: &Target| member.name_with(&inner).expect("members are simulated");
                Some(append(stack.name_of(of_member), &own))
            }
            Target::Path(_) => None,
        }
    }

    /// Returns true if the target is a stack with an option called `key`.
    pub fn has_option(&self, key: &str) -> bool {
        let Target::Stack(stack) = self else { return false };
        stack.kind().options.iter().any(|option| option.name == key)
    }

    /// Writes the content of the target to `sink`: the profile and its changes, the file of a saved drive,
    /// the members and options of a stack, the path of a real drive. Two targets with equal content are the
    /// same drive in the same state, whatever their names. Seeds are not part of the content.
    ///
    /// # Errors
    /// Returns an error if the file of a saved drive cannot be read, or `sink` fails.
    pub fn write_content(&self, sink: &mut dyn Write) -> io::Result<()> {
        match self {
            Target::Simulated { profile, .. } => write_profile(profile, sink),
            Target::Saved { saved, .. } => {
                let mut file = std::fs::File::open(saved.path())?;
                writeln!(sink, "saved {}", file.metadata()?.len())?;
                io::copy(&mut file, sink).map(|_| ())
            }
            Target::Stack(stack) => {
                writeln!(sink, "stack {} {}", stack.kind().name, stack.members().len())?;
                for (name, value) in stack.given_options() {
                    writeln!(sink, "option {name}={value}")?;
                }
                stack.members().iter().try_for_each(|member| member.write_content(sink))
            }
            Target::Path(path) => writeln!(sink, "path {}", path.display()),
        }
    }
}

fn write_profile(profile: &Profile, sink: &mut dyn Write) -> io::Result<()> {
    let (text, changes) = (profile.text(), profile.changes());
    writeln!(sink, "profile {} {}", text.len(), changes.len())?;
    sink.write_all(text.as_bytes())?;
    changes.iter().try_for_each(|(key, value)| writeln!(sink, "change {key}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> String {
        let mut bytes = Vec::new();
        Target::parse(text).unwrap().write_content(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_parameter_goes_to_every_drive_and_an_option_to_the_stack() {
        let target = |text: &str| Target::parse(text).unwrap();
        let with = |text: &str| target(text).name_with(&[("spare", "28%"), ("sync", "none")]);
        assert_eq!(with("sim:").unwrap(), "sim:generic-tlc,spare=28%,sync=none");
        let stack = with("raid1(sim:;usb(sim:toshiba-xg5,trim=off)),reads=first").unwrap();
        assert_eq!(
            stack,
            "raid1(sim:generic-tlc,spare=28%;usb(sim:toshiba-xg5,trim=off,spare=28%)),reads=first,sync=none"
        );
        assert!(Target::parse(&stack).is_ok(), "{stack}");
        assert!(with("src").is_none());
    }

    #[test]
    fn content_tells_drives_apart_and_not_names() {
        assert_eq!(content("sim:"), content("sim:generic-tlc"));
        let all = [
            "sim:",
            "sim:,spare=7%",
            "sim:,spare=8%",
            "sim:toshiba-xg5",
            "usb(sim:)",
            "usb(sim:),trim=on",
            "usb(sim:,spare=7%)",
            "raid1(sim:;sim:)",
            "raid1(sim:;sim:;sim:)",
            "raid0(sim:;sim:)",
            "src",
            "tests",
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(content(one), content(other), "{one}, {other}");
            }
        }
    }
}
