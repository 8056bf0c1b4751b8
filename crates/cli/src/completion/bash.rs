//! Completion in bash, which splits `sim:toshiba-xg5,spare=7%` into five words.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{self, EnvCompleter};

/// Completer for bash. It joins the words that bash has split at colons and equals signs before it asks the program,
/// and removes from the answers the part that bash keeps.
pub struct Bash;

const SCRIPT: &str = r#"_NAME() {
    local words=() word rest=$COMP_LINE i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && [[ $word != [=:]* ]] && word=$2
        if ((i > 0)) && [[ -n $rest && $rest != [[:space:]]* ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        rest=${rest#*"${COMP_WORDS[i]}"}
    done
    local last=$((${#words[@]} - 1)) IFS=$'\n'
    local kept=${words[last]%"$2"}
    COMPREPLY=($(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last VAR=bash COMPLETER -- "${words[@]}"))
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    [[ ${COMPREPLY-} == *[=:,/\(] ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -F _NAME BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        env::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let script = SCRIPT
            .replace("COMPLETER", completer)
            .replace("NAME", name)
            .replace("BIN", bin)
            .replace("VAR", var);
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        env::Bash.write_complete(cmd, args, current_dir, buf)
    }
}
