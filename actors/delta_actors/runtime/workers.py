"""A pool of parked tasks that run calls: waking one costs a third of starting a task.

The bound is elsewhere: every link's credit. A worker that finds `KEEP` others parked ends.
"""

from __future__ import annotations

from typing import Protocol

import trio

KEEP = 64


class Job(Protocol):
    """What a worker runs."""

    async def run(self) -> None:
        """Do the work; must raise nothing but cancellation."""
        ...


class WorkerPool:
    """Runs jobs in `nursery`, which must outlive every link that submits."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._parked: list[trio.lowlevel.Task] = []
        self._job: dict[trio.lowlevel.Task, Job] = {}
        self.running = 0
        self.peak = 0
        self._idle = trio.Event()
        self._idle.set()

    def submit(self, job: Job) -> None:
        """Run `job` in the next scheduler pass."""
        if self.running == 0:
            self._idle = trio.Event()
        self.running += 1
        self.peak = max(self.peak, self.running)
        if self._parked:
            task = self._parked.pop()
            self._job[task] = job
            trio.lowlevel.reschedule(task)
        else:
            self._nursery.start_soon(self._work, job)

    async def wait_idle(self) -> None:
        """Wait until nothing runs."""
        await self._idle.wait()

    async def _work(self, job: Job) -> None:
        task = trio.lowlevel.current_task()
        while True:
            try:
                await job.run()
            finally:
                self.running -= 1
                if self.running == 0:
                    self._idle.set()
            if len(self._parked) >= KEEP:
                return
            job = await self._next(task)

    async def _next(self, task: trio.lowlevel.Task) -> Job:
        self._parked.append(task)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return self._job.pop(task)
