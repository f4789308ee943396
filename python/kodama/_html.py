"""What notebooks show: small pieces of HTML, in which nothing of the user's is markup."""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence

_LONGEST = 40  # lines that are shown


def shortened(text: str) -> str:
    """The first lines, and how many more there are."""
    lines = text.splitlines()
    if len(lines) > _LONGEST:
        lines = lines[:_LONGEST] + [f"... and {len(lines) - _LONGEST} more lines"]
    return "\n".join(lines)


def preformatted(title: str, text: str) -> str:
    return f"<div><b>{html.escape(title)}</b><pre>{html.escape(text)}</pre></div>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def cells(row: Sequence[Any], tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)

    head = f"<thead><tr>{cells(columns, 'th')}</tr></thead>" if any(columns) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"
