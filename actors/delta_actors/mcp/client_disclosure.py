"""A client's view of a server's tools that fetches no more than it is asked for (spec 6.3).

Where the server offers the extension, index and search are its own and definitions come one by one; elsewhere the whole
list is fetched once and the same questions are answered from it. The list of a delta-mcp 0.x server has names only, and
its definitions come one by one as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp import delta_mcp, disclosure
from delta_protocol.mcp.disclosure import Entry
from delta_protocol.mcp.errors import NoReply, RpcError

_ShapeT = TypeVar("_ShapeT")

_MAX_PAGES = 1000


class Session(Protocol):
    """What is used of a `DeltaClient`."""

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        ...

    @property
    def announces_tool_changes(self) -> bool:
        """Whether the server tells when its tools change."""
        ...

    async def request(self, method: str, params: Json = b"{}") -> Json:
        """Return a result's JSON text."""
        ...

    async def list_tools(self) -> list[Json]:
        """Return every definition."""
        ...


class _Index(msgspec.Struct, rename="camel"):
    tools: list[Entry]
    next_cursor: str | None = None


class _Described(msgspec.Struct):
    tools: list[Raw]
    unchanged: list[str] = []


class ToolCatalogue:
    """The tools of one session. Definitions are kept until the server says that its tools changed.

    Of a server that never says so, kept definitions are checked by their digests, and a plain list is fetched anew.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._most = disclosure.offered_describe(session.capabilities)
        self._names_only = not self._most and delta_mcp.lists_names(session.capabilities)
        self._list: list[Json] = []
        self._known: dict[str, Json] = {}
        self._fresh: set[str] = set()
        self._listed = False
        self._changes = 0

    @property
    def progressive(self) -> bool:
        """Whether the server offers the extension."""
        return self._most > 0

    def changed(self) -> None:
        """The server's tools changed: what is kept must be checked before it is used again."""
        self._changes += 1
        self._fresh.clear()
        self._listed = False

    async def index(self, query: str | None = None) -> list[Entry]:
        """Return the entries of all tools, or of those about `query`, best first.

        Raises `RpcError`, `NotSent`, `NoReply`.
        """
        if not self._most:
            tools = await self._all()
            found = tools if query is None else disclosure.search(tools, query, len(tools))
            return [disclosure.entry_of(tool) for tool in found]
        entries: list[Entry] = []
        params: dict[str, Any] = {} if query is None else {"query": query}
        seen: set[str] = set()
        for _ in range(_MAX_PAGES):
            page = _read(await self._session.request(disclosure.INDEX, msgspec.json.encode(params)), _Index)
            entries += page.tools
            if page.next_cursor is None:
                return entries
            if page.next_cursor in seen:
                break
            seen.add(page.next_cursor)
            params["cursor"] = page.next_cursor
        raise NoReply(f"{disclosure.INDEX}: the server's pages do not end")

    async def search(self, query: str, limit: int = 10) -> list[Entry]:
        """Return the entries of the best `limit` tools for the words. Raises as `index` does."""
        if not self._most:
            return [disclosure.entry_of(tool) for tool in disclosure.search(await self._all(), query, limit)]
        params = msgspec.json.encode({"query": query, "limit": limit})
        return _read(await self._session.request(disclosure.SEARCH, params), _Index).tools

    async def describe(self, names: Iterable[str]) -> dict[str, Json]:
        """Return the definitions of the named tools; a name that the server does not know is left out.

        Asks only for what is not kept. Raises as `index` does.
        """
        wanted = list(dict.fromkeys(names))
        if not self._most and not self._names_only:
            listed = {disclosure.name_of(tool): tool for tool in await self._all()}
            return {name: listed[name] for name in wanted if name in listed}
        asked = [name for name in wanted if name not in self._fresh]
        found: dict[str, Json] = {name: self._known[name] for name in wanted if name in self._fresh}
        if self._names_only:
            return found | await self._fetch_each(asked)
        for at in range(0, len(asked), self._most):
            found |= await self._fetch(asked[at : at + self._most])
        return {name: found[name] for name in wanted if name in found}

    async def _fetch(self, names: list[str]) -> dict[str, Json]:
        kept = {name: self._known[name] for name in names if name in self._known}
        params: dict[str, Any] = {"names": names}
        if kept:
            params["digests"] = {name: disclosure.digest_of(tool) for name, tool in kept.items()}
        changes = self._changes
        try:
            described = _read(await self._session.request(disclosure.DESCRIBE, msgspec.json.encode(params)), _Described)
        except RpcError as error:
            if not disclosure.all_unknown(error):
                raise
            described = _Described([])
        found = {name: kept[name] for name in described.unchanged if name in kept}
        found |= {disclosure.name_of(bytes(tool)): bytes(tool) for tool in described.tools}
        for name in names:
            self._known.pop(name, None)
        self._known |= found
        if self._session.announces_tool_changes and changes == self._changes:
            self._fresh |= set(found)
        return found

    async def _fetch_each(self, names: list[str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name in names:
            changes = self._changes
            params = msgspec.json.encode({"name": name})
            try:
                found[name] = self._known[name] = await self._session.request(delta_mcp.DESCRIBE, params)
            except RpcError as error:
                if error.code != INVALID_PARAMS:
                    raise
                continue
            if changes == self._changes:
                self._fresh.add(name)
        return found

    async def _all(self) -> list[Json]:
        if not self._listed:
            changes = self._changes
            self._list = await self._session.list_tools()
            self._listed = self._session.announces_tool_changes and changes == self._changes
        return self._list


def _read(text: Json, kind: type[_ShapeT]) -> _ShapeT:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"the answer is against the extension: {error}") from None
