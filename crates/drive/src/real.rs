//! A real drive: a file, or a file in a directory.
