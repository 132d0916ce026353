"""Tests of the rule StragglerRank."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.ranks import WARM, noisy, synchronous
from tests.rules.tables import found, look

from holter.rules.framework.straggler_rank import StragglerRank


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


def test_a_rank_that_was_faster_before_is_named_as_such():
    own = noisy(np.random.default_rng(26), 4, 800)
    own[2, 600:] *= 1.6
    (issue,) = found(StragglerRank(), job=WARM, steps=synchronous(own))
    assert issue.evidence["was_faster"]
    assert issue.evidence["slower_than_before"] == pytest.approx(1.6, rel=0.05)


def test_one_rank_has_nobody_to_wait_for_it():
    issues, window = look(StragglerRank(), job=WARM, steps=synchronous(np.full((1, 100), 50.0)))
    assert issues == []
    assert window.lack.reason == "no_match"
