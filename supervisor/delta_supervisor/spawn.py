"""Starts actor processes: the supervisor's side of the zygote."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Sequence

import trio

from delta_protocol.errors import ActorUnavailable
from delta_supervisor.reap import Process
from delta_supervisor.zygote import MAX_MESSAGE, PRELOAD, launch

SPAWN_TIMEOUT = 30.0
"""Seconds until a zygote that answers nothing is replaced: its imports included, on a machine that swaps."""
_RELAUNCH_DELAY = 0.5


class Zygote:
    """Forks actors on request; replaced when it dies, by `run`. `launched`: what `zygote.launch` returned earlier."""

    def __init__(
        self,
        preload: Sequence[str] = PRELOAD,
        *,
        launched: tuple[socket.socket, int] | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        self._preload = tuple(preload)
        self._report = report
        self._lock = trio.Lock()
        self._control, pid = launched or launch(self._preload)
        self._process = Process(pid)
        self.restarts = 0

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._process.pid

    async def run(self) -> None:
        """Watch the zygote and start another when it dies, until cancelled."""
        while True:
            ended = await self._process.wait()
            self._report(f"zygote {self.pid} ended ({ended.describe()}); starting another")
            async with self._lock:
                self._replace()
            await trio.sleep(_RELAUNCH_DELAY)

    async def spawn(self, name: str, descriptors: Sequence[int]) -> Process:
        """Return a new actor process that holds `descriptors` (control, link, then outside sockets).

        Raises `ActorUnavailable` when it could not be started, also when the zygote died meanwhile (it is replaced by
        then; whether to try again is the caller's restart policy).
        """
        request = json.dumps({"name": name}).encode()
        async with self._lock:
            try:
                with trio.fail_after(SPAWN_TIMEOUT):
                    answer = await self._exchange(request, descriptors)
            except (OSError, EOFError, trio.TooSlowError) as error:
                self._process.signal(signal.SIGKILL)
                reason = "did not answer" if isinstance(error, trio.TooSlowError) else "died"
                raise ActorUnavailable(f"{name} was not started: the zygote {reason}", actor=name) from None
        if "error" in answer:
            raise ActorUnavailable(str(answer["error"]), actor=name)
        try:
            return Process(int(str(answer["pid"])))
        except ProcessLookupError:
            raise ActorUnavailable(f"{name} ended at once", actor=name) from None

    async def close(self) -> None:
        """End the zygote and reap it."""
        self._control.close()
        self._process.signal(signal.SIGKILL)
        await self._process.wait()
        self._process.close()

    async def _exchange(self, request: bytes, descriptors: Sequence[int]) -> dict[str, object]:
        await trio.lowlevel.wait_writable(self._control.fileno())
        socket.send_fds(self._control, [request], list(descriptors))
        await trio.lowlevel.wait_readable(self._control.fileno())
        data = self._control.recv(MAX_MESSAGE)
        if not data:
            raise EOFError
        answer: dict[str, object] = json.loads(data)
        return answer

    def _replace(self) -> None:
        self._control.close()
        self._process.close()
        self._control, pid = launch(self._preload)
        self._process = Process(pid)
        self.restarts += 1
