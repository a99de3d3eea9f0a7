"""Restart tables against a naive model and against OTP's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.supervision import NOTHING, Backoff, Decision, Intensity, Member, Restart, RestartTable, Strategy

OFTEN = Intensity(max_restarts=1_000_000, window=5.0)
NAMES = ("a", "b", "c", "d")


def table(strategy: Strategy = Strategy.ONE_FOR_ONE, intensity: Intensity = OFTEN, **restarts: Restart) -> RestartTable:
    members = [Member(name, restarts.get(name, Restart.PERMANENT)) for name in NAMES]
    made = RestartTable(members, strategy=strategy, intensity=intensity, backoff=Backoff(0.1, 10.0, jitter=0.0))
    assert made.start() == NAMES
    return made


def ended(made: RestartTable, name: str, *, clean: bool = False, now: float = 0.0) -> Decision:
    return made.ended(name, clean=clean, now=now, chance=0.5)


@pytest.mark.parametrize(
    ("strategy", "stop", "start"),
    [
        (Strategy.ONE_FOR_ONE, (), ("b",)),
        (Strategy.ONE_FOR_ALL, ("d", "c", "a"), ("a", "b", "c", "d")),
        (Strategy.REST_FOR_ONE, ("d", "c"), ("b", "c", "d")),
    ],
)
def test_each_strategy_stops_backwards_and_starts_forwards(
    strategy: Strategy, stop: tuple[str, ...], start: tuple[str, ...]
) -> None:
    decision = ended(table(strategy), "b")
    assert (decision.stop, decision.start) == (stop, start)


def test_a_transient_child_is_restarted_only_after_a_bad_end() -> None:
    assert ended(table(b=Restart.TRANSIENT), "b", clean=True) == NOTHING
    assert ended(table(b=Restart.TRANSIENT), "b", clean=False).start == ("b",)


def test_a_temporary_child_leaves_the_table() -> None:
    made = table(b=Restart.TEMPORARY)
    assert ended(made, "b") == NOTHING
    assert made.wanted == ("a", "c", "d")
    with pytest.raises(KeyError):
        made.start("b")


def test_a_temporary_sibling_is_stopped_but_not_started_again() -> None:
    made = table(Strategy.ONE_FOR_ALL, c=Restart.TEMPORARY)
    decision = ended(made, "a")
    assert decision.stop == ("d", "c", "b")
    assert decision.start == ("a", "b", "d")
    assert made.wanted == ("a", "b", "d")


def test_one_restart_too_many_stops_everything_and_escalates() -> None:
    made = table(intensity=Intensity(max_restarts=2, window=5.0))
    assert not ended(made, "a", now=0.0).escalate
    assert not ended(made, "b", now=1.0).escalate
    decision = ended(made, "c", now=2.0)
    assert decision == Decision(stop=("d", "b", "a"), escalate=True)
    assert made.wanted == ()
    assert ended(made, "a", now=3.0) == NOTHING


def test_restarts_outside_the_window_do_not_count() -> None:
    made = table(intensity=Intensity(max_restarts=1, window=5.0))
    for now in (0.0, 5.0, 10.0):
        assert not ended(made, "a", now=now).escalate


def test_backoff_grows_and_begins_anew_after_a_window_of_service() -> None:
    made = table()
    delays = [ended(made, "a", now=float(now)).delay for now in range(3)]
    assert delays == [0.1, 0.2, 0.4]
    made.ready("a", 10.0)
    assert ended(made, "a", now=14.9).delay == pytest.approx(0.8)
    made.ready("a", 20.0)
    assert ended(made, "a", now=25.0).delay == pytest.approx(0.1)


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="'a'"):
        RestartTable([Member("a"), Member("a")])


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_stays_within_its_bounds(attempt: int, chance: float) -> None:
    backoff = Backoff(first=0.1, most=10.0, factor=2.0, jitter=0.2)
    assert 0.08 <= backoff.delay(attempt, chance) <= 12.0


@given(
    st.sampled_from(Strategy),
    st.lists(st.sampled_from(Restart), min_size=4, max_size=4),
    st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), st.floats(0, 3)), max_size=40),
)
def test_whatever_ends_the_driver_and_the_table_agree_on_what_is_up(
    strategy: Strategy, kinds: list[Restart], ends: list[tuple[str, bool, float]]
) -> None:
    """A driver that only obeys has up what the table wants, stops nothing that is down and starts nothing twice."""
    members = [Member(name, kind) for name, kind in zip(NAMES, kinds, strict=True)]
    made = RestartTable(members, strategy=strategy, intensity=Intensity(5, 4.0))
    up = list(made.start())
    now = 0.0
    for name, clean, later in ends:
        now += later
        if name in up:
            up.remove(name)
        decision = made.ended(name, clean=clean, now=now, chance=0.5)
        for stopped in decision.stop:
            up.remove(stopped)
        assert [name for name in NAMES if name in decision.start] == list(decision.start)
        for started in decision.start:
            assert started not in up
            up.append(started)
            made.ready(started, now)
        assert sorted(up) == sorted(made.wanted)
        assert not (decision.escalate and up)
