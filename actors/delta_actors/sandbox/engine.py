"""The JavaScript engine behind a small interface, and its driver over the guest that the quickjs-rs package carries.

The guest's binary interface is private to its package, so version and hash are pinned together. Its imports come from
here alone: a frozen clock, no randomness, no files, no host function. The program's side talks through the prelude's
functions (`start`, `settle`, `pump`, `finish`), so nothing in the guest can call out (spec/sandbox 1.1, 10).
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import wasmtime

from delta_actors.sandbox.guest import WASM_STACK, configuration
from delta_actors.sandbox.wasm import FastExport, find_export

STORE_SLACK: Final = 16 << 20
"""What the guest's store may hold beyond the program's memory: the engine's own code and data."""
_EBADF: Final = 8
_EXPORTS: Final = (
    "qjs_alloc",
    "qjs_free",
    "eval_code",
    "eval_module",
    "call_function",
    "new_string",
    "new_undefined",
    "free_value",
    "get_string",
    "qjs_last_len",
    "qjs_last_ptr",
    "qjs_result_free",
    "execute_pending_jobs",
    "last_exception",
    "get_prop",
    "get_index",
    "set_max_stack_size",
)


class ScriptError(Exception):
    """The guest threw: name, message and stack as text."""

    def __init__(self, name: str, message: str, stack: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.stack = stack


class EngineLimit(Exception):
    """The guest crossed `limit`: fuel | cpu | memory | stack. It cannot go on."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class Engine(Protocol):
    """What a worker needs of an engine: one program, started once, fed with answers, pumped for what it wants."""

    def begin(self, *, fuel: int, cpu: float, memory: int, now_ms: int) -> None:
        """Set the limits and the clock for what follows."""
        ...

    def compiles(self, source: str) -> ScriptError | None:
        """Return the error that `source`, a function expression, fails to compile with, if any."""
        ...

    def start(self, source: str, settings: bytes) -> None:
        """Compile and call the program with `settings` (JSON for the prelude)."""
        ...

    def settle(self, answers: bytes) -> None:
        """Give a JSON array of answers to the prelude."""
        ...

    def finish(self) -> None:
        """Tell the prelude to wait no longer."""
        ...

    def run_jobs(self) -> None:
        """Run what is ready to run."""
        ...

    def pump(self) -> bytes:
        """Return what the prelude wants next."""
        ...

    def fuel_used(self) -> int:
        """Return the fuel used since `begin`."""
        ...

    @property
    def memory_is_full(self) -> bool:
        """Whether next to nothing can be allocated any more."""
        ...


class GuestEngine:
    """`Engine` over the pinned guest: one store, one context, the prelude evaluated."""

    def __init__(self, module_file: Path, prelude: str, memory: int) -> None:
        self._engine = wasmtime.Engine(configuration())
        self._module = wasmtime.Module.deserialize_file(self._engine, str(module_file))
        self._now_ns = 0
        self._cpu_ends = float("inf")
        self._interrupted = False
        self._fuel = 0
        self._limit = memory + STORE_SLACK
        self._store = wasmtime.Store(self._engine)
        self._store.set_limits(memory_size=self._limit, instances=1, memories=1)
        self._store.set_fuel(10**12)
        linker = wasmtime.Linker(self._engine)
        for item in self._module.imports:
            assert isinstance(item.type, wasmtime.FuncType)
            linker.define_func(item.module, item.name or "", item.type, self._import(item.name or ""))
        self._instance = linker.instantiate(self._store, self._module)
        self._memory = self._export("memory")
        initialize = find_export(self._store, self._instance, "_initialize")
        if initialize is not None:
            initialize(self._store)
        self._call = {name: FastExport(self._store, self._export(name)) for name in _EXPORTS}
        self._call["set_max_stack_size"](WASM_STACK)
        self._slot = self._call["qjs_alloc"](4)
        self._arguments = self._call["qjs_alloc"](8)
        self._undefined = self._call["new_undefined"]()
        self._evaluate("eval_module", prelude.encode(), b"prelude.js")
        bridge = self._evaluate("eval_code", b"__bridge")
        self._functions = [self._index(bridge, index) for index in range(4)]
        self._call["free_value"](self._evaluate("eval_code", b"delete globalThis.__bridge"))

    def begin(self, *, fuel: int, cpu: float, memory: int, now_ms: int) -> None:
        """Set the limits and the clock for what follows."""
        self._now_ns = now_ms * 1_000_000
        self._cpu_ends = time.process_time() + cpu
        self._interrupted = False
        self._fuel = fuel
        self._store.set_fuel(fuel)
        self._limit = memory + STORE_SLACK
        self._store.set_limits(memory_size=self._limit, instances=1, memories=1)

    def compiles(self, source: str) -> ScriptError | None:
        """Return the error that `source` fails to compile with, if any."""
        try:
            self._call["free_value"](self._guarded(self._evaluate, "eval_code", source.encode("utf-8", "replace")))
        except ScriptError as error:
            return error
        return None

    def start(self, source: str, settings: bytes) -> None:
        """Compile and call the program."""
        program = self._guarded(self._evaluate, "eval_code", source.encode("utf-8", "replace"))
        text = self._string(settings)
        self._invoke(0, program, text)
        self._call["free_value"](text)
        self._call["free_value"](program)

    def settle(self, answers: bytes) -> None:
        """Give answers to the prelude."""
        text = self._string(answers)
        self._invoke(1, text)
        self._call["free_value"](text)

    def finish(self) -> None:
        """Tell the prelude to wait no longer."""
        self._invoke(3)

    def run_jobs(self) -> None:
        """Run what is ready; raises `EngineLimit`."""
        # The guest runs a bounded number of jobs at a time and returns how many it ran.
        while self._guarded(self._call["execute_pending_jobs"]) > 0:
            # It swallows an interrupt inside a promise job; the flag keeps it.
            if self._interrupted:
                raise EngineLimit("cpu", "the program used up its CPU time")

    def pump(self) -> bytes:
        """Return what the prelude wants next."""
        handle = self._invoke(2, free=False)
        try:
            return self._text(handle)
        finally:
            self._call["free_value"](handle)

    def fuel_used(self) -> int:
        """Return the fuel used since `begin`."""
        return self._fuel - self._store.get_fuel()

    @property
    def memory_is_full(self) -> bool:
        """Whether next to nothing can be allocated any more; the guest swallows that in a promise job."""
        return bool(self._memory.data_len(self._store) + (8 << 20) >= self._limit)

    def _invoke(self, function: int, *arguments: int, free: bool = True) -> int:
        self._write(self._arguments, struct.pack(f"<{len(arguments)}I", *arguments))
        status = self._guarded(
            self._call["call_function"],
            self._functions[function],
            self._undefined,
            self._arguments,
            len(arguments),
            self._slot,
        )
        if status:
            raise self._exception()
        handle = self._read_slot()
        if free:
            self._call["free_value"](handle)
        return handle

    def _guarded(self, call: Callable[..., int], *arguments: Any) -> int:  # noqa: ANN401
        try:
            result = call(*arguments)
        except wasmtime.Trap as trap:
            raise self._limit_of(trap) from None
        return result

    def _limit_of(self, trap: wasmtime.Trap) -> EngineLimit:
        code = trap.trap_code
        if code == wasmtime.TrapCode.OUT_OF_FUEL:
            return EngineLimit("fuel", "the program used up its computing budget")
        if code == wasmtime.TrapCode.STACK_OVERFLOW:
            return EngineLimit("stack", "call stack exhausted")
        if self.memory_is_full:
            return EngineLimit("memory", "out of memory")
        return EngineLimit("stack" if code is None else "engine", f"the engine stopped: {str(trap)[:200]}")

    def _exception(self) -> Exception:
        if self._interrupted:
            return EngineLimit("cpu", "the program used up its CPU time")
        self._call["last_exception"](self._slot)
        value = self._read_slot()
        name, message, stack = (self._property(value, key) for key in (b"name", b"message", b"stack"))
        self._call["free_value"](value)
        if name == "InternalError" and "out of memory" in message:
            return EngineLimit("memory", "out of memory")
        return ScriptError(name, message, stack)

    def _property(self, value: int, key: bytes) -> str:
        pointer = self._bytes(key)
        failed = self._call["get_prop"](value, pointer, len(key), self._slot)
        self._call["qjs_free"](pointer, len(key))
        if failed:
            return ""
        handle = self._read_slot()
        text = self._text(handle).decode("utf-8", "replace")
        self._call["free_value"](handle)
        return text

    def _evaluate(self, how: str, source: bytes, name: bytes = b"") -> int:
        pointer = self._bytes(source)
        if how == "eval_module":
            label = self._bytes(name)
            status = self._call[how](pointer, len(source), label, len(name), self._slot)
            self._call["qjs_free"](label, len(name))
        else:
            status = self._call[how](pointer, len(source), self._slot)
        self._call["qjs_free"](pointer, len(source))
        if status:
            raise self._exception()
        return self._read_slot()

    def _index(self, value: int, index: int) -> int:
        if self._call["get_index"](value, index, self._slot):
            raise self._exception()
        return self._read_slot()

    def _string(self, data: bytes) -> int:
        pointer = self._bytes(data)
        handle = self._guarded(self._call["new_string"], pointer, len(data))
        self._call["qjs_free"](pointer, len(data))
        return handle

    def _text(self, handle: int) -> bytes:
        if self._call["get_string"](handle):
            return b""
        length = self._call["qjs_last_len"]()
        data = self._read(self._call["qjs_last_ptr"](), length) if length else b""
        self._call["qjs_result_free"]()
        return data

    def _bytes(self, data: bytes) -> int:
        pointer = self._guarded(self._call["qjs_alloc"], max(1, len(data)))
        self._write(pointer, data)
        return pointer

    def _read_slot(self) -> int:
        return int.from_bytes(self._read(self._slot, 4), "little")

    def _read(self, pointer: int, size: int) -> bytes:
        pointer &= 0xFFFFFFFF
        self._check(pointer, size)
        return ctypes.string_at(self._base() + pointer, size)

    def _write(self, pointer: int, data: bytes) -> None:
        pointer &= 0xFFFFFFFF
        self._check(pointer, len(data))
        ctypes.memmove(self._base() + pointer, data, len(data))

    def _base(self) -> int:
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)

    def _check(self, pointer: int, size: int) -> None:
        if size < 0 or pointer + size > self._memory.data_len(self._store):
            raise EngineLimit("memory", "out of memory")

    def _export(self, name: str) -> Any:  # noqa: ANN401 - wasmtime's extern
        found = find_export(self._store, self._instance, name)
        if found is None:
            raise KeyError(name)
        return found

    def _import(self, name: str) -> Callable[..., Any]:
        def interrupt() -> int:
            self._interrupted = self._interrupted or time.process_time() >= self._cpu_ends
            return int(self._interrupted)

        def clock(_clock: int, _precision: int, pointer: int) -> int:
            self._write(pointer, struct.pack("<Q", self._now_ns))
            return 0

        def random(pointer: int, size: int) -> int:
            self._write(pointer, bytes(size))
            return 0

        def sizes(count: int, size: int) -> int:
            self._write(count, bytes(4))
            self._write(size, bytes(4))
            return 0

        def leave(_status: int) -> None:
            raise RuntimeError("the guest asked to exit")

        answers: dict[str, Callable[..., Any]] = {
            "host_interrupt": interrupt,
            "clock_time_get": clock,
            "random_get": random,
            "environ_sizes_get": sizes,
            "environ_get": lambda *_: 0,
            "proc_exit": leave,
            "host_call": lambda *_: -1,
            "host_module_normalize": lambda *_: 0,
            "host_module_load": lambda *_: 0,
        }
        return answers.get(name, lambda *_: _EBADF)
