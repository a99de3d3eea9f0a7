"""A worker: one program in a jailed process forked from the zygote, which knows no time and has but its socket."""

from __future__ import annotations

import re
import socket
from typing import Final

import msgspec

from delta_actors.sandbox import source
from delta_actors.sandbox.engine import Engine, EngineLimit, ScriptError
from delta_protocol.wire.worker import MAX_TO_WORKER, Failed, FrameReader, Kind, NamespaceView, Run, ToolView, frame

_TO_WORKER: Final = frozenset({Kind.RUN, Kind.SETTLE, Kind.FINISH})
_OUT_OF_MEMORY = EngineLimit("memory", "out of memory")
_LONE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_RUN: Final = msgspec.json.Decoder(Run)
WARM_SOURCE: Final = "const a = await t.a({x: 1}); console.log(JSON.stringify(a)); return {a, s: `${a.length}`}"
WARM_NAMESPACE: Final = NamespaceView("t", "t", (ToolView("a", "a", "read"),))


class Closed(Exception):
    """The sandbox actor closed the connection."""


class Wire:
    """The worker's end of its socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader = FrameReader(_TO_WORKER, MAX_TO_WORKER)
        self._frames: list[tuple[Kind, bytes]] = []

    def send(self, kind: Kind, payload: bytes = b"") -> None:
        """Send one frame."""
        self._socket.sendall(frame(kind, payload))

    def receive(self) -> list[tuple[Kind, bytes]]:
        """Return all frames that are there, at least one. Raises `Closed`."""
        frames: list[tuple[Kind, bytes]] = []
        while not frames:
            data = self._socket.recv(1 << 18)
            if not data:
                raise Closed
            frames = self._reader.feed(data)
        return frames


def settings_of(run: Run, prepared: source.Prepared) -> bytes:
    """Return what the prelude is started with, as JSON."""
    return msgspec.json.encode(
        {
            "namespaces": run.namespaces,
            "shifts": {str(line): list_ for line, list_ in prepared.shifts.items()},
            "arithmetic": dict.fromkeys(prepared.arithmetic, True),
            "mark": f"{run.seed % 10**15:015d}",
            "seed": run.seed % 2**53,
            "host_calls": run.host_calls,
            "argument": run.argument,
            "result": run.result,
            "console": run.console,
            "planned_calls": run.planned_calls,
        }
    )


def warm(engine: Engine) -> None:
    """Run a dummy program, so that a real one meets touched pages and compiled parsers."""
    engine.begin(fuel=10**10, cpu=5.0, memory=64 << 20, now_ms=0)
    prepared = source.prepare(WARM_SOURCE, ["t", "console", "sleep", "fresh"], "__check")
    run = Run(WARM_SOURCE, (WARM_NAMESPACE,), 0, 1, 10**10, 5.0, 0, 8, 1 << 16, 1 << 16, 1 << 16, 8)
    engine.start(prepared.text, settings_of(run, prepared))
    for answer in (b'[[1,1,{"a":[1,{}]}]]', None):
        engine.run_jobs()
        engine.pump()
        if answer:
            engine.settle(answer)
    engine.run_jobs()
    engine.pump()
    _RUN.decode(msgspec.json.encode(run))


def serve(connection: socket.socket, engine: Engine) -> None:
    """Say READY, run the one program, send its outcome."""
    wire = Wire(connection)
    wire.send(Kind.READY)
    try:
        kind, payload = wire.receive()[0]
        if kind is not Kind.RUN:
            return
        run = _RUN.decode(payload)
        engine.begin(fuel=run.fuel, cpu=run.cpu, memory=run.memory, now_ms=run.frozen_time)
        try:
            outcome = _execute(wire, engine, run)
        except EngineLimit as limit:
            outcome = _limit(limit)
        except ScriptError as error:
            outcome = msgspec.json.encode(Failed("runtime", error.name[:100], error.message[:4000], 0, 0, "", ()))
        wire.send(Kind.DONE, max(0, engine.fuel_used()).to_bytes(8, "big") + outcome)
    except Closed:
        return


def _execute(wire: Wire, engine: Engine, run: Run) -> bytes:
    try:
        prepared, text = _compile(engine, run)
    except source.SourceError as error:
        return msgspec.json.encode(Failed("syntax", "SyntaxError", str(error), error.line, error.column, "", ()))
    engine.start(text, settings_of(run, prepared))
    while True:
        engine.run_jobs()
        wanted = engine.pump()
        kind, rest = wanted[:1], wanted[1:]
        if kind == b"D":
            if b'"thrown object: null"' in rest and engine.memory_is_full:
                # The guest throws null where it has no memory left for an error.
                return _limit(_OUT_OF_MEMORY)
            return _LONE.sub(rb"\1\\ufffd", rest) if b"\\ud" in rest else rest
        if kind in (b"C", b"c"):
            wire.send(Kind.CALLS, _LONE.sub(rb"\1\\ufffd", rest) if b"\\ud" in rest else rest)
            if kind == b"c":
                # The program has ended already: it is asked again before anything is waited for.
                continue
        elif kind == b"E":
            wire.send(Kind.ENDING)
        elif kind == b"X":
            if engine.memory_is_full:
                return _limit(_OUT_OF_MEMORY)
            message = "the program waits for a promise that nothing can settle any more"
            return msgspec.json.encode(Failed("deadlock", "DeadlockError", message, 0, 0, "", ()))
        _take(wire, engine)


def _take(wire: Wire, engine: Engine) -> None:
    frames = wire.receive()
    answers = [payload[1:-1] for kind, payload in frames if kind is Kind.SETTLE]
    if answers:
        engine.settle(b"[" + b",".join(answers) + b"]")
    if any(kind is Kind.FINISH for kind, _ in frames):
        engine.finish()


def _compile(engine: Engine, run: Run) -> tuple[source.Prepared, str]:
    names = [space.alias for space in run.namespaces] + ["console", "sleep", "fresh"]
    guard = "__check"
    while guard in run.source:
        guard += "_"
    prepared = source.prepare(run.source, names, guard)
    if prepared.typed and not prepared.generic and engine.compiles(prepared.plain) is None:
        # What reads as types is JavaScript as it stands (`a < b > (c)`).
        return prepared._replace(shifts={1: prepared.shifts[1][:2]}, arithmetic=[]), prepared.plain
    error = engine.compiles(prepared.text)
    if error is not None:
        match = re.search(r"eval_script:(\d+)", error.stack)
        line, column = source.locate_error(run.source, int(match[1]) if match else 0)
        raise source.SourceError(error.message, line, column)
    return prepared, prepared.text


def _limit(limit: EngineLimit) -> bytes:
    name = "RangeError" if limit.limit == "stack" else "LimitError"
    return msgspec.json.encode(Failed("limit", name, str(limit), 0, 0, limit.limit, ()))
