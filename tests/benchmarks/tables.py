"""What a benchmark hands back: tables of figures, as they stand in `docs/benchmarks.md`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """One table: `note` says what was measured and how; rows are cells in the order of `columns`."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return f"## {self.title}\n\n{self.note}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def interleaved(targets: Mapping[str, Callable[[], Sequence[float]]], rounds: int = 5) -> dict[str, list[float]]:
    """Run the targets' rounds in turn, so that the machine's other load hits all alike; return all samples by name."""
    samples: dict[str, list[float]] = {name: [] for name in targets}
    for _ in range(rounds):
        for name, once in targets.items():
            samples[name] += once()
    return samples


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which `share` of all samples lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(samples)


def ms(seconds: float) -> str:
    """Return a time in milliseconds with as many digits as mean something."""
    value = seconds * 1000
    return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"
