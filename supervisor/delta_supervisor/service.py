"""A supervisor as a process of its own: signals, readiness, watchdog, and the zygote beside it."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence

import trio

from delta_actors.runtime.supervising import RestartIntensityExceeded
from delta_supervisor.notify import Notifier
from delta_supervisor.reap import become_subreaper, reap_orphans
from delta_supervisor.spawn import Zygote
from delta_supervisor.supervisor import Supervisor

_ORPHAN_INTERVAL = 5.0


class Service:
    """Runs `supervisor` until it stops. `on_stop` is called once, when stopping begins."""

    def __init__(
        self,
        supervisor: Supervisor,
        zygote: Zygote,
        notifier: Notifier,
        *,
        report: Callable[[str], None],
        on_ready: Callable[[], None] | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._zygote = zygote
        self._notifier = notifier
        self._report = report
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._stopping = False

    def stop(self) -> None:
        """Begin to stop in order."""
        self._begin_stop()
        self._supervisor.stop()

    async def run(self, beside: Sequence[Callable[[], Awaitable[None]]] = ()) -> None:
        """Run, with the tasks `beside`, until stopped by a signal or `stop`. Raises `RestartIntensityExceeded`."""
        become_subreaper()
        failure: RestartIntensityExceeded | None = None
        try:
            async with trio.open_nursery() as nursery:
                for task in (self._signals, self._readiness, self._watchdog, self._orphans, self._zygote.run, *beside):
                    nursery.start_soon(task)
                try:
                    await self._supervisor.run()
                except RestartIntensityExceeded as error:
                    failure = error
                self._begin_stop()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._zygote.close()
            reap_orphans(frozenset())
        if failure is not None:
            raise failure

    def _begin_stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._notifier.stopping("stopping")
            self._notifier.extend(self._supervisor.stop_bound)
            if self._on_stop is not None:
                self._on_stop()

    async def _signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping:
                    raise KeyboardInterrupt
                self._report(f"stopping ({signal.Signals(number).name}); once more to end at once")
                self.stop()

    async def _readiness(self) -> None:
        announced = False
        while True:
            # Taken before looking, so that no change between the two is missed.
            changed = self._supervisor.changed
            ready, wanted = self._supervisor.ready_count
            words = f"{ready}/{wanted} actors ready"
            if ready == wanted and not announced:
                announced = True
                self._notifier.ready(words)
                if self._on_ready is not None:
                    self._on_ready()
            elif not self._stopping:
                self._notifier.status(words)
            await changed.wait()

    async def _watchdog(self) -> None:
        if self._notifier.watchdog_interval is None:
            return
        while True:
            if self._supervisor.is_alive:
                self._notifier.alive()
            await trio.sleep(self._notifier.watchdog_interval)

    async def _orphans(self) -> None:
        while True:
            await trio.sleep(_ORPHAN_INTERVAL)
            reap_orphans(self._supervisor.pids | {self._zygote.pid})
