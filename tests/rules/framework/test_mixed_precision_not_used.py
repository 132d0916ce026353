"""Tests of the rule MixedPrecisionNotUsed."""

from __future__ import annotations

import pytest
from tests.rules.tables import START, found, look
from tests.rules.traces import GEMM16, GEMM32, MS, Trace

from holter.rules import Job
from holter.rules.framework.mixed_precision_not_used import MixedPrecisionNotUsed


def multiplying(name, share, *, gpu="NVIDIA A100-SXM4-40GB"):
    trace = Trace()
    for i in range(10):
        at = i * 10 * MS
        trace.step(at, 10 * MS, i)
        trace.kernel(at, share * 9 * MS, name=name)
        trace.kernel(at + share * 9 * MS, (1 - share) * 9 * MS)
    job = Job(start=START, nodes={"n0": {"gpus": [{"device": "gpu0", "name": gpu}]}})
    return {"job": job, **trace.tables}


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ((GEMM32, 0.6), ["fp32_no_tf32"]),
        ((GEMM32, 0.3), []),
        ((GEMM16, 0.6), []),
        (("ampere_dgemm_64x64_nn", 0.6), ["fp64"]),
        (("my_own_conv_fwd_kernel", 0.6), []),  # its name does not say
    ],
)
def test_products_in_full_precision(about, expected):
    assert [issue.code for issue in found(MixedPrecisionNotUsed(), **multiplying(*about))] == expected


def test_what_a_device_can_do_decides():
    (issue,) = found(
        MixedPrecisionNotUsed(), **multiplying("volta_sgemm_64x64_nt", 0.5, gpu="Tesla V100-SXM2-32GB")
    )
    assert issue.code == "no_autocast"
    assert issue.evidence["possible_speedup"] == pytest.approx(1 / (0.5 + 0.5 / 4))
    issues, window = look(MixedPrecisionNotUsed(), **multiplying(GEMM32, 0.9, gpu="Tesla P100-PCIE-16GB"))
    assert (issues, window.lack.reason) == ([], "no_match")
