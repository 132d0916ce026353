"""Results of a job that notebooks show: tables that are read on access, and charts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from holter.frame import Rows

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.figure import Figure


class Picture:
    """One chart: `data` holds its rows and marks, or the reason why it is empty."""

    def __init__(self, data: Figure | str) -> None:
        self.data = data

    def __repr__(self) -> str:
        return self.data if isinstance(self.data, str) else f"<figure {self.data.title!r}>"

    def _repr_html_(self) -> str:
        from holter.drawing.figure import figure, style

        return escape(self.data) if isinstance(self.data, str) else style(".holter") + figure(self.data)


class Frame(Rows):
    """A table of a job, whole or in part; every access reads the store."""

    def __init__(self, trial: Trial, name: str, **chosen: Any) -> None:
        self._trial = trial
        self._name = name
        self._chosen = chosen

    def select(
        self,
        *columns: str,
        start_ns: int | None = None,
        end_ns: int | None = None,
        where: str | None = None,
        **equal: str | int,
    ) -> Frame:
        """Return a smaller frame; only its rows are read.

        Args:
            columns: Names of columns; by default all.
            start_ns: Only rows at or after this time, nanoseconds since the epoch.
            end_ns: Only rows before this time.
            where: An SQL condition, as in `"phase = 'forward' AND step > 100"`.
            equal: Values of columns, as in `job.scalars.select(name="loss", mode="train", rank=0)`.

        Raises:
            KeyError: A column in `equal` does not exist.
        """
        conditions = [f"({given})" for given in (self._chosen.get("where"), where) if given]
        conditions += [_condition(self._name, column, value) for column, value in equal.items()]
        asked: dict[str, Any] = {"columns": columns or None, "start_ns": start_ns, "end_ns": end_ns}
        asked["where"] = " AND ".join(conditions) or None
        return Frame(
            self._trial, self._name, **{**self._chosen, **{k: v for k, v in asked.items() if v is not None}}
        )

    @property
    def table(self) -> Table:
        """The rows as named numpy columns, read now and not kept."""
        found = self._steps() if self._name == "steps" else None
        return found if found is not None else self._trial.table(self._name, **self._chosen)

    def _steps(self) -> Table | None:
        """Compute steps from spans for a job without stored steps, which was not judged; else None."""
        if self._chosen or self._trial.table("steps", columns=("time",)).rows:
            return None
        from holter.views.tables import steps_of

        return steps_of(self._trial)

    def __repr__(self) -> str:
        narrowed = ", ".join(f"{name}={value!r}" for name, value in self._chosen.items())
        return f"Frame({self._name}{': ' + narrowed if narrowed else ''})"


def _condition(table: str, column: str, value: str | int) -> str:
    from holter.schema.tables import TABLES
    from holter.store.parquet.queries import literal, name

    if column != "node":
        TABLES[table].column(column)
    return f"{name(column)} = {literal(value) if isinstance(value, str) else repr(value)}"
