"""Rules that compare ranks: slow ones, uneven data, clocks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look

from holter.rules import Job
from holter.rules.framework.rank_data_imbalance import RankDataImbalance
from holter.rules.framework.straggler_rank import StragglerRank
from holter.rules.reliability.clock_skew import ClockSkew
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table


def synchronous(own_ms: np.ndarray, *, ranks_per_node: int = 8, skew_ms: dict[str, float] | None = None):
    """Make steps of ranks that wait for the slowest one; `own_ms` is ranks by steps."""
    own = np.round(own_ms * 1e6).astype(np.int64)
    wall = own.max(axis=0) + 1_000_000
    begin = START + np.concatenate([[0], np.cumsum(wall)[:-1]])
    ranks, count = own.shape
    zero = np.zeros(ranks * count, dtype=np.int64)
    node = np.repeat([f"n{r // ranks_per_node}" for r in range(ranks)], count).astype(object)
    shift = np.array([round((skew_ms or {}).get(n, 0.0) * 1e6) for n in node])
    columns = dict.fromkeys(BREAKDOWN, zero) | {
        "time": np.tile(begin, ranks) + shift,
        "duration": np.tile(wall, ranks),
        "rank": np.repeat(np.arange(ranks, dtype=np.int32), count),
        "step": np.tile(np.arange(count, dtype=np.int32), ranks),
        "mode": np.full(ranks * count, "train", dtype=object),
        "forward": own.ravel(),
        "communication": (wall - own).ravel(),
        "compile": zero,
        "node": node,
    }
    return Table(columns)


def noisy(generator, ranks: int, steps: int, noise: float = 0.05) -> np.ndarray:
    return 100 * np.abs(generator.normal(1.0, noise, (ranks, steps)))


WARM = Job(start=START, first_step=START, warm=dict.fromkeys(range(512), START))


def test_p20_one_rank_15_percent_slower_is_found_and_no_other():
    generator = np.random.default_rng(20)
    for _ in range(50):
        own = noisy(generator, 8, 50)
        own[3] *= 1.15
        (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own))
        assert (issue.rank, issue.severity, issue.evidence["part"]) == (3, "warning", "forward")


def test_p20_equal_ranks_are_never_accused():
    generator = np.random.default_rng(21)
    rule = StragglerRank()
    assert not any(found(rule, job=WARM, steps=synchronous(noisy(generator, 8, 50))) for _ in range(1000))


def test_one_of_512_ranks_is_found_in_a_second_and_none_when_equal():
    generator = np.random.default_rng(22)
    own = noisy(generator, 512, 50)
    assert found(StragglerRank(), job=WARM, steps=synchronous(own)) == []
    own[77] *= 1.15
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own))
    assert issue.rank == 77


def test_noise_of_15_percent_on_64_ranks_accuses_nobody():
    generator = np.random.default_rng(23)
    tables = (synchronous(noisy(generator, 64, 200, 0.15)) for _ in range(10))
    assert not any(found(StragglerRank(), job=WARM, steps=table) for table in tables)


def test_far_slower_is_critical_and_tiny_steps_are_a_note():
    own = noisy(np.random.default_rng(24), 8, 100)
    own[1] *= 1.5
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own))
    assert issue.severity == "critical"
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own / 100))
    assert issue.severity == "info"


def test_a_slow_node_is_one_finding():
    own = noisy(np.random.default_rng(25), 16, 100)
    own[14:] *= 1.3
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own, ranks_per_node=2))
    assert (issue.code, issue.node, issue.rank) == ("node", "n7", None)
    assert sorted(issue.evidence["ranks"]) == [14, 15]


def test_a_rank_that_was_faster_before_is_said_to_be():
    own = noisy(np.random.default_rng(26), 4, 800)
    own[2, 600:] *= 1.6
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own))
    assert issue.evidence["was_faster"]
    assert issue.evidence["slower_than_before"] == pytest.approx(1.6, rel=0.05)


def test_one_rank_has_nobody_to_wait_for_it():
    issues, window = look(StragglerRank(), job=WARM, steps=synchronous(np.full((1, 100), 50.0)))
    assert issues == []
    assert window.lack.reason == "no_match"


def amounts(tokens: np.ndarray) -> Table:
    """Make scalars `tokens` of ranks by steps."""
    rows = [
        {"time": START + step * SECOND + rank, "rank": rank, "step": step, "name": "tokens", "value": value}
        for rank, row in enumerate(tokens.tolist())
        for step, value in enumerate(row)
    ]
    return Table.of("scalars", rows)


def test_a_rank_with_half_as_many_tokens_again_is_named():
    tokens = np.full((4, 100), 1000.0)
    tokens[2] = 1500
    (issue,) = found(RankDataImbalance(), scalars=amounts(tokens))
    assert (issue.severity, issue.rank) == ("warning", 2)
    assert issue.evidence["excess_pct"] == pytest.approx(50)


def test_lengths_that_vary_by_chance_name_no_rank():
    generator = np.random.default_rng(30)
    tokens = generator.integers(200, 1800, (8, 100)).astype(float)
    (issue,) = found(RankDataImbalance(), scalars=amounts(tokens))
    assert issue.rank is None
    assert found(RankDataImbalance(), scalars=amounts(generator.normal(1000, 50, (8, 100)))) == []


def test_a_last_small_batch_is_no_imbalance():
    tokens = np.full((2, 200), 64.0)
    tokens[1, 49::50] = 3
    assert found(RankDataImbalance(), scalars=amounts(tokens)) == []


def test_amounts_nobody_told_cannot_be_compared():
    assert look(RankDataImbalance(), scalars=amounts(np.full((1, 100), 5.0)))[1].lack.reason == "no_match"
    loss = Table.of("scalars", [{"time": START, "rank": 0, "step": 0, "name": "loss", "value": 1.0}])
    assert look(RankDataImbalance(), scalars=loss)[1].lack.reason == "no_input"


def clock(moved_ms: float) -> Table:
    detail = json.dumps({"moved_ns": round(moved_ms * 1e6)})
    return Table.of("events", [{"time": START, "kind": "clock", "detail": detail, "node": "n0"}])


@pytest.mark.parametrize(("moved", "severity"), [(30, None), (-120, "info"), (5000, "warning")])
def test_a_clock_that_moved(moved, severity):
    issues = found(ClockSkew(), events=clock(moved))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_nodes_that_end_the_same_steps_apart():
    own = noisy(np.random.default_rng(31), 8, 100)
    table = synchronous(own, ranks_per_node=4, skew_ms={"n1": 3000})
    (issue,) = found(ClockSkew(), job=WARM, steps=table)
    assert (issue.node, issue.severity) == ("n1", "warning")
    assert issue.evidence["skew_ms"] == pytest.approx(3000, rel=0.01)
    ahead = synchronous(own, ranks_per_node=4, skew_ms={"n1": 80})
    assert found(ClockSkew(), job=WARM, steps=ahead) == []


def test_nodes_that_do_not_wait_for_each_other_say_nothing_about_clocks():
    table = synchronous(np.full((2, 100), 100.0), ranks_per_node=1, skew_ms={"n1": 5000})
    alone = Table({**table.columns, "communication": np.zeros(table.rows, dtype=np.int64)})
    issues, window = look(ClockSkew(), job=WARM, steps=alone)
    assert issues == []
    assert window.lack.reason == "no_match"
