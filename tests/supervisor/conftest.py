"""What the tests of supervision share: a place to live, a zygote, children, and a look at the process table."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import trio

from delta_protocol.config import ActorConfig, StackConfig, SupervisionConfig
from delta_protocol.supervision import Strategy
from delta_protocol.wire.message import Role
from delta_supervisor import Child, Supervisor
from delta_supervisor.reap import become_subreaper
from delta_supervisor.sockets import bind_unix
from delta_supervisor.spawn import Zygote

REPOSITORY = Path(__file__).parents[2]
QUICK = ActorConfig(heartbeat=0.1, heartbeat_timeout=1.0, stop_timeout=2.0)


def config(max_restarts: int = 5, **changed: ActorConfig) -> StackConfig:
    actors = dict.fromkeys(Role, QUICK) | {Role(name): settings for name, settings in changed.items()}
    return StackConfig(actors=actors, supervision=SupervisionConfig(max_restarts, 10.0, backoff=0.02))


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")


@pytest.fixture
async def zygote(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Zygote]:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    become_subreaper()
    zygote = Zygote()
    yield zygote
    with trio.CancelScope(shield=True):
        await zygote.close()


MakeSupervisor = Callable[..., Supervisor]


@pytest.fixture
def supervise(place: Path, zygote: Zygote) -> Iterator[MakeSupervisor]:
    """Make a supervisor of quiet actors: `supervise(Role.AUTH, Role.JOURNAL, lazy=[...])`."""
    listeners: list[socket.socket] = []

    def make(
        *roles: Role,
        lazy: tuple[Role, ...] = (),
        settings: StackConfig | None = None,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
    ) -> Supervisor:
        children = []
        for role in roles:
            listeners.append(bind_unix(place / f"{role}.sock"))
            children.append(Child(role, listeners[-1], factory="tests.supervisor.actors:Quiet", lazy=role in lazy))
        return Supervisor(
            children,
            zygote=zygote,
            config=settings or config(),
            state_dir=place,
            runtime_dir=place,
            strategy=strategy,
        )

    yield make
    for listener in listeners:
        listener.close()


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    with trio.fail_after(seconds):
        while not holds():
            await trio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def processes_of(place: Path) -> list[int]:
    """The living processes whose environment names `place`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                named = os.fsencode(str(place)) in (entry / "environ").read_bytes()
            except OSError:
                continue
            if named and alive(int(entry.name)):
                found.append(int(entry.name))
    return found
