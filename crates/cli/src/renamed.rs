//! Former spellings of commands and options, which scripts may still use.

use std::ffi::OsString;

/// Commands that were renamed: former and present name.
const COMMANDS: [(&str, &str); 1] = [("age", "precondition")];

/// Options that were renamed: former and present name.
const OPTIONS: [(&str, &str); 1] = [("--make-new", "--purge")];

/// Returns the arguments with present names, and a notice for each former name.
pub fn respell(arguments: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let mut notices = Vec::new();
    let mut has_command = false;
    let mut is_over = false;
    let mut is_before_value = false;
    let mut respelled = Vec::new();
    for (index, argument) in arguments.enumerate() {
        let text = argument.to_str().unwrap_or_default();
        is_over |= text == "--";
        // This is the only option before a command that takes a value.
        let is_value = std::mem::replace(&mut is_before_value, text == "--color");
        let may_be_command = index > 0 && !text.starts_with('-') && !is_value && !has_command;
        let renamed = if is_over || index == 0 {
            None
        } else if may_be_command {
            named(&COMMANDS, text).map(OsString::from)
        } else {
            let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
            named(&OPTIONS, name).map(|new| match value {
                Some(value) => format!("{new}={value}").into(),
                None => new.into(),
            })
        };
        has_command |= may_be_command;
        if let Some(new) = &renamed {
            notices.push(format!("'{text}' is called '{}' now", new.display()));
        }
        respelled.push(renamed.unwrap_or(argument));
    }
    (respelled, notices)
}

fn named(renamed: &[(&str, &'static str)], former: &str) -> Option<&'static str> {
    renamed.iter().find(|(name, _)| *name == former).map(|(_, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respelled(line: &str) -> (String, usize) {
        let (arguments, notices) = respell(line.split(' ').map(OsString::from));
        let words: Vec<_> = arguments.iter().map(|it| it.to_str().unwrap()).collect();
        (words.join(" "), notices.len())
    }

    #[test]
    fn former_names_are_respelled_and_named() {
        for (former, new) in [
            ("ssdlab age sim: -o age", "ssdlab precondition sim: -o age"),
            ("ssdlab --quiet age", "ssdlab --quiet precondition"),
            ("ssdlab --color never age", "ssdlab --color never precondition"),
            (
                "ssdlab run steady /dev/sdx --make-new none",
                "ssdlab run steady /dev/sdx --purge none",
            ),
            ("ssdlab run steady --make-new=none", "ssdlab run steady --purge=none"),
        ] {
            assert_eq!(respelled(former), (new.to_owned(), 1), "{former}");
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for line in ["ssdlab run age", "age run x", "ssdlab run job -- --make-new", "ssdlab"] {
            assert_eq!(respelled(line), (line.to_owned(), 0));
        }
    }
}
