"""Logged losses, and one evaluation of a rule on them."""

from __future__ import annotations

from tests.rules.tables import ENDED, found

from holter.schema.table import Table


def judged(rule, *tables):
    return found(rule, job=ENDED, scalars=Table.concat(tables))


def steps(issues):
    return [(i.step_start, i.step_end) for i in issues]
