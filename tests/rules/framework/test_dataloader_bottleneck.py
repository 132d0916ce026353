"""Tests of the rule DataloaderBottleneck."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, found, look, steps

from holter.rules.engine.job_facts import job_facts
from holter.rules.framework.dataloader_bottleneck import DataloaderBottleneck
from holter.schema.table import Table


def test_p18_data_loading():
    table = steps([1.0] * 200, data_loading=0.6, forward=0.12, backward=0.2, optimizer=0.08)
    (issue,) = found(DataloaderBottleneck(), steps=table)
    assert issue.severity == "critical"
    assert issue.evidence["share_pct"] == pytest.approx(60)
    assert issue.evidence["compute_ratio"] == pytest.approx(1.5)
    (mild,) = found(DataloaderBottleneck(), steps=steps([1.0] * 200, data_loading=0.18, forward=0.8))
    assert mild.severity == "info"
    assert found(DataloaderBottleneck(), steps=steps([1.0] * 200, data_loading=0.09, forward=0.9)) == []


def test_the_threshold_of_old_configurations_is_the_lowest_level():
    rule = DataloaderBottleneck.of({"threshold": "30"})
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.30, forward=0.7)) == []
    (issue,) = found(rule, steps=steps([1.0] * 200, data_loading=0.31, forward=0.69))
    assert issue.severity == "warning"


def test_classic_compares_with_compute():
    rule = DataloaderBottleneck.of(defaults="classic")
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.5, forward=0.3, backward=0.2)) == []
    assert found(rule, steps=steps([1.0] * 200, data_loading=0.51, forward=0.3, backward=0.19))


def test_one_rank_that_waits_for_data_is_named():
    ranks = [steps([1.0] * 100, rank=r, forward=0.95, data_loading=0.02) for r in range(7)]
    ranks.append(steps([1.0] * 100, rank=7, forward=0.5, data_loading=0.45))
    (issue,) = found(DataloaderBottleneck(), steps=Table.concat(ranks))
    assert (issue.rank, issue.severity) == (7, "critical")


def test_evaluation_and_compilation_do_not_count():
    loading = steps([1.0] * 100, data_loading=0.05, forward=0.9)
    busy = steps([30.0] * 5, first=100, start=START + 100 * SECOND, data_loading=0.9, eval=0.05)
    assert found(DataloaderBottleneck(), steps=Table.concat([loading, busy])) == []


def test_a_wait_nobody_feels_is_a_note_at_most():
    (issue,) = found(DataloaderBottleneck(), steps=steps([0.001] * 200, data_loading=0.5, forward=0.5))
    assert issue.severity == "info"


def test_too_few_steps_are_not_judged():
    issues, window = look(DataloaderBottleneck(), steps=steps([1.0] * 40, data_loading=0.9))
    assert issues == []
    assert (window.lack.reason, window.lack.have, window.lack.need) == ("too_few_points", 30, 50)


def test_a_wait_of_less_than_a_second_in_all_is_a_note_at_most():
    short = steps([0.004] * 200, data_loading=0.5, forward=0.5)
    (issue,) = found(DataloaderBottleneck(), steps=short)
    assert issue.severity == "info"
    (issue,) = found(DataloaderBottleneck(), steps=steps([0.02] * 200, data_loading=0.5, forward=0.5))
    assert issue.severity == "critical"


def test_data_loading_that_no_hook_observes_is_not_judged():
    rows = steps([1.0] * 200, compute=0.3, data_loading=0.6)
    unseen = job_facts(rows, start=START, observed=("compute", "eval"))
    issues, window = look(DataloaderBottleneck(), job=unseen, steps=rows)
    assert issues == []
    assert window.lack.text == "no hook observes data loading"
    seen = job_facts(rows, start=START, observed=("compute", "data_loading"))
    assert found(DataloaderBottleneck(), job=seen, steps=rows)
