//! Completion: the shell asks the program, which knows the experiments, drives, keys and runs there are.

mod bash;
mod candidates;

use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::cli;

#[cfg(target_os = "linux")]
pub use candidates::attached;
pub use candidates::{
    Operands, Profiles, Runs, RunsAndFiles, Simulated, experiments, fixes, keys, settings, varied,
};

/// The variable in which a shell says that it asks, and which one it is.
const VARIABLE: &str = "SSDLAB_COMPLETE";

/// What the program is called where a shell looks for it.
const PROGRAM: &str = "ssdlab";

const SHELLS: Shells<'static> = Shells(&[&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// zsh runs a file of its fpath for the first completion, which would only define the function.
const AUTOLOADED: &str = r#"if [[ ${funcstack[1]} == _ssdlab ]]; then
    _clap_dynamic_completer_ssdlab "$@"
fi
"#;

/// Answers a shell that asks for completions, and ends the program then.
pub fn answer_if_asked() {
    CompleteEnv::with_factory(cli::command)
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM)
        .shells(SHELLS)
        .complete();
}

/// Returns the script that has a shell ask; `None` for a shell that cannot.
pub fn script(shell: &str) -> Option<String> {
    let mut script = Vec::new();
    let completer: &dyn EnvCompleter = SHELLS.completer(shell)?;
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .expect("writing to memory does not fail");
    let mut script = String::from_utf8(script).ok()?;
    if completer.name() == Zsh.name() {
        script.push_str(AUTOLOADED);
    }
    Some(script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_that_can_be_named_has_a_script() {
        for shell in clap_complete::Shell::value_variants() {
            let script = script(&shell.to_string()).unwrap();
            assert!(script.contains(VARIABLE) && script.contains(PROGRAM), "{shell}: {script}");
            let calls = script.matches("_clap_dynamic_completer_ssdlab").count();
            assert_eq!(calls, if shell.to_string() == "zsh" { 3 } else { 0 }, "{shell}: {script}");
        }
        assert_eq!(script("tcsh"), None);
    }
}
