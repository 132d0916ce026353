"""`TensorRule`: the base of all rules about tensors, which selects tensors, judges each step and reports."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.parameters import suggestion
from holter.rules import BadRule, Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.step_rows import RankSteps, StepRows, rank_steps
from holter.rules.engine.tensor_parts import join_parts, of_rank_zero
from holter.rules.patterns.collections import belongs, check_patterns, has_role, matches, pairs_of, tested
from holter.rules.patterns.latest import Latest
from holter.rules.patterns.tensor_issues import TensorFinding, issues_of
from holter.schema.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

MODES = ("train", "eval", "predict", "global")
_KEYS = ("time", "rank", "step", "mode", "name", "node")
_COUNTS = ("role", "state", "count", "nan", "posinf", "neginf")


@rule_class
class TensorRule(Rule):
    """Judges tensors step by step, each rank by itself; the parts of a sharded tensor are joined first.

    Rules about non-finite numbers or elements judge each part on its own rank.
    """

    reads: ClassVar[tuple[str, ...]] = ("tensors",)

    roles: ClassVar[tuple[str, ...]] = ("",)
    """The roles to judge if no names are given; a role with a final colon is a prefix."""
    statistics: ClassVar[tuple[str, ...]] = ()
    """The columns of table `tensors` that are needed."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of table `tensor_values` that are needed."""
    nonfinite: ClassVar[bool] = False
    """Whether tensors without a finite element are judged too."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """Patterns of the logged number that it looks up at a step."""
    save: ClassVar[str] = "weights@100"
    """The option of `--save` that records its tensors."""
    saves: ClassVar[bool] = False
    """Whether `holter run` with this rule saves them without `--save`."""

    tensor_regex: tuple[str, ...] | None = parameter(None)
    """Patterns of the tensors to judge, anywhere in their names; none = chosen by role."""
    collection_names: tuple[str, ...] | None = parameter(None)
    """Collections whose tensors are judged in addition to those of the patterns."""
    exclude_regex: tuple[str, ...] | None = parameter(None)
    """Patterns of tensors that are never judged."""
    start_step: int = parameter(0, low=0, unit="steps")
    """The first step that is judged."""
    end_step: int | None = parameter(None, low=0, unit="steps")
    """The first step that is not judged any more."""
    mode: tuple[str, ...] | None = parameter(None)
    """Only these of train, eval, predict, global; global means any."""
    successive: int = parameter(1, low=1, aliases=("consecutive",))
    """At how many evaluations of the same tensor in a row the condition must hold."""
    every: int = parameter(1, low=1, unit="saved steps")
    """Judge only each so-many-th saved step."""
    ranks: str = parameter("all", classic="one")
    """Whose tensors: all, one (rank 0), or ranks separated by commas."""
    max_findings: int = parameter(100, low=1)
    """Number of different findings that are reported; further ones are counted."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        object.__setattr__(self, "mode", tuple(m.casefold() for m in self.mode) if self.mode else None)
        for mode in self.mode or ():
            if mode not in MODES:
                near = suggestion(mode, MODES, "; did you mean {!r}?")
                self._refuse("mode", mode, " or ".join(MODES) + near)
        if self.ranks not in ("all", "one") and not re.fullmatch(r"\d+(\s*,\s*\d+)*", self.ranks):
            self._refuse("ranks", self.ranks, "all, one, or whole numbers separated by commas")
        for name in (f.name for f in fields(self) if f.name.endswith("regex")):
            check_patterns(self, name, *(getattr(self, name) or ()))

    def _refuse(self, name: str, value: object, valid: str) -> None:
        raise BadRule(f"{type(self).__name__}: {name}={value!r} is not valid; it takes {valid}")

    def wants(self, name: str, role: str) -> bool:
        """Return whether the rule judges a tensor."""
        if matches(self.exclude_regex, name):
            return False
        if self.tensor_regex is None and self.collection_names is None:
            return has_role(role, self.roles)
        return matches(self.tensor_regex, name) or any(
            belongs(collection, name, role) for collection in self.collection_names or ()
        )

    def fresh(self, window: Window) -> dict[str, Table]:
        """Return the new rows of each table that is judged."""
        tables = ("tensors", "tensor_values") if self.kinds else ("tensors",)
        return {table: window.new(table) for table in tables}

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Yield the tensors of one step that meet the condition."""
        raise NotImplementedError

    def doubtful(self, window: Window, table: Table, edges: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which rows of many steps can be findings, so that other steps are skipped.

        Args:
            window: The window.
            table: Their rows, step by step.
            edges: Where the rows of each step begin, and where those of the last end.

        Returns:
            A mask, which becomes the column `doubtful` for `judge`; None if any row can be a finding.
        """
        return None

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep the values of a step that is not judged, for comparison with later steps."""

    def say(self, findings: list[TensorFinding], step: int) -> str:
        """Return a sentence about findings of one code at one step, the worst first."""
        worst, more = findings[0], len(findings) - 1
        others = f", and of {counted(more, 'more tensor')}" if more else ""
        numbers = f"{worst.value:.4g}{worst.unit} {worst.comparator} {worst.threshold:.4g}{worst.unit}"
        return f"{worst.what} of {worst.tensor} at step {step}: {numbers}{others}"

    def evaluate(self, window: Window) -> Issues:
        """Judge each step that is complete now."""
        logged = Latest(window, self.scalars) if self.scalars else None
        new = self.fresh(window)
        if not window.job.ended and not any(table.rows for table in new.values()):
            window.idle = True
            return
        state = window.state
        steps = rank_steps(self._chosen(window, new), state, ended=window.job.ended)
        counts, steps = self._sifted(window, steps)
        for at, (rows, good, skipped, doubtful) in zip(steps, counts, strict=True):
            if not rows:
                continue
            at.logged = logged
            state["matched"] = state.get("matched", 0) + 1
            count = state.setdefault("saved", {}).get(str(at.rank), 0)
            state["saved"][str(at.rank)] = count + 1
            late = self.end_step is not None and at.step >= self.end_step
            if at.step < self.start_step or late or count % self.every:
                self.remember(window, at)
            elif not (doubtful or skipped or state.get("streaks")):
                window.judged(good)  # the usual case: this step has no findings
            else:
                found = list(self.judge(window, at))
                limits = {"successive": self.successive, "max_findings": self.max_findings}
                yield from issues_of(self, window, at, found, say=self.say, **limits)
        if state.get("skipped_nonfinite"):
            window.details["skipped_nonfinite"] = state["skipped_nonfinite"]
        if not window.points and window.lack is None:
            self._lacking(window)

    def _sifted(self, window: Window, steps: RankSteps) -> tuple[list[list[int]], RankSteps]:
        """Add columns to the rows of all steps: finite elements, and which rows can be judged or be findings.

        Returns:
            For each step the number of rows, of rows to judge, of skipped rows and of possible findings; and
            the steps.
        """
        table = steps.tables["tensors"]
        finite = table["count"] - (table["nan"] + table["posinf"] + table["neginf"])
        some, filled = table["count"] > 0, finite > 0
        columns = {**table.columns, "finite": finite, "good": some if self.nonfinite else some & filled}
        columns["skipped"] = np.zeros(table.rows, dtype=bool) if self.nonfinite else some & ~filled
        edges, good = steps.edges["tensors"], columns["good"]
        doubtful = self.doubtful(window, Table(columns), edges)
        columns["doubtful"] = good if doubtful is None else doubtful & good
        sums = [np.append(0, np.cumsum(columns[name])) for name in ("good", "skipped", "doubtful")]
        counts = [np.diff(edges), *(np.diff(one[edges]) for one in sums)]
        if doubtful is None:
            counts[3] = counts[0]
        table = Table(columns)
        return np.column_stack(counts).tolist(), replace(steps, tables={**steps.tables, "tensors": table})

    def _lacking(self, window: Window) -> None:
        if window.state.get("matched") or window.state.get("waiting", {}).get("tensors"):
            window.idle = not window.job.ended
            window.insufficient("too_few_points", "no saved step could be judged", have=0, need=1)
            return
        asked = [*(self.collection_names or ()), *(self.tensor_regex or ())]
        wanted = ", ".join(asked or self.roles)
        text = f"no tensor was recorded{wanted and f' as {wanted}'}; run with --save {self.save}"
        window.insufficient("no_match", text)

    def _chosen(self, window: Window, new: Mapping[str, Table]) -> dict[str, Table]:
        """Return the new rows of the selected ranks, modes and tensors, with the needed columns."""
        chosen = {}
        others: set[str] = set()
        for name, table in new.items():
            narrow = self._narrowed(table)
            if name == "tensors":
                whole = narrow is window.new("tensors")
                found = window.answered("pairs", partial(pairs_of, narrow)) if whole else pairs_of(narrow)
                pairs, which = found
                wanted = _wanted(self, tuple(pairs))
                others = {n for (n, _), want in zip(pairs, wanted.tolist(), strict=True) if not want}
                table = narrow if wanted.all() else narrow.where(wanted[which])
                # If ranks are given, each of their parts is judged by itself.
                if not (self.nonfinite or self.kinds) and self.ranks in ("all", "one"):
                    table = join_parts(table, window.state, (*_KEYS, *_COUNTS, *self.statistics))
            else:
                # Elements have no role, so those of unselected tensors are removed by name.
                wanted = ~tested(narrow["name"], others.__contains__)
                table = narrow.where(wanted & tested(narrow["kind"], self.kinds.__contains__))
            rest = ("kind", "position", "value") if name == "tensor_values" else (*_COUNTS, *self.statistics)
            chosen[name] = Table({column: table[column] for column in (*_KEYS, *rest)})
        return chosen

    def _narrowed(self, table: Table) -> Table:
        if not table.rows:
            return table
        if self.mode is not None and "global" not in self.mode:
            # A loop that sets no mode trains.
            modes = {*self.mode, *(("global",) if "train" in self.mode else ())}
            modes_of = tested(table["mode"], modes.__contains__)
            table = table if modes_of.all() else table.where(modes_of)
        if self.ranks == "all":
            return table
        if self.ranks == "one":
            return table.where(of_rank_zero(table))
        return table.where(np.isin(table["rank"], [int(r) for r in self.ranks.split(",")]))

    def judgeable(self, window: Window, at: StepRows) -> Table:
        """Return the rows of a step that can be judged; count these as judged, and count skipped rows."""
        table = at.tables["tensors"]
        if skipped := int(np.count_nonzero(table["skipped"])):
            window.state["skipped_nonfinite"] = window.state.get("skipped_nonfinite", 0) + skipped
        good = table["good"]
        at.judges = table if good.all() else table.where(good)
        window.judged(at.judges.rows)
        return at.judges

    def rows(self, window: Window, at: StepRows) -> list[Row]:
        """Return the tensors of a step that can be judged, by name, as plain values."""
        return self.listed(self.judgeable(window, at))

    def listed(self, table: Table, **more: NDArray[Any]) -> list[Row]:
        """Return rows of a step as plain values, by name, with further columns."""
        if not table.rows:
            return []
        names = ("name", "time", *_COUNTS, "finite", *self.statistics)
        found = list(Table({**{name: table[name] for name in names}, **more}).to_rows())
        # Repeated rows of one place have a fixed order too, whichever came first.
        twice = len({row["name"] for row in found}) < len(found)
        found.sort(key=lambda row: (row["name"], row["time"], repr(row) if twice else ""))
        return found

    def newest(self, table: Table) -> Table:
        """Return one row for each name: the last one that was recorded at the step."""
        names = table["name"].tolist()
        if len(set(names)) == len(names):
            return table
        rows = [repr(row) for row in table.to_rows()]
        order = sorted(range(len(names)), key=lambda i: (table["time"][i], rows[i]))
        return table.where(np.array(list({names[i]: i for i in order}.values()), dtype=np.int64))

    def withdraw(self, window: Window, at: StepRows) -> None:
        """Report that a step could not be judged."""
        window.points = max(0, window.points - len(at.judged))
        at.judged.clear()


@lru_cache(maxsize=256)
def _wanted(rule: TensorRule, pairs: tuple[tuple[str, str], ...]) -> NDArray[np.bool_]:
    """Return which names and roles a rule judges; cached, because they repeat in every window."""
    return np.array([rule.wants(*pair) for pair in pairs], dtype=bool)
