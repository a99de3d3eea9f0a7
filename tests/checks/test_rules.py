"""The rules of the house, held by machine: which way imports run, who may ask whom, how long a file may be."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_protocol.wire.message import Role
from delta_protocol.wire.table import ASKS, callers_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    ROOT / "protocol" / "delta_protocol",
    ROOT / "actors" / "delta_actors",
    ROOT / "supervisor" / "delta_supervisor",
]
SOURCES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
LONGEST = 500
"""Lines that a module may have, without exception."""
HANDLERS = {"gateway": Role.TRANSPORT}
"""Packages of handlers that run in another actor's request scope."""
COMMON = {"message", "control", "table"}
"""Modules of messages that belong to no single actor."""
OWN = {"sandbox": {"worker"}}
"""Modules of frames between an actor and processes that only it knows."""


def imported(path: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_run_from_supervisor_to_actors_to_protocol() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_nobody_can_wait_for_somebody_who_waits_for_him() -> None:
    graphlib.TopologicalSorter(ASKS).prepare()


def test_nobody_asks_transport() -> None:
    assert callers_of(Role.TRANSPORT) == frozenset()


@pytest.mark.parametrize("role", sorted(ASKS))
def test_an_actor_knows_only_the_messages_of_those_it_may_ask(role: str) -> None:
    allowed = COMMON | {role} | ASKS[role] | OWN.get(role, set())
    packages = [role, *(package for package, served in HANDLERS.items() if served == role)]
    strange = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in packages
        for path in sorted((ROOT / "actors" / "delta_actors" / package).rglob("*.py"))
        for name in imported(path)
        if name.startswith("delta_protocol.wire.") and name.split(".")[2] not in allowed
    ]
    assert strange == []


def test_the_protocol_touches_no_world() -> None:
    worldly = {"trio", "asyncio", "socket", "subprocess", "threading", "sqlite3", "time", "os", "pathlib", "random"}
    touched = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.is_relative_to(PACKAGES[0])
        for name in imported(path)
        if name.split(".")[0] in worldly
    ]
    assert touched == []


def test_no_module_is_longer_than_the_budget() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_every_package_begins_by_saying_what_it_owns() -> None:
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("delta_actors.mcp", ["hypercorn", "httpx", "jwt", "cryptography", "wasmtime", "sqlite3", "tree_sitter"]),
        ("delta_protocol.wire.message", ["trio", "httpx", "jsonschema_rs"]),
    ],
)
def test_a_light_import_stays_light(module: str, heavy: list[str]) -> None:
    code = f"import sys, {module}\nprint(*(name for name in {heavy!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
