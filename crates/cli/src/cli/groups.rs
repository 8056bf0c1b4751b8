//! Groups of commands in the program's own help.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::Cli;

/// Groups of commands in the order of display; commands that this system does not have are left out.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Experiments", &["run", "sweep", "export", "import", "truth"]),
    (
        "Simulated drives",
        &["profile", "precondition", "create", "attach", "detach", "status", "power-cut", "check"],
    ),
    ("This machine", &["layers", "doctor", "advise", "refresh"]),
    ("Reports", &["list", "show", "compare", "serve"]),
    ("ssdlab itself", &["completions", "man", "help"]),
];

/// Columns before the description of a command.
const INDENT: usize = 16;

/// Returns the whole command line.
pub fn command() -> Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &Command) -> String {
    let style = command.get_styles();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        for name in names.iter().filter(|name| is_here(command, name)) {
            let gap = " ".repeat(INDENT - 2 - name.len());
            let _ = writeln!(text, "  {literal}{name}{literal:#}{gap}{}", about(command, name));
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

/// Returns true if this system has the command.
fn is_here(command: &Command, name: &str) -> bool {
    // clap adds this command later.
    name == "help" || command.find_subcommand(name).is_some()
}

fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map_or_else(|| "Print this, or the help of a command".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = command();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        all.push("help");
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
