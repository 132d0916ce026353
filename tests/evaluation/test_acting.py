"""Actions beside the evaluator: after an issue is stored, once, and kept with it through a restart."""

from __future__ import annotations

import json

import pytest
from tests.actions.receivers import http
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.generated.story import story

from holter.actions._orders import choose as orders
from holter.actions._orders import documents as told
from holter.evaluation import choose, documents, evaluate
from holter.store.job import find

RULES = documents(choose(["DataloaderBottleneck", "StepOutlier"]))


@pytest.fixture(scope="module")
def tale():
    return story("before", ranks=1, cores=1, steps=100, samples=400)


@pytest.fixture
def hook(monkeypatch):
    with http() as made:
        monkeypatch.setenv("HOOK_URL", f"{made.url}/services/a-secret-path")
        yield made


def job(tale, store, *given, begun=begin):
    folder = begun(tale, store, RULES)
    folder.update(actions=told(orders(given, RULES)))
    return folder


def judged(folder, **more):
    """Judge the job with given rules and actions, as the `holter run` that started it does."""
    return evaluate(folder, RULES, actions=folder.manifest()["actions"], **more)


def acted(folder):
    return {
        (rule["name"], action["name"]): action["result"]
        for rule in folder.evaluations()["rules"]
        for issue in rule["issues"]
        for action in issue.get("actions", [])
    }


def test_who_is_told_of_an_issue_finds_it_in_the_store(tale, tmp_path, hook):
    script = (
        "import json, sys; told = json.load(sys.stdin); "
        "kept = json.load(open(told['url'] + '/evaluations.json')); "
        "sys.exit(not any(i['summary'] == told['summary'] for r in kept['rules'] for i in r['issues']))"
    )
    folder = job(tale, tmp_path, {"do": [{"exec": {"argv": ["python3", "-c", script]}}], "armed": True})
    parts = pieces(tale, 8)

    def wait(_seconds):
        if parts:
            write(folder, parts.pop(0))
        else:
            end(folder, tale)

    judged(folder, live=True, wait=wait)
    assert acted(folder) == {("DataloaderBottleneck", "run_command"): "ok"}


class Crash(Exception):
    """What ends an evaluator without a word."""


def test_once_an_issue_through_a_crash_and_the_end(tale, tmp_path, hook):
    folder = job(tale, tmp_path, "webhook:url_env=HOOK_URL,on=DataloaderBottleneck", "tag:key=seen")
    parts = pieces(tale, 10)

    def wait(_seconds):
        if ("DataloaderBottleneck", "webhook") in acted(folder) and not len(parts) % 2:
            raise Crash
        if parts:
            write(folder, parts.pop(0))

    with pytest.raises(Crash):
        judged(folder, live=True, wait=wait)
    for part in parts:
        write(folder, part)
    judged(folder, live=True, wait=lambda _s: None, stopping=lambda: True)
    end(folder, tale)
    judged(folder)
    judged(folder)
    assert acted(folder)["DataloaderBottleneck", "webhook"] == "ok"
    assert acted(folder)["DataloaderBottleneck", "tag"] == "ok"
    assert len({json.loads(body)["id"] for *_, body in hook.requests}) == 1
    assert folder.manifest()["tags"] == {"seen": "DataloaderBottleneck"}


def test_a_receiver_that_is_down_is_recorded_and_costs_nothing_else(tale, tmp_path, hook):
    hook.answers = [(400, {}, b"no such hook /services/a-secret-path")]
    folder = job(tale, tmp_path, "webhook:url_env=HOOK_URL", "log", begun=finished)
    result = judged(folder)
    assert {rule["status"] for rule in result.rules} == {"IssuesFound", "NoIssuesFound"}
    (rule,) = [rule for rule in folder.evaluations()["rules"] if rule["issues"]]
    failed, logged = rule["issues"][0]["actions"]
    assert (failed["result"], failed["text"]) == ("failed", "HTTP 400: no such hook ***")
    assert logged["result"] == "ok"


def test_judging_by_other_rules_acts_on_nothing_and_forgets_nothing(tale, tmp_path, hook):
    folder = job(tale, tmp_path, "webhook:url_env=HOOK_URL", begun=finished)
    evaluate(folder, ["DataloaderBottleneck"])
    assert not hook.requests
    judged(folder)
    evaluate(folder, ["StepOutlier"])
    judged(folder)
    assert len(hook.requests) == 1
    assert "a-secret-path" not in "".join(p.read_text() for p in (tmp_path / "before").rglob("*.json"))


def test_a_job_without_actions_has_no_trace_of_them(tale, tmp_path):
    folder = finished(tale, tmp_path, RULES)
    evaluate(folder)
    kept = find(str(tmp_path), folder.name).evaluations()
    assert "actions" not in kept
    assert not any("actions" in issue for rule in kept["rules"] for issue in rule["issues"])
