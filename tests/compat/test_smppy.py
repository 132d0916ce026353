"""A script written for `smppy` runs with its import changed, recorded or not."""

from __future__ import annotations

import pytest
from tests.recorder.reading import environment, only, run

SCRIPT = """
import torch
from holter.compat import smppy

profiler = smppy.SMProfiler.instance()
config = smppy.Config()
config.profiler = {
    "EnableCuda": "1",
    "EnablePerf": "0",
    "BucketCount": "32",
    "RecordFile": "/opt/ml/output/profiler/framework/%p-%t.smpraw",
}
profiler.configure(config)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
profiler.start_profiling()
for i in range(5):
    with smppy.annotate(f"step_{i}"):
        with smppy.annotate("Forward"):
            output = net(torch.ones(3, 4))
        loss_range = smppy.annotation_begin("Loss")
        loss = output.sum()
        smppy.annotation_end(loss_range)
        with smppy.annotate("Backward"):
            loss.backward()
        with smppy.annotate("Optimizer"):
            optimizer.step()
    if i == 3:
        profiler.stop_profiling()
assert smppy.SMProfiler.instance() is profiler
print(torch.autograd._profiler_enabled())
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_the_script_runs(spool, recorded):
    done = run(spool, SCRIPT, env=environment(spool if recorded else None, **path(recorded)))
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "False")
    if not recorded:
        assert not list(spool.iterdir())
        return
    process = only(spool)
    assert process.facts("fault") == []
    names = [span.name for span in process.main.spans if span.phase == "annotation"]
    expected = [name for i in range(5) for name in ("Forward", "Loss", "Backward", "Optimizer", f"step_{i}")]
    assert names == expected
    (window,) = process.facts("window")
    assert "refused" not in window, window
    assert (window["profiler"], window["order"], window["first_step"]) == ("operators", "smppy", 1)
    assert window["last_step"] in (3, 4, 5)


OPTIONS = """
import holter
from holter.compat import smppy

config = smppy.Config()
config.profiler = {"EnableCuda": "0", "BucketCnt": "32"}
profiler = smppy.SMProfiler.instance()
profiler.configure(config)
profiler.start_profiling()
for i in range(3):
    with holter.step():
        pass
profiler.stop_profiling()
"""


def test_without_cuda_nothing_is_captured_and_an_unknown_option_is_told_of(spool):
    done = run(spool, OPTIONS, env=environment(spool))
    assert done.returncode == 0
    assert "no option 'BucketCnt' (did you mean 'BucketCount'?)" in done.stderr
    assert only(spool).facts("window") == []


def path(recorded):
    """Without a recorder the script finds holter as an installed package."""
    from tests.recorder.reading import SOURCE

    return {} if recorded else {"PYTHONPATH": SOURCE}
