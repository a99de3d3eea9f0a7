"""CS-05: encodings, judged by an encoder of their own (`wire`) where there is one."""

from __future__ import annotations

import json
from typing import Any

from conformance.framework.target import Target
from conformance.framework.wire import expand, shorten
from delta_protocol.codecs import cbor, compact, exact_json
from delta_protocol.codecs.negotiate import Format, choose
from delta_protocol.errors import Invalid

_ALL = (Format.CBOR, Format.COMPACT, Format.JSON)
_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "number"}}}
_LIST: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {"tools": [{"name": "search", "description": "Search", "inputSchema": _SCHEMA, "custom": [1.5, None]}]},
}


def cs_05_01_both_cbor_is_cbor(target: Target) -> None:
    """Two sides with CBOR use it."""
    target.need_api()
    assert choose(_ALL, _ALL) is Format.CBOR


def cs_05_02_without_cbor_it_is_compact(target: Target) -> None:
    """Where only one has CBOR they use compact-json."""
    target.need_api()
    assert choose(_ALL, (Format.COMPACT, Format.JSON)) is choose((Format.COMPACT,), _ALL) is Format.COMPACT


def cs_05_03_nothing_in_common_is_json(target: Target) -> None:
    """Where they have nothing in common they use JSON."""
    target.need_api()
    assert choose((Format.CBOR,), (Format.COMPACT,)) is choose((), ()) is Format.JSON


def cs_05_04_compact_carries_a_list(target: Target) -> None:
    """compact-json carries a list of tools there and back, as the independent encoder does."""
    target.need_api()
    assert json.loads(compact.encode(_bytes(_LIST))) == shorten(_LIST)
    assert json.loads(compact.decode(_bytes(shorten(_LIST)))) == expand(shorten(_LIST)) == _LIST


def cs_05_05_its_keys_are_short(target: Target) -> None:
    """The encoded form has the short keys and none of the long ones."""
    target.need_api()
    encoded = compact.encode(_bytes({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})).decode()
    assert '"j":' in encoded
    assert '"m":' in encoded
    assert not any(f'"{key}"' in encoded for key in ("jsonrpc", "method", "params", "id"))


def cs_05_06_decoding_undoes_encoding(target: Target) -> None:
    """Decoding gives back what was encoded, byte for byte, and refuses a message in standard JSON."""
    target.need_api()
    text = _bytes(_LIST)
    assert compact.decode(compact.encode(text)) == text
    try:
        compact.decode(text)
    except Invalid:
        return
    raise AssertionError("a plain message was read as a compact one")


def cs_05_07_other_keys_stay(target: Target) -> None:
    """Keys that are not in the table stay, nested ones too."""
    target.need_api()
    told = {"arguments": {"deep": [{"structuredContent": 1}]}, "nextCursor": "x"}
    assert json.loads(compact.encode(_message(told)))["p"] == told
    _back(told)


def cs_05_08_no_two_keys_share_a_short_one(target: Target) -> None:
    """The table has sixteen entries, and no two keys have the same short one."""
    target.need_api()
    assert len(compact.SHORT) == len(set(compact.SHORT.values())) == 16
    assert not set(compact.SHORT) & set(compact.SHORT.values())


def cs_05_09_json_carries_everything(target: Target) -> None:
    """JSON carries a message there and back, with integers beyond 2**53 as they are."""
    target.need_api()
    value = {**_LIST, "big": 2**63 + 1}
    assert exact_json.decode(exact_json.encode(value)) == value


def cs_05_10_cbor_carries_everything(target: Target) -> None:
    """CBOR carries a message there and back, exactly, and is no other encoding under its name."""
    target.need_api()
    encoded = cbor.encode(_bytes(_LIST))
    assert encoded[0] >> 5 == 5, "a map comes first (RFC 8949 3.1)"
    assert cbor.decode(encoded) == _bytes(_LIST)


def cs_05_11_keys_like_short_ones_survive(target: Target) -> None:
    """A user's keys that equal short ones survive."""
    target.need_api()
    _back({"n": 1, "t": 2, "d": 3, "i": 4, "c": [{"j": 5}]})


def cs_05_12_a_key_and_its_short_one_survive_together(target: Target) -> None:
    """A long key and its short one survive side by side."""
    target.need_api()
    _back({"name": 1, "n": 2, "type": {"type": 3, "tp": 4}})


def cs_05_13_keys_like_an_objects_members_survive(target: Target) -> None:
    """Keys named like the members that objects have in some languages survive."""
    target.need_api()
    _back({"toString": 1, "constructor": 2, "__proto__": {"hasOwnProperty": 3}, "__class__": 4})


def cs_05_14_keys_with_the_escape_survive(target: Target) -> None:
    """Keys that begin with the escape survive."""
    target.need_api()
    _back({"~n": 1, "~~deep": 2, "~": {"~name": 3, "n": 4}})


def _message(params: dict[str, Any]) -> bytes:
    return _bytes({"jsonrpc": "2.0", "id": 1, "method": "x", "params": params})


def _back(params: dict[str, Any]) -> None:
    """Encode with each encoder and decode with the other."""
    message = json.loads(_message(params))
    assert json.loads(compact.decode(_bytes(shorten(message)))) == message
    assert expand(json.loads(compact.encode(_message(params)))) == message


def _bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
