"""Messages to the registry, which owns the connectors and the catalogue."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from delta_protocol.catalogue.model import Catalogue, ConnectorState
from delta_protocol.catalogue.offers import Offers
from delta_protocol.wire.message import Done, Event, Item, Json, Request


class GetCatalogue(Request[Catalogue], frozen=True):
    """The newest snapshot, or the one of that number. `NotFound` when it is no longer kept."""

    number: int | None = None


class NewestCatalogue(Request[int], frozen=True):
    """The newest snapshot's number: what a holder of that snapshot need not fetch again."""


class CatalogueChanged(Item, frozen=True):
    """A newer snapshot exists. `notes` say what changed, in words."""

    number: int
    notes: tuple[str, ...] = ()


class WatchCatalogue(Request[Done], frozen=True):
    """Stays open; a `CatalogueChanged` item flows down for every new snapshot after `since`."""

    since: int


class StartConnectors(Event, frozen=True):
    """A client has had its first answer: start what is not started yet (at most four at once)."""


class Outcome(StrEnum):
    """What became of a call to a connector.

    `ok`: an answer without `isError`. `tool_error`: an answer with `isError`. `refused`: a JSON-RPC error: not made.
    `not_sent`: nothing left this process. `no_reply`: sent, no answer: unknown.
    """

    OK = "ok"
    TOOL_ERROR = "tool_error"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    NO_REPLY = "no_reply"


class ToolReply(msgspec.Struct, frozen=True, array_like=True):
    """`result` is the upstream CallToolResult as JSON text (null unless `ok` or `tool_error`)."""

    outcome: Outcome
    result: Json = b"null"
    message: str = ""
    """For people: the tool's own error text, or why there is no answer."""
    retry_after: float | None = None
    """Seconds, where the connector said so (429/503 before acceptance)."""


class ReadTool(Request[ToolReply], frozen=True):
    """Call a tool that only reads. A tool that may write is refused with `WriteNotPlanned`.

    This and the two below raise `NotFound`, `Refused`, `WriteNotPlanned`, `Conflict`, `Invalid`, `Overloaded` and
    `ConnectorFailed` before anything is sent; only `DeadlineExceeded` and `ActorCrashed` leave open whether it was.
    A tool may be named by its own name or by its alias.
    """

    connector: str
    tool: str
    arguments: Json


class WriteTool(Request[ToolReply], frozen=True):
    """One planned call. Only the journal's link may send it; `key` is the idempotency key, `digest` the tool's pin.

    Never repeated by the registry. A call in flight is not cut by cancellation.
    """

    connector: str
    tool: str
    arguments: Json
    delta: str
    call: str
    key: str
    digest: str


class PassReply(msgspec.Struct, frozen=True, array_like=True):
    """What a connector made of a client's own request.

    `result` is the result's JSON text (null unless `ok` or `tool_error`), `error` the connector's JSON-RPC error object
    where the outcome is `refused`. A modern connector's result may ask for input (spec 1.8): then the request is sent
    again with the answers.
    """

    outcome: Outcome
    result: Json = b"null"
    error: Json | None = None
    message: str = ""
    """For people: why there is no result."""


class PassTool(Request[PassReply], frozen=True):
    """A client's direct call of a connector with ``expose = "tools"``; refused for any other.

    `responses` (a JSON object by key) and `state` answer what an earlier result asked for.
    """

    connector: str
    tool: str
    arguments: Json
    responses: Json | None = None
    state: str | None = None


class PassRequest(Request[PassReply], frozen=True):
    """A client's `resources/read`, `prompts/get` or `completion/complete`. `params` is a JSON object without `_meta`.

    Raises `NotFound`, `Refused`, `Overloaded` before anything is sent.
    """

    connector: str
    method: str
    params: Json
    responses: Json | None = None
    state: str | None = None


class GetOffers(Request[Offers], frozen=True):
    """What the connectors offer beside tools, as last listed."""


class OffersChanged(Item, frozen=True):
    """There is a newer `Offers`."""

    number: int


class WatchOffers(Request[Done], frozen=True):
    """Stays open; an `OffersChanged` item flows down at once and then for whatever is newer, and a `ResourceUpdated`
    for every change of a resource that is watched.
    """


class WatchResource(Request[Done], frozen=True):
    """The client behind the call subscribes to a connector's resource; answered once its changes will be told.

    Changes flow as `ResourceUpdated` down `WatchOffers`; a new `WatchOffers` ends all subscriptions before it. However
    many clients subscribe, the connector is asked once for each of its sessions. Raises `Refused` where the connector
    does not tell changes, `ConnectorFailed`, `Overloaded`.
    """

    connector: str
    uri: str


class UnwatchResource(Request[Done], frozen=True):
    """Ends what `WatchResource` began, for the same client."""

    connector: str
    uri: str


class ResourceUpdated(Item, frozen=True):
    """A connector says that a resource changed.

    Where its session belongs to a principal or a conversation, so does the news: it must reach nobody else.
    """

    connector: str
    uri: str
    principal: str = ""
    conversation: str = ""


class ListsShown(Event, frozen=True):
    """A client was shown the connectors' lists: those that may be out of date are listed again."""


class ServiceStatus(msgspec.Struct, frozen=True, array_like=True):
    """One connector, for people and `delta_read {refs: ["services"]}`."""

    name: str
    state: ConnectorState
    detail: str = ""
    server: str = ""
    era: str = ""
    pid: int | None = None
    tools: int = 0
    restarts: int = 0
    junk_lines: int = 0
    """stdout lines that were no messages (acceptance 29)."""
    stderr_tail: str = ""
    begun: bool = True
    """Whether it was ever asked to start."""


def state_word(service: ServiceStatus) -> str:
    """Return the state for people: a connector that nothing has begun to start yet is `idle`."""
    return "idle" if service.state is ConnectorState.STARTING and not service.begun else str(service.state)


class HeldTool(msgspec.Struct, frozen=True, array_like=True):
    """A tool that changed since its connector was looked at: which parts, its upstream objects, the digest it has."""

    tool: str
    alias: str
    parts: tuple[str, ...]
    before: Json
    now: Json
    digest: str


class HeldTools(Request[tuple[HeldTool, ...]], frozen=True):
    """A connector's tools that are held until a person accepts what they are now. Raises `NotFound`."""

    connector: str


class AcceptTools(Request[Done], frozen=True):
    """A person looked at the tools with these digests. Only from the operator; raises `Refused`, `NotFound`."""

    connector: str
    digests: tuple[str, ...]


class Services(Request[tuple[ServiceStatus, ...]], frozen=True):
    """The connectors' health, in configuration order."""


Inbox = (
    GetCatalogue
    | NewestCatalogue
    | WatchCatalogue
    | StartConnectors
    | ReadTool
    | WriteTool
    | PassTool
    | PassRequest
    | GetOffers
    | WatchOffers
    | WatchResource
    | UnwatchResource
    | ListsShown
    | HeldTools
    | AcceptTools
    | Services
)
