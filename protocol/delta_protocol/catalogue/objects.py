"""Collections, found in a connector's listing (three-tools 5, plan-apply-undo 5.7).

A wrong guess is worse than none. A collection is inferred only where the reader of one entity says, in its output
schema, what an entity looks like; each further operation is bound only where its parameters and its output leave no
second reading. Everything else stays a plain tool; the user's configuration and shipped profiles say what the listing
does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from delta_protocol.catalogue.elements import infer_elements
from delta_protocol.catalogue.families import Named, families
from delta_protocol.catalogue.mapping import apply_mapping
from delta_protocol.catalogue.model import Binding, Collection, Effect, Tool
from delta_protocol.catalogue.profiles import Profile
from delta_protocol.catalogue.shapes import Shape, match_fields, of_tool
from delta_protocol.config import ConnectorConfig

KEYS = ("id", "iid", "key", "uuid", "slug", "path", "number", "name", "identifier")
VERSIONS = ("version", "etag", "revision", "rev", "updated_at", "updatedAt", "updated", "modified_at", "modifiedAt")
CURSORS = ("cursor", "page", "page_token", "pageToken", "next_page_token", "after", "starting_after", "offset")
LIST_NOISE = frozenset({*CURSORS, "limit", "per_page", "perPage", "page_size", "pageSize", "sort", "order", "order_by"})


def infer(
    tools: Sequence[Tool], config: ConnectorConfig, profile: Profile | None = None
) -> tuple[tuple[Collection, ...], tuple[str, ...]]:
    """Return the connector's collections, and in words what of profile and configuration did not fit its tools.

    Order: as the tools' nouns appear, then those only a profile or the configuration knows. A configured collection
    completes or replaces, operation by operation, what was inferred; so does a profile's, before it.
    """
    usable = [tool for tool in tools if not tool.fault and not tool.gone]
    shapes = {tool.name: of_tool(tool) for tool in usable}
    found: dict[str, Collection] = {}
    if config.infer:
        for noun, members in families(shapes).items():
            collection = _collection(noun, members, shapes)
            if collection and collection.name not in {tool.alias for tool in tools}:
                found[collection.name] = collection
    notes: list[str] = []
    for source, mappings in (("profile", profile.collections if profile else {}), ("configured", config.collections)):
        for name, mapping in mappings.items():
            result, faults = apply_mapping(name, found.get(name), mapping, shapes, source)
            notes += faults
            if result:
                found[name] = result
    return tuple(found.values()), tuple(notes)


def _collection(noun: tuple[str, ...], members: Iterable[Named], shapes: Mapping[str, Shape]) -> Collection | None:
    roles = _roles(members)
    reader = _only(roles.get("get", ()), shapes)
    if reader is None or reader.effect is not Effect.READ or len(reader.required) != 1:
        return None
    parameter = reader.required[0]
    if not reader.is_scalar(parameter):
        return None
    place = reader.entity(lambda names: entity_key(parameter, noun, names) is not None)
    if place is None:
        return None
    result, entity = place
    key = entity_key(parameter, noun, entity)
    if key is None:
        return None
    name = "_".join(noun)
    return Collection(
        name=name,
        noun=noun[-1],
        key=key,
        get=Binding(reader.name, key=parameter, result=result),
        list=_lister(_only(roles.get("list", ()), shapes), key, entity, need=()),
        search=_searcher(_only(roles.get("search", ()), shapes), key, entity),
        create=_creator(_only(roles.get("create", ()), shapes), key, entity),
        update=_updater(_only(roles.get("update", ()), shapes), parameter, key, entity),
        delete=_deleter(_only([*roles.get("delete", ()), *roles.get("remove", ())], shapes), parameter),
        elements=infer_elements(noun, parameter, entity, reader, shapes),
        fields=tuple(entity),
        version=next((field for field in VERSIONS if field in entity and field != key), None),
    )


def _roles(members: Iterable[Named]) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {}
    for member in members:
        roles.setdefault(member.role, []).append(member.tool)
    return roles


def _only(names: Sequence[str], shapes: Mapping[str, Shape]) -> Shape | None:
    """Two tools for one role leave open which is meant."""
    return shapes[names[0]] if len(names) == 1 else None


def entity_key(parameter: str, noun: Sequence[str], fields: Iterable[str]) -> str | None:
    """Return the entity's field that the reader's parameter is the value of: the same name, or the parameter without
    the noun in front (`ticket_id`, `ticketId` -> `id`); only names that keys have."""
    names = set(fields)
    plain = parameter.replace("_", "").lower()
    for prefix in ("".join(noun), noun[-1]):
        bare = plain.removeprefix(prefix)
        if bare != plain and bare in KEYS:
            if parameter in names:
                return parameter
            return next((name for name in names if name.lower() == bare), None)
    return parameter if parameter.lower() in KEYS and parameter in names else None


def _lister(tool: Shape | None, key: str, entity: Mapping[str, object], need: tuple[str, ...]) -> Binding | None:
    if tool is None or tool.effect is not Effect.READ or tool.required != need:
        return None
    result = tool.entities(key)
    if result is None:
        return None
    filters = [name for name in tool.parameters if name not in LIST_NOISE]
    cursor = next((name for name in CURSORS if name in tool.parameters), None)
    return Binding(tool.name, fields=match_fields(filters, entity), result=result, cursor=cursor)


def _searcher(tool: Shape | None, key: str, entity: Mapping[str, object]) -> Binding | None:
    if tool is None or len(tool.required) > 1:
        return None
    binding = _lister(tool, key, entity, need=tool.required)
    if binding is None or not tool.required:
        return binding
    return Binding(tool.name, fields={"": tool.required[0]}, result=binding.result, cursor=binding.cursor)


def _creator(tool: Shape | None, key: str, entity: Mapping[str, object]) -> Binding | None:
    if tool is None or tool.effect is Effect.READ:
        return None
    fields = match_fields(tool.parameters, entity)
    place = tool.entity(lambda names: key in names)
    if place is None or not set(tool.required) <= set(fields.values()):
        return None
    return Binding(tool.name, fields=fields, result=place[0])


def _updater(tool: Shape | None, parameter: str, key: str, entity: Mapping[str, object]) -> Binding | None:
    if tool is None or tool.effect is Effect.READ or tool.required != (parameter,):
        return None
    settable = [name for name in tool.parameters if name != parameter]
    fields = {field: name for field, name in match_fields(settable, entity).items() if field != key}
    return Binding(tool.name, key=parameter, fields=fields) if fields else None


def _deleter(tool: Shape | None, parameter: str) -> Binding | None:
    if tool is None or tool.effect is Effect.READ or tool.required != (parameter,):
        return None
    return Binding(tool.name, key=parameter)
