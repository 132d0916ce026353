"""Rules that lack their input report it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.allocators import cuda
from tests.rules.tables import lack, look, samples
from tests.rules.tensor_rows import whole

from holter.rules import catalogue
from holter.rules.framework.allocator_fragmentation import AllocatorFragmentation
from holter.rules.framework.gpu_memory_leak import GPUMemoryLeak
from holter.rules.reliability.hardware_error import HardwareError
from holter.rules.system.energy_waste import EnergyWaste
from holter.rules.system.memory_imbalance import MemoryImbalance
from holter.rules.system.thermal_throttling import ThermalThrottling
from holter.rules.system.unused_gpu import UnusedGPU


def test_without_a_gpu_every_rule_on_gpus_is_silent_and_says_why():
    table = samples({("cpu.util", ""): np.full(2000, 50.0), ("psi.cpu", ""): np.full(2000, 5.0)})
    for rule in (HardwareError(), ThermalThrottling(), UnusedGPU(), EnergyWaste()):
        issues, window = look(rule, samples=table)
        assert issues == []
        assert window.points == 0
        assert window.lack.reason == "no_input"


@pytest.mark.parametrize("defaults", ["modern", "classic"])
def test_a_run_without_a_matching_tensor_says_so(defaults):
    only = whole("nothing", {0: [1.0]}, role="elsewhere")
    for name in (
        "VanishingGradient",
        "DeadRelu",
        "ClassImbalance",
        "CheckInputImages",
        "TreeDepth",
        "LossNotDecreasing",
    ):
        rule = catalogue()[name].of(defaults=defaults)
        assert lack(rule, only).reason == "no_match"


def test_without_an_allocator_nothing_is_judged():
    other = cuda({"loss": np.ones(100)})
    for rule in (AllocatorFragmentation(), MemoryImbalance(), GPUMemoryLeak()):
        issues, window = look(rule, scalars=other)
        assert (issues, window.points, window.lack.reason) == ([], 0, "no_input")
