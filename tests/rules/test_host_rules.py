"""Rules about disks, storage, cores and the network, on machines that are sick and on healthy ones."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules.reliability.disk_full import DiskFull
from holter.rules.system.cpu_oversubscription import CPUOversubscription
from holter.rules.system.network_bottleneck import NetworkBottleneck
from holter.rules.system.storage_bottleneck import StorageBottleneck
from holter.schema.table import Table

GIB = 2**30


def severities(issues):
    return [issue.severity for issue in issues]


def disk(share, *, size_gib=200.0, minutes=30):
    """Free space every ten seconds: one value, or one for each reading."""
    share = np.broadcast_to(np.asarray(share, dtype=float), minutes * 6)
    series = {("disk.free_pct", ""): share, ("disk.free", ""): share / 100 * size_gib * GIB}
    return samples(series, interval_s=10.0)


@pytest.mark.parametrize(
    ("share", "size", "expected"),
    [
        (12, 200, []),
        (8, 200, ["warning"]),
        (1, 200, ["critical"]),
        (8, 8000, []),  # 640 GiB are enough, whatever their share
        (1, 8000, ["critical"]),
    ],
)
def test_little_space(share, size, expected):
    assert severities(found(DiskFull(), samples=disk(share, size_gib=size))) == expected


def test_space_that_is_used_up_soon():
    fast = np.linspace(60, 40, 180)  # 40 points an hour: one hour left
    (issue,) = found(DiskFull(), samples=disk(fast))
    assert issue.severity == "warning"
    assert issue.evidence["hours_left"] == pytest.approx(1.0, abs=0.1)
    slow = np.linspace(60, 58, 180)
    assert found(DiskFull(), samples=disk(slow)) == []


def test_checkpoints_that_come_and_go_do_not_fill_a_disk():
    random = np.random.default_rng(2)
    saw = 50 - (np.arange(180) % 45) * 0.5
    jump = np.where(np.arange(180) > 90, 45.0, 60.0)
    for values in (saw, jump, 50 + random.normal(0, 1, 180)):
        assert found(DiskFull(), samples=disk(values)) == []


def test_a_store_on_no_disk_says_so():
    assert look(DiskFull(), samples=samples({("cpu.util", ""): [1.0]}))[1].lack.reason == "no_input"


def cpu(*, cores=8, count=240, **metrics):
    series = {("cpu.core.util", f"cpu{i}"): np.full(count, 95.0) for i in range(cores)}
    for name, value in metrics.items():
        metric = {
            "throttled": "cgroup.throttled_pct",
            "psi": "psi.cpu",
            "load": "cpu.load1",
            "util": "cpu.util",
            "own": "proc.cpu",
        }
        series[metric[name], "trainer" if name == "own" else ""] = np.full(count, float(value))
    return samples(series)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"throttled": 0.5}, []),
        ({"throttled": 2}, ["info"]),
        ({"throttled": 8}, ["warning"]),
        ({"throttled": 40}, ["critical"]),
        ({"load": 8, "util": 97}, []),
        ({"load": 10, "util": 97}, ["info"]),
        ({"load": 13, "util": 97}, ["warning"]),
        ({"load": 30, "util": 97}, ["critical"]),
        ({"load": 30, "util": 40}, []),  # they wait for disks, or are somebody else's
        ({"load": 13, "util": 97, "psi": 70}, ["critical"]),
        ({"load": 8, "util": 97, "psi": 70}, []),  # as many threads as cores
        ({"util": 97, "psi": 40}, ["warning"]),
        ({"util": 30, "psi": 70}, []),
        ({"load": 30, "util": 97, "psi": 90, "own": 100}, []),  # one thread of the job among many of others
        ({"load": 30, "util": 97, "psi": 90, "own": 700}, ["critical"]),
    ],
)
def test_more_threads_than_cores(about, expected):
    assert severities(found(CPUOversubscription(), samples=cpu(**about))) == expected


def test_the_quota_is_named_first():
    (issue,) = found(CPUOversubscription(), samples=cpu(throttled=40, load=30, util=99))
    assert issue.code == "throttled"
    assert "quota" in issue.advice


def storage(psi, loading, *, wait=None, iops=200.0):
    series = {("psi.io", ""): np.full(600, float(psi))}
    if wait is not None:
        series |= {("disk.await", ""): np.full(600, float(wait)), ("disk.iops", ""): np.full(600, iops)}
    return found(StorageBottleneck(), samples=samples(series), steps=steps([1.0] * 300, data_loading=loading))


@pytest.mark.parametrize(
    ("psi", "loading", "expected"),
    [
        (30, 0.15, ["warning"]),
        (50, 0.3, ["critical"]),
        (50, 0.15, ["warning"]),
        (50, 0.02, []),
        (10, 0.5, []),
    ],
)
def test_storage_matters_only_where_training_waits(psi, loading, expected):
    assert severities(storage(psi, loading)) == expected


def test_a_slow_disk_is_a_note_where_it_is_used():
    (issue,) = storage(1, 0.01, wait=80)
    assert (issue.severity, issue.code) == ("info", "slow_disk")
    assert storage(1, 0.01, wait=80, iops=1.0) == []


def test_without_pressure_or_waits_storage_is_not_judged():
    issues, window = look(StorageBottleneck(), steps=steps([1.0] * 300, data_loading=0.9))
    assert (issues, window.lack.reason) == ([], "no_input")


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


def test_a_healthy_bursty_machine_is_silent():
    random = np.random.default_rng(11)
    count = 600
    on = np.repeat(random.random(count // 20) < 0.5, 20)
    series = {
        ("cpu.util", ""): np.where(on, 80.0, 5.0),
        ("cpu.load1", ""): np.where(on, 7.0, 1.0),
        ("psi.cpu", ""): np.where(on, 12.0, 0.0),
        ("psi.io", ""): np.where(on, 25.0, 0.0),
        ("cgroup.throttled_pct", ""): np.zeros(count),
        ("disk.await", ""): random.exponential(5.0, count),
        ("disk.iops", ""): np.where(on, 400.0, 2.0),
        ("disk.free_pct", ""): np.full(count, 45.0) - on,
        ("net.link_speed", ""): np.full(count, 1.25e9),
        ("net.rx", ""): np.where(on, 1.2e9, 1e5),
        ("net.tx", ""): np.where(on, 2e8, 1e5),
        ("net.segments", ""): np.where(on, 20_000.0, 10.0),
        ("net.retrans", ""): np.where(on, 4.0, 0.0),
        **{("cpu.core.util", f"cpu{i}"): np.where(on, 80.0, 5.0) for i in range(8)},
    }
    table = samples(series)
    assert int(table["time"].max()) == START + count // 2 * SECOND
    train = steps([0.25] * 1200, data_loading=0.04, communication=0.05, forward=0.3)
    for rule in (CPUOversubscription(), DiskFull(), StorageBottleneck(), NetworkBottleneck()):
        assert found(rule, samples=table, steps=train) == [], rule
