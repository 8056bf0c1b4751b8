//! The command line: arguments to library calls, reports to the terminal, errors to exit codes.

fn main() {}
