"""What a stack stands on: places, the lock, inherited sockets; and one actor alone under a service manager."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from delta_protocol.errors import Refused
from delta_supervisor.load import ConfigurationError, Flags, load
from delta_supervisor.lock import StateDirLocked, StateLock, is_held, read_owner
from delta_supervisor.notify import Notifier
from delta_supervisor.places import LONGEST_SOCKET_PATH, make_private, runtime_dir
from delta_supervisor.prepare import prepare
from delta_supervisor.sockets import bind_tcp, bind_unix, take_inherited


def test_the_lock_names_its_owner_and_is_free_again_after(tmp_path: Path) -> None:
    lock = StateLock.acquire(tmp_path, "test")
    assert is_held(tmp_path)
    with pytest.raises(StateDirLocked, match=str(os.getpid())) as caught:
        StateLock.acquire(tmp_path, "test")
    assert caught.value.detail["pid"] == os.getpid()
    lock.release()
    assert not is_held(tmp_path)
    assert read_owner(tmp_path) is None
    StateLock.acquire(tmp_path, "test").release()


def test_a_lock_whose_directory_was_replaced_is_no_longer_ours(tmp_path: Path) -> None:
    lock = StateLock.acquire(tmp_path, "test")
    assert lock.is_ours
    (tmp_path / "lock").unlink()
    assert not lock.is_ours
    lock.release()


@pytest.mark.parametrize("length", [10, 80, 100, 200])
def test_socket_paths_fit_however_long_the_state_directory_is(length: int) -> None:
    run = runtime_dir(Path("/") / ("x" * length))
    assert len(os.fsencode(run / "transport.sock")) <= LONGEST_SOCKET_PATH
    assert run == runtime_dir(Path("/") / ("x" * length))


def test_an_open_door_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    settings = (("http.host", "0.0.0.0"), ("http.port", "0"))
    loaded = load(Flags((), tmp_path / "state", settings), {"HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(ConfigurationError, match="require_token"):
        prepare(loaded, {}, command="test")
    assert not is_held(tmp_path / "state")


# acceptance 78
def test_an_open_door_of_the_service_manager_is_one_too(tmp_path: Path) -> None:
    code = (
        "import os, sys, socket; "
        "listener = socket.create_server(('0.0.0.0', 0)); os.dup2(listener.fileno(), 3); "
        "os.set_inheritable(3, True); "
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='http'); "
        "os.execv(sys.argv[1], [sys.argv[1], 'up', '--state-dir', sys.argv[2]])"
    )
    program = str(Path(sys.executable).parent / "delta-supervisor")
    command = [sys.executable, "-c", code, program, str(tmp_path / "state")]
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 78, done.stderr
    assert "require_token" in done.stderr


def test_a_directory_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    assert make_private(folder).stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="--state-dir"):
        make_private(tmp_path / "file" / "state")


def test_a_dead_socket_is_replaced_and_closed_to_others(tmp_path: Path) -> None:
    bind_unix(tmp_path / "a.sock").close()
    with bind_unix(tmp_path / "a.sock"):
        assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o600


def test_a_taken_port_is_told_with_the_way_out() -> None:
    with bind_tcp("127.0.0.1", 0) as taken:
        with pytest.raises(Refused, match="--port"):
            bind_tcp("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(Refused, match=r"http\.host"):
        bind_tcp("no.such.host.invalid", 0)


def test_sockets_meant_for_another_process_are_not_taken() -> None:
    environment = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}
    assert take_inherited(environment) == {}
    assert environment == {}, "no child may take them for its own"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/socket"}, {"WATCHDOG_USEC": "0"}])
def test_without_a_service_manager_nothing_is_said(environment: dict[str, str]) -> None:
    notifier = Notifier(environment)
    notifier.ready("ready")
    assert notifier.watchdog_interval is None


def test_a_watchdog_meant_for_another_process_is_not_ours() -> None:
    assert Notifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_interval is None
    assert Notifier({"WATCHDOG_USEC": "1000000"}).watchdog_interval == 0.5


def test_an_abstract_notify_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0delta-test-{os.getpid()}")
        manager.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@delta-test-{os.getpid()}"}).ready("all")
        assert manager.recv(100) == b"READY=1\nSTATUS=all"


def test_one_actor_runs_alone_on_the_socket_it_was_given(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        bind_unix(tmp_path / "auth.sock") as link,
    ):
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        command = [sys.executable, "-m", "delta_supervisor", "actor", "auth", "--state-dir", str(tmp_path / "state")]
        script = (
            f"import os; os.dup2({link.fileno()}, 3); "
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='link'); "
            f"os.execv({sys.executable!r}, {command!r})"
        )
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "HOME": str(tmp_path)}
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, pass_fds=[link.fileno()])
        try:
            while "READY=1" not in manager.recv(1000).decode():
                continue
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
    assert (tmp_path / "state" / "links.key").stat().st_mode & 0o777 == 0o600


def test_one_actor_without_its_socket_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "delta_supervisor", "actor", "auth", "--state-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "delta-supervisor up" in done.stderr
