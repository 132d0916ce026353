"""The first sentence about a job: a failure before a learning problem, a learning problem before speed."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.layout import WHOLE
from holter.pages.text.sections import advice, bullets
from holter.views.document.cost import unwritten
from holter.views.issues import ordered
from holter.views.jobs import ENOUGH, RUNNING, said, summary
from holter.views.wording import duration, milliseconds, promised, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.document.types import Description
    from holter.views.reading import Reading

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class Headline(NamedTuple):
    """What to say first about a job."""

    text: str
    mood: str
    """`good`, `sick`, `unsure` or `waiting`: the color, and which word stands before the text."""
    speed: str = ""
    """What is known of its speed, where another problem is more important."""


_MOODS = {"good": "Fine", "sick": "Problem", "unsure": "Not clear", "waiting": "Running"}


def headline(reading: Reading) -> Headline:
    """Return what to say first about a job."""
    told = reading.description
    job, verdict, steps = told["job"], told["verdict"], told["steps"]
    silent = summary(reading.trial.folder, time.time_ns())
    if silent["silent_s"]:
        return Headline(f"It may have stopped: {said(silent)}.", "sick", verdict["sentence"] if steps else "")
    if job["headline"] or job["status"] == "Failed":
        how = "" if job["exit_code"] is None else f" with exit code {job['exit_code']}"
        text = job["headline"] or f"The command failed{how}."
        return Headline(text, "sick", verdict["sentence"] if steps else "")
    if job["status"] in RUNNING:
        ran = duration(job["duration_s"])
        if not steps:
            return Headline(f"No training step so far; the job has run for {ran}.", "waiting")
        counted_steps = steps["count"] - (steps["warmup"] or 0)
        if verdict["suspect"] == "inconclusive" and counted_steps < ENOUGH:
            return Headline(
                f"{counted(max(counted_steps, 0), 'step')} of {ENOUGH} recorded after warm-up: "
                "too few to say what takes the time.",
                "waiting",
            )
    mood = {"healthy": "good", "inconclusive": "unsure"}.get(verdict["suspect"], "sick")
    return Headline(verdict["sentence"], mood)


def hero(reading: Reading) -> Markup:
    """Draw the first sentence, what to do about it, and the evidence behind `Why`."""
    told = reading.description
    first, mood, speed = headline(reading)
    lead, *rest = _SENTENCE.split(first, maxsplit=1)
    lost = unwritten(told)
    said = (tag("i", class_="dot"), tag("span", _MOODS[mood], class_="visually-hidden"), " ", prose(lead))
    return tag(
        "section",
        tag("p", *said, WHOLE, class_="said"),
        tag("p", prose(rest[0]), class_="dim") if rest else None,
        tag("p", lost, class_="headline") if lost else None,
        tag("p", "Speed: ", prose(speed), class_="dim") if speed else None,
        None if mood == "waiting" else _to_do(told, about_speed=first == told["verdict"]["sentence"]),
        _why(told) if mood != "waiting" else None,
        class_=f"hero verdict {'' if mood == 'good' else mood}",
        aria_label="the most important about this job",
    )


def _to_do(told: Description, *, about_speed: bool) -> Markup | None:
    """Return the most important advice: about speed, or about what is sick; None without any."""
    if not about_speed:
        advised = next((one.issue["advice"] for one in ordered(told["rules"]) if one.about_learning), None)
        return tag("p", tag("b", "What to do: "), prose(advised), class_="to-do") if advised else None
    if not told["verdict"]["advice"]:
        return None
    one = told["verdict"]["advice"][0]
    expected, steps = promised(one), told["steps"]
    now = steps["mean_ms"] if steps else None
    gain = None
    if expected is not None:
        said = f"{milliseconds(now)} → {milliseconds(expected)}" if now else f"→ {milliseconds(expected)}"
        gain = html(" ", tag("span", f"{said} a step", class_="gain"))
    return tag("p", tag("b", "What to do: "), prose(one["text"]), gain, class_="to-do")


def _why(told: Description) -> Markup | None:
    inside = html(*_reasons(told))
    return (
        tag("details", tag("summary", "Why"), tag("div", inside, class_="reasons"), class_="why")
        if inside
        else None
    )


def _reasons(told: Description) -> Iterator[Markup]:
    """Yield the evidence, further advice, and what the measurements exclude or lack."""
    found = told["verdict"]
    steps = bool(told["steps"])
    if found["evidence"]:
        yield tag("div", tag("h3", "Evidence"), bullets(fact["text"] for fact in found["evidence"]))
    if found["advice"] and (steps or not told["job"]["headline"]):
        yield tag("div", tag("h3", "Advice"), tag("ul", *map(advice, found["advice"])))
    if found["ruled_out"]:
        yield tag(
            "div",
            tag("h3", "Ruled out"),
            bullets(f"{words(one['suspect'])}: {one['because']}" for one in found["ruled_out"]),
        )
    if found["missing"] and (steps or not told["job"]["headline"]):
        yield tag("div", tag("h3", "Not seen"), bullets(found["missing"]))
