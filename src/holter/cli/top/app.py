"""The terminal application of `holter top`: a list of jobs, and one job that is read again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Label, Static

from holter.analysis.verdict.evidence import counted
from holter.cli.commands.jobs import COLORS
from holter.cli.job_lookup import check_obeyed, running_job, send_order
from holter.cli.options import Refusal
from holter.cli.output import clean
from holter.cli.top import panels
from holter.cli.top.snapshot import look
from holter.store.job import jobs
from holter.views.jobs import ended_sick, said, summary
from holter.views.wording import duration, status_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.binding import BindingType

    from holter.cli.top.snapshot import Snapshot
    from holter.store.job import JobFolder
    from holter.views.jobs import ListedJob

SHARE = 0.05
"""Largest share of a core that reading a job takes, so that the training beside it is not slowed."""
MOST_JOBS = 200
PROFILED_STEPS = 3
GRACE_S = 30.0
NOTICE_S = 20.0


class Top(App[int]):
    """Shows one job, or the list of all jobs of a store."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "holter top"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [("q,ctrl+c", "quit", "quit")]
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { height: auto; margin: 0 1 1 1; }
    #title { margin: 0 1 1 1; }
    VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    #now { height: auto; layout: horizontal; }
    #now Static { width: auto; margin-right: 4; }
    #machine, #ranks, #gpus { margin-left: 1; }
    .-narrow #now { layout: vertical; }
    .-narrow #now Static { margin: 0 1 1 1; }
    Stop { align: center middle; }
    Stop Label { border: round yellow; padding: 1 2; }
    """

    def __init__(self, store: str, job: JobFolder | None, every_s: float) -> None:
        """Show `job`, or the jobs of the store if it is None, and look again every `every_s` seconds."""
        super().__init__(ansi_color=True)
        self.store, self.every_s, self._first = store, every_s, job

    def on_mount(self) -> None:
        """Show the list, and the job on top of it."""
        self.push_screen(Jobs())
        if self._first is not None:
            self.push_screen(OneJob(self._first))


class Jobs(Screen[None]):
    """The jobs of the store, newest first."""

    app: Top

    def compose(self) -> ComposeResult:
        """Make a title, the table and the keys."""
        yield Static(id="title")
        yield DataTable(cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Read the store now, and again and again."""
        self.query_one(DataTable).add_columns("job", "status", "took", "what holter says")
        self.set_interval(self.app.every_s, self.read)
        self.read()

    @work(thread=True, exclusive=True)
    def read(self) -> None:
        """Read the newest jobs in a thread."""
        if not self.is_current:
            return
        try:
            found = jobs(self.app.store)
            rows = [summary(folder, time.time_ns()) for folder in found[:MOST_JOBS]]
        except (OSError, ValueError) as error:
            text = Text(clean(f"The store {self.app.store} cannot be read: {error}"), "red")
            self.app.call_from_thread(self.query_one("#title", Static).update, text)
            return
        self.app.call_from_thread(self._show, rows, len(found))

    def _show(self, rows: list[ListedJob], count: int) -> None:
        table = self.query_one(DataTable)
        at = table.cursor_row
        table.clear()
        for row in rows:
            color = "yellow" if ended_sick(row) else COLORS.get(row["status"], "")
            took = duration(row["duration_s"]) if row["duration_s"] else ""
            name = clean(row["name"])
            table.add_row(
                name, Text(status_text(row["status"]), color), took, clean(_told(row)), key=row["name"]
            )
        table.move_cursor(row=min(at, max(len(rows) - 1, 0)))
        more = f", the newest {MOST_JOBS} of them" if count > MOST_JOBS else ""
        then = "; Enter opens one" if count else "; record one: holter run -- python train.py"
        self.query_one("#title", Static).update(
            Text(clean(f"{counted(count, 'job')} in {self.app.store}{more}{then}"))
        )

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open a job."""
        name = str(event.row_key.value)
        folder = next((one for one in jobs(self.app.store) if one.name == name), None)
        if folder is not None:
            self.app.push_screen(OneJob(folder))


def _told(row: ListedJob) -> str:
    """Return what holter says of a job, and the newest step of a running one."""
    return " · ".join(filter(None, (f"step {row['step']:,}" if row["step"] is not None else "", said(row))))


class OneJob(Screen[None]):
    """One job, which is read until it ends."""

    app: Top
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,escape", "leave", "jobs"),
        ("p", "profile", f"profile {PROFILED_STEPS} steps"),
        ("s", "stop", "stop the job"),
    ]

    def __init__(self, folder: JobFolder) -> None:
        super().__init__()
        self.folder = folder
        self.now: Snapshot | None = None

    def compose(self) -> ComposeResult:
        """Make the panels, empty."""
        yield Static(Text.assemble((clean(self.folder.name), "bold"), " · reading …"), id="title")
        with VerticalScroll():
            yield Static(id="verdict")
            yield Static(id="steps")
            with Horizontal(id="now"):
                yield Static(id="ranks")
                yield Static(id="machine")
                yield Static(id="gpus")
            yield Static(id="findings")
            yield Static(id="numbers")
        yield Footer()

    def on_mount(self) -> None:
        """Look for the first time."""
        self.read()

    def on_resize(self) -> None:
        """Draw the bars anew in the new width."""
        if self.now is not None:
            self.show(self.now)

    @work(thread=True, exclusive=True)
    def read(self) -> None:
        """Look at the job in a thread, and plan the next look by what this one took."""
        try:
            now = look(self.folder, self.now)
        except (OSError, ValueError, LookupError) as error:
            text = Text(clean(f"Job {self.folder.name} cannot be read: {error}"), "red")
            self.app.call_from_thread(self.query_one("#title", Static).update, text)
            self.app.call_from_thread(self.set_timer, 10 * self.app.every_s, self.read)
            return
        self.app.call_from_thread(self.show, now)
        if now.running:
            self.app.call_from_thread(self.set_timer, max(self.app.every_s, now.took_s / SHARE), self.read)

    def show(self, now: Snapshot) -> None:
        """Fill the panels."""
        self.now = now
        width = max(self.size.width - 5, 20)  # margins and the scroll bar
        several = len(now.ranks) > 1
        drawn = {
            "title": panels.title(now, width),
            "verdict": panels.verdict(now),
            "steps": panels.steps(now, width),
            "ranks": panels.ranks(now) if several else None,
            "machine": panels.machine(now) if now.readings else None,
            "gpus": panels.gpus(now),
            "findings": panels.findings(now),
            "numbers": panels.numbers(now) if now.description["numbers"] else None,
        }
        for name, content in drawn.items():
            panel = self.query_one(f"#{name}", Static)
            panel.display = content is not None
            panel.update(content or "")

    def action_leave(self) -> None:
        """Go back to the list of jobs."""
        self.dismiss()

    def action_profile(self) -> None:
        """Profile the next steps of the job."""
        order = {"profile": {"steps": PROFILED_STEPS, "id": f"top-{time.time_ns()}"}}
        if self._send("profile", order):
            self.notify(f"The next {PROFILED_STEPS} steps are profiled.", timeout=NOTICE_S)

    def action_stop(self) -> None:
        """Ask, and stop the job."""

        def answered(yes: bool | None) -> None:
            if yes and self._send("stop", {"stop": {"grace_s": GRACE_S}}):
                self.notify(f"The job gets SIGTERM, and SIGKILL after {GRACE_S:g} s.", timeout=NOTICE_S)

        self.app.push_screen(Stop(self.folder.name), answered)

    def _send(self, kind: str, order: Mapping[str, object]) -> bool:
        try:
            folder = running_job(self.folder.url, None)
            check_obeyed(folder, kind)
            send_order(folder, order)
        except Refusal as refusal:
            self.notify(clean(str(refusal)), severity="error", timeout=NOTICE_S, markup=False)
            return False
        return True


class Stop(ModalScreen[bool]):
    """Asks whether a job is to be stopped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "stop it"),
        ("n,escape", "dismiss(False)", "let it run"),
    ]

    def __init__(self, job: str) -> None:
        super().__init__()
        self._job = job

    def compose(self) -> ComposeResult:
        """Make the question."""
        yield Label(f"Stop job {clean(self._job)}?  y: stop it   n: let it run", markup=False)
