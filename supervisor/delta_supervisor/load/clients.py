"""A client's own `mcp.json` (`mcpServers`), read as it is, as connectors of ours."""

from __future__ import annotations

from typing import Any, cast

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_supervisor.load.names import identifier
from delta_supervisor.load.shape import ConfigurationError, nearest

_KEPT = ("command", "args", "env", "cwd", "url", "headers")
_URL_KEYS = ("serverUrl", "httpUrl")
_SUPPORTED_TYPES = ("stdio", "http", "streamable-http", "streamableHttp", "sse")


def read_client_file(text: bytes, file: str) -> tuple[dict[str, Any], list[str]]:
    """Return the file's `connectors` table and notes on what was renamed or ignored.

    Names that cannot be used in a program are mapped (`get-it` to `get_it`), since the file belongs to another
    program and is not ours to correct. Raises `ConfigurationError`.
    """
    try:
        document = exact_json.decode(text, what=file)
    except Invalid as error:
        raise ConfigurationError(error.message, path=file) from None
    servers: Any = cast("dict[str, Any]", document).get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        keys = list(cast("dict[str, Any]", document)) if isinstance(document, dict) else []
        near = nearest("mcpServers", keys) if keys else ""
        raise ConfigurationError(f"{file} has no `mcpServers` object{near}", path="mcpServers")
    connectors: dict[str, Any] = {}
    notes: list[str] = []
    for name, entry in cast("dict[str, Any]", servers).items():
        if not isinstance(entry, dict):
            raise ConfigurationError(f"`mcpServers.{name}` must be an object [{file}]", path=f"mcpServers.{name}")
        used = identifier(name, taken=connectors)
        if used != name:
            notes.append(f"{file}: `{name}` is called `{used}` in programs")
        connectors[used] = _entry(name, cast("dict[str, Any]", entry), file, notes)
    return connectors, notes


def _entry(name: str, entry: dict[str, Any], file: str, notes: list[str]) -> dict[str, Any]:
    kept = {key: entry[key] for key in _KEPT if entry.get(key) is not None}
    for key in _URL_KEYS:
        if key in entry and "url" not in kept:
            kept["url"] = entry[key]
    if entry.get("disabled") is True or entry.get("enabled") is False:
        kept["enabled"] = False
    kind = entry.get("type", entry.get("transport"))
    if kind is not None and kind not in _SUPPORTED_TYPES:
        raise ConfigurationError(
            f"`mcpServers.{name}.type` cannot be {kind!r}{nearest(str(kind), _SUPPORTED_TYPES)} [{file}]",
            path=f"mcpServers.{name}.type",
        )
    known = {*_KEPT, *_URL_KEYS, "disabled", "enabled", "type", "transport"}
    ignored = [key for key in entry if key not in known]
    if ignored:
        notes.append(f"{file}: `{name}`: the client's own settings {', '.join(ignored)} mean nothing here")
    return kept
