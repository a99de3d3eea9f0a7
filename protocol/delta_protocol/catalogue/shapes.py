"""A tool as inference sees it: its parameters, and where in its output entities are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.model import Effect, Tool
from delta_protocol.codecs import exact_json

Path = tuple[str | int, ...]
Entity = Mapping[str, schemas.Schema]
"""Fields of an entity and their schemas."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`required` are parameter names in schema order; `root` schemas are kept for local references."""

    name: str
    effect: Effect
    input_root: schemas.Schema
    output_root: schemas.Schema | None
    parameters: Mapping[str, schemas.Schema]
    required: tuple[str, ...]

    def is_scalar(self, parameter: str) -> bool:
        """Whether the parameter takes one string or number."""
        return schemas.is_scalar(self.parameters.get(parameter, schemas.EMPTY), self.input_root)

    def entity(self, is_one: Callable[[Iterable[str]], bool]) -> tuple[Path, Entity] | None:
        """Return where in the decoded output the one entity is, and its fields: the output itself, or its only member
        that is an object. None where the output schema does not show it."""
        root = self.output_root
        if root is None:
            return None
        outer = schemas.properties(root)
        if list(outer) == ["result"]:
            # Decoding takes a lone `result` away (results.decoded).
            outer = schemas.properties(outer["result"], root)
        if is_one(outer):
            return (), outer
        inner = [(name, schema) for name, schema in outer.items() if schemas.is_a("object", schema, root)]
        if len(inner) != 1:
            return None
        fields = schemas.properties(inner[0][1], root)
        return ((inner[0][0],), fields) if is_one(fields) else None

    def entities(self, key: str) -> Path | None:
        """Return where in the decoded output the list of entities with the field `key` is, or None if that is not
        certain."""
        root = self.output_root
        if root is None:
            return None
        if schemas.is_a("array", root, root):
            return () if key in schemas.properties(schemas.items(root, root), root) else None
        outer = schemas.properties(root)
        arrays = [
            name
            for name, schema in outer.items()
            if schemas.is_a("array", schema, root) and key in schemas.properties(schemas.items(schema, root), root)
        ]
        if len(arrays) != 1:
            return None
        return () if list(outer) == ["result"] else (arrays[0],)


def of_tool(tool: Tool) -> Shape:
    """Return the tool's shape."""
    given = schemas.as_schema(exact_json.decode(tool.input_schema, what=f"input schema of {tool.name}"))
    shown = exact_json.decode(tool.output_schema) if tool.output_schema else None
    return Shape(
        name=tool.name,
        effect=tool.effect,
        input_root=given,
        output_root=schemas.as_schema(shown) if shown else None,
        parameters=schemas.properties(given),
        required=schemas.required(given),
    )


def match_fields(parameters: Iterable[str], fields: Iterable[str]) -> dict[str, str]:
    """Return field -> parameter, by equal name, then by equal name but for case and underscores. What matches two is
    left out."""
    names, known = list(parameters), list(fields)
    exact = {name: name for name in names if name in known}
    loose: dict[str, list[str]] = {}
    for field in known:
        loose.setdefault(_loose(field), []).append(field)
    for name in names:
        candidates = [field for field in loose.get(_loose(name), ()) if field not in exact]
        if name not in exact.values() and len(candidates) == 1 and len(loose[_loose(name)]) == 1:
            exact[candidates[0]] = name
    return {field: exact[field] for field in known if field in exact}


def _loose(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
