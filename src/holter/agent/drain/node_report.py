"""Writes the facts of this node into the job, with a heartbeat and the collectors that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.collectors import collectors
from holter.agent.machine.dcgm_mapping import ENV_FOLDER, DcgmMapping
from holter.agent.machine.node import node_facts
from holter.agent.machine.scheduler import ends, scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.agent.collectors import Collector, Machine
    from holter.agent.drain.clock import Clock
    from holter.agent.drain.drain import Drain
    from holter.store.documents import Document
    from holter.store.job import JobFolder


class NodeReport:
    """The facts of one node."""

    def __init__(self, folder: JobFolder, node: str, clock: Clock, *, leads: bool) -> None:
        """Report to a job: `leads` says whether this node writes the manifest."""
        self.collectors: list[Collector] = []
        self._folder = folder
        self._node = node
        self._clock = clock
        self._leads = leads
        self._missing: list[tuple[str, str]] = []
        self._facts: Document = {}
        self._told_framework: Document | None = None
        self._mapping: DcgmMapping | None = None

    def examine(self, machine: Machine, facts: Document) -> None:
        """Open the collectors and gather the facts of the machine; `facts` take precedence."""
        self.collectors, self._missing = collectors(machine)
        self._facts = {**node_facts(machine, self.collectors, self._missing, self._clock), **facts}

    def map_gpus(self, variables: Mapping[str, str]) -> None:
        """Tell DCGM-exporter which job uses the GPUs of this node, until `unmap_gpus`."""
        self._mapping = DcgmMapping(variables, self._folder.name)
        devices = [str(gpu["device"]) for gpu in self._facts.get("gpus") or []]
        if why := self._mapping.write(devices):
            self.lacks(ENV_FOLDER, why)

    def unmap_gpus(self) -> None:
        """Take back what `map_gpus` wrote."""
        if self._mapping is not None:
            self._mapping.remove()

    def schedule(self, variables: Mapping[str, str], *, ask: bool) -> None:
        """Add the scheduler's job and when it ends; `ask` the scheduler, which one node of a job may do."""
        entry = scheduler(variables)
        if entry is None:
            return
        if ask and (moment := ends(entry, variables, self._clock.time_ns())) is not None:
            entry["ends"] = moment
        self._facts["scheduler"] = entry

    def lacks(self, what: str, why: str) -> None:
        """Report something that cannot be measured."""
        self._missing.append((what, why))

    def write(self, drain: Drain | None) -> None:
        """Write the facts with a new heartbeat, and the framework once it is known. Raises `OSError`."""
        if not self._facts:
            return
        missing = [*self._missing, *(entry for one in self.collectors for entry in one.missing)]
        self._facts["missing"] = [{"what": what, "why": why} for what, why in dict(missing).items()]
        self._facts["heartbeat"] = self._clock.time_ns()
        self._folder.write_node(self._node, self._facts)
        known = None if drain is None else drain.facts.framework or drain.facts.imported
        if self._leads and known is not None and known != self._told_framework:
            self._told_framework = known
            self._folder.update(framework=known)
