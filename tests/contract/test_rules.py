"""What every rule promises, in this package and in installed ones."""

from __future__ import annotations

import dataclasses
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.rules import CATEGORIES, SEVERITIES, Issue, Job, Rule, Window, catalogue
from holter.schema.metrics import METRICS
from holter.schema.phases import Phase
from holter.schema.table import Table
from holter.schema.tables import TABLES

RULES = list(catalogue().values())
START = 1_700_000_000_000_000_000
PHASES = {phase.name.lower() for phase in Phase}

TYPES = {
    "int", "float", "bool", "str", "tuple[str, ...]", "tuple[int, ...]", "tuple[float, ...]"
}  # fmt: skip
PACKS = {"default", "essentials", "convergence", "performance", "deep_trace", "distributed", "sagemaker"}
EXAMPLES = 12
"""The number of examples of each property; more would take too long for all rules."""

each = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
profiles = pytest.mark.parametrize("defaults", ["modern", "classic"])


@each
def test_card(rule: type[Rule]) -> None:
    assert rule.__doc__
    assert rule.description
    assert rule.formula
    assert rule.category() in CATEGORIES
    assert rule.severity in SEVERITIES
    assert rule.advice or rule.formula == "never"
    assert set(rule.packs) <= PACKS
    assert rule.packs or not rule.__module__.startswith("holter.")
    assert rule.every_s >= 10


def as_users_write(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
        assert parameter.type.removesuffix(" | None") in TYPES
    for defaults in ("modern", "classic"):
        made = rule.of(defaults=defaults)
        assert type(made)(**made.values()) == made
        for written in (str, as_users_write):
            texts = {name: written(value) for name, value in made.values().items()}
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
metrics = sorted(
    {text.partition("/")[2] for rule in RULES for text in rule.reads if text.startswith("samples/")}
)
TENSORS = [
    ("fc.weight", "weight"), ("gradient/fc.weight", "grad"), ("gradient/fc.bias", "grad"), ("loss", "loss"),
    ("relu0_output_0", "act_out:relu"), ("relu0_relu_output_0", "output"), ("tanh_input_0", "act_in:tanh"),
    ("labels", "labels"), ("predictions", "logits"), ("embedding0_input_0", "token_ids"),
    ("hybridsequential0_input_0", "model_input:0"), ("trees/Node", ""), ("trees/Yes", ""), ("trees/No", ""),
    ("feature_importance/gain/f0", ""), ("feature_importance/weight/f1", ""), ("", ""),
]  # fmt: skip
tensor = st.sampled_from(TENSORS)
counts = st.sampled_from([0, 0, 1, 2, 100])
common = {
    "time": st.integers(-10, 4000).map(lambda s: START + s * 10**9),
    "rank": st.integers(-1, 3),
    "node": st.sampled_from(["", "n0"]),
    "mode": st.sampled_from(["train", "eval", "predict", "global"]),
    "step": st.one_of(st.integers(-1, 12), st.integers(-1, 2**31 - 1)),
    "duration": st.integers(0, 10**12),
    "name": st.sampled_from(["", "a", "F.__getitem__ (f.py:1);open (g.py:2)", ";;"]),
    "correlation": st.integers(0, 3),
    "thread": st.integers(0, 2),
    "device": st.integers(-1, 2),
    "stream": st.integers(0, 2),
    "bytes": st.sampled_from([0, 1, 2**40]),
}
OWN = {
    "samples": {
        "device": st.sampled_from(["", "cpu0", "gpu0", "gpu1", "trainer", "workers"]),
        "metric": st.sampled_from(metrics),
        "value": numbers,
    },
    "steps": {
        part: st.integers(0, 10**11)
        for part in ("data_loading", "forward", "backward", "eval", "checkpoint", "compile")
    },
    "spans": {
        "worker": st.integers(-1, 3),
        "phase": st.sampled_from(sorted(PHASES)),
        "value": numbers,
    },
    "scalars": {
        "name": st.sampled_from(["loss", "val_loss", "lr", "", "train-rmse", "grad_norm", "loss_scale"]),
        "value": numbers,
    },
    "events": {
        "kind": st.sampled_from(["process", "loader", "hang", "lost", "exit", "oom", "clock", "nonfinite"]),
        "detail": st.sampled_from(
            ["", "{}", "[]", "{", '{"ranks": [1], "limit_s": 3}', '{"workers": 0, "index": 0}', "null"]
        ),
    },
    "tensors": {
        "tensor": tensor,
        "state": st.sampled_from(["", "", "frozen", "unused", "skipped"]),
        **dict.fromkeys(("count", "nan", "posinf", "neginf", "zeros", "tiny"), counts),
        **{column.name: numbers for column in TABLES["tensors"].columns if column.type == "FLOAT"},
        "fingerprint": st.integers(0, 2),
    },
    "tensor_values": {
        "tensor": tensor,
        "kind": st.sampled_from(["value", "shape", "histogram", "exponents", "active", "samples"]),
        "position": st.integers(0, 3),
        "value": numbers,
    },
    "kernels": {
        "kind": st.sampled_from(["compute", "communication"]),
        "collective": st.sampled_from(["", "allreduce", "allgather"]),
        "process_group": st.sampled_from(["", "0"]),
        "group_size": st.integers(0, 4),
    },
    "launches": {},
    "memory_operations": {
        "kind": st.sampled_from(["h2d", "d2h", "d2d", "p2p", "h2h", "memset"]),
        "memory": st.sampled_from(["pageable", "pinned", ""]),
    },
    "syncs": {"kind": st.sampled_from(["stream", "device", "event", "copy"])},
    "operators": {
        "kind": st.sampled_from(["operator", "python", "annotation", "module", "runtime"]),
        "detail": st.sampled_from(["", "{}", "{"]),
    },
}
"""What rows of each table hold beyond what is common."""


def named(row: dict) -> dict:
    """Put the name and role of a tensor, drawn together, in their columns."""
    name, role = row.pop("tensor", (row.get("name", ""), ""))
    return row | {"name": name, "role": role}


@cache
def rows_of(table: str) -> st.SearchStrategy[list[dict]]:
    columns = {column.name for column in TABLES[table].columns} | {"node"}
    given = {name: values for name, values in common.items() if name in columns} | OWN[table]
    return st.lists(st.fixed_dictionaries(given).map(named), max_size=24)


@cache
def tables_of(rule: type[Rule]) -> st.SearchStrategy[dict[str, list[dict]]]:
    """Rows of the tables that a rule reads; others would only take time."""
    read = sorted({text.partition("/")[0] for text in rule.reads})
    return st.fixed_dictionaries({table: rows_of(table) for table in read})


EAGER = {
    "patience": 1, "patience_s": 0.001,
    "min_steps": 1, "min_points": 4, "skip_s": 0, "skip_before_first_step": False,
    "successive": 1, "min_samples": 1, "samples": 1, "threshold_samples": 1, "smooth": 1, "num_steps": 2,
    "min_val_points": 1, "patience_train": 1, "patience_validation": 1, "other_trials": "other",
    "min_diag": 0.9, "max_off_diag": 0.1,
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
    job = Job(start=START, warm=dict.fromkeys(range(-1, 4), START), first_step=START, ended=True)
    other = {name: Table.of(name, listed[: len(listed) // 2]) for name, listed in rows.items()}
    window = Window.of(rule.lookback, job=job, baselines={"other": other}, **made)
    found = list(rule.evaluate(window))
    json.dumps([window.state, window.details], allow_nan=True)
    return found


@each
@profiles
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_no_input_makes_it_raise_and_every_issue_is_whole(
    rule: type[Rule], defaults: str, data: st.DataObject
) -> None:
    with np.errstate(all="ignore"):
        for issue in judge(eager(rule, defaults), data.draw(tables_of(rule))):
            assert issue.rule == rule.__name__
            assert issue.severity in SEVERITIES
            assert issue.summary
            json.dumps(dataclasses.asdict(issue))


@each
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data(), seed=st.integers(0, 100))
def test_the_order_of_arrival_does_not_matter(rule: type[Rule], data: st.DataObject, seed: int) -> None:
    made, rows = eager(rule, "modern"), data.draw(tables_of(rule))
    with np.errstate(all="ignore"):
        assert texts(judge(made, rows)) == texts(judge(made, rows, shuffled=seed))


def texts(issues: list[Issue]) -> list[str]:
    return sorted(json.dumps(dataclasses.asdict(issue), sort_keys=True) for issue in issues)
