"""Rules on what devices compute and copy: precision, share of the peak, memory that is not pinned."""

from __future__ import annotations

import json

import pytest
from tests.rules.tables import SECOND, START, found, look, steps
from tests.rules.test_trace_rules import GEMM16, GEMM32, codes
from tests.rules.traces import MS, Trace

from holter.rules import Job
from holter.rules.framework.low_mfu import LowMFU
from holter.rules.framework.mixed_precision_not_used import MixedPrecisionNotUsed
from holter.rules.framework.unpinned_h2d_copy import UnpinnedH2DCopy
from holter.schema.table import Table


def copying(*, mib=4, length_ms=0.5, exposed=True, **columns):
    trace = Trace()
    for i in range(10):
        at = i * 10 * MS
        trace.step(at, 10 * MS, i)
        if exposed:
            trace.kernel(at + length_ms * MS, (10 - length_ms) * MS)
        else:
            trace.kernel(at, 10 * MS)
        trace.copy(at, length_ms * MS, bytes=mib << 20, **columns)
    return trace.tables


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({}, [("pageable", "warning")]),
        ({"length_ms": 2.0}, [("pageable", "critical")]),
        ({"exposed": False}, []),
        ({"exposed": False, "mib": 32}, [("pageable", "warning")]),
        ({"memory": "pinned"}, []),
        ({"memory": "pinned", "call": "cudaMemcpy"}, [("blocking_copy", "warning")]),
        ({"length_ms": 0.01, "mib": 1}, []),
        ({"memory": ""}, []),
    ],
)
def test_copies_to_the_device(about, expected):
    assert codes(found(UnpinnedH2DCopy(), **copying(**about))) == expected


@pytest.mark.parametrize(
    ("pin", "share", "expected"),
    [(False, 0.1, "warning"), (False, 0.2, "critical"), (True, 0.1, None), (False, 0.0, None)],
)
def test_a_loader_that_does_not_pin_is_found_without_a_trace(pin, share, expected):
    event = {
        "time": START,
        "rank": 0,
        "kind": "loader",
        "name": "",
        "detail": json.dumps({"pin_memory": pin}),
    }
    issues, _ = look(
        UnpinnedH2DCopy(), events=Table.of("events", [event]), steps=steps([0.1] * 200, h2d=share)
    )
    assert [issue.severity for issue in issues] == ([expected] if expected else [])


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


H100 = {"n0": {"gpus": [{"device": "gpu0", "name": "NVIDIA H100 80GB HBM3"}]}}
SEVEN = {"model_parameters": 7e9, "layers": 32, "hidden": 4096, "sequence": 4096}


def mfu(step_s, *, rule=None, nodes=H100, name="tokens", value=16384.0, count=100):
    table = steps([step_s] * count)
    rows = [
        {"time": t, "rank": 0, "step": i, "mode": "train", "name": name, "value": value, "node": "n0"}
        for i, t in enumerate((table["time"] + table["duration"]).tolist())
    ]
    warm = {0: START + round(10 * step_s * SECOND)}
    job = Job(start=START, first_step=START, warm=warm, nodes=nodes)
    return look(rule or LowMFU.of(SEVEN), job=job, steps=table, scalars=Table.of("scalars", rows))


def test_p21_mfu_of_a_large_transformer():
    issues, _ = mfu(2.2)
    assert [issue.severity for issue in issues] == ["info"]
    assert issues[0].evidence["mfu_pct"] == pytest.approx(36.5, abs=0.05)


@pytest.mark.parametrize(("step_s", "severity"), [(1.9, None), (2.8, "warning"), (6.0, "critical")])
def test_mfu_levels_of_a_large_transformer(step_s, severity):
    issues, _ = mfu(step_s)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


@pytest.mark.parametrize(("share", "severity"), [(0.2, None), (0.08, "warning"), (0.02, "critical")])
def test_mfu_levels_of_other_models(share, severity):
    issues, window = mfu(0.1, rule=LowMFU(), name="flops", value=share * 989e12 * 0.1)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])
    assert window.points > 0


def test_mfu_without_operations_or_peak_is_not_judged():
    assert mfu(0.1, rule=LowMFU())[1].lack.reason == "no_input"
    assert mfu(0.1, nodes={"n0": {"gpus": []}})[1].lack.reason == "no_match"
    assert mfu(0.1, count=30)[1].lack.reason == "too_few_points"
    issues, _ = mfu(2.2, rule=LowMFU.of({**SEVEN, "peak_tflops": 989}), nodes={})
    assert issues
