"""Finds unmarked evaluation: forward passes in eval mode that lie between two training steps."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

DATA, EVAL_FORWARD, TRAIN_FORWARD, BACKWARD, OPTIMIZER = "d", "e", "t", "b", "o"


@dataclass(frozen=True, slots=True)
class Moment:
    """One span of a step as far as evaluation is concerned; `loader` is -1 when it is not known."""

    kind: str
    begin: int
    end: int
    loader: int = -1
    trains: bool = False
    """Of a forward in eval mode: the script also trains this model."""


@dataclass(slots=True)
class _Run:
    """Consecutive eval-mode forwards and the data loading before, between and after them."""

    before: list[Moment] = field(default_factory=list)
    forwards: list[Moment] = field(default_factory=list)
    between: list[Moment] = field(default_factory=list)
    after: list[Moment] = field(default_factory=list)


def regions(
    step_begin: int, moments: list[Moment], busy_until: dict[int, int], begins: list[int]
) -> list[tuple[int, int]]:
    """Find the stretches of one training step that are evaluation.

    A step reaches from one optimizer step to the next, so a validation loop lies inside one. Its forwards
    differ from those of a frozen teacher by the data: a teacher sees the batch that is trained on, so no
    data loading lies between its forward and the student's.

    Args:
        step_begin: When the step began, ns.
        moments: Data loading, forwards, backwards and optimizers of the step, by begin.
        busy_until: For the begin of each data loading, the end of the last span before it, if any.
        begins: When each span of the step begins, whatever it is, and when the step ends; sorted.

    Returns:
        (begin, end) in ns, by begin, disjoint. A region starts where the last work before it ended and ends
        where the next begins (training, or a checkpoint), so that the code around its spans is part of it.
    """
    if not any(m.kind in (BACKWARD, OPTIMIZER) for m in moments):
        return []
    any_data = any(m.kind == DATA for m in moments)
    found = []
    for run in _runs(_without_trained(moments)):
        if _is_evaluation(run, any_data):
            begin = _begin(run, step_begin, busy_until)
            found.append((begin, max(_end(run, begins), begin)))
    return found


def _without_trained(moments: list[Moment]) -> list[Moment]:
    """Mark eval-mode forwards directly before a backward as training."""
    result = list(moments)
    following = ""
    for i in range(len(moments) - 1, -1, -1):
        kind = moments[i].kind
        if kind == EVAL_FORWARD and following == BACKWARD:
            result[i] = Moment(TRAIN_FORWARD, moments[i].begin, moments[i].end)
        if kind != DATA:
            following = kind
    return result


def _runs(moments: list[Moment]) -> list[_Run]:
    """Split a step at its training work; return what lies between, where it holds eval-mode forwards."""
    runs: list[_Run] = []
    stretch: list[Moment] = []
    for moment in moments:
        if moment.kind in (DATA, EVAL_FORWARD):
            stretch.append(moment)
        else:
            runs.append(_run(_without_teachers(stretch) if moment.kind == TRAIN_FORWARD else stretch))
            stretch = []
    runs.append(_run(stretch))
    return [run for run in runs if run.forwards]


def _without_teachers(stretch: list[Moment]) -> list[Moment]:
    """Leave out the forwards that see the batch that is trained on next: those after the last data loading.

    Unless that batch was fetched before the evaluation began, and the last one is the evaluation's own.
    """
    last = max((i for i, m in enumerate(stretch) if m.kind == DATA), default=-1)
    first = next((i for i, m in enumerate(stretch) if m.kind == EVAL_FORWARD), len(stretch))
    if last < first:
        return stretch
    loader, fed_by, feeds = stretch[last].loader, -1, set()
    for moment in stretch[:last]:
        if moment.kind == DATA:
            fed_by = moment.loader
        else:
            feeds.add(fed_by)
    fetched_before = any(m.loader not in (loader, -1) for m in stretch[:first] if m.kind == DATA)
    return stretch if loader in feeds - {-1} and fetched_before else stretch[: last + 1]


def _run(stretch: list[Moment]) -> _Run:
    run = _Run()
    for moment in stretch:
        if moment.kind == EVAL_FORWARD:
            run.between += run.after
            run.after = []
            run.forwards.append(moment)
        else:
            (run.after if run.forwards else run.before).append(moment)
    return run


def _is_evaluation(run: _Run, any_data: bool) -> bool:
    if len(run.forwards) >= 2:
        return bool(run.between or run.after) or not any_data
    if not run.before and run.forwards[0].trains:
        return True  # a model that labels the batch to train on would come after its loading
    if not run.before or not run.after:
        return False
    own = run.before[-1].loader
    return own >= 0 and any(m.loader >= 0 and m.loader != own for m in run.after)


def _begin(run: _Run, step_begin: int, busy_until: dict[int, int]) -> int:
    if not run.before:
        return run.forwards[0].begin
    first = run.before[-1]
    for moment in reversed(run.before):
        if moment.loader != first.loader:
            break
        first = moment
    return busy_until.get(first.begin, step_begin)


def _end(run: _Run, begins: list[int]) -> int:
    own = {m.loader for m in (*run.before[-1:], *run.between)}
    foreign = next((i for i, m in enumerate(run.after) if m.loader not in own), 0)
    # The evaluation's loader is asked once more, to learn that it is exhausted.
    last = run.after[foreign - 1] if foreign else run.forwards[-1]
    return begins[bisect_left(begins, last.end)]
