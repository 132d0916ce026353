"""A SageMaker profiler configuration profiles the steps that it names, and no others."""

from __future__ import annotations

import json
import pstats

import pytest
from tests.jobs.starting import here

from holter.compat.sagemaker import FrameworkProfile, ProfilerConfig
from holter.job import open as open_job


def test_the_windows_hold_their_steps_and_can_be_read_and_exported(jobs, tmp_path):
    profile = FrameworkProfile(start_step=20, num_steps=10)
    config = ProfilerConfig(system_monitor_interval_millis=200, framework_profile_params=profile)
    path = tmp_path / "profilerconfig.json"
    path.write_text(json.dumps(config.serialize()))
    done = jobs.train(
        "plain.py", "--steps", "60", "--workers", "2", options=("--config", str(path), "--no-rules")
    )
    assert done.code == 0, done.stderr
    job = open_job(str(done.store / done.job))
    windows = [json.loads(row["detail"]) for row in job.events.table.to_rows() if row["kind"] == "window"]
    assert {(one["profiler"], one["first_step"], one["last_step"]) for one in windows} == {
        ("operators", 20, 25),
        ("python", 25, 30),  # what is asked for is divided: they would measure each other
        ("dataloader", 20, 30),
    }
    assert not [one for one in windows if "refused" in one]
    steps = job.trial.sql(
        "SELECT 'operators' AS profiler, step FROM operators"
        " UNION SELECT 'python', step FROM python_functions ORDER BY profiler, step"
    )
    assert list(zip(steps["profiler"], steps["step"], strict=True)) == [
        *(("operators", step) for step in range(20, 25)),
        *(("python", step) for step in range(25, 30)),
    ]
    (forward,) = job.python_profile(phase="forward", steps=(26, 29))
    assert (forward["profiler"], forward["timer"]) == ("cprofile", "total_time")
    calls = {one["name"].split(" (")[0]: one["calls"] for one in forward["functions"]}
    assert calls["Network.forward"] == 3
    (sleep,) = (one for one in forward["calls"] if "time.sleep" in one["name"])
    assert sleep["caller"].startswith("Network.forward")
    with pytest.raises(ValueError, match="'; drop'"):
        job.python_profile(phase="'; drop'")

    told = job.loaders()
    assert (told["loaders"][0]["workers"], {one["worker"] for one in told["workers"]}) == (2, {0, 1})
    assert told["batches"] == 60
    assert told["ready"] > 0

    out = tmp_path / "stats"
    here("export", done.job, "--store", str(done.store), "--format", "pstats", "-o", str(out))
    stats = pstats.Stats(str(out / "rank0-total_time.pstats")).stats
    assert stats[next(key for key in stats if key[2] == "Network.forward")][1] == 5
