"""`holter rules list|show|run`: the text about rules, and their results on a job."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import job, told

from holter.rules import catalogue


def test_list_goes_by_category_and_fits_eighty_columns(holter):
    out = holter("rules", "list").out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    categories = {rule.category() for rule in catalogue().values()}
    heads = [n for n, line in enumerate(lines) if line.strip() in categories and not line.startswith(" ")]
    assert {lines[n].strip() for n in heads} == categories
    for name, rule in catalogue().items():
        at = next(n for n, line in enumerate(lines) if line.split()[:1] == [name])
        assert lines[max(n for n in heads if n < at)].strip() == rule.category()
    listed = json.loads(holter("rules", "list", "--json").out)
    assert [rule["name"] for rule in listed["rules"]] == list(catalogue())
    assert "LowGPUUtilization" in listed["packs"]["essentials"]


def test_one_pack_is_listed_and_an_unknown_one_names_the_nearest(holter):
    of_pack = json.loads(holter("rules", "list", "--pack", "essentials", "--json").out)
    assert [rule["name"] for rule in of_pack["rules"]] == of_pack["packs"]["essentials"]
    assert "LowGPUUtilization *" in holter("rules", "list", "--pack", "essentials").out
    assert "Overfit" not in holter("rules", "list", "--pack", "essentials").out
    holter("rules", "list", "--pack", "esentials").refused(64, "'essentials'")


@pytest.mark.parametrize("name", ["LowGPUUtilization", "StepOutlier", "OverallSystemUsage"])
def test_show_tells_everything(holter, name):
    rule = catalogue()[name]
    out = holter("rules", "show", name).out
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    for text in (rule.description, rule.formula, rule.advice, ", ".join(rule.reads), ", ".join(rule.packs)):
        assert " ".join(text.split()) in words
    for parameter in rule.parameters():
        assert f"{parameter.name} = {parameter.modern}" in out
        assert parameter.meaning in words
        if parameter.classic != parameter.modern:
            assert f"(classic: {parameter.classic})" in words
    assert "never in this store" in out


def test_show_tells_when_it_last_fired(holter):
    issue = {"summary": "gpu0 is little used", "severity": "warning", "last_found": None}
    issue["time_end"] = 1_700_000_000 * 10**9
    rule = {"name": "mine", "rule": "LowGPUUtilization", "status": "IssuesFound", "issues": [issue]}
    older = {**rule, "issues": [{**issue, "time_end": 1_600_000_000 * 10**9, "summary": "long ago"}]}
    job("first").write_evaluations({"rules": [older]})
    other = {"name": "x", "rule": "StepOutlier", "status": "NoIssuesFound", "issues": []}
    job("second").write_evaluations({"rules": [rule, other]})
    assert "in second: gpu0 is little used" in " ".join(
        holter("rules", "show", "LowGPUUtilization").out.split()
    )
    shown = json.loads(holter("rules", "show", "low_gpu_utilization", "--json").out)
    assert shown["last_fired"]["job"] == "second"
    assert json.loads(holter("rules", "show", "StepOutlier", "--json").out)["last_fired"] is None


def test_unknown_rules_name_the_nearest(holter):
    holter("rules", "show", "LowGPUUtilisation").refused(64, "did you mean LowGPUUtilization?")
    told("after", ranks=1, cores=1, steps=60, samples=120)
    holter("rules", "run", "after", "pack:esentials").refused(64, "did you mean 'essentials'")
    holter("rules", "run", "after", "StepOutlier:stdev=3").refused(64, "did you mean 'stddev'")
    holter("rules", "run", "after", "StepOutlier", "--baseline", "nope").refused(4, "'nope'")


def test_run_takes_packs_repeats_and_strict_coverage(holter):
    told("after", ranks=1, cores=1, steps=60, samples=120)
    words = ("rules", "run", "after", "pack:performance", "StepOutlier:stddev=4", "StepOutlier:stddev=6")
    answer = holter(*words, "--json")
    assert answer.code == 0, answer.err
    found = {rule["name"]: rule for rule in json.loads(answer.out)["rules"]}
    assert found["StepOutlier"]["parameters"]["stddev"] == 4
    assert found["StepOutlier-2"]["parameters"]["stddev"] == 6
    assert "LowGPUUtilization" in found
    coverage = found["OverallFrameworkMetrics"]["coverage"]
    assert coverage["evaluated"] is True
    assert coverage["last_step"] - coverage["first_step"] == 59
    strict = holter("rules", "run", "after", "HostMemoryLeak", "--strict-coverage")
    assert strict.code == 1
    assert "NotEvaluated" in strict.out


def test_rules_may_be_named_after_options_and_as_in_run(holter):
    job = told("after", ranks=1, cores=1, steps=60, samples=120)[0]
    words = ("--store", job.url.rpartition("/")[0], "--rule", "StepOutlier", "LowGPUUtilization")
    answer = holter("rules", "run", "after", "--json", *words)
    assert {rule["name"] for rule in json.loads(answer.out)["rules"]} == {"StepOutlier", "LowGPUUtilization"}
    holter("rules", "run").refused(64, "required: JOB;")
    holter("rules", "run", "after", "--json", "--bogus", "x").refused(64, "unknown option --bogus")


def test_run_says_what_to_look_at_first(holter):
    told("before", ranks=1, cores=1, steps=250)
    answer = holter("rules", "run", "before", "DataloaderBottleneck", "LowGPUUtilization")
    assert answer.code == 3
    assert "(look at DataloaderBottleneck first)" in " ".join(answer.out.split())
