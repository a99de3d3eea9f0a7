"""A whole stack as a process: its lock, its control socket, its service manager, and that nothing outlives it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from delta_supervisor.control.client import ControlClient, NoStack
from delta_supervisor.control.messages import RELAY_SOCKET, StackStatus
from delta_supervisor.places import runtime_dir
from tests.supervisor.conftest import REPOSITORY, alive, processes_of

FoundT = TypeVar("FoundT")

PERMANENT = ("registry", "sandbox", "journal", "transport")


class Running:
    """A stack of quiet actors."""

    def __init__(self, place: Path, *settings: str, environment: dict[str, str] | None = None, **more: object) -> None:
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.supervisor.program", str(place), *settings],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "MARK": str(place), **(environment or {})},
            cwd=REPOSITORY,
            stderr=subprocess.PIPE,
            **more,  # type: ignore[call-overload]
        )

    def status(self) -> StackStatus:
        with ControlClient(runtime_dir(self.place)) as client:
            return client.status()

    def pid(self, name: str) -> int:
        pid = next(each.pid for each in self.status().actors if each.name == name)
        assert pid is not None
        return pid

    def ready(self) -> StackStatus:
        return wait(self._status_if_ready)

    def _status_if_ready(self) -> StackStatus | None:
        try:
            status = self.status()
        except NoStack:
            assert self.process.poll() is None, self.errors()
            return None
        return status if status.state == "ready" else None

    def errors(self) -> str:
        assert self.process.stderr is not None
        text: bytes = self.process.stderr.read()
        return text.decode()

    def talk(self, words: str) -> tuple[int, str]:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(runtime_dir(self.place) / RELAY_SOCKET))
            client.sendall(words.encode() + b"\n")
            pid, _, text = client.makefile().readline().strip().partition(" ")
            return int(pid), text


def wait(look: Callable[[], FoundT | None], seconds: float = 20.0) -> FoundT:
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)


@pytest.fixture
def stack(place: Path) -> Iterator[Running]:
    with started(place) as stack:
        yield stack


@contextmanager
def started(place: Path, *settings: str, **more: object) -> Iterator[Running]:
    stack = Running(place, *settings, **more)  # type: ignore[arg-type]
    try:
        stack.ready()
        yield stack
    finally:
        if stack.process.poll() is None:
            stack.process.terminate()
        stack.process.communicate(timeout=30)
        wait(lambda: not processes_of(place))


def test_a_second_stack_on_the_state_directory_is_refused_by_name(stack: Running, place: Path) -> None:
    second = Running(place)
    _, errors = second.process.communicate(timeout=30)
    assert second.process.returncode == 2
    assert str(stack.process.pid) in errors.decode()
    assert str(place) in errors.decode()
    assert stack.status().state == "ready"


def test_another_state_directory_is_another_stack(stack: Running, tmp_path: Path) -> None:
    with started(tmp_path / "other") as other:
        assert other.status().pid != stack.status().pid


def test_a_term_signal_ends_the_stack_with_code_zero_and_takes_everything_along(place: Path) -> None:
    with started(place) as stack:
        stack.process.terminate()
        assert stack.process.wait(30) == 0
    assert (place / "stopped").read_text().split() == ["transport", "journal", "sandbox", "registry"]
    assert not list(runtime_dir(place).glob("*.sock"))


def test_down_returns_when_the_stack_has_stopped(place: Path) -> None:
    with started(place) as stack:
        with ControlClient(runtime_dir(place)) as client:
            assert client.down()
        assert stack.process.wait(10) == 0
        with pytest.raises(NoStack):
            ControlClient(runtime_dir(place))


def test_nothing_outlives_a_killed_supervisor(place: Path) -> None:
    with started(place) as stack:
        pids = [stack.pid(name) for name in PERMANENT]
        stack.process.kill()
        wait(lambda: not any(alive(pid) for pid in pids))
        wait(lambda: not processes_of(place))


def test_nothing_outlives_a_supervisor_killed_with_its_zygote_and_an_actor(place: Path) -> None:
    with started(place) as stack:
        children = Path(f"/proc/{stack.process.pid}/task/{stack.process.pid}/children").read_text().split()
        actors = {stack.pid(name) for name in PERMANENT}
        zygote = next(int(child) for child in children if int(child) not in actors)
        for pid in (stack.process.pid, zygote, stack.pid("registry")):
            os.kill(pid, signal.SIGKILL)
        wait(lambda: not processes_of(place))


def test_a_stopped_actor_does_not_outlive_its_supervisor(place: Path) -> None:
    with started(place) as stack:
        stopped = stack.pid("journal")
        os.kill(stopped, signal.SIGSTOP)
        stack.process.kill()
        wait(lambda: not alive(stopped), seconds=40)


def test_what_a_dead_run_left_is_ended_by_the_next(place: Path) -> None:
    with started(place) as first:
        journal = first.pid("journal")
        children = Path(f"/proc/{first.process.pid}/task/{first.process.pid}/children").read_text().split()
        actors = {first.pid(name) for name in PERMANENT}
        zygote = next(int(child) for child in children if int(child) not in actors)
        for pid, number in ((journal, signal.SIGSTOP), (zygote, signal.SIGKILL), (first.process.pid, signal.SIGKILL)):
            os.kill(pid, number)
        first.process.wait()
        assert alive(journal)
        with started(place):
            assert not alive(journal)


@pytest.mark.parametrize("victim", PERMANENT)
def test_a_killed_actor_is_back(stack: Running, victim: str) -> None:
    killed = stack.pid(victim)
    os.kill(killed, signal.SIGKILL)
    wait(lambda: any(each.name == victim and each.restarts == 1 for each in stack.ready().actors))
    assert stack.pid(victim) != killed


def test_a_client_can_connect_while_the_transport_is_down(stack: Running) -> None:
    first, text = stack.talk("hello")
    assert text == "hello"
    os.kill(first, signal.SIGKILL)
    second, text = stack.talk("again")
    assert (second != first, text) == (True, "again")


def test_an_actor_that_keeps_dying_ends_the_stack_with_code_70(place: Path) -> None:
    with started(place, "supervision.max_restarts=2") as stack:
        (place / "crash-journal").touch()
        assert stack.process.wait(30) == 70
        assert "journal" in stack.errors()


def test_the_operator_is_admitted_to_journal_registry_and_auth(stack: Running, place: Path) -> None:
    with ControlClient(runtime_dir(place)) as client:
        grants = client.admit().grants
    assert {str(grant.role) for grant in grants} == {"journal", "registry", "auth"}


def test_what_the_stack_started_is_not_admitted(stack: Running) -> None:
    assert stack.talk("admit")[1] == "refused"


def test_a_differing_configuration_is_named_value_by_value(stack: Running, place: Path) -> None:
    with ControlClient(runtime_dir(place)) as client:
        same = client.attach(None)
        assert same.differing == ()
        assert stack.status().attached == 1
    with ControlClient(runtime_dir(place)) as client:
        assert "mode" in client.attach({"mode": "0123456789abcdef"}).differing


def test_garbage_on_the_control_socket_is_answered_with_an_error(stack: Running, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(runtime_dir(place) / "control.sock"))
        client.sendall(b"what?\n")
        assert b'"failed"' in client.recv(1000)
    assert stack.status().state == "ready"


def test_connections_beyond_what_the_process_may_open_end_nothing(stack: Running, place: Path) -> None:
    resource.prlimit(stack.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    with ExitStack() as opened:
        for _ in range(100):
            client = opened.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(20)
            client.connect(str(runtime_dir(place) / "control.sock"))
        time.sleep(0.5)
    assert wait(lambda: stack.status()).state == "ready"


def test_nesting_without_end_on_the_control_socket_is_an_error_and_no_more(stack: Running, place: Path) -> None:
    nested = b'{"type":"status","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(runtime_dir(place) / "control.sock"))
        client.sendall(nested)
        assert "recursion" in client.makefile().readline()
    assert stack.status().state == "ready"


def test_the_service_manager_is_told_ready_alive_and_stopping(place: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(place / "notify")
        manager.bind(address)
        manager.settimeout(20)
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"}
        with started(place / "state", environment=environment) as stack:
            heard = [manager.recv(1000).decode() for _ in range(12)]
            stack.process.terminate()
            stack.process.wait(30)
            manager.setblocking(False)
            while True:
                try:
                    heard.append(manager.recv(1000).decode())
                except BlockingIOError:
                    break
    ready = next(index for index, message in enumerate(heard) if "READY=1" in message)
    assert "STATUS=4/4 actors ready" in heard[ready]
    assert not any("WATCHDOG=1" in message for message in heard[:ready])
    assert any("WATCHDOG=1" in message for message in heard[ready:])
    assert any("STOPPING=1" in message for message in heard)
    assert any("EXTEND_TIMEOUT_USEC=" in message for message in heard)


def test_the_watchdog_is_not_petted_while_an_actor_is_stuck(place: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(place / "notify")
        manager.bind(address)
        manager.settimeout(0.7)
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}
        with started(place / "state", "supervision.max_restarts=50", environment=environment) as stack:
            (place / "state" / "fail-journal").touch()
            os.kill(stack.pid("journal"), signal.SIGKILL)
            wait(lambda: stack.status().state != "ready")
            time.sleep(0.3)
            manager.setblocking(False)
            while True:
                try:
                    manager.recv(1000)
                except BlockingIOError:
                    break
            time.sleep(0.5)
            heard = []
            while True:
                try:
                    heard.append(manager.recv(1000).decode())
                except BlockingIOError:
                    break
            assert not any("WATCHDOG=1" in message for message in heard)


def test_the_http_socket_of_a_service_manager_is_used_instead_of_an_own_one(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = (
            f"import os; os.dup2({listener.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
            "os.environ['LISTEN_FDS'] = '1'; os.environ['LISTEN_FDNAMES'] = 'http'; "
            f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'tests.supervisor.program', {str(place)!r}])"
        )
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "MARK": str(place)}
        process = subprocess.Popen(
            [sys.executable, "-c", script], env=environment, cwd=REPOSITORY, pass_fds=[listener.fileno()]
        )
        try:
            wait(lambda: (runtime_dir(place) / "control.sock").exists())
            inodes = {os.stat(f"/proc/{process.pid}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{process.pid}/fd")}
            assert os.fstat(listener.fileno()).st_ino in inodes
            assert port
        finally:
            process.terminate()
            process.wait(30)
