"""How `holter run` begins a job or joins one that another node records, and which node shows the card."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.cli import options, output
from holter.cli.options import Refusal
from holter.schema.companions import own_command
from holter.schema.masking import masked_in
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.agent.supervision.members import Member
    from holter.agent.supervision.outcome import Outcome
    from holter.cli.commands.run import Plan
    from holter.store.job import JobFolder


def begin(plan: Plan) -> tuple[JobFolder, Member | None]:
    """Create the job, or join the one that another node of the same launch has created, and say which.

    Returns:
        The job, and what this node is among those that record it; None when it is the only one.

    Raises:
        Refusal: It can be neither, and nothing was started.
    """
    folder, member = _begin(plan)
    joined = "" if member is None else f" as node {member.node}" + ("" if member.creator else ", joined")
    options.warn(f"recording job {folder.name} into {options.store_of(folder)}{joined}")
    options.warn(f"look while it runs: {options.look(folder)}")
    sys.stderr.flush()
    return folder, member


def companions(folder: JobFolder, rules: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the commands of ours that run beside a job: who judges it, and who writes its report.

    By which rules it is judged and what is done about issues stands in none: see `told`.
    """
    commands = [own_command("holter.evaluation", "--told", folder.url)]
    if any(rule["name"] == "ProfilerReport" for rule in rules):
        commands.append(own_command("holter.report", folder.url))
    return commands


def told(plan: Plan) -> bytes:
    """Return what companions find on their standard input: rules and actions as this command line says."""
    return json.dumps({"rules": plan.rules, "actions": plan.actions}).encode()


def rules_at_end(plan: Plan, folder: JobFolder, member: Member | None) -> list[dict[str, Any]]:
    """Return the rules that judge a job at its end: those of the command that began it.

    A node that joined takes those that stand in the store, and of files only those that it names itself.
    """
    if member is None or member.creator:
        return plan.rules
    from holter.evaluation import documents, stored

    runs, left_out = stored(folder.manifest().get("rules"), plan.rules)
    for sentence in left_out:
        options.warn(sentence)
    return documents(runs)


def _begin(plan: Plan) -> tuple[JobFolder, Member | None]:
    from holter.agent.machine.surroundings import surroundings
    from holter.agent.supervision.members import CannotJoin, enter, join
    from holter.store.job import JobExists, create

    launch = plan.launch
    if launch is not None and not plan.named and not launch.label:
        options.warn("this is one of several nodes; give each the same --job NAME and they record one job")
        launch = None
    name, node = plan.name, plan.node
    for attempt in range(2, 100):
        now_ns = time.time_ns()
        try:
            folder = create(
                plan.store,
                name,
                command=plan.command,
                interval_ms=plan.interval_ms,
                rules=plan.rules,
                now_ns=now_ns,
                launch=None if launch is None else {"id": launch.id, "nodes": launch.nodes},
            )
            recorded = surroundings(plan.command, Path.cwd(), os.environ)
            said = {"price": plan.price, "total_steps": plan.steps}
            known = {name: value for name, value in said.items() if value is not None}
            folder.update(recorded=recorded, actions=masked_in(plan.actions), **known)
            if launch is None:
                return folder, None
            return folder, enter(folder, node, named=plan.node_named, creator=True, now_ns=now_ns)
        except JobExists as error:
            why = ""
            if launch is not None:
                try:
                    member = join(
                        plan.store, name, launch, node, named=plan.node_named, now_ns=time.time_ns()
                    )
                    return member.folder, member
                except (CannotJoin, OSError) as reason:
                    why = f"; it cannot be joined: {reason}"
            if plan.named:
                raise Refusal(f"{error}{why}") from None
            name = f"{plan.name}-{attempt}"
        except (ValueError, OSError) as error:
            raise Refusal(str(error)) from None
    raise Refusal(f"job {name!r} exists in store {plan.store}")


def judged_here(member: Member, outcome: Outcome) -> bool:
    """Wait for the other nodes; return whether the job is over and this node is the one that judges it."""

    def waiting(nodes: list[str]) -> None:
        options.warn(f"waiting for node {', '.join(nodes)} to end (Ctrl-C: do not wait)")

    here = False
    try:
        here = member.wait(outcome.status, waiting)
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            here = member.creator and member.leave()
        if not here:
            options.warn("not waiting; the node that ends last judges the job")
    except OSError as error:
        options.warn(f"the other nodes cannot be asked: {error}")
    if not here:
        failure = (outcome.failure or {}).get("exception") or (outcome.failure or {}).get("evidence")
        said = f": {output.clean(str(failure))}" if failure else ""
        took = duration(outcome.duration_s)
        options.warn(f"node {member.node} of job {member.folder.name}: {outcome.status} after {took}{said}")
    return here
