"""What every rule of the shelf promises, ours and those of installed packages."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.rules import SEVERITIES, Issue, Job, Rule, Window, catalogue
from holter.schema.metrics import METRICS
from holter.schema.phases import Phase
from holter.schema.table import Table
from holter.schema.tables import TABLES

RULES = list(catalogue().values())
CATEGORIES = {"system", "framework", "training", "reliability"}
START = 1_700_000_000_000_000_000
PHASES = {phase.name.lower() for phase in Phase}

each = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
profiles = pytest.mark.parametrize("defaults", ["modern", "classic"])


@each
def test_card(rule: type[Rule]) -> None:
    assert rule.__doc__
    assert rule.description
    assert rule.formula
    assert rule.category in CATEGORIES
    assert rule.severity in SEVERITIES
    assert rule.advice or rule.formula == "never"
    assert rule.packs
    assert rule.every_s >= 10


@each
def test_reads_are_tables_metrics_and_phases_that_there_are(rule: type[Rule]) -> None:
    assert rule.reads
    for text in rule.reads:
        table, _, only = text.partition("/")
        assert table in TABLES
        if table == "samples":
            assert only in METRICS
        if table == "spans" and only:
            assert only in PHASES


@each
def test_parameters_are_documented_typed_and_valid_in_both_profiles(rule: type[Rule]) -> None:
    for parameter in rule.parameters():
        assert parameter.meaning.endswith("."), parameter.name
        assert parameter.type.removesuffix(" | None") in ("int", "float", "bool", "str")
    for defaults in ("modern", "classic"):
        made = rule.of(defaults=defaults)
        assert type(made)(**made.values()) == made
        texts = {name: str(value) for name, value in made.values().items()}
        assert type(made)(**texts) == made
        assert json.loads(json.dumps(made.values())) == made.values()
    # Frozen says it in one way for fields, and slots in another for what is none.
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        made.anything = 1  # type: ignore[attr-defined]


@each
@profiles
def test_without_any_data_it_says_so(rule: type[Rule], defaults: str) -> None:
    made = rule.of(defaults=defaults)
    window = Window.of(made.lookback)
    assert list(made.evaluate(window)) == []
    assert window.lack is not None or window.idle
    assert window.points == 0


numbers = st.one_of(
    st.floats(width=64),
    st.just(float("nan")),
    st.sampled_from([0.0, -1.0, 1e38, 100.0, 55.5]),
    st.integers(-5, 200),
)
seconds = st.integers(-10, 4000)
metrics = sorted(
    {text.partition("/")[2] for rule in RULES for text in rule.reads if text.startswith("samples/")}
)
sample = st.fixed_dictionaries(
    {
        "time": seconds.map(lambda s: START + s * 10**9),
        "node": st.sampled_from(["", "n0", "n1"]),
        "device": st.sampled_from(["", "cpu0", "gpu0", "gpu1", "trainer", "workers"]),
        "metric": st.sampled_from(metrics),
        "value": numbers,
    }
)
span_time = st.integers(0, 10**12)
step = st.fixed_dictionaries(
    {
        "time": seconds.map(lambda s: START + s * 10**9),
        "duration": span_time,
        "rank": st.integers(-1, 3),
        "step": st.integers(-1, 2**31 - 1),
        "mode": st.sampled_from(["train", "eval", "predict", "global"]),
        "node": st.sampled_from(["", "n0"]),
        **{
            part: st.integers(0, 10**11)
            for part in ("data_loading", "forward", "backward", "eval", "checkpoint", "compile")
        },
    }
)
span = st.fixed_dictionaries(
    {
        "time": seconds.map(lambda s: START + s * 10**9),
        "duration": span_time,
        "rank": st.integers(-1, 3),
        "worker": st.integers(-1, 3),
        "step": st.integers(-1, 5),
        "phase": st.sampled_from(sorted(PHASES)),
        "name": st.sampled_from(["", "a", "F.__getitem__ (f.py:1);open (g.py:2)", ";;"]),
        "value": numbers,
    }
)
scalar = st.fixed_dictionaries(
    {
        "time": seconds.map(lambda s: START + s * 10**9),
        "rank": st.integers(-1, 3),
        "step": st.integers(-1, 10**6),
        "name": st.sampled_from(["loss", "val_loss", "lr", ""]),
        "value": numbers,
    }
)
event = st.fixed_dictionaries(
    {
        "time": seconds.map(lambda s: START + s * 10**9),
        "rank": st.integers(-1, 3),
        "kind": st.sampled_from(["process", "loader", "hang", "lost", "exit", "oom", "clock"]),
        "detail": st.sampled_from(
            ["", "{}", "[]", "{", '{"ranks": [1], "limit_s": 3}', '{"workers": 0, "index": 0}', "null"]
        ),
    }
)
tables = st.fixed_dictionaries(
    {
        "samples": st.lists(sample, max_size=40),
        "steps": st.lists(step, max_size=40),
        "spans": st.lists(span, max_size=20),
        "scalars": st.lists(scalar, max_size=20),
        "events": st.lists(event, max_size=8),
    }
)
EAGER = {
    "patience": 1, "patience_s": 0.001,
    "min_steps": 1, "min_points": 4, "skip_s": 0, "skip_before_first_step": False
}  # fmt: skip


def eager(rule: type[Rule], defaults: str) -> Rule:
    """Make a rule that judges as early as its parameters let it."""
    names = {p.name for p in rule.parameters()}
    classic = defaults == "classic"
    given = {k: v for k, v in EAGER.items() if k in names and not (k == "patience" and not classic)}
    if classic:
        given.pop("patience_s", None)
    return rule.of(given, defaults=defaults)


def judge(rule: Rule, rows: dict[str, list[dict]], *, shuffled: int | None = None) -> list[Issue]:
    made = {}
    for name, listed in rows.items():
        table = Table.of(name, listed)
        made[name] = (
            table
            if shuffled is None
            else table.where(np.random.default_rng(shuffled).permutation(table.rows))
        )
    job = Job(start=START, warm=dict.fromkeys(range(-1, 4), START), first_step=START)
    window = Window.of(rule.lookback, job=job, **made)
    found = list(rule.evaluate(window))
    json.dumps([window.state, window.details], allow_nan=True)
    return found


@each
@profiles
@settings(max_examples=25, deadline=None)
@given(rows=tables)
def test_no_input_makes_it_raise_and_every_issue_is_whole(
    rule: type[Rule], defaults: str, rows: dict[str, list[dict]]
) -> None:
    with np.errstate(all="ignore"):
        for issue in judge(eager(rule, defaults), rows):
            assert issue.rule == rule.__name__
            assert issue.severity in SEVERITIES
            assert issue.summary
            json.dumps(dataclasses.asdict(issue))


@each
@settings(max_examples=25, deadline=None)
@given(rows=tables, seed=st.integers(0, 100))
def test_the_order_of_arrival_does_not_matter(
    rule: type[Rule], rows: dict[str, list[dict]], seed: int
) -> None:
    made = eager(rule, "modern")
    with np.errstate(all="ignore"):
        first = sorted(json.dumps(dataclasses.asdict(i), sort_keys=True) for i in judge(made, rows))
        second = sorted(
            json.dumps(dataclasses.asdict(i), sort_keys=True) for i in judge(made, rows, shuffled=seed)
        )
    assert first == second
