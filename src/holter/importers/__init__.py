"""Other tools' files, read into the tables of a job.

Each module of the shelf below has `recognizes(path)`, which tells whether a file may be its own, and
`read(path, trace)`, which takes the file's rows into a `Trace`.
"""

from __future__ import annotations

from holter.importers.importing import import_job, import_paths
from holter.importers.report import Report, UnreadableError

__all__ = ["Report", "UnreadableError", "import_job", "import_paths"]
