"""Tests of the rule HardwareError."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.gpus import gpus
from tests.rules.tables import codes, found, look, samples

from holter.rules.reliability.hardware_error import HardwareError


@pytest.mark.parametrize(
    ("xid", "severity"), [(79, "critical"), (48, "critical"), (63, "warning"), (13, "info"), (999, "info")]
)
def test_an_xid_is_reported_at_once_with_its_meaning(xid, severity):
    (issue,) = found(HardwareError(), samples=samples({("gpu.xid", "gpu3"): [xid]}))
    assert (issue.code, issue.severity, issue.device) == (f"xid_{xid}", severity, "gpu3")
    assert issue.evidence == {"xid": xid}
    assert HardwareError.consecutive == 1
    assert "default" in HardwareError.packs


def test_memory_errors_of_this_job_are_critical_and_older_ones_are_not():
    assert found(HardwareError(), samples=gpus(ecc_uncorrected=0.0)) == []
    assert codes(found(HardwareError(), samples=gpus(ecc_uncorrected=2.0))) == [("ecc_before", "warning")]
    rising = np.where(np.arange(600) > 300, 3.0, 2.0)
    (issue,) = found(HardwareError(), samples=gpus(ecc_uncorrected=rising))
    assert (issue.code, issue.severity) == ("ecc", "critical")
    assert issue.evidence == {"errors": 3, "before_the_job": 2}


def test_rows_that_wait_to_be_remapped():
    assert codes(found(HardwareError(), samples=gpus(remap_pending=1.0, remap_failed=0.0))) == [
        ("remap_pending", "warning")
    ]
    assert codes(found(HardwareError(), samples=gpus(remap_failed=1.0))) == [("remap_failed", "critical")]


@pytest.mark.parametrize(("per_minute", "fires"), [(8, False), (60, True)])
def test_pcie_replays_are_counted_by_the_minute(per_minute, fires):
    table = gpus(pcie_replays=100 + np.arange(600) * 0.5 / 60 * per_minute)
    assert codes(found(HardwareError(), samples=table)) == ([("pcie_replays", "warning")] if fires else [])


@pytest.mark.parametrize(("util", "width", "fires"), [(90, 8, True), (10, 8, False), (90, 16, False)])
def test_a_narrow_link_counts_only_under_load(util, width, fires):
    table = gpus(util=util, pcie_width=width, pcie_width_max=16, pcie_gen=5, pcie_gen_max=5)
    assert codes(found(HardwareError(), samples=table)) == ([("pcie_width", "warning")] if fires else [])


def test_errors_of_other_jobs_gpus_are_not_reported():
    series = {("gpu.xid", "gpu0"): [31.0], ("gpu.procs", "gpu0"): [0.0], ("gpu.procs", "gpu1"): [1.0]}
    assert look(HardwareError(), samples=samples(series))[0] == []
