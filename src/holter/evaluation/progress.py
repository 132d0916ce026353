"""Stores the results and the progress of rules in `evaluations.json`, so that a restart continues."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from holter.actions._dispatcher import Dispatcher
from holter.evaluation.groups import shown
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.actions._orders import ActionChoice
    from holter.evaluation.evaluator import Evaluator
    from holter.evaluation.facts import FactsTracker
    from holter.evaluation.status import RuleRun
    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.store.job import JobFolder

VERSION = 1
KEPT = 4
"""The version of the data for a restart; another version starts over."""
_WIDEST_STEP_NS = 3_600_000_000_000
"""A restart does not read rows since the last step of a rank if that step is older than this."""


class Progress:
    """Writes statuses, issues and progress of a job's rules, and the steps that were computed.

    Steps are flushed before the progress that depends on them, so a crash in between neither loses nor
    repeats steps.
    """

    def __init__(
        self,
        folder: JobFolder,
        *,
        record: bool = True,
        actions: Sequence[ActionChoice] = (),
        rules: Sequence[Document] = (),
    ) -> None:
        self.folder = folder
        self.record = record
        self.before: Document = folder.evaluations() if record else {}
        kept = self.before.get("actions")
        self.actions = Dispatcher.of(folder, actions if record else (), rules, kept)
        self._writers: dict[str, Writer] = {}
        self._began = time.process_time()
        self._cost = dict(self.before.get("cost") or {})

    def restore(self, runs: Sequence[RuleRun], facts: FactsTracker) -> int | None:
        """Restore rules and facts; returns the moment up to which all was judged, or None to start over.

        A different set of rules starts over, because all rules share one pass.
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
        """Write steps to the store, in the tables of their nodes."""
        if not self.record:
            return
        for node in sorted(set(steps["node"].tolist())):
            mine = steps.where(steps["node"] == node)
            writer = self._writers.setdefault(node, Writer(self.folder, node))
            writer.append("steps", {name: c for name, c in mine.columns.items() if name != "node"})

    def save(self, runs: Sequence[RuleRun], evaluator: Evaluator, *, finished: bool = False) -> None:
        """Write everything. A failed write does not stop the evaluation."""
        if not self.record:
            return
        flushed = all(writer.flush("steps") for writer in self._writers.values())
        here = {run.name for run in runs}
        others = [
            r for r in self.before.get("rules") or [] if isinstance(r, dict) and r.get("name") not in here
        ]
        document: Document = {
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
            # Only now, so that an action's receiver finds the issue in the store.
            self.actions.offer(document["rules"])

    def finish_actions(self, patience_s: float, *, last: bool) -> None:
        """Wait for the running actions and write their results."""
        self.actions.offer(self.before.get("rules") or ())
        self.actions.close(patience_s, last=last)
        if self.actions.changed:
            self._write(self.before)

    def _write(self, document: Document) -> bool:
        self.actions.annotate(document.get("rules") or ())
        if state := self.actions.state() or self.before.get("actions"):
            document["actions"] = state
        try:
            self.folder.write_evaluations(document)
        except OSError:
            return False
        self.before = document
        return True

    def cost(self, evaluator: Evaluator) -> dict[str, float]:
        """Return the cost of the evaluation so far, with earlier runs."""
        return {
            "cpu_s": round(self._cost.get("cpu_s", 0.0) + time.process_time() - self._began, 3),
            "looks": self._cost.get("looks", 0) + evaluator.evaluated,
            "late_spans": self._cost.get("late_spans", 0) + evaluator.late_spans,
        }

    def close(self) -> None:
        """Write the steps that are not written yet."""
        for writer in self._writers.values():
            writer.close()


def reread_from(judged: int, lookback_s: float, steps_done: dict[int, int]) -> int:
    """Return the time from which a restart needs rows again: for lookbacks and unfinished steps."""
    recent = [done for done in steps_done.values() if done > judged - _WIDEST_STEP_NS]
    return min([judged - round(lookback_s * 1e9), *recent])
