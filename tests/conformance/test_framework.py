"""Our own suite against our own server, and its table in the documentation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from conformance.framework.__main__ import main, rows, target_of
from conformance.framework.checks import NotApplicable, Outcome, checks_of, run
from conformance.framework.cs_12_sdk import PYTHON
from conformance.framework.scenarios import COUNTS, SCENARIOS
from conformance.framework.target import DEMO, ROOT, Target, serving
from conformance.framework.wire import DELTA_MCP

pytestmark = pytest.mark.xdist_group("framework")

DOCUMENT = ROOT / "docs" / "conformance.md"


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    with target_of([]) as target:
        return [run(check, target) for check in checks_of(SCENARIOS)]


def shown(outcomes: list[Outcome], result: str) -> dict[str, str]:
    return {outcome.check.title: outcome.why for outcome in outcomes if outcome.result == result}


def test_every_check_passes(outcomes: list[Outcome]) -> None:
    assert shown(outcomes, "failed") == {}
    allowed: set[str] = set()
    if not PYTHON.exists() and os.environ.get("DELTA_REQUIRE_PEERS") != "1":
        allowed |= {check.id for check in checks_of(SCENARIOS) if check.id.startswith("CS-12")}
    assert shown(outcomes, "not applicable").keys() <= allowed


def test_the_documentation_shows_these_results(outcomes: list[Outcome]) -> None:
    table = DOCUMENT.read_text().partition("## Our own suite")[2]
    documented = set(re.findall(r"^\| (?:CS|OWN)-\d\d-\d\d \| .*\|$", table, re.MULTILINE))
    stable = {row for row in rows(outcomes) if not _absent(row)}
    assert stable <= documented
    assert {row.split()[1] for row in documented} == {check.id for check in checks_of(SCENARIOS)}


def _absent(row: str) -> bool:
    return "python -m tests.interop.peers" in row


def test_every_check_of_the_original_is_there_once() -> None:
    once = [check.id for check in checks_of(SCENARIOS, ["legacy"])]
    assert [identity for identity, times in Counter(once).items() if times > 1] == []
    found = Counter(identity[:5] for identity in once if identity.startswith("CS-"))
    assert tuple(found[f"CS-{number:02}"] for number in range(1, 14)) == COUNTS
    assert sum(COUNTS) == 114
    numbers = {identity for identity in once if identity.startswith("CS-09")}
    assert numbers == {f"CS-09-{number:02}" for number in (0, 1, 2, 3, 4, 5, 8)}
    assert all(check.says for check in checks_of(SCENARIOS))


def test_an_endpoint_alone_is_judged_by_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as url:
        assert main(["--json", "--only", "CS-03", "--only", "OWN-0", "--only", "CS-06", url]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    results = {(each["id"], each["era"]): each["result"] for each in found}
    assert results["CS-03-07", None] == results["OWN-03-02", "modern"] == results["OWN-02-02", None] == "passed"
    assert results["CS-06-01", None] == results["OWN-01-07", "legacy"] == "not applicable"


def test_a_server_of_other_hands_passes_or_is_not_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "other.py"
    program.write_text(
        "from delta_actors.mcp import DeltaServer\n"
        "server = DeltaServer('other', '1')\n"
        "@server.tool()\n"
        "def greet(name: str) -> str:\n"
        "    '''Say hello.'''\n"
        "    return f'hello {name}'\n"
        "server.run()\n"
    )
    assert main(["--only", "CS-0", "--only", "CS-10", "--only", "OWN-03", sys.executable, str(program)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "CS-03-03           passed" in lines
    assert "CS-01-01           not applicable (the server does not speak delta-mcp 0.x here)" in lines


@pytest.mark.parametrize(("era", "other"), [("legacy", "modern"), ("modern", "legacy")])
def test_a_server_of_one_era_is_not_asked_about_the_other(
    era: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (
        "from delta_actors.mcp import DeltaServer, ServerSettings\n"
        f"DeltaServer('one', '1', settings=ServerSettings(eras=('{era}',))).run()\n"
    )
    assert main(["--only", "OWN-01-09", sys.executable, "-c", program]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"OWN-01-09 {era}   passed" in lines
    assert f"OWN-01-09 {other}   not applicable (the server does not speak the {other} era)" in lines


def test_a_server_that_is_wrong_fails(capsys: pytest.CaptureFixture[str]) -> None:
    lie = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    told = json.loads(line)\n"
        "    result = {'protocolVersion': '1999', 'serverInfo': {'name': '', 'version': '1'}, 'capabilities': {}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': told.get('id'), 'result': result}), flush=True)\n"
    )
    assert main(["--only", "CS-01-02", "--only", "CS-10-02", sys.executable, "-c", lie]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 2 failed, 0 not applicable"


def test_the_command_line_is_checked() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "CS-99"])
    assert ended.value.code == 2
    done = subprocess.run([*DEMO, "ftp"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 2


def test_a_target_says_what_it_cannot_be_asked() -> None:
    with Target(url="http://127.0.0.1:9/mcp") as target:
        with pytest.raises(NotApplicable):
            _ = target.command
        with pytest.raises(NotApplicable):
            target.need_api()
    assert DELTA_MCP.startswith("delta-mcp/0.")
