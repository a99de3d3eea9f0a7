"""What a tool's input schema says plainly: which parameters it needs, and whether one takes null."""

from __future__ import annotations

from typing import Any

from delta_protocol.catalogue.model import Tool
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object


def required_parameters(tool: Tool) -> frozenset[str]:
    """Return the names of the parameters that must be given."""
    required = _schema(tool).get("required")
    return frozenset(name for name in required if isinstance(name, str)) if is_array(required) else frozenset()


def takes_null(tool: Tool, parameter: str) -> bool:
    """Return whether null may be given; where the schema does not say plainly, it may."""
    properties = _schema(tool).get("properties")
    declared = properties.get(parameter) if is_object(properties) else None
    kinds = declared.get("type") if is_object(declared) else None
    if kinds is None:
        return True
    return "null" in kinds if is_array(kinds) else kinds == "null"


def _schema(tool: Tool) -> dict[str, Any]:
    schema = exact_json.decode(tool.input_schema)
    return schema if is_object(schema) else {}
