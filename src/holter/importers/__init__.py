"""Other tools' files, read into the tables of a job.

The module of each format has `recognizes(path)`, which returns whether a file may be of that format, and
`read(path, trace)`, which takes the file's rows into a `Trace`.
"""

from __future__ import annotations

from holter.importers.importing import import_job, import_paths
from holter.importers.report import Report, UnreadableError

__all__ = ["Report", "UnreadableError", "import_job", "import_paths"]
