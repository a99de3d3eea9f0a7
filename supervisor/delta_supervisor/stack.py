"""The stack: the standard actors under one supervisor, with control socket, service manager and idle end around it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import trio

from delta_actors.runtime.birth import make_credentials
from delta_protocol.wire.control import Grant
from delta_protocol.wire.message import Role
from delta_supervisor.child import Child
from delta_supervisor.control.messages import StackStatus
from delta_supervisor.control.server import ControlServer
from delta_supervisor.notify import Notifier
from delta_supervisor.prepare import ACTORS, Ground
from delta_supervisor.reap import sweep
from delta_supervisor.service import Service
from delta_supervisor.spawn import Zygote
from delta_supervisor.supervisor import RECORD_NAME, Supervisor

LAZY = frozenset({Role.RESULTS, Role.AUTH})
"""Actors that a request rarely needs."""


class Stack:
    """One run of the standard stack on prepared ground. `report` gets lines for people; `on_ready` is called once."""

    def __init__(
        self,
        ground: Ground,
        zygote: Zygote,
        *,
        auto: bool = False,
        factories: Mapping[Role, str] | None = None,
        report: Callable[[str], None] = print,
        on_ready: Callable[[StackStatus], None] | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._ground = ground
        self._zygote = zygote
        self._auto = auto
        self._report = report
        self._since = time.time()
        config = ground.loaded.config
        credentials = make_credentials({role: ground.address(role) for role in ACTORS})
        self._operator_grants = credentials[Role.OPERATOR].grants
        children = [
            Child(
                role,
                ground.links[role],
                factory=(factories or {}).get(role, ""),
                lazy=role in LAZY,
                sockets=ground.outside if role is Role.TRANSPORT else {},
                grants=credentials[role].grants,
                admissions=credentials[role].admissions,
            )
            for role in ACTORS
        ]
        self._supervisor = Supervisor(
            children,
            zygote=zygote,
            config=config,
            state_dir=ground.loaded.state_dir,
            runtime_dir=ground.runtime_dir,
            report=report,
        )
        assert ground.control is not None
        self._control = ControlServer(ground.control, self)
        self._service = Service(
            self._supervisor,
            zygote,
            notifier or Notifier({}),
            report=report,
            on_ready=None if on_ready is None else lambda: on_ready(self.status()),
            on_stop=ground.unlist,
        )

    @property
    def operator_grants(self) -> tuple[Grant, ...]:
        """What opens the operator's links."""
        return self._operator_grants

    def stop(self) -> None:
        """Begin to stop in order."""
        self._service.stop()

    def status(self) -> StackStatus:
        """Return the stack as it stands."""
        stopping, ready = self._supervisor.is_stopping, self._supervisor.is_ready
        return StackStatus(
            state="stopping" if stopping else "ready" if ready else "starting",
            pid=os.getpid(),
            since=self._since,
            state_dir=str(self._ground.loaded.state_dir),
            addresses=self._supervisor.addresses,
            actors=self._supervisor.statistics(),
            attached=self._control.attached,
            configuration=tuple(str(file) for file in self._ground.loaded.files),
            auto=self._auto,
            zygote_restarts=self._zygote.restarts,
        )

    def compare(self, fingerprints: dict[str, str]) -> tuple[str, ...]:
        """Return the names of the configured values that differ from `fingerprints`."""
        ours = self._ground.loaded.fingerprints()
        names = [*ours, *(name for name in fingerprints if name not in ours)]
        return tuple(name for name in names if ours.get(name) != fingerprints.get(name))

    async def run(self) -> None:
        """Run until stopped by a signal, the control socket or idleness. Raises `RestartIntensityExceeded`."""
        record = self._ground.runtime_dir / RECORD_NAME
        for left in sweep(record):
            self._report(f"ended {left.name} (process {left.pid}), left behind by an earlier run")
        await self._service.run([self._control.serve, *([self._idleness] if self._auto else [])])
        record.unlink(missing_ok=True)

    async def _idleness(self) -> None:
        """End an auto-started stack that had no client for a while: no relay attached, nothing asked over HTTP."""
        idle = self._ground.loaded.config.limits.idle
        seen, changed = b"", trio.current_time()
        while True:
            await trio.sleep(min(idle / 4, 5.0))
            activity = self._supervisor.activity
            if activity != seen:
                seen, changed = activity, trio.current_time()
            last = max(changed, self._control.last_detached)
            if self._control.attached == 0 and trio.current_time() - last >= idle:
                self._report(f"no client for {idle:g} s; ending")
                self.stop()
                return
