from pathlib import Path

import pytest

from delta_actors.demo.store import PAGE, TicketStore
from delta_protocol.errors import NotFound


def test_a_new_file_holds_the_broken_login(tmp_path: Path) -> None:
    store = TicketStore(tmp_path / "tickets.db")
    ticket = store.get("T-1")
    assert (ticket["title"], ticket["status"], ticket["labels"]) == ("Login broken", "open", ["bug"])
    assert [set(comment) for comment in ticket["comments"]] == [{"id", "body", "author", "created"}] * 2
    store.close()


def test_changes_stay_and_the_seed_is_planted_once(tmp_path: Path) -> None:
    store = TicketStore(tmp_path / "tickets.db")
    store.update("T-1", {"status": "closed", "labels": ["bug", "late"], "assignee": None})
    comment = store.add_comment("T-1", "Closed: fixed in 2.3")
    store.delete("T-2")
    store.close()
    again = TicketStore(tmp_path / "tickets.db")
    ticket = again.get("T-1")
    assert (ticket["status"], ticket["labels"], ticket["assignee"]) == ("closed", ["bug", "late"], None)
    assert ticket["comments"][-1] == comment
    assert [ticket["id"] for ticket in again.page(None, None, None)[0]] == ["T-1", "T-3", "T-4", "T-5"]
    again.delete_comment("T-1", comment["id"])
    assert comment not in again.get("T-1")["comments"]
    again.close()


def test_an_id_is_never_given_twice(tmp_path: Path) -> None:
    store = TicketStore(tmp_path / "tickets.db")
    first = store.create("a", "", "open", [], None)["id"]
    store.delete(first)
    assert store.create("b", "", "open", [], None)["id"] != first
    store.close()


def test_pages_follow_one_another_and_filters_hold(tmp_path: Path) -> None:
    store = TicketStore(tmp_path / "tickets.db")
    for number in range(PAGE * 2):
        store.create(f"n{number}", "", "open", [], "kim")
    seen, cursor = store.page("open", "kim", None)
    while cursor is not None:
        more, cursor = store.page("open", "kim", cursor)
        seen += more
    assert [ticket["title"] for ticket in seen] == [f"n{number}" for number in range(PAGE * 2)]
    store.close()


@pytest.mark.parametrize("missing", ["T-99", "T-", "99", "T-1; drop", "C-1", "T-²", ""])
def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path, missing: str) -> None:
    store = TicketStore(tmp_path / "tickets.db")
    with pytest.raises(NotFound):
        store.get(missing)
    with pytest.raises(NotFound):
        store.add_comment(missing, "x")
    with pytest.raises(NotFound):
        store.delete_comment("T-1", missing.replace("C", "X"))
    store.close()
