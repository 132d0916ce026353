"""What all rules about tensors share: which tensors they look at, step by step, and how they tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holter.rules import BadRule, Issue, Rule, Window, parameter
from holter.rules._collections import belongs, has_role, matches, pairs_of
from holter.rules._numbers import Numbers
from holter.rules._parameters import nearest
from holter.rules._step_rows import StepRows, complete_steps
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

MODES = ("train", "eval", "predict", "global")
LISTED = 50
"""So many tensors are listed in one issue, the worst first."""
_KEYS = ("time", "rank", "step", "mode", "name", "node")
_COUNTS = ("role", "state", "count", "nan", "posinf", "neginf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One tensor that meets a rule's condition at one step."""

    tensor: str
    what: str
    """What was measured, as it reads before `of TENSOR`."""
    value: float
    comparator: str
    threshold: float
    unit: str = ""
    code: str = ""
    role: str = ""
    severity: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRule(Rule):
    """Looks at tensors a step at a time, each rank by itself."""

    reads: ClassVar[tuple[str, ...]] = ("tensors",)
    category = "training"

    roles: ClassVar[tuple[str, ...]] = ("",)
    """The roles that are looked at where no name is asked for; a final colon means all that begin so."""
    statistics: ClassVar[tuple[str, ...]] = ()
    """The columns of table `tensors` that are needed."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of table `tensor_values` that are needed."""
    nonfinite: ClassVar[bool] = False
    """Whether tensors without a finite element are looked at too."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """Patterns of the logged number that it looks up at a step."""
    save: ClassVar[str] = "weights@100"
    """What to record for it to have something to judge."""

    tensor_regex: tuple[str, ...] | None = parameter(None)
    """Patterns that find tensors anywhere in their names, instead of those it would look at by itself."""
    collection_names: tuple[str, ...] | None = parameter(None)
    """Collections whose tensors it looks at, together with those that the patterns find."""
    exclude_regex: tuple[str, ...] | None = parameter(None)
    """Patterns of tensors that are never looked at."""
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
    """How many different findings are told; beyond them they are counted."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        object.__setattr__(self, "mode", tuple(m.casefold() for m in self.mode) if self.mode else None)
        for mode in self.mode or ():
            if mode not in MODES:
                near = nearest(mode, MODES)
                self._refuse("mode", mode, " or ".join(MODES) + (f"; did you mean {near!r}?" if near else ""))
        if self.ranks not in ("all", "one") and not re.fullmatch(r"\d+(\s*,\s*\d+)*", self.ranks):
            self._refuse("ranks", self.ranks, "all, one, or whole numbers separated by commas")
        for name in (f.name for f in fields(self) if f.name.endswith("regex")):
            for pattern in getattr(self, name) or ():
                try:
                    re.compile(pattern)
                except re.error as error:
                    text = f"{type(self).__name__}: {name}={pattern!r} is no pattern: {error}"
                    raise BadRule(text) from None

    def _refuse(self, name: str, value: object, valid: str) -> None:
        raise BadRule(f"{type(self).__name__}: {name}={value!r} is not valid; it takes {valid}")

    def wants(self, name: str, role: str) -> bool:
        """Tell whether the rule looks at a tensor."""
        if matches(self.exclude_regex, name):
            return False
        if self.tensor_regex is None and self.collection_names is None:
            return has_role(role, self.roles)
        return matches(self.tensor_regex, name) or any(
            belongs(collection, name, role) for collection in self.collection_names or ()
        )

    def fresh(self, window: Window) -> dict[str, Table]:
        """Return the new rows of each table that is looked at."""
        tables = ("tensors", "tensor_values") if self.kinds else ("tensors",)
        return {table: window.new(table) for table in tables}

    def judge(self, window: Window, at: StepRows) -> Iterator[Finding]:
        """Yield the tensors of one step that meet the condition."""
        raise NotImplementedError

    def remember(self, window: Window, at: StepRows) -> None:
        """Keep what later steps are compared with, of a step that is not judged itself."""

    def say(self, findings: list[Finding], step: int) -> str:
        """Put findings of one code at one step in a sentence, the worst first."""
        worst, more = findings[0], len(findings) - 1
        others = f", and of {more} more tensor{'s' * (more > 1)}" if more else ""
        numbers = f"{worst.value:.4g}{worst.unit} {worst.comparator} {worst.threshold:.4g}{worst.unit}"
        return f"{worst.what} of {worst.tensor} at step {step}: {numbers}{others}"

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge each step that has become whole; remember which tensors there were."""
        numbers = Numbers(window, "numbers", self.scalars) if self.scalars else None
        new = self.fresh(window)
        if not window.job.ended and not any(table.rows for table in new.values()):
            window.idle = True
            return
        state = window.state
        for at in complete_steps(self._chosen(window, new), state, ended=window.job.ended):
            if not at.tables["tensors"].rows:
                continue
            at.numbers = numbers
            state["matched"] = state.get("matched", 0) + 1
            count = state.setdefault("saved", {}).get(str(at.rank), 0)
            state["saved"][str(at.rank)] = count + 1
            late = self.end_step is not None and at.step >= self.end_step
            if at.step < self.start_step or late or count % self.every:
                self.remember(window, at)
            else:
                yield from self._told(window, at, list(self.judge(window, at)))
        if state.get("skipped_nonfinite"):
            window.details["skipped_nonfinite"] = state["skipped_nonfinite"]
        if not window.points and window.lack is None:
            self._lacking(window)

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
        """Narrow new rows to the ranks, modes and tensors looked at, and to the columns needed."""
        chosen = {}
        others: set[str] = set()
        for name, table in new.items():
            narrow = self._narrowed(table)
            if name == "tensors":
                whole = narrow is window.new("tensors")
                found = window.answered("pairs", partial(pairs_of, narrow)) if whole else pairs_of(narrow)
                pairs, which = found
                wanted = np.array([self.wants(*pair) for pair in pairs], dtype=bool)
                others = {n for (n, _), want in zip(pairs, wanted.tolist(), strict=True) if not want}
                table = narrow if wanted.all() else narrow.where(wanted[which])
            else:
                table, names = narrow, narrow["name"].tolist()
                # Elements have no role: those of a tensor that is not wanted are known by its name.
                kinds = table["kind"].tolist()
                table = _kept(
                    table, (k in self.kinds and n not in others for n, k in zip(names, kinds, strict=True))
                )
            rest = ("kind", "position", "value") if name == "tensor_values" else (*_COUNTS, *self.statistics)
            chosen[name] = Table({column: table[column] for column in (*_KEYS, *rest)})
        return chosen

    def _narrowed(self, table: Table) -> Table:
        if not table.rows:
            return table
        if self.mode is not None and "global" not in self.mode:
            # A loop that never says its mode trains.
            modes = {*self.mode, *(("global",) if "train" in self.mode else ())}
            table = _kept(table, (mode in modes for mode in table["mode"].tolist()))
        if self.ranks == "all":
            return table
        ranks = {-1, 0} if self.ranks == "one" else {int(r) for r in self.ranks.split(",")}
        return _kept(table, (rank in ranks for rank in table["rank"].tolist()))

    def rows(
        self, window: Window, at: StepRows, only: Callable[[Table], NDArray[np.bool_]] | None = None
    ) -> list[dict[str, Any]]:
        """Return the tensors of a step that can be judged, by name; the others are counted.

        Args:
            window: Is told how many there are.
            at: The step.
            only: Tells which of them can be a finding, so that the others, nearly all, need not be looked at.
        """
        table = at.tables["tensors"]
        odd = table["nan"] + table["posinf"] + table["neginf"]
        good, filled = table["count"] > 0, table["count"] > odd
        if not self.nonfinite:
            skipped = int((good & ~filled).sum())
            if skipped:
                window.state["skipped_nonfinite"] = window.state.get("skipped_nonfinite", 0) + skipped
            good &= filled
        window.judged(int(good.sum()))
        at.judged.update(table["name"][good].tolist())
        if only is not None:
            good &= only(table)
            if not good.any():
                return []
        wanted = {name: table[name] for name in ("name", "time", *_COUNTS, *self.statistics)}
        found = list(Table({**wanted, "finite": table["count"] - odd}).where(good).to_rows())
        # Rows that say the same place twice have an order too, whichever came first.
        twice = len({row["name"] for row in found}) < len(found)
        found.sort(key=lambda row: (row["name"], row["time"], repr(row) if twice else ""))
        return found

    def withdraw(self, window: Window, at: StepRows) -> None:
        """Say that a step could not be judged after all."""
        window.points = max(0, window.points - len(at.judged))
        at.judged.clear()

    def _told(self, window: Window, at: StepRows, findings: list[Finding]) -> Iterator[Issue]:
        """Yield one issue for each code, with the tensors that have met the condition often enough."""
        groups: dict[str, list[Finding]] = {}
        for finding in self._lasting(window.state, at, findings):
            groups.setdefault(finding.code, []).append(finding)
        about: dict[str, str] = window.state.setdefault("about", {})
        for code, group in sorted(groups.items()):
            group.sort(key=lambda f: (f.value if f.comparator.startswith("<") else -f.value, f.tensor))
            key = f"{at.rank}/{code}"
            if key not in about and len(about) >= self.max_findings:
                window.state["more"] = window.state.get("more", 0) + 1
                window.details["findings_left_out"] = window.state["more"]
                continue
            yield self._issue(at, group, about.setdefault(key, group[0].tensor))

    def _lasting(self, state: dict[str, Any], at: StepRows, findings: list[Finding]) -> list[Finding]:
        if self.successive == 1:
            return findings
        # Those that were judged and are no finding start over; those that were not keep their count.
        here, streaks = f"{at.rank}/", state.setdefault("streaks", {})
        held = {f"{here}{f.code}/{f.tensor}" for f in findings}
        for key in [k for k in streaks if k.startswith(here) and k not in held]:
            if key.split("/", 2)[2] in at.judged:
                del streaks[key]
        for key in held:
            streaks[key] = streaks.get(key, 0) + 1
        return [f for f in findings if streaks[f"{here}{f.code}/{f.tensor}"] >= self.successive]

    def _issue(self, at: StepRows, group: list[Finding], tensor: str) -> Issue:
        worst = group[0]
        evidence = {
            "tensors": [f.tensor for f in group[:LISTED]],
            "values": [f.value for f in group[:LISTED]],
            "tensors_in_all": len(group),
            "value": worst.value,
            "comparator": worst.comparator,
            "threshold": worst.threshold,
            "mode": at.mode,
            "role": worst.role or None,
            **worst.more,
        }
        return self.issue(
            self.say(group, at.step),
            code=worst.code,
            severity=worst.severity or self.severity,
            rank=at.rank,
            tensor=tensor,
            step_start=at.step,
            step_end=at.step,
            evidence=evidence,
            **at.place,
        )


def _kept(table: Table, keep: Iterable[bool]) -> Table:
    return table.where(np.fromiter(keep, dtype=bool, count=table.rows))
