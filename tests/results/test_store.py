import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_actors.results.store import ID, ResultStore
from delta_protocol.errors import DeltaError, Invalid, LimitExceeded, NotFound


def opened(path: Path, *, max_bytes: int = 1000, max_age: float = 3600.0) -> ResultStore:
    return ResultStore(path / "results", max_bytes=max_bytes, max_age=max_age)


def test_a_stored_value_comes_back_whole_and_under_a_strict_id(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = store.save("ada", b'{"a": 1}')
    assert ID.fullmatch(stored.id)
    assert store.load("ada", stored.id) == b'{"a": 1}'
    store.close()


def test_another_principal_does_not_see_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = store.save("ada", b"1")
    store.save("lin", b"2")
    for principal in ("lin", "nobody", "../ada"):
        with pytest.raises(NotFound):
            store.load(principal, stored.id)
    store.close()


def test_values_survive_a_restart_and_half_written_ones_do_not(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = store.save("ada", b"[1]")
    store.close()
    folder = next((tmp_path / "results").iterdir())
    (folder / "r_aaaaaaaaaaaa.new").write_bytes(b"[")
    again = opened(tmp_path)
    assert again.load("ada", stored.id) == b"[1]"
    assert again.statistics() == {"results": 1, "bytes": 3}
    assert [path.name for path in folder.iterdir()] == [stored.id]
    again.close()


def test_the_oldest_give_way_when_room_is_needed(tmp_path: Path) -> None:
    store = opened(tmp_path, max_bytes=10)
    first, second, third = (store.save("ada", b"12345") for _ in range(3))
    with pytest.raises(NotFound):
        store.load("ada", first.id)
    assert store.load("ada", second.id) == store.load("ada", third.id) == b"12345"
    with pytest.raises(LimitExceeded):
        store.save("ada", b"x" * 11)
    assert store.load("ada", third.id) == b"12345"
    store.close()


def test_an_old_value_is_gone(tmp_path: Path) -> None:
    store = opened(tmp_path, max_age=60)
    stored = store.save("ada", b"1")
    file = next((tmp_path / "results").iterdir()) / stored.id
    past = time.time() - 61
    os.utime(file, (past, past))
    with pytest.raises(NotFound):
        store.load("ada", stored.id)
    store.close()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.save("ada", b"1")
    paths = [tmp_path / "results", *(tmp_path / "results").rglob("*")]
    assert [oct(path.stat().st_mode & 0o777) for path in paths] == ["0o700", "0o700", "0o600"]
    store.close()


# acceptance 77
def test_a_link_behind_a_valid_id_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("no")
    store = opened(tmp_path)
    store.save("ada", b"1")
    folder = next((tmp_path / "results").iterdir())
    (folder / "r_aaaaaaaaaaaa").symlink_to(secret)
    with pytest.raises(NotFound):
        store.load("ada", "r_aaaaaaaaaaaa")
    store.close()


# acceptance 77
@given(
    st.text(max_size=40)
    | st.sampled_from(["../secret", "/etc/passwd", "r_\0aaaaaaaaaaa", "r_aaaaaaaaaaaa\n", "r_../../../etc"])
)
def test_no_other_id_opens_anything(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = opened(Path(folder))
        store.save("ada", b"1")
        with pytest.raises(DeltaError) as caught:
            store.load("ada", name)
        if ID.fullmatch(name) is None:
            assert isinstance(caught.value, Invalid)
        store.close()
