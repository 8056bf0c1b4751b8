"""What notebooks show: plain HTML that takes the notebook's own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_COLOURS = {"problem": "#b3261e", "warning": "#b26a00", "notice": "#1a66a8", "info": "#777777"}


def findings(found: Iterable[tuple[str, str]]) -> str:
    """Findings, each with its level and sentence."""
    rows = []
    for level, text in found:
        colour = _COLOURS.get(level, "#777777")
        mark = f'<b style="color:{colour}">{escape(level.upper())}</b>'
        rows.append(f'<li style="list-style:none;margin:0 0 .4em">{mark} {escape(text)}</li>')
    return f'<ul style="padding:0;max-width:60em">{"".join(rows)}</ul>' if rows else ""


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], left_out: int = 0) -> str:
    """A small table of words."""
    head = "".join(f'<th style="text-align:left">{escape(one)}</th>' for one in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    more = f"<p>and {left_out} rows more</p>" if left_out else ""
    caption = f"<caption style='text-align:left;font-weight:bold'>{escape(name)}</caption>" if name else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def block(title: str, meta: str, *parts: str) -> str:
    """A title, a line about it, and what follows."""
    head = f"<p style='margin:0 0 .6em'><b>{escape(title)}</b><br><small>{escape(meta)}</small></p>"
    return f"<div>{head}{''.join(parts)}</div>"


def number(value: object) -> str:
    """A cell of a table with the digits that people read."""
    if value is None or value != value:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return str(value)
