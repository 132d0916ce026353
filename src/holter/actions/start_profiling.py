"""Request a window of detailed profiling."""

from __future__ import annotations

from dataclasses import dataclass

from holter.actions import Action, ActionFailed, Limits, Occasion, Secrets, parameter, written
from holter.analysis.verdict.evidence import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProfiling(Action):
    """Write the request of `holter profile` into the job's `control.json`."""

    description = "asks for a window of detailed profiling of the next steps"
    also_called = (
        "trace",
        "profile",
    )
    limits = Limits(cooldown_s=600, max_per_run=5)

    steps: int = parameter(5, low=1, high=10_000)
    """The number of steps in the window."""
    operators: bool = parameter(True)
    """Whether operators and kernels are recorded."""
    python: str = parameter("", choices=("", "cprofile", "pyinstrument"))
    """The profiler of Python code, by default none."""
    dataloader: bool = parameter(False)
    """Whether the workers of the data loader are profiled."""
    rank: int | None = parameter(None, low=0)
    """The rank; by default that of the issue, or every rank if the issue has none."""

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Write the request; refuse when no agent follows it."""
        if occasion.over:
            raise ActionFailed("refused: the job has ended")
        given = occasion.issue.get("rank")
        # Findings about a whole node or job have rank -1.
        rank = (
            self.rank if self.rank is not None else given if isinstance(given, int) and given >= 0 else None
        )
        request = {
            "id": occasion.id,
            "steps": self.steps,
            "operators": self.operators,
            "python": self.python or None,
            "dataloader": self.dataloader,
            "rank": rank,
            "by": {"rule": occasion.rule},
        }
        with written("the request"):
            occasion.folder.order(profile=request)
        nodes = occasion.folder.nodes()
        deaf = sorted(name for name, facts in nodes.items() if "profile" not in (facts.get("obeys") or ()))
        if len(deaf) == len(nodes):
            where = f" ({', '.join(deaf)})" if deaf else ""
            raise ActionFailed(
                f"refused: no agent of this job{where} starts profiling windows; they are older than this "
                "command: run the job with this version of holter. The request is written"
            )
        done = f"asked for {counted(self.steps, 'step')}" + (f" of rank {rank}" if rank is not None else "")
        return done + (f"; not on {', '.join(deaf)}, whose agent is too old" if deaf else "")
