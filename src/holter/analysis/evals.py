"""Evaluation that nobody marked: forward passes in eval mode that a training step only holds by accident."""

from __future__ import annotations

from dataclasses import dataclass, field

DATA, EVAL_FORWARD, TRAIN_FORWARD, BACKWARD, OPTIMIZER = "d", "e", "t", "b", "o"


@dataclass(frozen=True, slots=True)
class Moment:
    """One span of a step as far as evaluation is concerned; `loader` is -1 when it is not known."""

    kind: str
    begin: int
    end: int
    loader: int = -1


@dataclass(slots=True)
class _Run:
    """Consecutive eval-mode forwards and the data loading before, between and after them."""

    before: list[Moment] = field(default_factory=list)
    forwards: list[Moment] = field(default_factory=list)
    between: list[Moment] = field(default_factory=list)
    after: list[Moment] = field(default_factory=list)


def regions(step_begin: int, moments: list[Moment], busy_until: dict[int, int]) -> list[tuple[int, int]]:
    """Find the stretches of one training step that are evaluation.

    A step reaches from one optimizer step to the next, so a validation loop lies inside one. Its forwards
    are told from those of a frozen teacher by the data: a teacher sees the batch that is trained on, so no
    data loading lies between its forward and the student's.

    Args:
        step_begin: When the step began, ns.
        moments: Data loading, forwards, backwards and optimizers of the step, by begin.
        busy_until: For the begin of each data loading, the end of the last span before it, if any.

    Returns:
        (begin, end) in ns, by begin, disjoint. A region starts where the last training work ended, so that
        building the validation loader's workers is part of it.
    """
    if not any(m.kind in (BACKWARD, OPTIMIZER) for m in moments):
        return []
    any_data = any(m.kind == DATA for m in moments)
    found = []
    for run in _runs(_without_trained(moments)):
        if _is_evaluation(run, any_data):
            begin = _begin(run, step_begin, busy_until)
            found.append((begin, max(_end(run), begin)))
    return found


def _without_trained(moments: list[Moment]) -> list[Moment]:
    """Mark eval-mode forwards whose result goes straight into a backward as training."""
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
    runs, run = [], _Run()
    for moment in moments:
        if moment.kind == DATA:
            (run.after if run.forwards else run.before).append(moment)
        elif moment.kind == EVAL_FORWARD:
            run.between += run.after
            run.after = []
            run.forwards.append(moment)
        else:
            if run.forwards:
                runs.append(run)
            run = _Run()
    if run.forwards:
        runs.append(run)
    return runs


def _is_evaluation(run: _Run, any_data: bool) -> bool:
    if len(run.forwards) >= 2:
        return bool(run.between or run.after) or not any_data
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


def _end(run: _Run) -> int:
    if not run.after:
        return run.forwards[-1].end
    own = {m.loader for m in (*run.before[-1:], *run.between)}
    # The evaluation's loader is asked once more to learn that it is exhausted.
    return next((m for m in run.after if m.loader not in own), run.after[0]).begin
