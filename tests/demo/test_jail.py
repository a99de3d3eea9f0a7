import os
from pathlib import Path

import pytest

from delta_actors.demo.jail import Jail
from delta_protocol.errors import DeltaError, Invalid, NotFound, Refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("héllo")
    (root / "sub" / "b.md").write_text("needle in hay")
    (root / "blob").write_bytes(b"\xff\xfe")
    (tmp_path / "secret.txt").write_text("secret")
    (root / "out").symlink_to(tmp_path)
    (root / "file-out").symlink_to(tmp_path / "secret.txt")
    (root / "in").symlink_to(root / "a.txt")
    os.mkfifo(root / "pipe")
    return root


def test_entries_are_listed_with_their_kind(root: Path) -> None:
    jail = Jail(root)
    entries = {entry["name"]: (entry["kind"], entry["size"]) for entry in jail.list_directory("")}
    assert entries == {
        "a.txt": ("file", 6),
        "blob": ("file", 2),
        "file-out": ("link", None),
        "in": ("link", None),
        "out": ("link", None),
        "pipe": ("other", None),
        "sub": ("directory", None),
    }
    assert [entry["name"] for entry in jail.list_directory("./sub/")] == ["b.md"]
    jail.close()


def test_text_is_read_and_other_things_are_refused(root: Path) -> None:
    jail = Jail(root)
    assert jail.read_file("a.txt") == "héllo"
    for path, error in {"blob": Invalid, "pipe": Invalid, "sub": Invalid, "": Invalid, "nope": NotFound}.items():
        with pytest.raises(error):
            jail.read_file(path)
    jail.close()


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "sub/../../secret.txt", "out/secret.txt", "file-out", "in", "a\0b", "out"]
)
def test_nothing_leads_outside(root: Path, path: str) -> None:
    jail = Jail(root)
    for attempt in (jail.read_file, jail.list_directory):
        with pytest.raises(DeltaError) as caught:
            attempt(path)
        assert isinstance(caught.value, Refused)
    with pytest.raises(Refused):
        jail.search("*", path, None)
    jail.close()


def test_search_goes_by_name_and_text_and_follows_no_link(root: Path) -> None:
    jail = Jail(root)
    assert jail.search("*", "", None) == (["a.txt", "blob", "sub/b.md"], False)
    assert jail.search("*.md", "", None) == (["sub/b.md"], False)
    assert jail.search("*", "", "needle") == (["sub/b.md"], False)
    assert jail.search("*", "sub", "secret") == ([], False)
    jail.close()
