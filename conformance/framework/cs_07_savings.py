"""CS-07: what disclosure and encodings save. Only savings can fail; times are shown as figures.

Tokens are estimated as the original does, a quarter of the characters, so that its bounds mean the same.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

from conformance.framework.target import Target
from conformance.framework.wire import result_of, shorten


def cs_07_01_the_list_of_names_is_short(target: Target) -> str:
    """The list of names costs at most a quarter of the full list."""
    target.need_tools("search", "read_file", "write_file", "list_dir", "run_command", "fail")
    full, names = _tokens({"tools": list(target.tools.values())}), _tokens(_names(target))
    saved = 1 - names / full
    assert saved >= 0.75, f"{saved:.1%}"
    return f"{full} → {names} tokens, −{saved:.1%}"


def cs_07_02_it_costs_few_tokens(target: Target) -> str:
    """It costs less than 600 tokens, and no more than 40 for each tool."""
    names = _names(target)
    cost = _tokens(names)
    assert cost < 600
    assert cost <= 40 * max(1, len(target.tools))
    return f"{cost} tokens"


def cs_07_03_compact_json_is_shorter(target: Target) -> str:
    """compact-json makes the message with it at least 10 % shorter."""
    message = {"jsonrpc": "2.0", "id": 1, "result": _names(target)}
    plain, short = len(_text(message)), len(_text(shorten(message)))
    assert short <= 0.9 * plain
    return f"{plain} → {short} characters, −{1 - short / plain:.1%}"


def cs_07_04_how_long_a_list_takes(target: Target) -> str:
    """Shown, not judged: how long `tools/list` takes."""
    return _median(lambda: result_of(target.plain.ask("tools/list")))


def cs_07_05_how_long_a_first_describe_takes(target: Target) -> str:
    """Shown, not judged: how long describing a tool takes that was not described before."""
    names = iter([*target.tools] * 4)
    return _median(lambda: result_of(target.delta_mcp.ask("tools/describe", name=next(names))), times=len(target.tools))


def cs_07_06_how_long_a_describe_takes_again(target: Target) -> str:
    """Shown, not judged: how long describing it again takes at the server; the client's own memory asks nobody."""
    name = next(iter(target.tools))
    return _median(lambda: result_of(target.delta_mcp.ask("tools/describe", name=name)))


def cs_07_07_how_long_a_call_takes(target: Target) -> str:
    """Shown, not judged: how long `tools/call` takes."""
    target.need_tools("list_dir")
    return _median(lambda: result_of(target.plain.ask("tools/call", name="list_dir", arguments={})))


def cs_07_08_definitions_before_the_first_call(target: Target) -> str:
    """What a model reads before its first call, the list of names and the longest definition, costs at most half of
    the full list. (The original compares with nothing, which is always 100 %.)"""
    target.need_tools("search", "read_file", "write_file", "list_dir", "run_command", "fail")
    full = _tokens({"tools": list(target.tools.values())})
    longest = max(_tokens(result_of(target.delta_mcp.ask("tools/describe", name=name))) for name in target.tools)
    spent = _tokens(_names(target)) + longest
    assert spent <= full / 2, f"{spent} of {full}"
    return f"{full} → {spent} tokens, −{1 - spent / full:.1%}"


def _names(target: Target) -> dict[str, object]:
    return {"tools": result_of(target.delta_mcp.ask("tools/list"))["tools"]}


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _tokens(value: object) -> int:
    return math.ceil(len(_text(value)) / 4)


def _median(ask: Callable[[], object], times: int = 15) -> str:
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return f"{sorted(taken)[len(taken) // 2] * 1000:.1f} ms (median of {times})"
