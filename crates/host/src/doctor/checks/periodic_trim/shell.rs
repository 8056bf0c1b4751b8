//! Parser that finds calls of fstrim in a line of a script, a crontab or a systemd unit.
//!
//! It looks at one line only, so the result is unknown where only the shell could tell (variables, loops, patterns).

use super::TrimScope;

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// True if only the shell can evaluate the word: variables, patterns, a continued line.
    is_dynamic: bool,
}

impl Word {
    /// Returns true if the word is this program, by name or by its path in a bin or sbin directory.
    fn is(&self, program: &str) -> bool {
        let place = self.text.strip_suffix(program);
        place.is_some_and(|it| it.is_empty() || it.ends_with("/bin/") || it.ends_with("/sbin/"))
    }

    fn names_fstrim(&self) -> bool {
        self.is("fstrim") || self.is("fstrim-all")
    }
}

/// Words before a command that do not change its effect.
const COMMAND_PREFIXES: [&str; 11] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec"];

/// Programs that run the command behind their options.
const COMMAND_RUNNERS: [&str; 19] = [
    "sudo",
    "doas",
    "su",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "timeout",
    "nohup",
    "setsid",
    "env",
    "flock",
    "chronic",
    "systemd-cat",
    "systemd-run",
    "systemd-inhibit",
    "sh",
    "bash",
    "dash",
];

/// Programs that do not run their arguments: fstrim among them is only a word.
const NON_RUNNERS: [&str; 27] = [
    "echo", "printf", "logger", "cat", "grep", "which", "whereis", "type", "hash", "command",
    "test", "[", "[[", "ls", "rm", "touch", "mail", "true", "false", ":", "export", "exit",
    "return", "chmod", "install", "cp", "stat",
];

/// Returns the calls of fstrim in a line of a script.
pub(super) fn calls(line: &str) -> Vec<TrimScope> {
    commands(line).iter().filter_map(|words| calls_of_command(words)).flatten().collect()
}

/// Returns the calls in a line of a crontab, behind the times and, if the crontab has it, the user. Calls by another
/// user than root count as `Never`: only root may trim.
pub(super) fn calls_in_crontab(line: &str, has_user: bool) -> Vec<TrimScope> {
    let line = line.trim_start();
    let is_setting = || {
        let name = line.split('=').next().unwrap_or_default().trim();
        line.contains('=') && !name.contains(char::is_whitespace) && !name.starts_with(['*', '@'])
    };
    if line.starts_with('#') || is_setting() {
        return Vec::new();
    }
    let times = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut last = "";
    for _ in 0..times + usize::from(has_user) {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        last = &rest[..end];
        rest = rest[end..].trim_start();
    }
    // Text behind a percent sign is the standard input of the command.
    let found = calls(rest.split('%').next().unwrap_or_default());
    match has_user && last != "root" && !found.is_empty() {
        true => vec![TrimScope::Never(format!("runs it as {last}, who has no right to trim"))],
        false => found,
    }
}

/// Splits a line into its commands, and these into words, without redirections and comments.
fn commands(line: &str) -> Vec<Vec<Word>> {
    let mut found = vec![Vec::new()];
    let mut word: Option<Word> = None;
    // The file of a redirection is not a word of the command.
    let mut is_file = false;
    let mut letters = line.chars().peekable();
    let end_word = |word: &mut Option<Word>, is_file: &mut bool, found: &mut Vec<Vec<Word>>| {
        if let Some(word) = word.take()
            && !std::mem::take(is_file)
            && let Some(words) = found.last_mut()
        {
            words.push(word);
        }
    };
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => end_word(&mut word, &mut is_file, &mut found),
            '#' if word.is_none() => break,
            '>' | '<' => {
                // The number of a file descriptor belongs to the redirection.
                if word.as_ref().is_some_and(|it| it.text.bytes().all(|byte| byte.is_ascii_digit()))
                {
                    word = None;
                }
                end_word(&mut word, &mut is_file, &mut found);
                while letters.next_if(|next| matches!(next, '>' | '&' | '<')).is_some() {}
                is_file = true;
            }
            '&' if letters.peek() == Some(&'>') => end_word(&mut word, &mut is_file, &mut found),
            ';' | '&' | '|' | '(' | ')' | '\n' => {
                end_word(&mut word, &mut is_file, &mut found);
                is_file = false;
                found.push(Vec::new());
            }
            letter => push_letter(letter, &mut letters, word.get_or_insert_default()),
        }
    }
    end_word(&mut word, &mut is_file, &mut found);
    found.retain(|words| !words.is_empty());
    found
}

/// Adds a letter to a word; after a quote or a backslash, what is quoted, too.
fn push_letter(letter: char, letters: &mut std::iter::Peekable<std::str::Chars>, word: &mut Word) {
    match letter {
        '\'' => word.text.extend(letters.by_ref().take_while(|next| *next != '\'')),
        '"' => {
            while let Some(next) = letters.next().filter(|next| *next != '"') {
                word.is_dynamic |= matches!(next, '$' | '`');
                let escaped = (next == '\\').then(|| letters.next()).flatten();
                word.text.push(escaped.unwrap_or(next));
            }
        }
        '\\' => match letters.next() {
            Some(next) => word.text.push(next),
            // The next line continues this one.
            None => word.is_dynamic = true,
        },
        letter => {
            word.is_dynamic |= matches!(letter, '$' | '`' | '*' | '?');
            word.text.push(letter);
        }
    }
}

/// Returns the calls of fstrim that a command makes; `None` if it makes none.
fn calls_of_command(words: &[Word]) -> Option<Vec<TrimScope>> {
    let is_prefix =
        |word: &Word| COMMAND_PREFIXES.contains(&word.text.as_str()) || is_assignment(&word.text);
    let words = &words[words.iter().position(|word| !is_prefix(word))?..];
    let (first, rest) = words.split_first()?;
    if first.is("fstrim") {
        return Some(vec![scope_of_fstrim(rest)]);
    }
    if first.is("fstrim-all") {
        return Some(vec![match rest.iter().any(|word| word.text == "--no-model-check") {
            true => TrimScope::All,
            // The script of Ubuntu 14.04, which trims drives of some makers only.
            false => TrimScope::Unknown,
        }]);
    }
    if first.is("systemctl") {
        let starts = rest.iter().any(|word| matches!(word.text.as_str(), "start" | "restart"));
        let service = |word: &&Word| matches!(word.text.as_str(), "fstrim" | "fstrim.service");
        return (starts && rest.iter().any(|word| service(&word))).then(|| vec![TrimScope::Listed]);
    }
    if NON_RUNNERS.iter().any(|name| first.is(name)) {
        return None;
    }
    if COMMAND_RUNNERS.iter().any(|name| first.is(name)) {
        if let Some(at) = rest.iter().position(|word| word.text == "-c")
            && let Some(script) = rest.get(at + 1)
        {
            return Some(calls(&script.text));
        }
        let at = rest.iter().position(|word| word.names_fstrim() || word.is("systemctl"))?;
        return calls_of_command(&rest[at..]);
    }
    // An unknown program or a variable may run its arguments.
    let may_call = first.is_dynamic && first.text.to_lowercase().contains("fstrim");
    (may_call || rest.iter().any(Word::names_fstrim)).then(|| vec![TrimScope::Unknown])
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    })
}

/// Long options of fstrim(8), with the short ones.
const FSTRIM_OPTIONS: [(&str, char); 12] = [
    ("all", 'a'),
    ("fstab", 'A'),
    ("listed-in", 'I'),
    ("offset", 'o'),
    ("length", 'l'),
    ("minimum", 'm'),
    ("types", 't'),
    ("verbose", 'v'),
    ("quiet-unsupported", 'q'),
    ("dry-run", 'n'),
    ("help", 'h'),
    ("version", 'V'),
];

/// Options that take a value.
const WITH_VALUE: [char; 5] = ['I', 'o', 'l', 'm', 't'];

/// Returns the file systems that fstrim trims with these arguments.
fn scope_of_fstrim(arguments: &[Word]) -> TrimScope {
    let Some(given) = parse_options(arguments) else { return TrimScope::Unknown };
    let value = |wanted: char| given.iter().rev().find(|(option, _)| *option == wanted);
    let has = |wanted: char| value(wanted).is_some();
    if has('n') {
        return TrimScope::Never("only simulates it (--dry-run)".to_owned());
    }
    if has('h') || has('V') {
        return TrimScope::Never("only asks fstrim about itself".to_owned());
    }
    let is_partial = has('o') || has('l');
    if is_partial || given.iter().any(|(_, word)| word.is_dynamic) {
        return TrimScope::Unknown;
    }
    let scope = match () {
        () if has('a') => TrimScope::All,
        () if has('A') => TrimScope::Listed,
        () if has('I') => scope_of_listed_in(value('I').map_or("", |(_, word)| &word.text)),
        () => {
            let points = given.iter().filter(|(option, _)| *option == '/');
            let points: Vec<String> =
                points.map(|(_, word)| super::without_trailing_slash(&word.text)).collect();
            return if points.is_empty() { TrimScope::Unknown } else { TrimScope::Points(points) };
        }
    };
    match value('t') {
        Some((_, types)) => {
            let types = types.text.split(',').map(str::to_owned).collect();
            TrimScope::OfTypes(types, Box::new(scope))
        }
        None => scope,
    }
}

/// Returns the options with their values, and paths as the option `/`; `None` if an option is unknown.
fn parse_options(arguments: &[Word]) -> Option<Vec<(char, Word)>> {
    let mut given = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if let Some(long) = word.text.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            // An abbreviated long option is valid if only one option begins with it.
            let mut fitting = FSTRIM_OPTIONS.iter().filter(|(option, _)| option.starts_with(name));
            let exact = FSTRIM_OPTIONS.iter().find(|(option, _)| *option == name);
            let (_, option) =
                exact.or_else(|| fitting.next().filter(|_| fitting.next().is_none()))?;
            let value = match value {
                Some(value) => Word { text: value.to_owned(), is_dynamic: word.is_dynamic },
                None if WITH_VALUE.contains(option) => rest.next()?.clone(),
                None => Word::default(),
            };
            given.push((*option, value));
        } else if let Some(short) =
            word.text.strip_prefix('-').filter(|it| !it.is_empty() && *it != "-")
        {
            let mut letters = short.chars();
            while let Some(option) = letters.next() {
                FSTRIM_OPTIONS.iter().find(|(_, known)| *known == option)?;
                let mut value = Word::default();
                if WITH_VALUE.contains(&option) {
                    let behind: String = letters.by_ref().collect();
                    value = match behind.is_empty() {
                        true => rest.next()?.clone(),
                        false => Word { text: behind, is_dynamic: word.is_dynamic },
                    };
                }
                given.push((option, value));
            }
        } else if word.text != "--" {
            given.push(('/', word.clone()));
        }
    }
    Some(given)
}

fn scope_of_listed_in(files: &str) -> TrimScope {
    match files.split(':').next() {
        Some("/etc/fstab") => TrimScope::Listed,
        Some("/proc/self/mountinfo" | "/proc/mounts" | "/proc/self/mounts") => TrimScope::All,
        _ => TrimScope::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(points: &[&str]) -> TrimScope {
        TrimScope::Points(points.iter().map(|&it| it.into()).collect())
    }

    #[test]
    fn calls_are_told_from_what_only_names_the_program() {
        for (line, expected) in [
            ("/sbin/fstrim --all || exit 1", vec![TrimScope::All]),
            (
                "fstrim -v / && fstrim -m 1M -v /home >/dev/null",
                vec![points(&["/"]), points(&["/home"])],
            ),
            ("[ -x /sbin/fstrim ] || exit 0", vec![]),
            (
                "[ -x /sbin/fstrim ] && /sbin/fstrim -av 2>&1 | logger -t fstrim",
                vec![TrimScope::All],
            ),
            ("  # fstrim -a", vec![]),
            ("true # fstrim -a", vec![]),
            ("echo fstrim -a", vec![]),
            ("echo 'now; fstrim -a'", vec![]),
            ("logger \"fstrim / done\"", vec![]),
            ("command -v fstrim >/dev/null || exit", vec![]),
            ("if command -v fstrim; then fstrim /; fi", vec![points(&["/"])]),
            ("FSTRIM=/sbin/fstrim", vec![]),
            ("$FSTRIM -a", vec![TrimScope::Unknown]),
            ("LC_ALL=C exec ionice -c3 nice -n 19 fstrim -av", vec![TrimScope::All]),
            (
                "flock -n /run/fstrim.lock timeout 1h /usr/sbin/fstrim /mnt/",
                vec![points(&["/mnt"])],
            ),
            ("sh -c 'fstrim /; fstrim /home'", vec![points(&["/"]), points(&["/home"])]),
            ("sudo -n sh -c \"fstrim -a\"", vec![TrimScope::All]),
            ("systemctl start fstrim.service", vec![TrimScope::Listed]),
            ("systemctl status fstrim.service", vec![]),
            ("for d in $disks; do fstrim \"$d\"; done", vec![TrimScope::Unknown]),
            ("fstrim /mnt/*", vec![TrimScope::Unknown]),
            ("xargs -n1 fstrim < /etc/trim", vec![TrimScope::Unknown]),
            ("fstrim \\", vec![TrimScope::Unknown]),
            ("fstrim -I /etc/fstab:/proc/self/mountinfo", vec![TrimScope::Listed]),
            ("fstrim --listed=/proc/self/mountinfo", vec![TrimScope::All]),
            ("fstrim -l 1G /", vec![TrimScope::Unknown]),
            ("fstrim --nonsense -a", vec![TrimScope::Unknown]),
            ("fstrim-all", vec![TrimScope::Unknown]),
            ("/sbin/fstrim-all --no-model-check", vec![TrimScope::All]),
            ("&> /var/log/trim fstrim '/my disk'", vec![points(&["/my disk"])]),
            ("echo done", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(calls(line), expected, "{line}");
        }
        for line in ["fstrim -n /", "fstrim -avn", "fstrim --all --dry-run", "fstrim --dry /"] {
            assert!(matches!(&calls(line)[..], [TrimScope::Never(_)]), "{line}");
        }
        let ext4 =
            TrimScope::OfTypes(vec!["ext4".to_owned(), "xfs".to_owned()], Box::new(TrimScope::All));
        assert_eq!(calls("fstrim -a -t ext4,xfs"), [ext4]);
    }

    #[test]
    fn times_and_users_of_a_table_of_cron_are_no_commands() {
        let table = |line| calls_in_crontab(line, true);
        assert_eq!(table("0 3 * * 0 root /sbin/fstrim /boot/"), [points(&["/boot"])]);
        assert_eq!(table("@weekly root fstrim -a"), [TrimScope::All]);
        assert_eq!(table("#0 3 * * 0 root fstrim -a"), []);
        assert_eq!(table("COMMAND=\"fstrim -a\""), []);
        assert_eq!(table("0 3 * * 0 root logger x%fstrim -a"), []);
        assert!(matches!(&table("0 3 * * 0 nobody fstrim -a")[..], [TrimScope::Never(_)]));
        assert_eq!(calls_in_crontab("0 3 * * 0 fstrim -a", false), [TrimScope::All]);
        assert_eq!(table("0 3"), []);
    }
}
