"""docs/configuration.md names every key of the configuration with its true default."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delta_protocol import config

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
TABLES = [kind for _, kind in inspect.getmembers(config, inspect.isclass) if kind.__module__ == config.__name__]
NOT_A_KEY = {("ConnectorConfig", "fault")}
"""Set by loading, never by a file."""


def rows(kind: type[msgspec.Struct]) -> dict[str, tuple[str, str, str]]:
    """Return type, default and meaning by key, as the page's section about `kind` has them."""
    heading = re.escape(f"`{kind.__name__}`")
    section = re.search(rf"^###[^\n]*{heading}$(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, f"no section about {kind.__name__}"
    found = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*?) \|$", section[1], re.MULTILINE)
    return {key: (type_, default, meaning) for key, type_, default, meaning in found}


def stated(default: str) -> Any:
    """Return the value of a default as the page writes it, in the notation of the file."""
    return None if default == "none" else tomllib.loads(f"value = {default.strip('`')}")["value"]


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_key_is_documented_with_its_default(kind: type[msgspec.Struct]) -> None:
    documented = rows(kind)
    fields = [each for each in msgspec.structs.fields(kind) if (kind.__name__, each.name) not in NOT_A_KEY]
    assert sorted(documented) == sorted(field.name for field in fields)
    for field in fields:
        type_, default, meaning = documented[field.name]
        assert type_, field.name
        assert meaning, field.name
        if field.required:
            assert default == "required", field.name
            continue
        made = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        if isinstance(made, msgspec.Struct):
            assert (type_, default) == ("table", ""), field.name
        else:
            assert stated(default) == msgspec.json.decode(msgspec.json.encode(made)), field.name
