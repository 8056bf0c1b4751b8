//! Shell completion: the shell asks the program, which knows the experiments, drives, keys and runs.

mod bash;
mod candidates;

use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::cli;

#[cfg(target_os = "linux")]
pub use candidates::attached;
pub use candidates::{
    Operands, Profiles, Runs, RunsAndFiles, Simulated, experiments, fixes, keys, settings, varied,
};

/// Environment variable by which a shell asks for completions; its value is the name of the shell.
const VARIABLE: &str = "SSDLAB_COMPLETE";

/// Name of the program for the shell.
const PROGRAM: &str = "ssdlab";

const SHELLS: Shells<'static> = Shells(&[&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Addition to the script for zsh: zsh runs a file of its fpath at the first completion, and the script alone would
/// only define the function.
const ZSH_AUTOLOAD: &str = r#"if [[ ${funcstack[1]} == _ssdlab ]]; then
    _clap_dynamic_completer_ssdlab "$@"
fi
"#;

/// If a shell asks for completions, prints them and exits.
pub fn complete_if_asked() {
    CompleteEnv::with_factory(cli::command)
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM)
        .shells(SHELLS)
        .complete();
}

/// Returns the script that makes a shell ask for completions; `None` if the shell is not supported.
pub fn script(shell: &str) -> Option<String> {
    let mut script = Vec::new();
    let completer: &dyn EnvCompleter = SHELLS.completer(shell)?;
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .expect("writing to memory does not fail");
    let mut script = String::from_utf8(script).ok()?;
    if completer.name() == Zsh.name() {
        script.push_str(ZSH_AUTOLOAD);
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
