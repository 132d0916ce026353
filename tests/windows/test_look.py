"""Which steps are profiled without a request, what that may cost, and when nothing is profiled."""

from __future__ import annotations

import time

import pytest
import torch

from holter.recorder.look import BUDGET_NS, LEAST_STEPS, PLAIN_STEPS, Look, mode_from_environment
from holter.schema.phases import Phase

BACKWARD, WAITS = int(Phase.BACKWARD), int(Phase.DATA_LOADING)
ASKED = '{"requests": [{"profiler": "operators", "start_step": 500, "steps": 1}]}'


def looking(training, mode="always", *, compiles=False, part=BACKWARD, device="cpu"):
    """Return the look of a training that has run long enough, after the sampler woke in a part."""
    session = training.session
    look = session.windows.automatic = Look(session, mode, lambda: compiles, lambda *_: None)
    session.sticky["framework"] = {"device": device}
    session.go_to(LEAST_STEPS)
    for _ in range(30):
        look.woke(part)
    return look


def trained(training, steps=20, seconds=0.0, hours=None):
    """Train with an operator in each step, each of which takes a time in the steps that are profiled."""
    for _ in range(steps):
        torch.ones(3) + 1
        if hours is not None and training.session.windows._running is not None:
            hours.spend(seconds)
        training.steps(1)


def looks(training):
    return [one for one in training.told() if one["order"] == "look"]


def test_one_step_shows_the_cost_and_more_are_profiled_with_shapes(train):
    training = train()
    look = looking(training)
    trained(training, 60)
    first, second = looks(training)
    assert first["first_step"] == LEAST_STEPS + PLAIN_STEPS + 1, "after the steps that are timed"
    assert first["last_step"] - first["first_step"] == 1
    assert (first["parameters"], second["parameters"]) == ({}, {"shapes": True})
    assert second["last_step"] - second["first_step"] >= 3
    assert 0 < first["cost_ns"] + second["cost_ns"] < BUDGET_NS
    look.woke(BACKWARD)
    trained(training, 30)
    assert len(looks(training)) == 2, "a job is looked at once"


def test_a_window_that_costs_too_much_ends(train, hours):
    training = train()
    looking(training)
    trained(training, seconds=BUDGET_NS / 1e9 * 0.6, hours=hours)
    first, second = looks(training)
    assert first["last_step"] - first["first_step"] == 1
    assert second["last_step"] - second["first_step"] == 1, "not three: the budget is used up"


@pytest.mark.parametrize("seconds", [0.2, 2 * BUDGET_NS / 1e9])
def test_a_first_window_that_costs_too_much_is_the_only_one(train, hours, monkeypatch, seconds):
    training = train()
    look = looking(training)
    stop = training.session.windows._stop
    monkeypatch.setattr(training.session.windows, "_stop", lambda run: (hours.spend(seconds), stop(run)))
    trained(training)
    assert len(looks(training)) == 1
    assert look._over.is_set(), "its stack samples end too"
    assert training.session.fault_counts == {}


@pytest.mark.parametrize("how", ["slowly", "in evaluation mode"])
def test_a_step_that_evaluates_ends_the_window_within_it(train, how):
    training = train()
    session = training.session
    session.attach("pytorch")
    roots = session.torch_parts[2]
    look = looking(training)
    roots.on_evaluation[-1] = look.evaluation
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters())
    evaluated = 0

    def step(*, evaluate=False):
        nonlocal evaluated
        model.train(not evaluate or how == "slowly")
        for _ in range(5 if evaluate else 0):
            if how == "slowly":
                time.sleep(0.03)
            evaluated += session.windows._running is not None
            with torch.no_grad():
                model(torch.ones(1, 3))
        model.train()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        session.windows.wait()

    for _ in range(100):
        if session.windows._running is not None:
            break
        step()
    step(evaluate=True)
    assert 1 <= evaluated <= (3 if how == "slowly" else 1), "the profiler ends with the first late pass"
    assert look._left > BUDGET_NS / 2, "the evaluation is no cost of the look"
    assert session.windows.ended == ("operators", session.step), "no window begins at the end of this step"
    for _ in range(60):
        step()
    refused, first, second = looks(training)
    assert refused["refused"] == "its first step took much longer than the steps before"
    assert (first["parameters"], second["parameters"]) == ({}, {"shapes": True})
    assert session.fault_counts == {}


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "never"},
        {"mode": "auto", "device": "cuda"},
        {"mode": "auto", "compiles": True},
        {"mode": "auto", "part": WAITS},
    ],
)
def test_nothing_is_profiled(train, hours, given):
    training = train()
    look = looking(training, **given)
    hours.spend(6)
    look.woke(given.get("part", BACKWARD))
    trained(training)
    assert looks(training) == []


def test_a_loop_is_looked_at_after_five_seconds(train, hours):
    training = train()
    look = looking(training, "auto")
    trained(training)
    assert looks(training) == []
    hours.spend(6)
    look.woke(BACKWARD)
    trained(training, 60)
    assert len(looks(training)) == 2


def test_windows_of_the_user_come_first(train):
    training = train(profile=ASKED)
    looking(training)
    trained(training)
    assert looks(training) == []


def test_one_rank_is_profiled(train, monkeypatch):
    training = train()
    monkeypatch.setenv("RANK", "1")
    looking(training)
    trained(training)
    assert looks(training) == []


def test_a_script_with_a_profiler_of_its_own_is_not_looked_at(train, monkeypatch):
    monkeypatch.setenv("HOLTER_LOOK", "always")
    training = train()
    session = training.session
    session.attach("pytorch")
    look = session.windows.automatic
    assert look is not None
    torch.profiler.profile()
    session.go_to(LEAST_STEPS)
    look.woke(BACKWARD)
    trained(training)
    assert looks(training) == []


def test_the_budget_grows_with_the_loop(train, hours):
    training = train()
    look = looking(training, "auto")
    hours.spend(1000)
    look.woke(BACKWARD)
    trained(training, PLAIN_STEPS + 1)
    assert look._left == pytest.approx(1e9, rel=0.01), "0.1 % of 1,000 s"


@pytest.mark.parametrize(
    ("given", "mode", "said"), [("", "auto", ""), ("always", "always", ""), ("of", "never", "HOLTER_LOOK=of")]
)
def test_an_unknown_mode_is_reported_and_profiles_nothing(monkeypatch, capsys, given, mode, said):
    monkeypatch.setenv("HOLTER_LOOK", given)
    assert mode_from_environment() == mode
    told = capsys.readouterr().err
    assert said in told
    assert ("valid: never, auto, always" in told) == bool(said)
