"""The commands, as click sees them: which flags there are, and what is printed when one fails."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from delta_protocol.errors import DeltaError
from delta_supervisor.cli.options import SETTINGS, USAGE, exit_code
from delta_supervisor.cli.output import print_error, print_progress
from delta_supervisor.load import Flags

_PATH = click.Path(path_type=Path)
_STACK_OPTIONS = (
    click.option("--config", multiple=True, type=_PATH, help="A delta.toml or a client's mcp.json; may be repeated."),
    click.option("--state-dir", type=_PATH, help="Where the stack keeps its state; also which stack is meant."),
    click.option("--host", help="Address for HTTP."),
    click.option("--port", help="Port for HTTP; 0 takes a free one."),
    click.option("--mode", help="read, ask, safe, auto or full, for the whole stack."),
    click.option("--no-http", is_flag=True, help="Serve clients over stdio only."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting: limits.workers=2."),
)


def stack_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the flags that say which stack is meant and how it is configured; the command gets them as `flags`."""

    @functools.wraps(command)
    def with_flags(
        *,
        config: tuple[Path, ...],
        state_dir: Path | None,
        host: str | None,
        port: str | None,
        mode: str | None,
        no_http: bool,
        settings: tuple[str, ...],
        **rest: object,
    ) -> int:
        short = {"--host": host, "--port": port, "--mode": mode}
        chosen = [(SETTINGS[name], value) for name, value in short.items() if value is not None]
        if no_http:
            chosen.append(("http.enabled", "false"))
        for text in settings:
            key, joined, value = text.partition("=")
            if not joined:
                raise click.UsageError(f"--set takes KEY=VALUE, not {text!r}")
            chosen.append((key, value))
        return command(flags=Flags(config, state_dir, tuple(chosen)), **rest)

    for option in reversed(_STACK_OPTIONS):
        with_flags = option(with_flags)
    return with_flags


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def build() -> click.Group:
    """Return the command group."""
    from delta_supervisor.cli import (
        connector_commands,
        delta_commands,
        login_commands,
        server_commands,
        stack_commands,
        token_commands,
    )

    group = click.Group(
        "delta-supervisor",
        help="One self-hosted stack between an AI and everything it uses.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        commands=[
            *stack_commands.COMMANDS,
            *delta_commands.COMMANDS,
            *connector_commands.COMMANDS,
            *server_commands.COMMANDS,
            *token_commands.COMMANDS,
            *login_commands.COMMANDS,
        ],
    )
    return click.version_option(package_name="delta-supervisor")(group)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every error is words on stderr, and JSON where that was asked for."""
    as_json = "--json" in arguments
    try:
        result = build().main(list(arguments), prog_name="delta-supervisor", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except click.Abort:
        print_progress("ended")
        return 130
    except DeltaError as error:
        print_error(error, as_json=as_json)
        return exit_code(error)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0
