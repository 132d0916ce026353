"""A busy but healthy host: no rule on hosts fires."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import SECOND, START, found, samples, steps

from holter.rules.reliability.disk_full import DiskFull
from holter.rules.system.cpu_oversubscription import CPUOversubscription
from holter.rules.system.network_bottleneck import NetworkBottleneck
from holter.rules.system.storage_bottleneck import StorageBottleneck


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
