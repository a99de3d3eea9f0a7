"""A reader's error is a sight of nothing only where it says so."""

from __future__ import annotations

import pytest

from delta_protocol.changes.absence import says_absent


@pytest.mark.parametrize(
    "message",
    [
        "ticket T-1 not found",
        "NOT_FOUND",
        "404 Project Not Found",
        "Issue 512 does not exist",
        "ENOENT: no such file or directory, open '/a.txt'",
        "Could not find page 12",
        "unknown ticket id T-101",
        "unknown ticket T-101",
        "there is no ticket T-101",
        "This page has been deleted",
        "no entity named x",
    ],
)
def test_words_for_not_found_mean_absent(message: str) -> None:
    assert says_absent(message)
    assert says_absent(message, was_there=True)


@pytest.mark.parametrize(
    "message",
    [
        "'T-101' is no ticket id; they look like T-1",
        "ticket T-1 has no comment 981",
        "invalid issue id",
        "it was removed by eva",
        "there is no page of that title",
        "404: not found, or you have no permission to see it",
    ],
)
def test_what_was_seen_before_is_absent_with_less_clear_words(message: str) -> None:
    assert says_absent(message, was_there=True)
    assert not says_absent(message)


@pytest.mark.parametrize(
    "message",
    [
        "403 Forbidden",
        "permission denied",
        "API rate limit exceeded, try again in 10 s",
        "429 Too Many Requests",
        "an unknown error occurred",
        "Unknown tool: get_ticket",
        "tool 'get_ticket' not found",
        "Method not found",
        "request timed out",
        "Internal error",
        "missing api key",
        "connection refused",
        "",
    ],
)
def test_other_failures_show_nothing_even_of_what_was_there(message: str) -> None:
    assert not says_absent(message)
    assert not says_absent(message, was_there=True)
