"""Tests of the rule NetworkBottleneck."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, samples, severities, steps

from holter.rules.system.network_bottleneck import NetworkBottleneck
from holter.schema.table import Table


def network(*, use=0.1, lost=0.0, segments=5000.0, communication=0.3, speeds=(3.125e9,)):
    tables = []
    for i, speed in enumerate(speeds):
        series = {
            ("net.rx", ""): np.full(240, use * speed),
            ("net.tx", ""): np.full(240, use * speed),
            ("net.link_speed", ""): np.full(240, speed),
            ("net.segments", ""): np.full(240, segments),
            ("net.retrans", ""): np.full(240, lost * segments),
        }
        tables.append(samples(series, node=f"n{i}"))
    return found(
        NetworkBottleneck(),
        samples=Table.concat(tables),
        steps=steps([0.5] * 240, communication=communication),
    )


def test_a_full_link_matters_where_communication_does():
    assert [issue.code for issue in network(use=0.9)] == ["full"]
    assert network(use=0.9, communication=0.02) == []
    assert network(use=0.5) == []


@pytest.mark.parametrize(
    ("lost", "expected"), [(0.0005, []), (0.002, ["info"]), (0.02, ["warning"]), (0.08, ["critical"])]
)
def test_segments_that_are_sent_again(lost, expected):
    assert severities(network(lost=lost)) == expected


def test_losses_among_few_segments_say_nothing():
    assert network(lost=0.3, segments=20.0) == []


def test_a_link_that_is_slower_than_most():
    (issue,) = network(speeds=(12.5e9, 12.5e9, 1.25e9, 12.5e9))
    assert (issue.code, issue.severity, issue.node) == ("slow_link", "critical", "n2")
    assert network(speeds=(12.5e9, 1.25e9)) == []  # which of the two is wrong?
