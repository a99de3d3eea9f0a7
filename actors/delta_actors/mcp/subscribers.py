"""Who is told of changes: legacy sessions by bare notifications, modern clients by `subscriptions/listen`.

Several changes before a subscriber comes round count as one (acceptance 49).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec
import trio

from delta_actors.mcp.context import Channel
from delta_actors.mcp.resources import MAX_SUBSCRIPTIONS, ResourceSource, WatchableResources, Watcher
from delta_protocol.jsonrpc import Json, encode_notification
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.tasks import CAPABILITY, EXTENSION, not_declared
from delta_protocol.mcp.types import json_array, json_object
from delta_protocol.mcp.versions import META_SUBSCRIPTION
from delta_protocol.wire.message import Principal

Concerns = Callable[[Watcher], bool]
"""Tells whether a change is this watcher's business."""
Kind = Literal["tools", "prompts", "resources"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a subscriber hears of: lists, resources by URI (the set may change meanwhile), its owner's tasks by id."""

    kinds: Collection[Kind] = KINDS
    uris: Collection[str] = ()
    tasks: Collection[str] = ()
    owner: str = ""
    watcher: Watcher | None = None


class Subscription:
    """One subscriber: the lists, resources and tasks it wants to hear of, and what of them changed since it last heard.

    Of a task it hears only what it is at last.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._moved: dict[str, dict[str, Any]] = {}
        self._changed: dict[Kind, None] = {}
        self._updated: dict[str, None] = {}
        self._waiting = trio.Event()

    def changed(self, kind: Kind) -> None:
        """Note that a list changed."""
        if kind in self._wanted.kinds:
            self._changed[kind] = None
            self._waiting.set()

    @property
    def watched(self) -> Iterable[tuple[str, Watcher]]:
        """The resources that are watched, and by whom."""
        watcher = self._wanted.watcher
        return () if watcher is None else [(uri, watcher) for uri in self._wanted.uris]

    def updated(self, uri: str, concerns: Concerns | None) -> None:
        """Note that a resource changed, if that `concerns` the subscriber."""
        watcher = self._wanted.watcher
        if uri in self._wanted.uris and (concerns is None or (watcher is not None and concerns(watcher))):
            self._updated[uri] = None
            self._waiting.set()

    def task_moved(self, owner: str, task: str, state: dict[str, Any]) -> None:
        """Note what one of the owner's tasks is now."""
        if owner == self._wanted.owner and task in self._wanted.tasks:
            self._moved[task] = state
            self._waiting.set()

    async def tell(self, channel: Channel, meta: dict[str, Any] | None = None) -> None:
        """Send what changed, as it does, until cancelled. `meta` goes into every notification."""
        members: dict[str, Any] = {"_meta": meta} if meta else {}
        while True:
            await self._waiting.wait()
            self._waiting = trio.Event()
            kinds, uris, moved = tuple(self._changed), tuple(self._updated), tuple(self._moved.values())
            self._changed.clear()
            self._updated.clear()
            self._moved.clear()
            for kind in kinds:
                await channel.notify(_note(f"notifications/{kind}/list_changed", members))
            for uri in uris:
                await channel.notify(_note("notifications/resources/updated", {"uri": uri} | members))
            for task in moved:
                await channel.notify(_note("notifications/tasks", task | members))


def _note(method: str, params: dict[str, Any]) -> bytes:
    return encode_notification(method, msgspec.json.encode(params) if params else None)


class Subscribers:
    """The subscribers of one server. `offered` returns its capabilities as they are now; `source` has the resources."""

    def __init__(self, offered: Callable[[], dict[str, Any]], source: ResourceSource) -> None:
        self._offered = offered
        self._source = source if isinstance(source, WatchableResources) else None
        self._touches = 0
        self._touched = trio.Event()
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    @contextmanager
    def subscribe(self, wanted: Wanted) -> Generator[Subscription, None, None]:
        """Give a subscription for the length of the block."""
        subscription = Subscription(wanted)
        self._subscriptions.add(subscription)
        self.touched()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self.touched()

    async def begin(self, uri: str, watcher: Watcher) -> None:
        """Return once the resource's changes will be told. Raises what `WatchableResources.watch_resource` raises."""
        if self._source is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._source.watch_resource(uri, watcher)

    def touched(self) -> None:
        """Who watches what is different now, or may be."""
        self._touches += 1
        touched, self._touched = self._touched, trio.Event()
        touched.set()

    async def wait_touched(self, seen: int) -> int:
        """Return, once who watches what may be different than it was at `seen`, what to call it with the next time."""
        while self._touches == seen:
            await self._touched.wait()
        return self._touches

    def watched(self) -> set[tuple[str, Watcher]]:
        """Return the resources that are watched now over an open connection, and by whom."""
        return {each for subscription in self._subscriptions for each in subscription.watched}

    def changed(self, kind: Kind) -> None:
        """Tell every subscriber that a list changed."""
        for subscription in self._subscriptions:
            subscription.changed(kind)

    def updated(self, uri: str, concerns: Concerns | None = None) -> None:
        """Tell those who subscribed to it that a resource changed; with `concerns`, those of them whom it concerns."""
        for subscription in self._subscriptions:
            subscription.updated(uri, concerns)

    def task_moved(self, owner: str, task: str, state: dict[str, Any]) -> None:
        """Tell the owner's streams that asked for it what a task is now (spec 1.17)."""
        for subscription in self._subscriptions:
            subscription.task_moved(owner, task, state)

    def honoured(self, call: IncomingCall, principal: Principal, conversation: str) -> Wanted:
        """Return what of a listen request's filter this server can serve.

        Raises `RpcError` -32021 for tasks that a client asks for without having declared the extension.
        """
        wanted = json_object(decode_member(call.params, "notifications"))
        offered = self._offered()
        kinds: list[Kind] = [
            kind
            for kind in KINDS
            if wanted.get(f"{kind}ListChanged") is True and json_object(offered.get(kind)).get("listChanged")
        ]
        asked = json_array(wanted.get("resourceSubscriptions"))
        uris = {uri: None for uri in asked if isinstance(uri, str)}
        subscribable = json_object(offered.get("resources")).get("subscribe")
        served = list(uris)[:MAX_SUBSCRIPTIONS] if subscribable else []
        watcher = Watcher(principal, conversation, call.client, call.capabilities)
        return Wanted(kinds, served, self._honoured_tasks(call, offered, wanted), principal.id, watcher)

    async def begun(self, wanted: Wanted) -> list[str]:
        """Return the wanted resources whose changes will be told."""
        begun: list[str] = []
        for uri in wanted.uris:
            with contextlib.suppress(RpcError):
                if wanted.watcher is not None:
                    await self.begin(uri, wanted.watcher)
                begun.append(uri)
        return begun

    @staticmethod
    def _honoured_tasks(call: IncomingCall, offered: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
        asked = {name: None for name in json_array(wanted.get("taskIds")) if isinstance(name, str)}
        if not asked or EXTENSION not in json_object(offered.get("extensions")):
            return []
        if CAPABILITY not in call.capabilities:
            raise not_declared("subscriptions/listen with taskIds")
        return list(asked)[:MAX_SUBSCRIPTIONS]


def is_listen(call: IncomingCall) -> bool:
    """Return whether the call is the modern era's long-lived subscription (spec 1.9)."""
    return call.era == "modern" and call.method == "subscriptions/listen"


async def listen(call: IncomingCall, wanted: Wanted, subscribers: Subscribers, channel: Channel) -> None:
    """Serve `subscriptions/listen` until cancelled. Only what is `wanted` after `Subscribers.honoured` is sent."""
    meta: dict[str, Any] = {META_SUBSCRIPTION: call.id}
    honoured: dict[str, Any] = {f"{kind}ListChanged": True for kind in wanted.kinds}
    if wanted.tasks:
        honoured["taskIds"] = wanted.tasks
    with subscribers.subscribe(wanted) as subscription:
        if uris := await subscribers.begun(wanted):
            honoured["resourceSubscriptions"] = uris
        acknowledged = msgspec.json.encode({"notifications": honoured, "_meta": meta})
        await channel.notify(encode_notification("notifications/subscriptions/acknowledged", acknowledged))
        await subscription.tell(channel, meta)


def listen_result(call: IncomingCall) -> Json:
    """Return the result that ends a subscription gracefully."""
    return msgspec.json.encode({"_meta": {META_SUBSCRIPTION: call.id}})
