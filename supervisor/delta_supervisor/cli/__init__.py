"""The command line `delta-supervisor`: for people and scripts, over the control socket and the operator's links.

Owns: commands, their words, their JSON and their exit codes. Holds no state and knows no actor's code.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return the exit code.

    A relay and the stack that it starts go ahead of everything: they are part of a client's first answer.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["stdio"]:
        from delta_supervisor.cli.options import parse_flags

        flags = parse_flags(arguments[1:])
        if flags is not None:
            from delta_supervisor.relay.main import relay

            return relay(flags)
    if arguments[:1] == ["up"]:
        from delta_supervisor.cli.options import parse_auto

        auto = parse_auto(arguments)
        if auto is not None:
            from delta_supervisor.cli.up import run_auto

            return run_auto(*auto)
    from delta_supervisor.cli.app import run

    return run(arguments)
