#!/usr/bin/env python3
"""Fails where a doc comment of the crates begins with a question word: "How many." leaves the reader to guess of what.
"Number of free blocks." does not."""

import pathlib
import re
import sys

QUESTION = re.compile(r"//[/!] (What|Whether|Who|How|Which|When|Where|Why|The same)\b")


def first_lines(text):
    """Yields the number and text of the first line of each doc comment."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.strip()[:3]
        if mark in ("///", "//!") and mark != before:
            yield number, line.strip()
        before = mark


def main():
    """Prints the comments found. Returns 1 if there are any, else 0."""
    found = [
        f"{path}:{number}: {line}"
        for path in sorted(pathlib.Path("crates").glob("*/src/**/*.rs"))
        for number, line in first_lines(path.read_text(encoding="utf-8"))
        if QUESTION.match(line)
    ]
    for line in found:
        print(f"names no subject: {line}")
    return 1 if found else 0


sys.exit(main())
