from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_actors.auth.tokens import NAME, TokenFile
from delta_protocol.errors import Invalid, NotFound


def test_a_token_is_found_again_after_a_restart_and_stored_only_as_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    token = TokenFile(path).add("ada", ("read",))
    found = TokenFile(path).find(token)
    assert found is not None
    assert (found.name, found.scopes) == ("ada", ("read",))
    assert token not in path.read_text()
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_revoked_token_is_no_longer_good(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "auth.json")
    first, second, other = tokens.add("ada", ()), tokens.add("ada", ()), tokens.add("lin", ())
    tokens.revoke("ada")
    assert tokens.find(first) is tokens.find(second) is None
    assert tokens.find(other) is not None
    assert [token.name for token in TokenFile(tmp_path / "auth.json").known()] == ["lin"]
    with pytest.raises(NotFound):
        tokens.revoke("ada")


def test_a_damaged_or_newer_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    path.write_text("{")
    with pytest.raises(Invalid, match=r"auth\.json"):
        TokenFile(path)
    path.write_text('{"version": 9, "tokens": []}')
    with pytest.raises(Invalid, match="version 9"):
        TokenFile(path)


# acceptance 67
@given(st.text())
def test_nothing_else_is_a_token(presented: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tokens = TokenFile(Path(folder) / "auth.json")
        good = tokens.add("ada", ())
        assert tokens.find(presented) is None
        assert tokens.find(good + presented) is None or not presented
        assert tokens.find(good[:-1]) is None


@given(st.text())
def test_names_are_strict(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tokens = TokenFile(Path(folder) / "auth.json")
        if NAME.fullmatch(name):
            tokens.add(name, ())
        else:
            with pytest.raises(Invalid):
                tokens.add(name, ())
