"""Exact types and whole descriptions, for `delta_read {refs: [...]}` and the command line.

A connector's own words are marked as such and shown without what cannot be seen (acceptance 72).
"""

from __future__ import annotations

from delta_protocol.catalogue import notation, schemas, signatures
from delta_protocol.catalogue.model import Binding, Catalogue, Collection, Connector, ConnectorState, Effect, Tool
from delta_protocol.catalogue.notation import Level
from delta_protocol.catalogue.visible import one_line, visible
from delta_protocol.codecs import exact_json

DESCRIPTION_LENGTH = 8_000
PARAMETER_LENGTH = 300


def overview(catalogue: Catalogue) -> str:
    """Every connector with its collections and tool names (`refs: [""]`)."""
    return "\n".join(_names(connector) for connector in catalogue.connectors)


def connector(given: Connector) -> str:
    """All collections and tools of one connector with full signatures (`refs: ["<connector>"]`)."""
    lines = [_heading(given)]
    lines += [signatures.collection_line(given, collection, Level.EXACT) for collection in given.collections]
    lines += [signatures.tool_line(tool, Level.EXACT) for tool in given.tools]
    return "\n".join(lines)


def tool(given: Connector, one: Tool) -> str:
    """Exact types, effect with its reason, and the whole description of one tool (`refs: ["<connector>.<name>"]`)."""
    alias = given.namespace
    lines = [f"{alias}.{signatures.tool_line(one, Level.EXACT)}"]
    if one.alias != one.name:
        lines.append(f"its own name: {signatures.quoted(one.name)}")
    if one.fault:
        lines.append(f"unusable: {one.fault}")
    lines.append(f"effect: {one.effect} ({one.reason})")
    lines += [f"but {rule.then} when {rule.argument} matches {rule.pattern}" for rule in one.rules]
    lines += _parameters(one)
    if one.output_schema:
        root = schemas.as_schema(exact_json.decode(one.output_schema))
        lines.append(f"returns: {notation.kind(root, root, Level.EXACT) or 'string'}")
    text, hidden = visible(one.description)
    if hidden:
        lines.append(f"warning: the description contained {', '.join(hidden)}, taken out here")
    if text.strip():
        lines.append(f"{given.name} says:\n{_quoted_block(text)}")
    return "\n".join(lines)


def collection(given: Connector, one: Collection) -> str:
    """Exact types of one collection and the tools behind it (`refs: ["<connector>.<name>"]`)."""
    alias = given.namespace
    lines = [f"{alias}.{signatures.collection_line(given, one, Level.EXACT)}", f"key: {one.key or '(the whole value)'}"]
    for operation in ("get", "list", "search", "create", "update", "delete"):
        binding: Binding | None = getattr(one, operation)
        if binding:
            lines.append(f"{operation}: {binding.tool}")
    lines += [f"edited by: {binding.tool}" for binding in one.edits]
    for element in one.elements:
        for verb, bound in (("push", element.add), ("remove", element.remove), ("change", element.update)):
            if bound:
                lines.append(f"{element.field} {verb}: {bound.tool}")
    if one.version:
        lines.append(f"version field: {one.version}")
    lines.append(f"{one.source}; change it under [connectors.{given.name}.collections.{one.name}]")
    return "\n".join(lines)


def _heading(given: Connector) -> str:
    """The connector's name and what it is; how it is at the moment is for `services` to say."""
    alias = given.namespace
    if given.state is ConnectorState.GONE:
        return f"## {alias}: gone, {one_line(given.detail, 200)}"
    if not given.tools:
        return f"## {alias}: nothing is known of it yet; services says how it is"
    server = f"{one_line(given.server, 80)} · " if given.server else ""
    trust = "" if given.trusted else " · its annotations do not count"
    return f"## {alias}: {server}mode {given.mode}{trust}"


def _names(given: Connector) -> str:
    if given.state is ConnectorState.GONE:
        return _heading(given)
    lines = [_heading(given)]
    if given.collections:
        lines.append(f"collections: {' '.join(one.name for one in given.collections)}")
    tools = [f"{one.alias}{'' if one.effect is Effect.READ else '!'}" for one in given.tools if not one.gone]
    if tools:
        lines.append(f"tools: {' '.join(tools)}")
    return "\n".join(lines)


def _parameters(one: Tool) -> list[str]:
    """One line for each parameter that says something about itself beyond its type."""
    root = schemas.as_schema(exact_json.decode(one.input_schema))
    lines: list[str] = []
    for name, schema in schemas.properties(root).items():
        about = schema.get("description")
        said = [one_line(about, PARAMETER_LENGTH)] if isinstance(about, str) and about.strip() else []
        said += [f"{key} {notation.literal(schema[key])}" for key in _FACTS if key in schema]
        if said:
            lines.append(f"  {notation.member(name)}: {' · '.join(said)}")
    return lines


_FACTS = ("default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")


def _quoted_block(text: str) -> str:
    cut = text if len(text) <= DESCRIPTION_LENGTH else f"{text[:DESCRIPTION_LENGTH]}…"
    return "\n".join(f"> {line}" for line in cut.strip().splitlines())
