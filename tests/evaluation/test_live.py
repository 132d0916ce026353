"""Live evaluation: the same findings as afterwards, whatever the pieces, restarts and crashes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.generated.story import story

from holter.evaluation import choose, documents, evaluate
from holter.store.trial import Trial

RULES = documents(choose(["pack:default"]))


@pytest.fixture(scope="module")
def tale():
    return story("before", ranks=2, cores=2, steps=120, samples=800)


@pytest.fixture(scope="module")
def afterwards(tale, tmp_path_factory):
    folder = finished(tale, tmp_path_factory.mktemp("after"), RULES)
    result = evaluate(folder)
    return folder, result.rules


class Agent:
    """Writes the next piece of a story each time the evaluator waits for data."""

    def __init__(self, folder, tale, parts):
        self.folder, self.tale, self.parts = folder, tale, list(parts)

    def __call__(self, _seconds):
        if self.parts:
            write(self.folder, self.parts.pop(0))
        else:
            end(self.folder, self.tale)


def issues(rules):
    return {
        rule["name"]: (rule["issues"], rule["evaluations"], rule["triggered"], rule["details"])
        for rule in rules
    }


def stored_steps(folder):
    table = Trial(folder).table("steps").sorted("time", "rank")
    return [(row["rank"], row["step"], row["duration"], row["data_loading"]) for row in table.to_rows()]


@pytest.mark.parametrize("count", [1, 40])
def test_live_finds_what_is_found_afterwards(tale, afterwards, tmp_path, count):
    folder = begin(tale, tmp_path, RULES)
    result = evaluate(folder, live=True, wait=Agent(folder, tale, pieces(tale, count)))
    assert issues(result.rules) == issues(afterwards[1])
    assert {rule["status"] for rule in result.rules} <= {"NoIssuesFound", "IssuesFound"}
    assert stored_steps(folder) == stored_steps(afterwards[0])


def test_steps_are_stored_once(afterwards):
    folder, _ = afterwards
    steps = stored_steps(folder)
    assert len(steps) == 2 * 120
    assert len({(rank, step) for rank, step, *_ in steps}) == len(steps)
    evaluate(folder)
    evaluate(folder, ["StepOutlier"])
    assert stored_steps(folder) == steps


class Crash(Exception):
    """What ends an evaluator without a word."""


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_moment_changes_nothing(tale, afterwards, tmp_path, seed):
    folder = begin(tale, tmp_path, RULES)
    parts = pieces(tale, 24)
    random = np.random.default_rng(seed)
    while parts:
        lives = int(random.integers(2, 12))
        agent = Agent(folder, tale, parts[:lives])

        def wait(seconds, agent=agent):
            if not agent.parts:
                raise Crash
            agent(seconds)

        with pytest.raises(Crash):
            evaluate(folder, live=True, wait=wait)
        parts = parts[lives:]
    end(folder, tale)
    result = evaluate(folder)
    assert issues(result.rules) == issues(afterwards[1])
    assert stored_steps(folder) == stored_steps(afterwards[0])


def test_a_stop_judges_what_is_there_and_says_stopped(tale, tmp_path):
    folder = begin(tale, tmp_path, RULES)
    agent = Agent(folder, tale, pieces(tale, 10)[:7])
    result = evaluate(folder, live=True, wait=agent, stopping=lambda: not agent.parts)
    statuses = {rule["name"]: rule["status"] for rule in result.rules}
    assert statuses["DataloaderBottleneck"] == "IssuesFound"
    assert statuses["NonFiniteLoss"] == "Stopped"
    assert {r["name"]: r["status"] for r in folder.evaluations()["rules"]} == statuses
    for piece in pieces(tale, 10)[7:]:
        write(folder, piece)
    end(folder, tale)
    again = evaluate(folder)
    assert {rule["status"] for rule in again.rules} <= {"NoIssuesFound", "IssuesFound"}


def test_a_stop_is_said_while_the_rest_is_judged(tale, tmp_path, monkeypatch):
    folder = begin(tale, tmp_path, RULES)
    agent = Agent(folder, tale, pieces(tale, 10)[:5])
    monkeypatch.setattr("holter.evaluation.sources.ROWS", 50)  # so that the rest takes more than one read
    seen = set()

    def stopping():
        seen.update(rule["status"] for rule in folder.evaluations().get("rules", []))
        return not agent.parts

    evaluate(folder, live=True, wait=agent, stopping=stopping)
    assert {"InProgress", "Stopping"} <= seen
    assert {rule["status"] for rule in folder.evaluations()["rules"]} <= {"Stopped", "IssuesFound"}


def test_statuses_are_in_the_store_while_it_runs(tale, tmp_path):
    folder = begin(tale, tmp_path, RULES)
    agent = Agent(folder, tale, pieces(tale, 10))
    seen = []

    def wait(seconds):
        agent(seconds)
        seen.append({r["name"]: r["status"] for r in folder.evaluations().get("rules", [])})

    evaluate(folder, live=True, wait=wait)
    assert seen[1]["DataloaderBottleneck"] == "InProgress"
    assert any(statuses["DataloaderBottleneck"] == "IssuesFound" for statuses in seen[:-1])
    assert set(folder.evaluations()["cost"]) == {"cpu_s", "looks", "late_spans"}
    assert folder.evaluations()["cost"]["cpu_s"] > 0


def test_a_look_at_a_running_job_leaves_it_alone(tale, tmp_path):
    folder = begin(tale, tmp_path, RULES)
    for piece in pieces(tale, 10)[:8]:
        write(folder, piece)
    result = evaluate(folder)
    assert "InProgress" in {rule["status"] for rule in result.rules}
    assert result.exit_code == 3
    assert folder.evaluations() == {}
    assert stored_steps(folder) == []


def test_what_is_kept_is_json_and_rules_of_others_stay(afterwards):
    folder, before = afterwards
    document = folder.evaluations()
    assert json.loads(json.dumps(document)) == document
    evaluate(folder, [{"name": "strict", "rule": "LowGPUUtilization", "parameters": {"threshold": 99}}])
    names = [rule["name"] for rule in folder.evaluations()["rules"]]
    assert "strict" in names
    assert {rule["name"] for rule in before} <= set(names)
