"""What holds for every collector of the shelf, and what a machine says it can and cannot measure."""

from __future__ import annotations

import math
import sys
import time

import pytest
from tests.agent.trees import NET, cpu_stat, values, write

from holter import plugins
from holter.agent.collectors import Collector, Machine, collectors
from holter.agent.drain.clock import Clock
from holter.agent.machine.cgroups import ControlGroup
from holter.agent.machine.node import capabilities, node_facts
from holter.schema.metrics import METRICS

SECOND = 1_000_000_000

NAMES = sorted(plugins.modules("holter.agent.collectors"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_one_collector_of_its_name(name):
    module = plugins.modules("holter.agent.collectors")[name]
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Collector) and value.__module__ == module.__name__
    ]
    assert [one.__name__.lower() for one in classes] == [name]


def test_what_works_here_gives_known_metrics_and_sound_numbers():
    made, missing = collectors(Machine())
    assert {"cpu", "memory", "overhead", "processes"} <= {
        type(one).__module__.rpartition(".")[2] for one in made
    }
    assert all(what and why for what, why in missing)
    for collector in made:
        for now in (0, SECOND // 2):
            for device, metric, value in collector.read(now or time.monotonic_ns()):
                assert metric in METRICS
                assert math.isfinite(value)
                assert METRICS[metric].per_device == (device != "")
                if METRICS[metric].unit == "%":
                    assert 0 <= value <= 100


def test_rates_are_absent_at_first():
    made, _ = collectors(Machine())
    now = time.monotonic_ns()
    first = {metric for one in made for _, metric, _ in one.read(now)}
    assert not [name for name in first if METRICS[name].rate]


def test_on_a_machine_with_nothing_every_collector_says_why(tmp_path):
    (tmp_path / "proc").mkdir()
    bare = Machine(
        proc=tmp_path / "proc",
        sys=tmp_path / "sys",
        shm=tmp_path / "x",
        cgroup=ControlGroup((), (), unified=False),
        environment={},
    )
    made, missing = collectors(bare)
    assert {what for what, _ in missing} >= {"cpu", "memory", "disk", "network", "pressure", "cgroup"}
    assert {type(one).__name__ for one in made} <= {"Overhead", "Processes"}


def test_capabilities_name_what_is_and_what_is_not(machine):
    write(machine.proc, {"stat": cpu_stat((0, 0, 0)), "diskstats": "", "net/dev": NET.format(rx=0, tx=0)})
    found = dict(capabilities(machine))
    assert found["memory"] == ""
    assert "no disk" in found["disk"]


def test_facts_of_a_node(machine):
    clock = Clock.now()
    facts = node_facts(machine, [], [("gpu", "none")], clock)
    assert facts["cpus"] == 2
    assert facts["memory_bytes"] == 16_000_000 * 1024
    assert facts["gpus"] == []
    assert facts["missing"] == [{"what": "gpu", "why": "none"}]
    assert facts["clock"] == {"monotonic": clock.monotonic, "wall": clock.wall}


AMDSMI = """
class AmdSmiClkType: GFX = 1
class AmdSmiTemperatureType: EDGE = 0
class AmdSmiTemperatureMetric: CURRENT = 0
def amdsmi_init(): pass
def amdsmi_get_processor_handles(): return ["a"]
def amdsmi_get_gpu_activity(h): return {"gfx_activity": 88, "umc_activity": "N/A"}
def amdsmi_get_gpu_vram_usage(h): return {"vram_total": 1000, "vram_used": 250}
def amdsmi_get_power_info(h): return {"average_socket_power": 300, "power_limit": 500000000}
def amdsmi_get_clock_info(h, k): return {"clk": 1700, "max_clk": 2100}
def amdsmi_get_temp_metric(h, t, m): raise RuntimeError("not here")
def amdsmi_get_gpu_asic_info(h): return {"market_name": "MI300X"}
"""


def test_amd_reads_what_the_library_of_that_name_answers(tmp_path, monkeypatch):
    (tmp_path / "amdsmi.py").write_text(AMDSMI)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("amdsmi", None)
    from holter.agent.collectors.amd import Amd

    amd = Amd(Machine())
    found = values(amd, 0)
    assert found == {
        ("gpu0", "gpu.util"): 88,
        ("gpu0", "gpu.mem.used"): 250 << 20,
        ("gpu0", "gpu.mem.used_pct"): 25,
        ("gpu0", "gpu.power"): 300,
        ("gpu0", "gpu.power_limit"): 500,
        ("gpu0", "gpu.clock_sm"): 1700,
        ("gpu0", "gpu.clock_sm_max"): 2100,
    }
    assert amd.facts() == [{"device": "gpu0", "name": "MI300X", "memory_bytes": 1000 << 20}]
    assert amd.missing == [("gpu.temp of gpu0", "RuntimeError: not here")]
    sys.modules.pop("amdsmi")


def test_amd_without_its_library_has_a_reason():
    assert "amdsmi" in dict(collectors(Machine())[1])["amd"]
