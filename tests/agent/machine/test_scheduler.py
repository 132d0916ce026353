"""The job of a cluster's scheduler, and when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.agent.machine.scheduler import ends, scheduler

NOW = 1_800_000_000 * 10**9
SLURM = {"SLURM_JOB_ID": "12"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        (SLURM, {"name": "slurm", "job": "12", "restarts": 0}),
        (
            {**SLURM, "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"},
            {"name": "slurm", "job": "10_3", "restarts": 2},
        ),
        (
            {**SLURM, "SLURM_STEP_ID": "0", "SLURM_JOB_END_TIME": "1800000600"},
            {"name": "slurm", "job": "12", "restarts": 0, "step": "0", "ends": 1_800_000_600 * 10**9},
        ),
        ({"TRAINING_JOB_NAME": "bert-1"}, {"name": "sagemaker", "job": "bert-1"}),
        (
            {
                "KUBERNETES_SERVICE_HOST": "10.0.0.1",
                "HOSTNAME": "bert-2-x7k2p",
                "JOB_COMPLETION_INDEX": "2",
            },
            {"name": "kubernetes", "job": "bert", "step": "2"},
        ),
        ({"JOB_COMPLETION_INDEX": "2"}, None),
    ],
)
def test_what_the_environment_says(variables, expected):
    assert scheduler(variables) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("echo 1800000600", 600), ("echo NONE", None), ("echo 1", None), ("exit 1", None)],
)
def test_an_older_slurm_is_asked_once(tmp_path: Path, answer, expected):
    asked = tmp_path / "asked"
    program = tmp_path / "squeue"
    program.write_text(f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $@" >> {asked}\n{answer}\n')
    program.chmod(0o755)
    variables = {**SLURM, "PATH": str(tmp_path)}
    found = ends(scheduler(variables), variables, NOW)
    assert found == (None if expected is None else NOW + expected * 10**9)
    assert asked.read_text() == "%s --noheader --format=%e --jobs 12\n"


def test_no_program_is_run_where_the_environment_says_it_or_there_is_none(tmp_path: Path):
    told = {**SLURM, "SLURM_JOB_END_TIME": "1800000600", "PATH": str(tmp_path)}
    assert ends(scheduler(told), told, NOW) == NOW + 600 * 10**9
    silent = {**SLURM, "PATH": str(tmp_path)}
    assert ends(scheduler(silent), silent, NOW) is None
    never = {**told, "SLURM_JOB_END_TIME": str(1_800_000_000 + 20 * 365 * 86400)}
    assert ends(scheduler(never), never, NOW) is None
