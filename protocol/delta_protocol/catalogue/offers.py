"""What connectors offer beside tools, and under which names clients see it (three-tools 14, acceptance 3 and 59).

A resource, template or prompt keeps its own name where no other connector has it. On a clash every one of them is
qualified: a prompt becomes `<connector>.<name>`, a URI `delta://<connector>/<uri>`. Qualified names always work. Names
depend on nothing but what is offered, so they are the same after a restart.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.mcp.uri_templates import BadTemplate, UriTemplate
from delta_protocol.wire.message import Json

LONGEST_NAME = 64
"""Characters of a name that every client takes (acceptance 3)."""
OWN = "delta://"

List = Literal["resources", "templates", "prompts"]


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """One connector's lists, as JSON texts of upstream definitions, and which of the protocol's parts it has."""

    connector: str
    resources: tuple[Json, ...] = ()
    templates: tuple[Json, ...] = ()
    prompts: tuple[Json, ...] = ()
    has: tuple[str, ...] = ()
    """Of `resources`, `resources.subscribe`, `resources.listChanged`, `prompts`, `prompts.listChanged`, `completions`,
    `logging`."""


class Offers(msgspec.Struct, frozen=True, array_like=True):
    """All connectors' offers, in configuration order. `number` grows by one with every change."""

    number: int
    offers: tuple[Offer, ...]

    def has(self, part: str) -> bool:
        """Whether any connector has the part."""
        return any(part in offer.has for offer in self.offers)


class Target(msgspec.Struct, frozen=True):
    """Where a name leads: a connector, and the name or URI that it knows."""

    connector: str
    name: str


def short_name(name: str) -> str:
    """Return a name that clients take: the name itself, or a cut one with a hash that is the same after a restart."""
    return name if len(name) <= LONGEST_NAME else _cut(name)


def _cut(name: str) -> str:
    return f"{name[: LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class Shown:
    """The offers as clients see them. `resources`, `templates` and `prompts` are the definitions to list."""

    def __init__(self, offers: Offers) -> None:
        self.number = offers.number
        self.offers = offers
        self._prompts: dict[str, Target] = {}
        self._uris: dict[str, Target] = {}
        self._templates: dict[str, Target] = {}
        self._shown_uris: dict[tuple[str, str], str] = {}
        self.prompts = self._name_prompts(offers.offers)
        self.resources = self._name_uris(offers.offers, "resources", "uri", self._uris)
        self.templates = self._name_uris(offers.offers, "templates", "uriTemplate", self._templates)

    def prompt(self, name: str) -> Target | None:
        """Return the prompt of that name, qualified or as it is shown."""
        found = self._prompts.get(name)
        if found is not None:
            return found
        connector, dot, own = name.partition(".")
        while dot:
            if any(connector == offer.connector and own in _names(offer.prompts, "name") for offer in self._all):
                return Target(connector, own)
            more, dot, own = own.partition(".")
            connector = f"{connector}.{more}"
        return None

    def template(self, template: str) -> Target | None:
        """Return the template that is shown so, or the resource of that URI: what a completion is for."""
        return self._templates.get(template) or self.resource(template)

    def resource(self, uri: str) -> Target | None:
        """Return where a URI leads: a listed resource, a qualified one, one that a template makes.

        Any other leads to the one connector that has resources at all, or that has some of the URI's scheme; None where
        that is not certain.
        """
        return self._uris.get(uri) or self._qualified(uri) or self._by_template(uri) or self._by_scheme(uri)

    def shown_uri(self, connector: str, uri: str) -> str:
        """Return how a connector's URI is shown to clients."""
        shown = self._shown_uris.get((connector, uri))
        if shown is not None:
            return shown
        return uri if self.resource(uri) == Target(connector, uri) else f"{OWN}{connector}/{uri}"

    def renames(self, connector: str) -> bool:
        """Whether some of the connector's resources are shown under another URI than its own."""
        return connector in self._renaming

    @cached_property
    def _renaming(self) -> frozenset[str]:
        return frozenset(connector for (connector, uri), shown in self._shown_uris.items() if shown != uri)

    @property
    def _all(self) -> Sequence[Offer]:
        return self.offers.offers

    def _name_prompts(self, offers: Sequence[Offer]) -> list[Json]:
        counts = Counter(name for offer in offers for name in set(_names(offer.prompts, "name")))
        shown: list[Json] = []
        for offer in offers:
            for text in offer.prompts:
                name = _member(text, "name")
                qualified = f"{offer.connector}.{name}"
                wanted = short_name(qualified if counts[name] > 1 else name)
                for free in (wanted, short_name(qualified), _cut(qualified)):
                    if free not in self._prompts:
                        self._prompts[free] = Target(offer.connector, name)
                        shown.append(_renamed(text, name=free))
                        break
        return shown

    def _name_uris(self, offers: Sequence[Offer], kind: List, key: str, targets: dict[str, Target]) -> list[Json]:
        lists = [(offer.connector, getattr(offer, kind)) for offer in offers]
        counts = Counter(uri for _, texts in lists for uri in set(_names(texts, key)))
        shown: list[Json] = []
        for connector, texts in lists:
            for text in texts:
                uri = _member(text, key)
                own = counts[uri] == 1 and not uri.startswith(OWN)
                free = uri if own else f"{OWN}{connector}/{uri}"
                if free in targets:
                    continue
                targets[free] = Target(connector, uri)
                self._shown_uris[connector, uri] = free
                shown.append(_renamed(text, **{key: free, "name": short_name(_member(text, "name"))}))
        return shown

    def _qualified(self, uri: str) -> Target | None:
        if not uri.startswith(OWN):
            return None
        connector, _, own = uri.removeprefix(OWN).partition("/")
        known = any(offer.connector == connector for offer in self._all)
        return Target(connector, own) if own and known else None

    def _by_template(self, uri: str) -> Target | None:
        makers = {connector for connector, template in self._compiled if template.match(uri) is not None}
        return Target(makers.pop(), uri) if len(makers) == 1 else None

    def _by_scheme(self, uri: str) -> Target | None:
        if uri in self._ambiguous or any(template.match(uri) is not None for _, template in self._compiled):
            return None
        able = [offer for offer in self._all if "resources" in offer.has]
        if len(able) > 1:
            scheme = uri.partition(":")[0]
            able = [offer for offer in able if scheme in _schemes(offer)]
        return Target(able[0].connector, uri) if len(able) == 1 else None

    @cached_property
    def _ambiguous(self) -> frozenset[str]:
        return frozenset(target.name for shown, target in self._uris.items() if shown != target.name)

    @cached_property
    def _compiled(self) -> list[tuple[str, UriTemplate]]:
        compiled: list[tuple[str, UriTemplate]] = []
        for offer in self._all:
            for text in _names(offer.templates, "uriTemplate"):
                try:
                    compiled.append((offer.connector, UriTemplate(text)))
                except BadTemplate:
                    continue
        return compiled


def usable(texts: Iterable[Json], kind: List) -> tuple[Json, ...]:
    """Return the definitions that have what names them; one that has not must not spoil the list (acceptance 18)."""
    key = {"resources": "uri", "templates": "uriTemplate", "prompts": "name"}[kind]
    return tuple(text for text in texts if _member(text, key) and _member(text, "name"))


def _names(texts: Iterable[Json], key: str) -> list[str]:
    return [_member(text, key) for text in texts]


def _member(text: Json, key: str) -> str:
    try:
        definition: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    value = definition.get(key) if is_object(definition) else None
    return value if isinstance(value, str) else ""


def _renamed(text: Json, **members: str) -> Json:
    definition: dict[str, Any] = exact_json.decode(text)
    changed = {key: value for key, value in members.items() if definition.get(key) != value}
    if not changed:
        return text
    if "name" in changed:
        definition.setdefault("title", definition["name"])
    return exact_json.encode({**definition, **changed})


def _schemes(offer: Offer) -> set[str]:
    uris = [*_names(offer.resources, "uri"), *_names(offer.templates, "uriTemplate")]
    return {uri.partition(":")[0] for uri in uris}
