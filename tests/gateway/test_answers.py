"""Texts made from the journal's report (plan-apply-undo 5.16)."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.answers import compose, program, report
from delta_protocol.answers.arguments import apply_arguments, delta_arguments, read_arguments
from delta_protocol.answers.refs import ResultPart, parse
from delta_protocol.changes.model import CallState, DeltaState, FieldConflict, Hole, Plan, ResultRef, Text, Value
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.tokens import estimate
from delta_protocol.wire.journal import CallReport, DeltaReport
from delta_protocol.wire.sandbox import ProgramError

ID = "d_abcdefghijkl"


def call(number: int, state: CallState, detail: str = "") -> CallReport:
    return CallReport(number, "tickets", "update_ticket", f"T-{number}: status open → closed", state, "R1", detail)


def outcome(state: DeltaState, *calls: CallReport, **facts: object) -> str:
    return report.outcome(DeltaReport(ID, state, calls, **facts))  # type: ignore[arg-type]


def test_applied_and_all_read_back() -> None:
    calls = (call(1, CallState.VERIFIED), call(2, CallState.VERIFIED))
    text = outcome(DeltaState.APPLIED, *calls, verified=2, undoable=2, duration=0.031)
    assert text == f"Applied {ID} · 2 calls · 31 ms · read back ✓"


def test_applied_with_doubts_names_them_and_gives_no_tick_for_all() -> None:
    calls = (call(1, CallState.VERIFIED), call(2, CallState.DIFFERS, "status: wanted closed, got done"))
    text = outcome(DeltaState.APPLIED, *calls, verified=1, differs=1, undoable=1, duration=1.9)
    assert text.splitlines()[0] == (
        f"Applied {ID} · 2 calls · 1.9 s · read back: 1 ✓, 1 stored differently · undo: 1 of 2"
    )
    assert "wanted closed, got done" in text


def test_rolled_back_begins_with_the_first_error() -> None:
    text = outcome(DeltaState.ROLLED_BACK, call(1, CallState.COMPENSATED), call(2, CallState.FAILED, "403 quota"))
    assert text == (f"Rolled back {ID} · call 2 tickets.update_ticket: 403 quota · call 1 taken back · nothing remains")


def test_partial_lists_what_is_still_there() -> None:
    calls = (
        call(1, CallState.COMPENSATED),
        call(2, CallState.COMPENSATION_FAILED, "delete_comment: 403"),
        call(3, CallState.FAILED, "500"),
    )
    text = outcome(DeltaState.PARTIAL, *calls)
    assert text.startswith(f"PARTIAL {ID} · call 3 tickets.update_ticket: 500")
    assert "call 2 could NOT be taken back: delete_comment: 403" in text
    assert "Still there: call 2 tickets.update_ticket: T-2" in text
    assert "Still there: call 1" not in text
    assert f'undo: "{ID}"' in text


def test_unknown_says_what_is_kept_and_where_to_look() -> None:
    text = outcome(DeltaState.UNKNOWN, call(1, CallState.VERIFIED), call(2, CallState.UNKNOWN, "no answer in 60 s"))
    assert text.startswith(f"UNKNOWN {ID} · call 2 tickets.update_ticket: no answer in 60 s")
    assert "Made and kept: call 1" in text
    assert f"delta:{ID}" in text


def test_a_conflict_shows_was_now_and_wanted() -> None:
    conflict = FieldConflict("T-1", "status", b'"open"', b'"in review"', b'"closed"')
    text = outcome(DeltaState.REFUSED, reason="T-1 changed since it was read", conflicts=(conflict,))
    assert text.startswith(f"Nothing changed {ID}")
    assert 'T-1.status is "in review" now, planned from "open", wanted "closed"' in text
    assert 'onto: "now"' in text


def test_an_undo_names_what_it_left_alone_and_how_to_force_it() -> None:
    conflict = FieldConflict("T-1", "status", b'"closed"', b'"in review"', b'"open"')
    for state, head in (
        (DeltaState.APPLIED, "Partly undone d_aaaaaaaaaaaa by"),
        (DeltaState.REFUSED, "Nothing changed"),
    ):
        text = outcome(state, call(1, CallState.VERIFIED), verified=1, undo_of="d_aaaaaaaaaaaa", conflicts=(conflict,))
        assert text.startswith(head)
        assert 'Kept: T-1.status is "in review" now' in text
        assert 'undo: "d_aaaaaaaaaaaa", force: ["T-1.status"]' in text
        assert "onto" not in text


def test_what_waits_for_a_person_says_so_only_while_it_does() -> None:
    waiting = outcome(DeltaState.WAITING, reason="waits for approval: safe mode: call 1")
    assert f"A person has to approve this: delta-supervisor approve {ID}" in waiting
    assert "A person" not in outcome(DeltaState.WAITING)
    assert "A person" not in outcome(DeltaState.DECLINED, reason="declined: too many")


def test_waiting_shows_the_plan_and_what_comes_next() -> None:
    text = outcome(DeltaState.WAITING, card="Plan …\n1 tickets.update_ticket", reason="approval: safe mode, call 1")
    assert text.splitlines()[0] == "Plan …"
    assert "Waiting" in text
    assert "approval: safe mode" in text
    assert f'delta_apply {{ delta: "{ID}" }}' in text


def test_an_unfinished_apply_says_so() -> None:
    text = outcome(DeltaState.APPLYING, call(1, CallState.VERIFIED), call(2, CallState.SENT))
    assert text.startswith(f"Still applying {ID} · 1 of 2 calls made")
    assert f"delta:{ID}" in text


@given(
    st.sampled_from(DeltaState),
    st.lists(st.sampled_from(CallState), max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_every_state_has_words_and_a_tick_only_with_nothing_doubtful(
    state: DeltaState, states: list[CallState], verified: int, differs: int
) -> None:
    calls = tuple(call(number + 1, one) for number, one in enumerate(states))
    given_report = DeltaReport(ID, state, calls, verified=verified, differs=differs)
    text = report.outcome(given_report)
    assert ID in text
    assert not re.search("atomic|transaction", text, re.IGNORECASE)
    if "read back ✓" in text:
        assert state is DeltaState.APPLIED
        assert differs == 0
        assert verified >= len(calls) > 0
    assert ID in report.whole(given_report)
    assert report.facts(given_report)["calls"] == len(calls)


def test_a_program_error_says_what_where_and_that_nothing_changed() -> None:
    error = ProgramError("runtime", "TypeError", "x is not a function", 3, 5, "2 | a\n3 | x()")
    assert program.error_text(error) == (
        "TypeError: x is not a function\nat line 3, column 5 of the program:\n2 | a\n3 | x()\nNothing was changed."
    )


def test_a_crossed_limit_is_named_as_it_is_configured() -> None:
    error = ProgramError("limit", "LimitError", "the program made more than 256 calls", limit="host_calls")
    assert "The limit is `host_calls` under [limits.program]." in program.error_text(error)


def test_what_is_not_there_yet_is_named() -> None:
    value = Value(
        b'{"id":null,"text":null}',
        (
            Hole(("id",), (ResultRef(1, ("id",)),)),
            Hole(("text",), (Text("see "), ResultRef(1, ("id",)))),
        ),
    )
    assert program.planned_value(value, Plan(1, ())) == {"id": "⟨call 1: id⟩", "text": "see ⟨call 1: id⟩"}


@given(st.lists(st.text(max_size=60), max_size=40), st.integers(40, 200))
def test_cut_lines_fit(lines: list[str], budget: int) -> None:
    kept = compose.cut_lines(lines, budget, "")
    assert estimate("\n".join(kept)) <= budget + 24
    if sum(estimate(line) + 1 for line in lines) <= budget:
        assert kept == lines


@pytest.mark.parametrize(
    ("ref", "part"),
    [
        ("result:r_abcdefghijkl", ResultPart("r_abcdefghijkl")),
        ("result:r_abcdefghijkl.rows[3].name", ResultPart("r_abcdefghijkl", ("rows", 3, "name"))),
        ('result:r_abcdefghijkl["a.b"][1:2]', ResultPart("r_abcdefghijkl", ("a.b",), 1, 2)),
        ("result:r_abcdefghijkl[10:20][3]", ResultPart("r_abcdefghijkl", (13,))),
        ("result:r_abcdefghijkl[10:20][2:50]", ResultPart("r_abcdefghijkl", (), 12, 20)),
        ("result:r_abcdefghijkl[-5:]", ResultPart("r_abcdefghijkl", (), -5, None)),
        ("result:r_abcdefghijkl[:5]", ResultPart("r_abcdefghijkl", (), None, 5)),
    ],
)
def test_references_to_results(ref: str, part: ResultPart) -> None:
    assert parse(ref) == part


# acceptance 77
@given(st.text(max_size=40))
def test_no_other_id_passes(text: str) -> None:
    for kind in ("result:", "delta:", "journal:"):
        try:
            parse(kind + text)
        except Invalid:
            continue
        assert re.match(r"[rd]_[a-z2-7]{12}", text.strip())


@pytest.mark.parametrize(
    "ref",
    [
        "result:../../etc/passwd",
        "result:/etc/passwd",
        "result:r_aaaaaaaaaaaa/../x",
        "result:r_aaaaaaaaaaaa\0",
        "result:r_aaaaaaaaaaaa[" + "1" * 5_000 + "]",
        "result:r_aaaaaaaaaaaa[99999999999999999999]",
        "result:r_aaaaaaaaaaaa[0:99999999999999999999]",
        'result:r_aaaaaaaaaaaa["\\ud800"]',
        "result:r_aaaaaaaaaaaa" + ".a" * 1_000_000,
        "delta:../d_aaaaaaaaaaaa",
        "journal:../../x",
        "search:" + "a " * 100_000,
        "search:",
    ],
    ids=lambda ref: ref[:40],
)
def test_references_that_reach_outside_or_are_beyond_all_measure_are_refused(ref: str) -> None:  # acceptance 77
    with pytest.raises(Invalid):
        parse(ref)


def test_more_references_than_an_answer_has_room_for_are_refused() -> None:
    with pytest.raises(Invalid, match="33 refs are too many"):
        read_arguments(exact_json.encode({"refs": [""] * 33}))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either delta or undo"),
        ({"delta": ID, "undo": ID}, "either delta or undo"),
        ({"delta": "../x"}, "no delta id"),
        ({"undo": ID, "onto": "now"}, "belong to delta"),
        ({"delta": ID, "force": ["a"]}, "belongs to undo"),
        ({"delta": ID, "resolve": "maybe"}, "resolve"),
    ],
)
def test_arguments_of_apply_that_do_not_go_together_are_named(arguments: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        apply_arguments(exact_json.encode(arguments))


# acceptance 24
def test_json_text_is_taken_for_what_it_says() -> None:
    assert read_arguments(b'{"refs": "[\\"\\"]"}').refs == ("",)
    assert read_arguments(b'{"refs": "guide"}').refs == ("guide",)
    assert delta_arguments(b'{"code": "[1]", "dryRun": "true"}').dry_run is True
    assert apply_arguments(b'{"undo": "%b", "force": "[\\"T-1.status\\"]"}' % ID.encode()).force == ("T-1.status",)


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.text(max_size=8), st.none() | st.text(max_size=5)).map(exact_json.encode)
)
def test_any_arguments_are_taken_or_refused_in_words(text: bytes) -> None:
    for check in (delta_arguments, read_arguments, apply_arguments):
        with contextlib.suppress(Invalid):
            check(text)
