"""Tasks that serve a block and never outlive it, without wrapping the block's own exceptions into groups."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def background() -> AsyncGenerator[trio.Nursery, None]:
    """Give a nursery whose tasks are cancelled when the block ends; what the block raises is raised as it is.

    For tasks that turn their errors into state: an error they raise all the same ends the block and comes as a group.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
