"""One run of one program: the trusted half. Feeds a worker, answers its host calls, judges what it hands in."""

from __future__ import annotations

import logging
import os
import signal
from typing import Final

import msgspec
import trio

from delta_actors.runtime.actor import Call, Ref
from delta_actors.sandbox.assembly import Assembly
from delta_actors.sandbox.missing import located
from delta_actors.sandbox.pool import Pool, Worker, WorkerEnded, crashed
from delta_actors.sandbox.reads import Reads
from delta_actors.sandbox.views import namespaces, unknown_name
from delta_protocol.catalogue import arguments
from delta_protocol.catalogue.model import Catalogue, find_tool
from delta_protocol.changes.model import Recording
from delta_protocol.changes.plan import build_plan, place
from delta_protocol.changes.recording import split
from delta_protocol.errors import DeltaError, Invalid, LimitExceeded, ProtocolViolation
from delta_protocol.wire.message import Item, Progress, Question
from delta_protocol.wire.registry import ReadTool, ToolReply
from delta_protocol.wire.sandbox import ProgramError, ProgramOutcome, RunProgram
from delta_protocol.wire.worker import Failed, Finished, HostCall, Kind, Run, decode_calls, decode_done

UNAWAITED: Final = 2.0
"""Seconds that reads get which the program did not await."""
_MARGIN: Final = 0.05
"""Seconds before the caller's deadline at which a run ends, so that the caller still gets the typed answer."""
_LOG = logging.getLogger("delta.sandbox")
_VIOLATIONS: Final = frozenset({signal.SIGSYS, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL})


class ProgramRun:
    """`outcome()` runs `request` in one worker of `pool`; reads go to `registry` on the call's behalf."""

    def __init__(self, request: RunProgram, catalogue: Catalogue, call: Call, registry: Ref) -> None:
        self._request = request
        self._catalogue = catalogue
        self._call = call
        self._registry = registry
        self._reads = Reads(self._ask, catalogue, request.limits)
        self._answers: list[bytes] = []
        self._answered = trio.Event()
        self._seen: set[int] = set()
        self._fuel = 0
        self._ended = trio.Event()
        self._fault: DeltaError | None = None
        self._conversation: trio.CancelScope | None = None
        self._heard = False
        self._killed_unheard = False

    async def outcome(self, pool: Pool) -> ProgramOutcome:
        """Run the program. Every fault of the program is in the outcome.

        Raises `ActorCrashed` when the zygote died, `ActorUnavailable` when no worker is to be had.
        """
        limits = self._request.limits
        size = len(self._request.code.encode("utf-8", "replace"))
        if size > limits.source:
            message = f"the program has {size} bytes; the limit is {limits.source}"
            return self._failed(ProgramError("limit", "LimitError", message, limit="source"))
        with trio.move_on_at(self._call.deadline - _MARGIN):
            async with pool.worker() as worker:
                outcome = await self._guarded(worker)
            if not self._killed_unheard:
                return outcome
            # Killed from outside before it said anything: nothing was done yet, another worker may do it once.
            async with pool.worker() as worker:
                return await self._guarded(worker)
        return self._failed(ProgramError("deadline", "DeadlineExceeded", "the program did not end before its deadline"))

    async def _guarded(self, worker: Worker) -> ProgramOutcome:
        try:
            done = await self._converse(worker)
            if isinstance(done, Failed):
                return self._failed(self._error(done), done.console)
            return self._succeeded(done)
        except WorkerEnded as ended:
            self._killed_unheard = not self._heard and ended.status == signal.SIGKILL
            crash = crashed(ended, worker)
            if crash is not None:
                raise crash from None
            return self._failed(_ended(ended.status))
        except ProtocolViolation as error:
            _LOG.error("a worker broke its protocol: %s", error.message)
            return self._failed(ProgramError("crash", "SandboxViolation", error.message))
        except LimitExceeded as error:
            limit = str(error.detail.get("limit", ""))
            return self._failed(ProgramError("limit", "LimitError", error.message, limit=limit))

    async def _converse(self, worker: Worker) -> Finished | Failed:
        ended: WorkerEnded | None = None
        done: Finished | Failed | None = None
        async with trio.open_nursery() as nursery:
            self._conversation = nursery.cancel_scope
            try:
                await worker.send(Kind.RUN, self._run_frame())
                nursery.start_soon(self._flush, worker)
                nursery.start_soon(self._hurry, worker)
                while done is None:
                    for kind, payload in await worker.receive():
                        done = self._take(kind, payload, nursery) or done
            except WorkerEnded as error:
                ended = error
            except ProtocolViolation as error:
                self._fault = error
            nursery.cancel_scope.cancel()
        fault = self._fault or ended
        if fault is not None:
            raise fault
        assert done is not None
        return done

    def _take(self, kind: Kind, payload: bytes, nursery: trio.Nursery) -> Finished | Failed | None:
        self._heard = True
        if kind is Kind.DONE:
            self._fuel, done = decode_done(payload)
            return done
        if kind is Kind.ENDING and not payload:
            self._ended.set()
            return None
        if kind is not Kind.CALLS:
            raise ProtocolViolation(f"a worker sent {kind.name} while its program ran")
        for host_call in decode_calls(payload):
            if host_call.id in self._seen or host_call.id < 1:
                raise ProtocolViolation("a worker used a call number twice")
            self._seen.add(host_call.id)
            if len(self._seen) > self._request.limits.host_calls:
                raise ProtocolViolation("a worker made more calls than it may")
            nursery.start_soon(self._answer, host_call)
        return None

    async def _answer(self, host_call: HostCall) -> None:
        if host_call.kind == "sleep":
            await trio.sleep(min(max(host_call.ms, 0.0), 60_000.0) / 1000)
            self._settle(b"[%d,1,null]" % host_call.id)
            return
        try:
            self._settle(await self._reads.answer(host_call))
        except (ProtocolViolation, LimitExceeded) as error:
            self._judge(error)
            return
        if self._call.origin is not None and self._call.origin.progress:
            await self._call.emit(Progress(len(self._reads.by_call), None, f"{host_call.connector}.{host_call.tool}"))

    def _judge(self, error: DeltaError) -> None:
        # The first fault ends the conversation; the others are its echo.
        self._fault = self._fault or error
        if self._conversation is not None:
            self._conversation.cancel()

    def _settle(self, answer: bytes) -> None:
        self._answers.append(answer)
        self._answered.set()

    async def _flush(self, worker: Worker) -> None:
        # Answers that became ready in the same step cross together.
        try:
            while True:
                await self._answered.wait()
                self._answered = trio.Event()
                answers, self._answers = self._answers, []
                await worker.send(Kind.SETTLE, b"[" + b",".join(answers) + b"]")
        except WorkerEnded:
            return

    async def _hurry(self, worker: Worker) -> None:
        await self._ended.wait()
        await trio.sleep(UNAWAITED)
        try:
            await worker.send(Kind.FINISH)
        except WorkerEnded:
            return

    async def _ask(self, request: ReadTool) -> ToolReply:
        return await self._registry.ask(request, listener=self._listen)

    async def _listen(self, item: Item) -> Item | None:
        if isinstance(item, Question):
            return await self._call.question(item)
        if isinstance(item, Progress):
            await self._call.emit(item)
        return None

    def _run_frame(self) -> bytes:
        request, limits = self._request, self._request.limits
        return msgspec.json.encode(
            Run(
                source=request.code,
                namespaces=namespaces(self._catalogue, request.code),
                frozen_time=request.frozen_time,
                seed=request.seed,
                fuel=limits.fuel,
                cpu=limits.cpu,
                memory=limits.memory,
                host_calls=limits.host_calls,
                argument=limits.argument,
                result=limits.result,
                console=limits.console,
                planned_calls=limits.planned_calls,
            )
        )

    def _succeeded(self, done: Finished) -> ProgramOutcome:
        assembly = Assembly(self._catalogue, self._reads.by_call, self._request.limits.depth)
        made = list(self._reads)
        recording = assembly.recording(done, made)
        returned = assembly.returned(done)
        wrong = self._wrong_call(recording)
        if wrong is not None:
            return self._failed(wrong, done.console)
        try:
            plan = build_plan(recording, self._catalogue)
        except Invalid as error:
            line, column = (int(error.detail.get(name) or 0) for name in ("line", "column"))
            wrong = ProgramError("runtime", "Invalid", error.message, line, column, self._lines(line))
            return self._failed(wrong, done.console)
        return ProgramOutcome(
            returned=place(split(returned), plan),
            plan=plan,
            console=done.console,
            reads=recording.reads,
            notes=done.notes,
            fuel=self._fuel,
        )

    def _wrong_call(self, recording: Recording) -> ProgramError | None:
        """Return the error of the first planned call whose arguments its tool does not take."""
        for write in recording.writes:
            connector = self._catalogue.connector(write.connector)
            tool = None if connector is None else find_tool(connector, write.tool)
            if tool is None:
                continue
            try:
                arguments.check(tool, write.arguments.json, [hole.path for hole in write.arguments.holes])
            except Invalid as error:
                lines = self._lines(write.line)
                return ProgramError("runtime", "Invalid", error.message, write.line, write.column, lines)
        return None

    def _failed(self, error: ProgramError, console: tuple[str, ...] = ()) -> ProgramOutcome:
        reads = tuple(entry.as_read() for entry in self._reads)
        return ProgramOutcome(error=error, console=console, reads=reads, fuel=self._fuel)

    def _error(self, failed: Failed) -> ProgramError:
        line, column = located(self._request.code, failed.name, failed.message, failed.line, failed.column)
        source = self._lines(line)
        message = failed.message
        if failed.name == "ReferenceError":
            message = unknown_name(self._catalogue, message)
        return ProgramError(failed.kind, failed.name, message, line, column, source, failed.limit)

    def _lines(self, line: int) -> str:
        """Return the line and the one before it, numbered."""
        lines = self._request.code.split("\n")
        shown = [number for number in (line - 1, line) if 1 <= number <= len(lines)]
        return "\n".join(f"{number} | {lines[number - 1][:200]}" for number in shown) if line else ""


def _ended(status: int | None) -> ProgramError:
    """Return what a worker's end means for its program (spec/sandbox 3, failure map)."""
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
    if number in (signal.SIGPROF, signal.SIGXCPU):
        return ProgramError("limit", "LimitError", "the program used up its CPU time", limit="cpu")
    if number in _VIOLATIONS:
        name = signal.Signals(number).name
        _LOG.error("a worker was stopped by %s: the program may have tried to leave the sandbox", name)
        return ProgramError("crash", "SandboxViolation", f"the worker was stopped by {name}")
    if number:
        return ProgramError("crash", "SandboxCrash", f"the worker was killed by signal {number}")
    return ProgramError("crash", "SandboxCrash", f"the worker ended early (status {status})")
