"""The embedding example of the documentation does what it says."""

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "embed_actors.py"


async def test_actors_run_inside_somebodys_program() -> None:
    spec = importlib.util.spec_from_file_location("embed_actors", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert await module.main() == [
        "1 of 2",
        "2 of 2",
        "total 7.0",
        "nobody sells 'gold'; there is cake, tea",
        "crashed, executed: unknown",
        "total 6.5 after 1 restart",
    ]
