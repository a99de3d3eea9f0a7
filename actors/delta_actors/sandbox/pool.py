"""The zygote's owner: it keeps a few warm workers, hands out one per program, and lives through the zygote's death."""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import trio

from delta_actors.sandbox.cache import compiled_guest, discard
from delta_actors.sandbox.control import MESSAGE
from delta_protocol.errors import ActorCrashed, ActorUnavailable, ProtocolViolation
from delta_protocol.wire.worker import FrameReader, Kind, frame

_RECEIVE = 1 << 18
_BACKOFF = (0.0, 0.1, 0.3, 1.0, 3.0)
_START_TIMEOUT = 30.0
_REAP_TIMEOUT = 5.0
_PATIENCE = 10.0
_RUNNING_PER_WARM = 8
"""How many programs may run at once for each warm worker; most of them wait for connectors."""
_PACKAGES = ("delta_protocol", "delta_actors", "msgspec", "wasmtime", "tree_sitter", "tree_sitter_typescript")


class WorkerEnded(Exception):
    """The worker's socket closed before it was done. `status` is its wait status, None when not known."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"the worker ended with status {status}")
        self.status = status


class Worker:
    """One worker process, seen through its socket."""

    def __init__(self, stream: trio.SocketStream, generation: _Generation, sequence: int) -> None:
        self._stream = stream
        self._reader = FrameReader()
        self._ready: list[tuple[Kind, bytes]] = []
        self.generation = generation
        self.sequence = sequence
        self.pid: int | None = None
        self.status: int | None = None
        self.known = trio.Event()
        self.ended = trio.Event()

    async def send(self, kind: Kind, payload: bytes = b"") -> None:
        """Send one frame. Raises `WorkerEnded`."""
        try:
            await self._stream.send_all(frame(kind, payload))
        except trio.BrokenResourceError:
            raise WorkerEnded(await self.wait_status()) from None

    async def receive(self) -> list[tuple[Kind, bytes]]:
        """Return the next frames. Raises `WorkerEnded`, `ProtocolViolation`."""
        while True:
            try:
                data = await self._stream.receive_some(_RECEIVE)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                raise WorkerEnded(await self.wait_status())
            frames = self._reader.feed(bytes(data))
            if frames:
                return frames

    async def wait_status(self) -> int | None:
        """Return the wait status once the zygote told it; None when it does not within a second."""
        with trio.move_on_after(1.0):
            await self.ended.wait()
        return self.status

    async def end(self) -> None:
        """Close the socket, kill the process if it is still there, and wait until it is reaped."""
        with trio.CancelScope(shield=True), trio.move_on_after(_REAP_TIMEOUT):
            await self.close()
            await self.generation.kill(self)

    async def close(self) -> None:
        """Close our end of the socket."""
        await trio.aclose_forcefully(self._stream)


class _Generation:
    """One zygote process and its control socket."""

    def __init__(self, process: trio.Process, control: trio.socket.SocketType) -> None:
        self.process = process
        self._control = control
        self._send_lock = trio.Lock()
        self._sequence = 0
        self._workers: dict[int, Worker] = {}
        self.landlock = 0
        self.ready = False
        self.failure = ""
        self.dead = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the control socket until it closes."""
        buffer = bytearray()
        try:
            while data := await self._control.recv(4096):
                buffer += data
                while len(buffer) >= MESSAGE.size:
                    kind, first, second = MESSAGE.unpack_from(buffer)
                    del buffer[: MESSAGE.size]
                    if kind == b"E":
                        self.failure = buffer.decode("utf-8", "replace")
                        buffer.clear()
                    elif kind == b"Z":
                        self.landlock = first
                        self.ready = True
                        task_status.started()
                    else:
                        self._take(kind, first, second)
        except OSError:
            pass
        finally:
            self.dead.set()
            for worker in self._workers.values():
                worker.known.set()
                worker.ended.set()

    def _take(self, kind: bytes, first: int, second: int) -> None:
        if kind == b"P" and (worker := self._workers.get(first)) is not None:
            worker.pid = second
            worker.known.set()
        elif kind == b"X":
            for sequence, worker in list(self._workers.items()):
                if worker.pid == first:
                    worker.status = second
                    worker.ended.set()
                    del self._workers[sequence]

    async def fork(self) -> Worker:
        """Return a new worker that said READY. Raises `WorkerEnded`, `OSError`, `ProtocolViolation`."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._sequence += 1
            worker = Worker(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), self, self._sequence)
            self._workers[worker.sequence] = worker
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]).tobytes())]
            try:
                async with self._send_lock:
                    await self._control.sendmsg([MESSAGE.pack(b"F", worker.sequence, 0)], rights)
            except (OSError, trio.ClosedResourceError):
                self._workers.pop(worker.sequence, None)
                await worker.close()
                raise WorkerEnded(None) from None
        try:
            frames = await worker.receive()
            if frames != [(Kind.READY, b"")]:
                raise ProtocolViolation("a worker did not begin with READY")
        except BaseException:
            await worker.end()
            raise
        return worker

    async def kill(self, worker: Worker) -> None:
        await worker.known.wait()
        if worker.ended.is_set() or worker.pid is None:
            return
        try:
            async with self._send_lock:
                await self._control.send(MESSAGE.pack(b"K", worker.sequence, worker.pid))
        except (OSError, trio.ClosedResourceError):
            return
        await worker.ended.wait()

    async def close(self) -> None:
        """End the zygote (it ends its workers) and reap it."""
        with trio.CancelScope(shield=True):
            self._control.close()
            with trio.move_on_after(_REAP_TIMEOUT):
                await self.process.wait()
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()


class Pool:
    """Warm workers, each for one program. Run `run` in a nursery for as long as workers are to be had.

    `directory` holds the compiled guest, which is looked over before each zygote loads it. `memory` in bytes, `cpu` in
    seconds.
    """

    def __init__(self, directory: Path, *, size: int, memory: int, cpu: float) -> None:
        self._directory = directory
        self._settings: dict[str, Any] = {"memory": memory, "cpu": cpu}
        self._discarded = False
        self._size = size
        self._send, self._receive = trio.open_memory_channel[Worker](0)
        self._places = trio.CapacityLimiter(_RUNNING_PER_WARM * size)
        self._generation: _Generation | None = None
        self.zygotes = 0
        self.forked = 0
        self.failure = ""
        """Why there is no worker, empty while there are."""

    @property
    def zygote_pid(self) -> int | None:
        """The zygote's process id, None while there is none."""
        return None if self._generation is None else self._generation.process.pid

    def statistics(self) -> dict[str, Any]:
        """Return plain figures."""
        alive = self._generation
        return {
            "zygote": self.zygote_pid,
            "zygotes": self.zygotes,
            "forked": self.forked,
            "warm": self._send.statistics().tasks_waiting_send,
            "landlock": 0 if alive is None else alive.landlock,
            "failure": self.failure,
        }

    async def run(self) -> None:
        """Keep a zygote and `size` warm workers, starting a new zygote whenever one dies.

        Raises `Internal` when the guest cannot be compiled or its directory is not private.
        """
        failures = 0
        while True:
            await trio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
            try:
                await self._run_generation()
                failures = 0
            except (OSError, trio.TooSlowError) as error:
                self.failure = f"the sandbox zygote did not start: {error}"
            failures += 1

    async def _run_generation(self) -> None:
        module = await compiled_guest(self._directory)
        with trio.fail_after(_START_TIMEOUT) as starting:
            generation = await _start_zygote({**self._settings, "module": str(module)})
            try:
                async with trio.open_nursery() as nursery:
                    if await self._started(nursery, generation):
                        starting.deadline = float("inf")
                        await self._serve(nursery, generation)
                    nursery.cancel_scope.cancel()
            finally:
                self._generation = None
                await generation.close()
        if not generation.ready:
            self._distrust(module, generation.failure)
            raise OSError(generation.failure or "it ended before it was ready")

    async def _serve(self, nursery: trio.Nursery, generation: _Generation) -> None:
        self.zygotes += 1
        self.failure = ""
        self._discarded = False
        self._generation = generation
        for _ in range(self._size):
            nursery.start_soon(self._keep_warm, generation)
        await generation.dead.wait()

    def _distrust(self, module: Path, failure: str) -> None:
        # A sound file may still be for another processor; made anew on this one it is not refused twice.
        if failure.startswith("WasmtimeError") and not self._discarded:
            self._discarded = True
            discard(module, failure)

    async def _started(self, nursery: trio.Nursery, generation: _Generation) -> bool:
        try:
            await nursery.start(generation.run)
        except RuntimeError:
            # trio's word for a task that ended before it was ready.
            return False
        return True

    async def _keep_warm(self, generation: _Generation) -> None:
        while True:
            try:
                worker = await generation.fork()
            except (WorkerEnded, ProtocolViolation, OSError) as error:
                if generation.dead.is_set():
                    return
                self.failure = f"a worker did not start: {error}"
                await trio.sleep(0.1)
                continue
            self.forked += 1
            try:
                await self._send.send(worker)
            except BaseException:
                await worker.end()
                raise

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[Worker, None]:
        """A warm worker for one program; it is gone when the block is left.

        Waits for one until the caller's deadline. Raises `ActorUnavailable` when there will be none, saying why.
        """
        async with self._places:
            worker = await self._ready()
            try:
                yield worker
            finally:
                await worker.end()

    async def _ready(self) -> Worker:
        while True:
            with trio.move_on_after(_PATIENCE):
                worker = await self._receive.receive()
                if not worker.ended.is_set():
                    return worker
                await worker.end()
                continue
            if self.failure:
                raise ActorUnavailable(self.failure, actor="sandbox")


def crashed(ended: WorkerEnded, worker: Worker) -> ActorCrashed | None:
    """Return the error for a program whose zygote died under it; None when the worker itself ended."""
    if ended.status is None and worker.generation.dead.is_set():
        return ActorCrashed(
            "the sandbox zygote died; nothing was changed, run it again", actor="sandbox", executed="no"
        )
    return None


async def _start_zygote(settings: dict[str, Any]) -> _Generation:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await trio.lowlevel.open_process(
                zygote_command(settings, theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return _Generation(process, trio.socket.from_stdlib_socket(ours))


def zygote_command(settings: dict[str, Any], control: int) -> list[str]:
    """Return the command line of a zygote whose control socket is the descriptor `control`."""
    told = msgspec.json.encode({**settings, "path": _import_path()}).decode()
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("zygote.py")), str(control), told]


def _import_path() -> list[str]:
    path: list[str] = []
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise OSError(f"the package {name} is not installed")
        folder = os.fspath(Path(spec.origin).parent.parent)
        if folder not in path:
            path.append(folder)
    return path
