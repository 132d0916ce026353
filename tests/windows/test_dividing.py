"""Windows that ask for the same steps: no step has two profilers, no file holds other steps."""

from __future__ import annotations

import json

import pytest
import torch
from tests.windows.test_operators import rows

from holter.cli.run.plan import profiling_variable
from holter.compat.sagemaker import FrameworkProfile, ProfilerConfig
from holter.schema.dividing import divided, notices
from holter.schema.windows import ProfilingOrder, Request


def asked(profiler: str, first: int | None, steps: int | None = None, rank: int | None = None) -> Request:
    return Request(profiler, start_step=first, steps=steps, rank=rank)


@pytest.mark.parametrize(
    ("requests", "expected", "lines"),
    [
        ([("operators", 10, 5), ("python", 10, 5)], [(10, 3), (13, 2)], 1),
        ([("operators", 1000, 500), ("python", 1000, 500), ("dataloader", 1000, 500)],
         [(1000, 250), (1250, 250), (1000, 500)], 1),
        ([("operators", 10, 3)] * 3, [(10, 1), (11, 1), (12, 1)], 1),
        ([("operators", 5, 1), ("python", 9, 3)], [(5, 1), (9, 3)], 0),  # as in SageMaker's presets
        ([("operators", 10), ("python", 10)], [(10, None), (10, None)], 1),  # one step is not divided
        ([("operators", 10, 5), ("python", 12, 5)], [(10, 5), (12, 5)], 1),
        ([("operators", 10, 5, 0), ("python", 10, 5, 1)], [(10, 5), (10, 5)], 0),
        ([("operators", 10, 6, 0), ("python", 10, 6)], [(10, 3), (13, 3)], 1),
        ([("operators", None, 5), ("python", None, 5)], [(None, 5), (None, 5)], 0),  # from now on, one by one
    ],
)  # fmt: skip
def test_who_gets_which_steps(requests, expected, lines):
    given = [asked(*one) for one in requests]
    assert [(one.start_step, one.steps) for one in divided(given)] == expected
    assert len(notices(given)) == lines


def test_what_a_person_is_told(capsys):
    profiling_variable(["10:15", "10:15:cprofile"])
    assert capsys.readouterr().err == (
        "holter: steps 10 to 14 are divided, for two profilers at once would measure each other: "
        "operators 10 to 12, python 13 to 14\n"
    )
    profiling_variable(["10:15", "14:20:cprofile"])
    assert "python of steps 14 to 19 begins with step 15 or later" in capsys.readouterr().err


def test_the_case_of_four_suspects_scaled_down(train):
    """SageMaker's configuration of one range for all categories: files hold steps of it, and no others."""
    config = ProfilerConfig(framework_profile_params=FrameworkProfile(start_step=10, num_steps=5))
    made = train(ProfilingOrder(config.windows()).to_text())
    for _ in range(20):
        torch.ones(3).cos()
        made.steps(1)
    ranges = sorted(made.ranges())
    assert ranges == [("dataloader", 10, 15), ("operators", 10, 13), ("python", 13, 15)]
    (operators,) = [one for one in made.told() if one["profiler"] == "operators"]
    table = rows(made.spool / operators["file"], operators)["operators"]
    assert sorted(set(table["step"].tolist())) == [10, 11, 12]
    (loader,) = [one for one in made.told() if one["profiler"] == "dataloader"]
    assert len(loader["bounds"]) == 6
    (python,) = [one for one in made.told() if one["profiler"] == "python"]
    parts = [json.loads(line) for line in (made.spool / python["file"]).read_text().splitlines()]
    assert {part["step"] for part in parts} == {13, 14}


def test_shares_of_one_profiler_stay_within_the_steps(train):
    """One that must wait a step for the one before loses that step, and takes none behind its last."""
    shapes = {"profiler": "operators", "start_step": 4, "steps": 6, "parameters": {"shapes": True}}
    plain = {**shapes, "parameters": {"stacks": True}}
    made = train(json.dumps({"requests": [shapes, plain]}))
    for _ in range(14):
        made.steps(1)
    assert made.ranges() == [("operators", 4, 7), ("operators", 8, 10)]
