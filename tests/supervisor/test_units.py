"""The shipped systemd units, as systemd itself judges them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = "/usr/local/bin/delta-supervisor"
EXPOSURE = 30
"""Exposure times ten, at most: 0 is sealed, 100 is everything."""

INSTANCES = {
    "delta-supervisor.service": "delta-supervisor.service",
    "delta-supervisor.socket": "delta-supervisor.socket",
    "delta-actor@.service": "delta-actor@journal.service",
    "delta-actor@.socket": "delta-actor@journal.socket",
}

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with the program's path of this installation."""
    installed = str(Path(sys.executable).parent / "delta-supervisor")
    for name, instance in INSTANCES.items():
        text = (DEPLOY / name).read_text().replace(PROGRAM, installed)
        (tmp_path / instance).write_text(text)
    return tmp_path


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_every_shipped_unit_is_checked() -> None:
    assert {file.name for file in DEPLOY.iterdir() if file.suffix in (".service", ".socket")} == set(INSTANCES)


def test_systemd_understands_every_line(units: Path) -> None:
    done = analyze("verify", "--man=no", *(str(units / instance) for instance in INSTANCES.values()))
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("name", ["delta-supervisor.service", "delta-actor@.service"])
def test_the_exposure_stays_low(units: Path, name: str) -> None:
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(units / INSTANCES[name]))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.parametrize("name", ["delta-supervisor.service", "delta-actor@.service"])
def test_what_the_sandbox_needs_is_allowed(name: str) -> None:
    text = (DEPLOY / name).read_text()
    allowed = next(line for line in text.splitlines() if line.startswith("SystemCallFilter=@"))
    for call in ("@system-service", "seccomp", "landlock_create_ruleset", "landlock_restrict_self"):
        assert call in allowed.partition("=")[2].split()
    settings = [line.partition("=")[0] for line in text.splitlines() if not line.startswith("#")]
    assert not {"MemoryDenyWriteExecute", "IPAddressDeny", "ProcSubset"} & set(settings)


def test_the_stop_bound_fits_into_the_units_patience() -> None:
    from delta_protocol.config import ActorConfig
    from delta_supervisor.prepare import ACTORS
    from delta_supervisor.supervisor import STOP_MARGIN

    patience = next(
        float(line.partition("=")[2])
        for line in (DEPLOY / "delta-supervisor.service").read_text().splitlines()
        if line.startswith("TimeoutStopSec=")
    )
    assert patience > len(ACTORS) * (ActorConfig().stop_timeout + STOP_MARGIN)
