"""A stack of quiet actors as a process: `python -m tests.supervisor.program STATE_DIR [SETTING=VALUE...]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import trio

from delta_actors.runtime import RestartIntensityExceeded
from delta_protocol.config import ActorConfig
from delta_protocol.errors import DeltaError
from delta_protocol.wire.message import Role
from delta_supervisor.cli.options import exit_code
from delta_supervisor.load import Flags, load
from delta_supervisor.notify import Notifier
from delta_supervisor.prepare import ACTORS, prepare
from delta_supervisor.spawn import Zygote
from delta_supervisor.stack import Stack

QUICK = ActorConfig(heartbeat=0.1, heartbeat_timeout=1.0, stop_timeout=2.0)


def report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    pairs = tuple((key, value) for key, _, value in (argument.partition("=") for argument in sys.argv[2:]))
    loaded = load(Flags(state_dir=Path(sys.argv[1]), settings=(("http.port", "0"), *pairs)), os.environ, Path.cwd())
    config = msgspec.structs.replace(loaded.config, actors=dict.fromkeys(Role, QUICK))
    loaded = type(loaded)(
        config, loaded.state_dir, loaded.state_dir_origin, loaded.origins, loaded.notes, loaded.files, loaded.chosen
    )
    try:
        ground = prepare(loaded, os.environ, command="test")
    except DeltaError as error:
        report(error.message)
        return exit_code(error)
    factories = dict.fromkeys(ACTORS, "tests.supervisor.actors:Quiet")
    factories[Role.TRANSPORT] = "tests.supervisor.actors:Talker"

    async def run() -> None:
        await Stack(
            ground, Zygote(report=report), factories=factories, report=report, notifier=Notifier(os.environ)
        ).run()

    code = 0
    try:
        trio.run(run)
    except* RestartIntensityExceeded:
        code = 70
    ground.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
