"""`delta_read { refs }`: look-ups, each answered under its own label; one that fails does not touch the others."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import trio

from delta_actors.gateway.answering import Answers
from delta_actors.gateway.caller import Caller
from delta_actors.gateway.catalogues import Catalogues
from delta_actors.mcp import TextContent, ToolResult
from delta_actors.runtime.actor import Ref
from delta_protocol.answers import refs, report
from delta_protocol.answers.compose import SINCE
from delta_protocol.answers.definitions import GUIDE
from delta_protocol.catalogue import describe
from delta_protocol.catalogue.model import Catalogue, Connector
from delta_protocol.catalogue.search import search
from delta_protocol.codecs import exact_json
from delta_protocol.errors import DeadlineExceeded, DeltaError, NotFound, Overloaded
from delta_protocol.nearest import nearest
from delta_protocol.shaping import Place, text_of
from delta_protocol.wire.journal import GetDelta, ListDeltas
from delta_protocol.wire.registry import Services, ServiceStatus, state_word
from delta_protocol.wire.results import LoadResult


class Lookups:
    """Answers references."""

    def __init__(self, registry: Ref, journal: Ref, results: Ref, catalogues: Catalogues, answers: Answers) -> None:
        self._registry = registry
        self._journal = journal
        self._results = results
        self._catalogues = catalogues
        self._answers = answers

    async def read(self, caller: Caller, asked: tuple[str, ...], since: Iterable[str]) -> ToolResult:
        """Return the answers to `asked`, which share the budget."""
        room = (self._answers.budget - 64) // len(asked)
        blocks: list[str] = []
        structured: list[dict[str, Any]] = []
        for ref in asked:
            answer = await self._answer(caller, ref, room - 16)
            structured.append({"ref": ref, **answer})
            body = f"Error: {answer['error']}" if "error" in answer else text_of(answer["value"])
            blocks.append(body if len(asked) == 1 else f"# {ref or 'overview'}\n{body}")
        news = [f"- {note}" for note in since]
        if news:
            blocks.append("\n".join([SINCE, *news[:20]]))
        failed = all("error" in answer for answer in structured)
        text = "\n\n".join(blocks)
        return ToolResult((TextContent(text),), exact_json.encode({"answers": structured}), failed)

    async def _answer(self, caller: Caller, ref: str, room: int) -> dict[str, Any]:
        try:
            with trio.fail_at(caller.deadline):
                value, place = await self._value(refs.parse(ref))
                return {"value": (await self._answers.fitted(value, room, place)).value}
        except (Overloaded, DeadlineExceeded):
            raise
        except DeltaError as error:
            unsaid = [name for name in map(str, error.detail.get("nearest") or ()) if name not in error.message]
            near = f"; nearest: {', '.join(unsaid)}" if unsaid else ""
            return {"error": error.message + near}
        except trio.TooSlowError:
            return {"error": "there was no answer before this request's deadline"}

    async def _value(self, ref: refs.Ref) -> tuple[Any, Place | None]:
        """Return what is asked for, and where it is kept already if it is."""
        match ref:
            case refs.ResultPart():
                return await self._result(ref)
            case refs.Overview():
                return describe.overview(await self._catalogues.newest()), None
            case refs.Named():
                return _described(await self._catalogues.with_started(ref.connector), ref), None
            case refs.Search():
                return _found(await self._catalogues.newest(), ref.words), None
            case refs.Delta():
                return report.whole(await self._journal.ask(GetDelta(ref.id), nowait=True)), None
            case refs.Journal():
                return await self._recent(ref), None
            case refs.Services():
                return _health(await self._registry.ask(Services(), nowait=True)), None
            case refs.Guide():
                return GUIDE, None

    async def _result(self, ref: refs.ResultPart) -> tuple[Any, Place | None]:
        load = LoadResult(ref.id, ref.path, ref.start, ref.end)
        text = await self._results.ask(load, nowait=True)
        counted_from_end = (ref.start or 0) < 0 or (ref.end or 0) < 0
        place = None if counted_from_end else Place(ref.id, ref.path, ref.start or 0, ref.end)
        return exact_json.decode(text, what=ref.id), place

    async def _recent(self, ref: refs.Journal) -> str:
        page = await self._journal.ask(ListDeltas(before=ref.before), nowait=True)
        if not page.deltas:
            return "no deltas" if ref.before is None else "no older deltas"
        now = time.time()
        lines = [report.one_line(delta, now) for delta in page.deltas]
        if page.more:
            lines.append(f"older: journal:{page.deltas[-1].id}")
        return "\n".join(lines)


def _described(catalogue: Catalogue, ref: refs.Named) -> str:
    connector = next((one for one in catalogue.connectors if ref.connector in (one.name, one.namespace)), None)
    if connector is None:
        known = [one.namespace for one in catalogue.connectors]
        near = nearest(ref.connector, known)
        there_is = "" if near else f"; there is: {', '.join(known) or 'none connected'}"
        raise NotFound(f"there is no connector {ref.connector!r}{there_is}", nearest=near)
    if not ref.member:
        return describe.connector(connector)
    return _member(connector, ref.member)


def _member(connector: Connector, name: str) -> str:
    found = [describe.collection(connector, one) for one in connector.collections if one.name == name]
    found += [describe.tool(connector, one) for one in connector.tools if name in (one.name, one.alias)]
    if found:
        return "\n\n".join(found)
    alias = connector.namespace
    known = [one.name for one in connector.collections] + [one.alias for one in connector.tools]
    near = [f"{alias}.{each}" for each in nearest(name, known)]
    raise NotFound(f"{alias} has no tool or collection {name!r}", nearest=near)


def _found(catalogue: Catalogue, words: str) -> str:
    hits = search(catalogue, words)
    if not hits:
        return f"nothing matches {words!r}"
    return "\n".join(f"{hit.connector}.{hit.name} ({hit.kind}) {hit.about}".rstrip() for hit in hits)


def _health(services: tuple[ServiceStatus, ...]) -> str:
    return "\n".join(_service(service) for service in services) or "no connectors are configured"


def _service(service: ServiceStatus) -> str:
    said = [f"{service.name}: {state_word(service)}", f"{service.tools} tools"]
    if service.server:
        said.append(service.server)
    if service.restarts:
        said.append(f"{service.restarts} restarts")
    if service.detail:
        said.append(service.detail)
    return " · ".join(said)
