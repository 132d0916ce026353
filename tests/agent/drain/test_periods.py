"""Agents of large jobs in one bucket ask rarely enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.agent.drain.periods import HEARTBEAT_S, ORDERS_S, periods, periods_of
from holter.agent.supervision.members import LOST_S
from holter.store.job import create
from holter.store.urls import place

BUCKET = "s3://bucket/jobs"


@pytest.mark.parametrize("nodes", [None, 1, 64])
def test_small_jobs_are_quick(nodes: int | None) -> None:
    assert periods(place(BUCKET), nodes) == (ORDERS_S, HEARTBEAT_S)


def test_requests_of_all_nodes_stay_below_the_limits_of_a_prefix() -> None:
    """S3 takes 5,500 reads and 3,500 writes a second below one prefix."""
    for nodes in (128, 1000, 10_000):
        found = periods(place(BUCKET), nodes)
        assert nodes / found.orders_s < 5500 / 4
        assert nodes / found.heartbeat_s < 3500 / 4
        assert found.heartbeat_s < LOST_S / 2


def test_a_folder_of_a_file_system_is_asked_as_often_as_ever(tmp_path: Path) -> None:
    made = create(
        str(tmp_path / "store"),
        "a",
        command=["x"],
        interval_ms=500,
        rules=[],
        now_ns=1,
        launch={"id": "a", "nodes": 10_000},
    )
    assert periods_of(made) == (ORDERS_S, HEARTBEAT_S)
