"""What each generated story is made of: shares of the step, load of the machine, the data loader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Loader:
    """A data loader's workers: how long they build one batch and what they spend it on."""

    workers: int
    fetch_s: float
    collate_s: float
    stages: Mapping[str, float]
    """Weights of the stack samples, by stage: read, decode, transform."""
    pin_memory: bool = False
    prefetch_factor: int = 2
    ahead: bool = False
    """Workers start on a batch when one was taken, and are done long before it is needed."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One story. Shares are percent of the step, gpu and cores percent of their capacity."""

    step_s: float
    shares: Mapping[str, float]
    gpu: tuple[float, float, float]
    """Lowest, most frequent and highest utilization: a triangular distribution."""
    cores: float
    iowait: float = 2.0
    busy_cores: int = 0
    """Cores that are at 98 % instead, one a rank: a Python thread that never waits."""
    gpu_memory: float = 62.0
    loader: Loader
    epoch_h: float | None = None
    slow: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    """Rank → (part, seconds): it takes that much longer, and all others wait for it in communication."""


_QUIET = Loader(workers=16, fetch_s=0.3, collate_s=0.02, stages={"read": 60, "decode": 20, "transform": 20},
                pin_memory=True, prefetch_factor=4, ahead=True)  # fmt: skip
# Staggered workers that never pause: a batch takes workers x step. Of the wait, the share in which one of the
# four collates is a quarter of its length over the wait's, so 0.16 s are 4 % of the step.
_STARVED = Loader(workers=4, fetch_s=4.0, collate_s=0.16, stages={"read": 6, "decode": 22, "transform": 28})

SCENARIOS: dict[str, Scenario] = {
    "before": Scenario(
        step_s=1.0,
        shares={"data_loading": 60, "forward": 12, "backward": 20, "optimizer": 8},
        gpu=(20, 45, 55),
        cores=85,
        loader=_STARVED,
        epoch_h=5.9,
    ),
    # Compute takes the same 0.4 s; 2.6 h for 5.9 h leaves 9.2 % for data loading.
    "after": Scenario(
        step_s=0.4 / (1 - 0.0923),
        shares={"data_loading": 9.23, "forward": 27.23, "backward": 45.385, "optimizer": 18.155},
        gpu=(85, 89, 90),
        cores=55,
        loader=_QUIET,
        epoch_h=2.6,
    ),
    "model": Scenario(
        step_s=0.62,
        shares={"data_loading": 4, "forward": 40, "backward": 48, "optimizer": 6, "other": 2},
        gpu=(94, 98, 100),
        cores=40,
        loader=_QUIET,
    ),
    "communication": Scenario(
        step_s=0.7,
        shares={
            "data_loading": 5,
            "forward": 22,
            "backward": 38,
            "communication": 28,
            "optimizer": 5,
            "other": 2,
        },
        gpu=(40, 62, 68),
        cores=35,
        iowait=1,
        loader=_QUIET,
    ),
    "framework": Scenario(
        step_s=0.5,
        shares={"data_loading": 5, "forward": 35, "backward": 40, "optimizer": 15, "other": 5},
        gpu=(30, 42, 55),
        cores=30,
        busy_cores=8,
        loader=_QUIET,
    ),
    "mixed": Scenario(
        step_s=1.0,
        shares={
            "data_loading": 35,
            "forward": 12,
            "backward": 20,
            "communication": 25,
            "optimizer": 6,
            "other": 2,
        },
        gpu=(20, 40, 50),
        cores=85,
        loader=_STARVED,
    ),
    "straggler": Scenario(
        step_s=0.7,
        shares={
            "data_loading": 5,
            "forward": 30,
            "backward": 50,
            "communication": 3,
            "optimizer": 10,
            "other": 2,
        },
        gpu=(40, 60, 68),
        cores=35,
        loader=_QUIET,
        slow={3: ("forward", 0.3)},
    ),
}
