"""`list`, `describe`, `call`, `bench`: any MCP server from the shell, without a stack."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from delta_protocol.errors import Invalid
from delta_supervisor.cli.app import json_option
from delta_supervisor.cli.options import DONE, PROGRAM_ERROR
from delta_supervisor.cli.output import print_json, print_progress, print_table, print_text
from delta_supervisor.cli.servers import ServerView, Target, bench, find, texts, use, view

# What follows the first word belongs to the server's own command line.
_SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
_words = click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="URL | COMMAND [ARGS]...")


TargetOf = Callable[[Sequence[str]], Target]


def _server_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the flags that say how a server is reached; the command gets them as `target_of`, which takes its words."""

    @functools.wraps(command)
    def with_target(*, headers: tuple[str, ...], era: str, timeout: float, **rest: object) -> int:
        return command(target_of=functools.partial(_target, headers=headers, era=era, timeout=timeout), **rest)

    for option in reversed(
        (
            click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent with every request."),
            click.option(
                "--era", type=click.Choice(["auto", "legacy", "modern", "delta-mcp"]), default="auto", show_default=True
            ),
            click.option("--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Seconds."),
        )
    ):
        with_target = option(with_target)
    return with_target


def _target(words: Sequence[str], headers: Sequence[str], era: str, timeout: float) -> Target:
    given: dict[str, str] = {}
    for text in headers:
        name, joined, value = text.partition("=")
        if not joined or not name:
            raise click.UsageError(f"--header takes NAME=VALUE, not {text!r}")
        given[name] = value
    if not words:
        raise click.UsageError("name the server first: a URL, or the command that starts it")
    target = Target(tuple(words), given, era, timeout)
    if target.url is not None and len(words) > 1:
        raise click.UsageError(f"{words[0]} is a URL and takes no arguments: {' '.join(words[1:])!r} is too much")
    if era == "delta-mcp" and target.words[0].startswith("ws"):
        raise click.UsageError("delta-mcp is spoken on stdio and over HTTP, not over a WebSocket")
    if given and target.url is None:
        raise click.UsageError("--header is for a URL; a command gets its credentials from the environment")
    return target


@click.command("list", context_settings=_SETTINGS)
@_words
@_server_options
@json_option
def list_tools(words: tuple[str, ...], as_json: bool, target_of: TargetOf) -> int:
    """List a server's tools, and what they cost a model in tokens."""
    found = use(target_of(words), view)
    if as_json:
        print_json(found)
        return DONE
    _head(found)
    print_table(("tool", "tokens", "what it does"), [(t.name, str(t.tokens), t.summary) for t in found.tools])
    costs = found.tokens
    print_text(
        f"\nToken cost: ~{costs['list']} for the whole list, ~{costs['signatures']} as signatures, "
        f"~{costs['summaries']} as names with summaries"
    )
    return DONE


@click.command(context_settings=_SETTINGS)
@click.option("--signature", is_flag=True, help="Print one line instead of the definition.")
@_words
@_server_options
@json_option
def describe(words: tuple[str, ...], signature: bool, as_json: bool, target_of: TargetOf) -> int:
    """Print the definition of one tool; its name comes last: describe URL TOOL."""
    *server, name = words
    tool = use(target_of(server), lambda client: find(client, name))
    if as_json:
        print_json(tool)
    elif signature:
        print_text(tool.signature)
    else:
        print_text(msgspec.json.format(bytes(tool.definition), indent=2).decode())
    return DONE


@click.command(context_settings=_SETTINGS)
@_words
@_server_options
@json_option
def call(words: tuple[str, ...], as_json: bool, target_of: TargetOf) -> int:
    """Call one tool; its name and its arguments as JSON come last: call URL TOOL '{"a": 1}' (- reads stdin).

    The exit code is 1 where the tool itself failed.
    """
    if len(words) < 3:
        raise click.UsageError("call takes a server, a tool and its arguments as JSON")
    *server, name, text = words
    arguments = _arguments(sys.stdin.read() if text == "-" else text)
    target = target_of(server)
    reply = use(target, lambda client: client.call_tool(name, arguments))
    if as_json:
        sys.stdout.buffer.write(reply.result + b"\n")
        return PROGRAM_ERROR if reply.is_error else DONE
    result: dict[str, Any] = msgspec.json.decode(reply.result)
    if reply.is_error:
        print_progress(f"{name} failed: {texts(result)}")
        return PROGRAM_ERROR
    print_text(texts(result))
    return DONE


def _arguments(text: str) -> bytes:
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return text.encode()
    except msgspec.DecodeError as error:
        raise Invalid(f"the arguments are no JSON: {error}: {text!r:.200}", what="arguments") from None
    raise Invalid(f"the arguments must be a JSON object, not {text!r:.200}", what="arguments")


@click.command("bench", context_settings=_SETTINGS)
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="How many lists are timed.")
@_words
@_server_options
@json_option
def bench_server(words: tuple[str, ...], count: int, as_json: bool, target_of: TargetOf) -> int:
    """Measure a server: tokens of its tools whole and in short, time to the first list, time of a further one."""
    found, timing = bench(target_of(words), count)
    if as_json:
        print_json({"server": found, "milliseconds": timing})
        return DONE
    _head(found)
    whole = found.tokens["list"]
    rows = [
        (kind, str(cost), f"{100 * (1 - cost / whole):.1f}%" if whole else "") for kind, cost in found.tokens.items()
    ]
    print_table((f"{len(found.tools)} tools as", "tokens", "saved"), rows)
    print_text(
        f"\nStart to first list: {timing.first_list} ms\nA further list (median of {timing.count}): {timing.list} ms"
    )
    return DONE


def _head(found: ServerView) -> None:
    print_text(f"{found.name} {found.version} · protocol {found.protocol} · {len(found.tools)} tools\n")


COMMANDS = (list_tools, describe, call, bench_server)
