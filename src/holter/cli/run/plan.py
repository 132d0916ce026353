"""Read and check the command line of `holter run`, before anything is started or written."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.naming import default_name
from holter.cli.options import Refusal, Refusing
from holter.cli.rule_selection import full_name, select
from holter.cli.run import options as run_options
from holter.cli.run import saving
from holter.cli.run.configuration import Configuration, from_environment, read_file
from holter.cli.run.pushing import check_tracker
from holter.schema import windows
from holter.schema.dividing import notices
from holter.schema.record import ENV_GPU_TIME, ENV_SENTINEL
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.agent.supervision.launch import Launch
    from holter.cli.run.options import RunOptions
    from holter.store.documents import Document

ABOUT = """Run CMD and record its training. CMD keeps its output, signals and exit code; a verdict follows.
CMD is whatever starts the training: python, torchrun, accelerate, mpirun, a shell script."""

EXAMPLES = """  holter run -- python train.py --epochs 3
  holter run --job base --interval 1s -- torchrun --nproc-per-node 2 train.py
  holter run --rule LowGPUUtilization:threshold=80 --fail-on issue -- ./train.sh
  holter run --save gradients@100 --save weights@50:histogram -- python train.py
  holter run --config holter.toml -- python train.py"""


@dataclass(frozen=True)
class RunPlan:
    """Everything a run needs, checked."""

    options: RunOptions
    command: list[str]
    name: str
    """The job's name; a default name gets a number when it is taken."""
    store: str
    """URL."""
    node: str
    """The name of this machine; a default name gets a number when it is taken."""
    rules: list[Document] = field(default_factory=list)
    actions: list[Document] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    fail_on: tuple[str, ...] = ()
    """Full names of rules, or `issue` for any."""
    variables: dict[str, str] = field(default_factory=dict)
    """What the recorder in the command's processes reads from the environment: tensors to save, windows."""
    launch: Launch | None = None
    """What this node shares with others that record the same job; None for a single node."""


def parser() -> options.Parser:
    """Return the parser of `holter run`."""
    made = options.Parser("run", ABOUT, EXAMPLES, usage="holter run [options] -- CMD ...")
    run_options.add_to(made)
    made.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="what to run, after --")
    return made


def plan(words: Sequence[str]) -> RunPlan:
    """Read and check the command line; raises `Refusal`."""
    from holter.agent.machine.node import node_name
    from holter.agent.python_samples import VARIABLE as ENV_PYTHON_HZ
    from holter.agent.supervision.launch import Launch, launch, slurm_label
    from holter.store.job import store_url

    given, command = _split(list(words))
    configured = read_file(given.config) if given.config else from_environment()
    _check_command(command)
    chosen = run_options.read(vars(given), configured.options)
    if chosen.join and not chosen.job:
        raise Refusal("--join needs --job NAME: the job that the nodes record together")
    for one in chosen.to:
        check_tracker(one)
    rules, fail_on = _rules(chosen, configured)
    launched = Launch(f"join {chosen.job}", None) if chosen.join else launch(command, os.environ)
    label = (launched.label if launched else "") or slurm_label(os.environ)
    return RunPlan(
        options=chosen,
        command=command,
        name=chosen.job or default_name(command, time.localtime(), label),
        store=store_url(chosen.store),
        node=chosen.node or node_name(),
        rules=rules,
        actions=_actions([*configured.actions, *chosen.action], rules),
        tags=_tags(chosen.tag),
        fail_on=fail_on,
        variables={
            ENV_SAVE: saving.variable(saving.completed([*configured.tensors, *chosen.save], rules)),
            windows.ENV_PROFILE: profiling_variable(chosen.profile_steps, configured.windows),
            **({} if chosen.look is None else {windows.ENV_LOOK: chosen.look}),
            **({ENV_SENTINEL: "0"} if chosen.no_sentinel else {}),
            **({ENV_GPU_TIME: "0"} if chosen.no_gpu_time else {}),
            **({} if chosen.python_hz is None else {ENV_PYTHON_HZ: chosen.python_hz}),
        },
        launch=launched,
    )


def profiling_variable(given: Iterable[str], configured: Sequence[windows.Request] = ()) -> str:
    """Return the environment variable that asks processes for profiling windows; empty without a window.

    `given` holds the values of `--profile-steps`, `configured` the windows of a SageMaker configuration.
    """
    with Refusing(ValueError, before="--profile-steps: "):
        chosen = [request for text in given for request in windows.order_of_words(text).requests]
    order = windows.ProfilingOrder((*configured, *chosen))
    for line in notices(order.requests):
        output.warn(line)
    return order.to_text() if order.requests else ""


def _split(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return holter's own options and the command."""
    if "--" not in words:
        given = parser().read(words)
        return given, given.command
    split = words.index("--")
    given = parser().read(words[:split])
    if given.command:
        raise Refusal(f"unexpected argument {given.command[0]!r} before --; see `holter run --help`")
    return given, words[split + 1 :]


def _check_command(command: Sequence[str]) -> None:
    from holter.agent.supervision.command import CommandNotFound, find_command

    if not command:
        raise Refusal("nothing to run; write the command after --: holter run -- python train.py")
    with Refusing(CommandNotFound):
        find_command(list(command))


def _rules(chosen: RunOptions, configured: Configuration) -> tuple[list[Document], tuple[str, ...]]:
    """Return the rules, checked, and the full names of those that make a clean exit a failure."""
    rules = select(chosen.rule, configured.rules, defaults=not chosen.no_rules)
    running = [rule["name"] for rule in rules]
    fail_on = []
    for wanted in chosen.fail_on:
        name = wanted if wanted in ("issue", *running) else full_name(wanted)
        if name == "issue" and not rules:
            raise Refusal("--fail-on issue needs a rule, but no rule is on (--no-rules)")
        if name != "issue" and name not in running:
            raise Refusal(f"--fail-on {name}: this rule is off; on are: {', '.join(running) or 'no rules'}")
        fail_on.append(name)
    return rules, tuple(fail_on)


def _tags(given: Sequence[str]) -> dict[str, str]:
    """Return the tags by their keys; a tag without a value has an empty one."""
    found: dict[str, str] = {}
    if not given:
        return found
    from holter.actions.tag import KEY

    for text in given:
        key, _, value = text.partition("=")
        if not KEY.fullmatch(key):
            raise Refusal(
                f"--tag {text!r} is not a tag; valid: KEY or KEY=VALUE, the key of letters, digits and '._/-'"
            )
        found[key] = value
    return found


def _actions(given: Sequence[str | Document], rules: list[Document]) -> list[Document]:
    """Return the actions of a job as its manifest holds them.

    Raises:
        Refusal: An unknown action, option or rule, a bad address, or a secret that the environment lacks.
    """
    if not given:
        return []
    if not rules:
        raise Refusal("--action needs a rule, but no rule is on (--no-rules)")
    from holter.actions import BadAction, Secrets
    from holter.actions._orders import check, choose, documents

    with Refusing(BadAction):
        orders = choose(given, rules)
        check(orders, Secrets())
    return documents(orders)
