"""Create a job or join one that another node records; decide which node judges it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli.naming import command_for, store_of
from holter.cli.options import Refusal
from holter.cli.output import clean, warn
from holter.schema.companions import own_command
from holter.schema.masking import masked_in
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.agent.supervision.members import Member
    from holter.agent.supervision.outcome import Outcome
    from holter.cli.run.plan import RunPlan
    from holter.store.documents import Document
    from holter.store.job import JobFolder


def begin(plan: RunPlan) -> tuple[JobFolder, Member | None]:
    """Create the job, or join the one that another node of the same launch created, and print its name.

    Returns:
        The job, and this node's membership; None when it is the only node.

    Raises:
        Refusal: The job can be neither created nor joined; nothing was started.
    """
    folder, member = _begin(plan)
    joined = "" if member is None else f" as node {member.node}" + ("" if member.creator else ", joined")
    warn(f"recording job {folder.name} into {store_of(folder)}{joined}")
    warn(f"watch it while it runs: {command_for(folder, 'top')}")
    sys.stderr.flush()
    return folder, member


def companions(folder: JobFolder, rules: Sequence[Document]) -> list[list[str]]:
    """Return the commands of a job's companion processes: one judges it, one writes its report.

    Rules and actions are not in the command lines: see `companion_input`.
    """
    commands = [own_command("holter.evaluation", "--told", folder.url)]
    if any(rule["name"] == "ProfilerReport" for rule in rules):
        commands.append(own_command("holter.report", folder.url))
    return commands


def companion_input(plan: RunPlan) -> bytes:
    """Return the standard input of companion processes: the rules and actions of this command line."""
    return json.dumps({"rules": plan.rules, "actions": plan.actions}).encode()


def rules_at_end(plan: RunPlan, folder: JobFolder, member: Member | None) -> list[Document]:
    """Return the rules that judge a job at its end: those of the command that created it.

    A node that joined takes the rules in the store; a rule from a file runs only if this node names it too.
    """
    if member is None or member.creator:
        return plan.rules
    from holter.evaluation import documents, stored

    runs, left_out = stored(folder.manifest().get("rules"), plan.rules)
    for sentence in left_out:
        warn(sentence)
    return documents(runs)


def _begin(plan: RunPlan) -> tuple[JobFolder, Member | None]:
    from holter.agent.machine.surroundings import owner, surroundings
    from holter.agent.supervision.members import CannotJoin, enter, join
    from holter.store.job import JobExists, create

    launch = plan.launch
    if launch is not None and plan.options.job is None and not launch.label:
        warn("this is one of several nodes; to record one job together, give each node the same --job NAME")
        launch = None
    name, node = plan.name, plan.node
    for attempt in range(2, 100):
        now_ns = time.time_ns()
        try:
            folder = create(
                plan.store,
                name,
                command=plan.command,
                interval_ms=plan.options.interval,
                rules=plan.rules,
                now_ns=now_ns,
                launch=None if launch is None else {"id": launch.id, "nodes": launch.nodes},
            )
            recorded = surroundings(plan.command, Path.cwd(), os.environ)
            given: dict[str, object] = {"owner": owner()}
            given |= {"price": plan.options.price, "total_steps": plan.options.total_steps}
            given["tags"] = plan.tags or None
            known = {name: value for name, value in given.items() if value is not None}
            folder.update(recorded=recorded, actions=masked_in(plan.actions), **known)
            if launch is None:
                return folder, None
            return folder, enter(
                folder, node, named=plan.options.node is not None, creator=True, now_ns=now_ns
            )
        except JobExists as error:
            why = ""
            if launch is not None:
                try:
                    member = join(
                        plan.store,
                        name,
                        launch,
                        node,
                        named=plan.options.node is not None,
                        now_ns=time.time_ns(),
                    )
                    return member.folder, member
                except (CannotJoin, OSError) as reason:
                    why = f"; it cannot be joined: {reason}"
            if plan.options.job is not None:
                raise Refusal(f"{error}{why}") from None
            name = f"{plan.name}-{attempt}"
        except (ValueError, OSError) as error:
            raise Refusal(str(error)) from None
    raise Refusal(f"job {name!r} exists in store {plan.store}")


def judges(member: Member, outcome: Outcome) -> bool:
    """Wait for the other nodes; return whether the job has ended and this node judges it."""

    def waiting(nodes: list[str]) -> None:
        warn(f"waiting for node {', '.join(nodes)} to end (Ctrl-C stops waiting)")

    here = False
    try:
        here = member.wait(outcome.status, waiting)
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            here = member.creator and member.leave()
        if not here:
            warn("not waiting; the node that ends last judges the job")
    except OSError as error:
        warn(f"the state of the other nodes cannot be read: {error}")
    if not here:
        failure = (outcome.failure or {}).get("exception") or (outcome.failure or {}).get("evidence")
        why = f": {clean(str(failure))}" if failure else ""
        took = duration(outcome.duration_s)
        warn(f"node {member.node} of job {member.folder.name}: {outcome.status} after {took}{why}")
    return here
