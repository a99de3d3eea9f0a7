"""One answer's text out of its pieces, within the budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from delta_protocol.tokens import estimate, fits, prefix

SINCE = "Since this conversation began:"
"""The heading under which a conversation learns, once, what changed about the connectors (three-tools 3)."""


def cut_lines(lines: Sequence[str], budget: int, more: str) -> list[str]:
    """Return the first lines that fit, and in place of the others how many there are and `more`."""
    kept: list[str] = []
    left = budget
    for line in lines:
        cost = estimate(line) + 1 if len(line) <= budget * 8 else left + 1
        if cost > left:
            if not kept:
                kept.append(line[: prefix(line, max(1, left - 24))] + "…")
            if rest := len(lines) - len(kept):
                kept.append(f"… {rest} more lines{more}")
            return kept
        kept.append(line)
        left -= cost
    return kept


def extras(console: Sequence[str], notes: Sequence[str], since: Sequence[str], budget: int) -> list[str]:
    """Return console lines, notes and news, as far as they fit into `budget`, as blocks of text."""
    blocks: list[str] = []
    if console:
        lines = [line for entry in console for line in entry.splitlines() or [""]]
        blocks.append("\n".join(["Console:", *cut_lines(lines, budget // 2, " of console output")]))
    if notes:
        blocks.append("\n".join(cut_lines([f"Note: {note}" for note in notes], budget // 4, " of notes")))
    if since:
        news = [f"- {note}" for note in since]
        blocks.append("\n".join([SINCE, *cut_lines(news, budget // 4, '; see delta_read { refs: ["services"] }')]))
    return blocks


def short(text: str, budget: int, more: str) -> str:
    """Return `text`, cut at a line's end to fit `budget`; `more` says where all of it is."""
    return text if fits(text, budget) else "\n".join(cut_lines(text.splitlines(), budget, more))
