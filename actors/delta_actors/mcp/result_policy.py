"""Keeps tool results within a number of tokens: the whole is stored once, and read on page by page.

A tool is run once whatever its result's length, and its own arguments are never looked at: pages are asked for by
`read_stored_result` alone.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_protocol import tokens
from delta_protocol.codecs import exact_json
from delta_protocol.errors import NotFound
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.rate_limits import rate_limit
from delta_protocol.mcp.result_pages import Count, Measure, needs_pages, page_of, shown_text
from delta_protocol.mcp.types import Content, TextContent, ToolResult

READ = "read_stored_result"
"""The tool that reads on; a server with a policy lets no other have this name."""


@dataclass(frozen=True, slots=True)
class ResultPolicy:
    """How long results may be. `max_tokens` and `page_size` (items of an array) bound what is shown at once.

    `count` counts tokens exactly where the estimate, which is on the safe side, is not good enough. Of each principal
    `kept` results and `kept_bytes` are kept, for `kept_seconds`, and of `principals` who came last; the oldest give
    way. Raises `Invalid` for bounds that are none.
    """

    max_tokens: int = 2000
    page_size: int = 50
    count: Count = tokens.estimate
    kept: int = 100
    kept_bytes: int = 32 << 20
    kept_seconds: float = 3600.0
    principals: int = 256

    @property
    def measure(self) -> Measure:
        """The bounds of a page."""
        return Measure(self.max_tokens, self.page_size, self.count)


@dataclass(slots=True)
class _Shelf:
    results: OrderedDict[str, tuple[float, bytes]] = field(default_factory=OrderedDict[str, tuple[float, bytes]])
    size: int = 0

    def drop_oldest(self) -> None:
        _, (_, text) = self.results.popitem(last=False)
        self.size -= len(text)


class StoredResults:
    """Whole results in memory, by principal and handle."""

    def __init__(self, policy: ResultPolicy) -> None:
        self._policy = policy
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()

    def save(self, principal: str, text: bytes) -> str | None:
        """Keep a result's JSON text and return its handle; None where it is more than may be kept."""
        if len(text) > self._policy.kept_bytes:
            return None
        shelf = self._shelves.setdefault(principal, _Shelf())
        self._shelves.move_to_end(principal)
        while len(self._shelves) > self._policy.principals:
            self._shelves.popitem(last=False)
        now = time.monotonic()
        while shelf.results and (
            len(shelf.results) >= self._policy.kept
            or shelf.size + len(text) > self._policy.kept_bytes
            or next(iter(shelf.results.values()))[0] < now - self._policy.kept_seconds
        ):
            shelf.drop_oldest()
        handle = f"r_{secrets.token_hex(6)}"
        shelf.results[handle] = (now, text)
        shelf.size += len(text)
        return handle

    def load(self, principal: str, handle: str) -> bytes:
        """Return a result's JSON text. Raises `NotFound` for one that is not kept, or is somebody else's."""
        shelf = self._shelves.get(principal)
        stored = None if shelf is None else shelf.results.get(handle)
        if stored is None or stored[0] < time.monotonic() - self._policy.kept_seconds:
            raise NotFound(f"there is no result {handle}: it expired, or was never stored for you", id=handle)
        return stored[1]


class ResultShaper:
    """Applies a policy to the tools of one server."""

    def __init__(self, policy: ResultPolicy) -> None:
        self._measure = policy.measure
        self._stored = StoredResults(policy)

    def shape(self, result: ToolResult, context: RequestContext, *, structured: bool) -> ToolResult:
        """Return a result whose text fits. `structured`: an output schema is declared, its content stays whole."""
        content: list[Content] = []
        cut = False
        for block in result.content:
            shown = self._block(block, result.structured, context)
            cut = cut or shown is not None
            content += [block] if shown is None else shown
        if not cut:
            return result
        return ToolResult(content, result.structured if structured else None, result.is_error, result.meta)

    def failed(self, raised: Exception, tool: str) -> ToolResult | None:
        """Return the result that an upstream's rate limit becomes, None for any other exception."""
        limit = rate_limit(raised, tool, time.time())
        return None if limit is None else ToolResult.text(msgspec.json.encode(limit).decode())

    async def read(
        self,
        result: str,
        context: RequestContext,
        page: Annotated[int, msgspec.Meta(ge=1)] = 1,
        path: list[str | int] | None = None,
    ) -> ToolResult:
        """Read on in a long result, by its handle and page.

        `path` leads to a part of it: keys and positions, as the result tells them.
        """
        value = exact_json.decode(self._stored.load(context.principal.id, result), what=result)
        return ToolResult(self._page(value, result, tuple(path or ()), page))

    def _block(self, block: Content, structured: Json | None, context: RequestContext) -> list[Content] | None:
        """Return what a text block becomes that does not fit, None for anything else."""
        if not isinstance(block, TextContent):
            return None
        value = _value(block.text, structured)
        if not needs_pages(value, self._measure):
            return None
        handle = self._stored.save(context.principal.id, exact_json.encode(value))
        return self._page(value, handle, (), 1)

    def _page(self, value: Any, handle: str | None, path: tuple[str | int, ...], number: int) -> list[Content]:  # noqa: ANN401 - any JSON value
        page = page_of(value, path, number, self._measure)
        told = {**page.told, **_note(page.told, handle)}
        blocks: list[Content] = [] if page.text is None else [TextContent(page.text)]
        return [*blocks, TextContent(shown_text(told))] if told else blocks


def _note(told: dict[str, Any], handle: str | None) -> dict[str, Any]:
    """Return where the rest is: a page by its number only where there is one."""
    if not told:
        return {}
    key = "_note" if "_summarized" in told else "note"
    if handle is None:
        return {key: "The rest was too much to be kept; ask for less."}
    ways = [f"page={told['page'] + 1} reads on"] if told["hasMore"] else []
    if "_summarized" in told or any(_is_cut(item) for item in told.get("items", ())):
        ways.append("path reads one part")
    asks = f": {READ} with result={handle}, {'; '.join(ways)}" if ways else ""
    return {"result": handle, key: f"Page {told['page']} of {told['totalPages']}{asks}."}


def _is_cut(item: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(item, dict) and "truncated" in item and "path" in item


def _value(text: str, structured: Json | None) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a block shows: what its JSON says where it repeats structured content, else its text."""
    if structured is None:
        return text
    wrapped = exact_json.decode(structured)
    shown = text.encode()
    if shown == structured:
        return wrapped
    return wrapped["result"] if structured == b'{"result":' + shown + b"}" else text
