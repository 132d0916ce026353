"""The card and the description: width, colors, encodings, order, and what a full card drops."""

from __future__ import annotations

import io
import re

import jsonschema
import pytest
from tests.cli.conftest import PUBLISHED, told

from holter.agent.supervision.outcome import Outcome
from holter.analysis.verdict.device_parts import PARTS
from holter.cli.bar import bar, legend
from holter.cli.card import MOST_LINES, print_card
from holter.cli.commands.describe import show
from holter.cli.output import console, plain
from holter.cli.run.finish import finish
from holter.schema.phases import BREAKDOWN
from holter.store.trial import Trial
from holter.views.document.description import describe


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """The description of the worked case: data loading takes 60 % of each step."""
    return describe(Trial(told("before", str(tmp_path_factory.mktemp("store")), ranks=2, cores=8)[0]))


def drawn(description, width=80, encoding="utf-8", terminal=False):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    if terminal:
        stream.isatty = lambda: True
    print_card(description, stream, "holter describe before", width)
    stream.flush()
    return raw.getvalue().decode(encoding)


def failing(description, **job):
    return {**description, "job": {**description["job"], **job}}


@pytest.mark.parametrize("width", [80, 100])
def test_card_fits(slow, width):
    lines = drawn(slow, width).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= width


def test_card_says_the_verdict_the_guilty_the_advice_and_the_cost(slow):
    card = drawn(slow, 100)
    flat = " ".join(card.split())
    assert slow["verdict"]["sentence"] in flat
    assert "data loading 60" in flat
    assert re.search(r"transform 2\d\.\d % in ", flat)
    assert re.search(r"advice → \d+ ms a step: ", flat)
    assert "nothing dropped" in flat
    assert flat.endswith("next holter describe before")


def test_a_failure_leads(slow):
    lines = drawn(failing(slow, headline="Killed (SIGKILL) in step 40 while in forward.")).splitlines()
    assert "Killed (SIGKILL) in step 40" in lines[1]
    assert any("Data loading takes" in line for line in lines[2:5])


@pytest.mark.parametrize(
    ("status", "said"), [("Stopped", " stopped after 14 min 10 s "), ("InProgress", " running for 14 min ")]
)
def test_the_title_tells_a_job_that_did_not_run_to_its_end(slow, status, said):
    for name in ("before", "a-much-longer-name-of-a-job-20260101"):
        title = drawn(failing(slow, status=status, name=name)).splitlines()[0]
        assert said in title
        assert title.endswith(" ──"), "what does not fit is left out, not cut"
    assert said not in drawn(slow).splitlines()[0]
    assert said not in drawn(failing(slow, status=status, headline="Stopped by rule X.")).splitlines()[0]


def test_a_card_with_too_much_to_say_keeps_its_end(slow):
    issue = {"summary": "something is wrong " * 20, "severity": "warning"}
    rules = [{"name": f"Rule{n}", "status": "IssuesFound", "issues": [issue] * 5} for n in range(9)]
    headline = "RuntimeError: " + "a very long message " * 40
    lines = drawn({**failing(slow, headline=headline), "rules": rules}).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[-1].split() == ["next", "holter", "describe", "before"]


@pytest.mark.parametrize("more", ["", " The training loop is 77 % of this job."])
def test_a_card_with_room_cuts_nothing_and_says_nothing_twice(slow, more):
    sentence = "45 % of each step is spent outside all known parts."
    long = "one two three four five " * 9 + "end of it"
    verdict = {
        **slow["verdict"],
        "sentence": sentence + more,
        "evidence": [{"text": sentence.removesuffix(".")}, {"text": long}],
        "advice": [],
        "ruled_out": [],
    }
    card = drawn({**slow, "verdict": verdict, "dataloading": None, "rules": []})
    assert "end of it" in card
    assert "…" not in card
    assert card.count("outside all known parts") == 1


def test_what_a_job_says_cannot_steer_the_terminal(slow):
    card = drawn(
        failing(slow, headline="ValueError: \x1b[2J\x1b]0;gone\x07\r\nnext line 日本語" + "語" * 200)
    )
    assert "\x1b" not in card
    assert "\x07" not in card
    assert "next line" in card


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_plain_signs_where_the_encoding_lacks_ours(slow, encoding):
    card = drawn(slow, encoding=encoding)
    assert "#" in card
    assert "-> " in card
    assert "?" not in card


def test_color_only_on_a_terminal_that_wants_it(slow, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" not in drawn(slow)
    assert "\x1b[1m" in drawn(slow, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn(slow, terminal=True))


@pytest.mark.parametrize("width", [40, 78, 98])
def test_bar_is_filled_whatever_the_shares(width):
    shares = {"data_loading": 33.35, "forward": 33.33, "backward": 33.3, "other": 0.02}
    assert bar(shares, width).cell_len == width
    assert bar({"forward": 100.0}, width).cell_len == width
    text = " ".join(line.plain for line in legend(shares, width))
    assert "forward 33.3 %" in text
    assert "other" not in text


def test_description_of_a_story_keeps_to_the_schema_and_shows(slow):
    jsonschema.validate(slow, PUBLISHED)
    text = io.StringIO()
    show(slow, console(text, 100))
    shown = text.getvalue()
    assert max(map(len, shown.splitlines())) <= 100
    for title in ("Verdict", "Steps", "Data loading", "The machine", "Overhead"):
        assert f"\n{title}\n" in shown


def sick(name, severity="critical", **more):
    issue = {"summary": f"{name} says so", "severity": severity, "advice": f"Mend {name}.", **more}
    return {"name": name, "rule": name, "status": "IssuesFound", "issues": [issue]}


def test_a_cause_leads_and_its_symptoms_are_named_in_one_line(slow):
    group = {"group_id": "NonFiniteGradient-3", "caused_by": "NonFiniteGradient"}
    rules = [
        sick("LossSpike", **group),
        sick("Aside", "info"),
        sick("NonFiniteGradient", **group),
        sick("OverSoon", "warning", status="resolved"),
    ]
    card = drawn({**slow, "rules": rules})
    lines = [line.split(None, 1) for line in card.splitlines()]
    at = lines.index(["issues", "NonFiniteGradient: NonFiniteGradient says so"])
    assert " ".join(lines[at + 1]) == "related: LossSpike"
    assert " ".join(lines[at + 2]) == "OverSoon: OverSoon says so (over since)"
    assert "Aside" not in card


def test_where_nothing_is_slow_what_is_wrong_comes_first(slow):
    calm = {**slow["verdict"], "suspect": "healthy"}
    card = drawn({**slow, "verdict": calm, "rules": [sick("NonFiniteLoss")]})
    assert card.index("NonFiniteLoss says so") < card.index("evidence")
    card = drawn({**slow, "rules": [sick("NonFiniteLoss")]})
    assert card.index("NonFiniteLoss says so") > card.index("evidence")


def test_description_tells_symptoms_under_their_cause_and_what_could_not_be_judged(slow):
    group = {"group_id": "NonFiniteGradient-3", "caused_by": "NonFiniteGradient"}
    blind = {"name": "Blind", "rule": "Blind", "status": "NoIssuesFound", "issues": []}
    rules = [
        {**blind, "coverage": {"evaluated": False}},
        {**blind, "name": "Calm", "coverage": {"evaluated": True}},
        sick("LossSpike", **group),
        sick("NonFiniteGradient", **group),
    ]
    stream = io.StringIO()
    show({**slow, "rules": rules}, console(stream, 80))
    text = stream.getvalue()
    assert text.count("Mend ") == 1, "symptoms go with their cause"
    assert re.search(
        r"\n  critical: NonFiniteGradient: .*\n  -> Mend NonFiniteGradient\.\n"
        r"    Related:\n      critical: LossSpike: .*\n",
        text,
    )
    assert "\n  no issue: Calm\n" in text
    assert re.search(r"\n  could not judge \(.*\): Blind\n", text)


def test_a_store_that_is_full_at_the_end_is_told_of_on_the_card(tmp_path):
    folder, _ = told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=60)
    folder.update(status="InProgress", end=None)
    lost = "300 rows of spans were not stored, because the store could not be written"
    outcome = Outcome(
        exit_code=1, signal=None, failure=None, status="Failed", started=0, ended=5 * 10**9,
        faults=[
            {"where": "store", "error": "spans: No space left on device", "count": 1},
            {"where": "store", "error": lost, "count": 1},
            {"where": "manifest", "error": "OSError: [Errno 28] No space left on device", "count": 1},
        ],
        dropped=300,
        trained=True,
    )  # fmt: skip
    card = io.StringIO()
    finish(folder, outcome, "node-0", card)
    assert "running for" not in card.getvalue()
    assert " 5.0 s " in card.getvalue().splitlines()[0]
    said = " ".join(card.getvalue().split())
    early = r"Recording stopped early [\d.]+ m?s after the start: the store could not be written "
    assert re.search(
        early + r"\(spans: No space left on device\), 300 records are lost; all others are stored\.", said
    )
    assert "nothing dropped" not in card.getvalue()


def test_a_recording_that_lost_rows_on_its_way_is_said_to_have_gaps(slow):
    lost = "300 rows of spans were not stored, because the store could not be written"
    cost = {**slow["cost"], "dropped": 300, "faults": [{"where": "agent: store", "error": lost}]}
    said = "The recording has gaps: the store could not be written for a while, 300 records are lost;"
    assert f"{said} all others are stored." in " ".join(drawn({**slow, "cost": cost}).split())
    assert "gaps" not in drawn({**slow, "cost": {**cost, "dropped": 0}})
    assert "gaps" not in drawn({**slow, "cost": {**cost, "faults": [{"where": "spool", "error": lost}]}})


@pytest.mark.parametrize("parts", [BREAKDOWN, PARTS])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_all_parts_of_a_step_can_be_told_apart_without_color(parts, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    drawn = plain(bar(dict.fromkeys(parts, 100 / len(parts)), 10 * len(parts)).plain, stream)
    assert len(set(drawn)) == len(parts)
