"""The sandbox's zygote: exec'd fresh with an empty environment, it forks one jailed worker per request and reaps it.

Runs as `python -I -S zygote.py CONTROL_FD SETTINGS_JSON`. On the control socket, messages of 9 bytes: `F seq 0` with a
socket attached asks for a worker and is answered by `P seq pid`; `K seq pid` kills one that is not reaped yet; `X pid
status` tells of each that ended; `Z abi pid` says that workers can be had, `E` and a text why not. End of file ends the
zygote and all workers. Single-threaded, no trio, no secrets.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    import json

    # Without site there is no path to our own packages yet.
    sys.path[:0] = json.loads(sys.argv[2])["path"]

import array
import gc
import os
import select
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import msgspec

from delta_actors.sandbox import jail, worker
from delta_actors.sandbox.control import MESSAGE
from delta_actors.sandbox.engine import Engine, GuestEngine
from delta_actors.sandbox.guest import load_prelude

PRELUDE = (
    "primordials.js",
    "position.js",
    "limits.js",
    "placeholders.js",
    "values.js",
    "promises.js",
    "membrane.js",
    "connectors.js",
    "entities.js",
    "overlay.js",
    "lists.js",
    "bridge.js",
)
_CPU_GRACE = 1.0


def _note(_number: int, _frame: FrameType | None) -> None:
    """Wake the poll; what ended is found by waiting."""


class Zygote:
    """Forks workers on request until its control socket closes."""

    def __init__(self, control: socket.socket, engine: Engine, settings: dict[str, Any]) -> None:
        self._control = control
        self._engine = engine
        self._cpu = float(settings["cpu"]) + _CPU_GRACE
        self._children: set[int] = set()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)

    def serve(self) -> None:
        """Serve until end of file."""
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._woken.fileno():
                    self._woken.recv(4096)
                elif not self._take():
                    return
            self._reap()

    def end(self) -> None:
        """Kill and reap every worker."""
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)

    def _take(self) -> bool:
        data, ancillary, _, _ = self._control.recvmsg(MESSAGE.size, socket.CMSG_SPACE(4))
        if len(data) < MESSAGE.size:
            return False
        kind, sequence, pid = MESSAGE.unpack(data)
        if kind == b"F":
            descriptor = array.array("i", ancillary[0][2])[0]
            self._fork(sequence, descriptor)
        elif kind == b"K" and pid in self._children:
            os.kill(pid, signal.SIGKILL)
        return True

    def _fork(self, sequence: int, descriptor: int) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if not pid:
            self._become_worker(descriptor, zygote)
        os.close(descriptor)
        self._children.add(pid)
        self._control.sendall(MESSAGE.pack(b"P", sequence, pid))

    def _become_worker(self, descriptor: int, zygote: int) -> NoReturn:
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(descriptor, 3)
            os.closerange(4, 256)
            connection = socket.socket(fileno=3)
            jail.drop_identity()
            jail.die_with_parent(zygote)
            worker.warm(self._engine)
            jail.limit_resources(self._cpu)
            if not jail.filter_calls() and sys.platform == "linux":
                os._exit(71)
            worker.serve(connection, self._engine)
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._children.discard(pid)
            self._control.sendall(MESSAGE.pack(b"X", pid, status))


def main(control_fd: int, settings: dict[str, Any]) -> None:
    """Load the engine, restrict this process and its children, say `Z`, serve."""
    control = socket.socket(fileno=control_fd)
    prelude = load_prelude(PRELUDE, Path(__file__).with_name("prelude"))
    try:
        engine = GuestEngine(Path(settings["module"]), prelude, int(settings["memory"]))
        worker.warm(engine)
        jail.forbid_privileges()
        landlock = jail.restrict_files()
    except Exception as error:
        control.sendall(MESSAGE.pack(b"E", 0, 0) + f"{type(error).__name__}: {error}".encode()[:2000])
        raise
    gc.collect()
    gc.disable()
    gc.freeze()
    zygote = Zygote(control, engine, settings)
    try:
        control.sendall(MESSAGE.pack(b"Z", landlock, os.getpid()))
        zygote.serve()
    except (BrokenPipeError, ConnectionResetError):
        # The sandbox actor is gone: as good as end of file.
        return
    finally:
        zygote.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), msgspec.json.decode(sys.argv[2]))
