"""Facts of the generated jobs, computed once."""

from __future__ import annotations

import functools

from tests.generated.story import Story, story

from holter.analysis.steps.steps import steps
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_facts import VerdictFacts


@functools.cache
def told(name: str) -> Story:
    return story(name)


@functools.cache
def facts_of(name: str) -> VerdictFacts:
    job = told(name)
    return gather(steps(job.spans), samples=job.samples, spans=job.spans, events=job.events, nodes=job.nodes)
