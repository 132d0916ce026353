"""How far the rules got, kept in the store as `evaluations.json`, so that a restart goes on."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from holter.actions._dispatcher import Dispatcher
from holter.evaluation.groups import shown
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.evaluation.evaluator import Evaluator
    from holter.evaluation.facts import FactsTracker
    from holter.evaluation.status import RuleRun
    from holter.schema.table import Table
    from holter.store.job import JobFolder

VERSION = 1
KEPT = 3
"""Version of what a restart needs; a restart from another one starts over."""
_WIDEST_STEP_NS = 3_600_000_000_000
"""A rank whose last step is older than this does not make a restart read everything since then."""


class Progress:
    """Writes statuses, issues and progress of a job's rules, and the steps that were worked out.

    Steps are flushed before the progress that depends on them: what the store holds is what was done, so a
    crash in between costs nothing and doubles nothing.
    """

    def __init__(
        self,
        folder: JobFolder,
        *,
        record: bool = True,
        actions: Sequence[Mapping[str, Any]] = (),
        rules: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.folder = folder
        self.record = record
        self.before: dict[str, Any] = folder.evaluations() if record else {}
        kept = self.before.get("actions")
        self.actions = Dispatcher.of(folder, actions if record else (), rules, kept)
        self._writers: dict[str, Writer] = {}
        self._began = time.process_time()
        self._cost = dict(self.before.get("cost") or {})

    def restore(self, runs: Sequence[RuleRun], facts: FactsTracker) -> int | None:
        """Put rules and facts back to where they were; returns up to when all was judged, `None` = nothing.

        Other rules than before start over, all of them, since they share one pass.
        """
        progress = self.before.get("progress") or {}
        if progress.get("version") != KEPT or progress.get("judged") is None:
            return None
        kept = progress.get("rules")
        if not isinstance(kept, dict) or set(kept) != {run.name for run in runs}:
            return None
        try:
            if not all(run.restore(kept[run.name]) for run in runs):
                return None
            facts.restore(progress["facts"])
            judged = int(progress["judged"])
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            # Written by another version, or damaged: start over.
            return None
        return judged if facts.start - 1 <= judged < 2**63 else None

    @property
    def finished(self) -> bool:
        """Whether an earlier run has judged the whole job."""
        return bool((self.before.get("progress") or {}).get("finished"))

    def keep_steps(self, steps: Table) -> None:
        """Put steps into the store, in the tables of their nodes."""
        if not self.record:
            return
        for node in sorted(set(steps["node"].tolist())):
            mine = steps.where(steps["node"] == node)
            writer = self._writers.setdefault(node, Writer(self.folder, node))
            writer.append("steps", {name: c for name, c in mine.columns.items() if name != "node"})

    def save(self, runs: Sequence[RuleRun], evaluator: Evaluator, *, finished: bool = False) -> None:
        """Write everything. A store that cannot be written costs this save, not the evaluation."""
        if not self.record:
            return
        flushed = all(writer.flush("steps") for writer in self._writers.values())
        here = {run.name for run in runs}
        others = [
            r for r in self.before.get("rules") or [] if isinstance(r, dict) and r.get("name") not in here
        ]
        document: dict[str, Any] = {
            "schema": VERSION,
            "updated": time.time_ns(),
            "pid": os.getpid(),
            "rules": shown(runs) + others,
            "cost": self.cost(evaluator),
            "progress": self.before.get("progress"),
        }
        if flushed:
            document["progress"] = {
                "version": KEPT,
                "judged": evaluator.judged,
                "finished": finished,
                "facts": evaluator.facts.kept(evaluator.judged),
                "rules": {run.name: run.kept() for run in runs},
            }
        if self._write(document):
            # Only now: who is told of an issue shall find it in the store.
            self.actions.offer(document["rules"])

    def settle(self, patience_s: float, *, last: bool) -> None:
        """Wait for the actions that are under way, and write down what became of them."""
        self.actions.offer(self.before.get("rules") or ())
        self.actions.close(patience_s, last=last)
        if self.actions.changed:
            self._write(self.before)

    def _write(self, document: dict[str, Any]) -> bool:
        self.actions.annotate(document.get("rules") or ())
        if state := self.actions.state() or self.before.get("actions"):
            document["actions"] = state
        try:
            self.folder.write_evaluations(document)
        except OSError:
            return False
        self.before = document
        return True

    def cost(self, evaluator: Evaluator) -> dict[str, Any]:
        """Return what judging cost so far, earlier runs included."""
        return {
            "cpu_s": round(self._cost.get("cpu_s", 0.0) + time.process_time() - self._began, 3),
            "looks": self._cost.get("looks", 0) + evaluator.looks,
            "late_spans": self._cost.get("late_spans", 0) + evaluator.late_spans,
        }

    def close(self) -> None:
        """Write what steps still wait."""
        for writer in self._writers.values():
            writer.close()


def reread_from(judged: int, lookback_s: float, steps_done: dict[int, int]) -> int:
    """Return from when on rows are needed again after a restart: for lookbacks, and for unfinished steps."""
    recent = [done for done in steps_done.values() if done > judged - _WIDEST_STEP_NS]
    return min([judged - round(lookback_s * 1e9), *recent])
