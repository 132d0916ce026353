"""Finds the callables that build batches: those of the dataset by stack samples, and collate functions."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN = frozenset({"__getitem__", "__iter__", "__getitems__", "__next__"})
_FRAME = re.compile(r"^(?P<qualname>.*?) \((?P<file>.*?):(?P<line>\d+)\)$")
# Callables that only call others, one after another: the one they call is the one that works.
_WRAPPERS = frozenset({"compose", "sequential", "chain", "pipeline", "lambda", "randomapply", "randomorder"})
_CALLS = frozenset(
    {"__call__", "forward", "_call_impl", "_wrapped_call_impl", "<lambda>", "<listcomp>", "<genexpr>"}
)

# The data loader's own code, when a sample begins above the dataset.
_LOADER_FILE = re.compile(r"(^|/)torch/utils/data/_utils/")

# Streams of samples that only call what the user maps over them.
_STREAM_FILE = re.compile(
    r"(^|/)(datasets/(iterable|arrow)_dataset|webdataset/(filters|pipeline|compat)|torchdata/nodes/\w+)\.py$"
)

# Decorators, which only call the function that they decorate.
_DECORATOR_FILE = re.compile(
    r"(^|/)(torch/(_compile|_dynamo/\w+|utils/_contextlib)|functools|contextlib)\.py$"
)

_DECODE_FILE = re.compile(
    r"(^|/)(PIL/(ImageFile|\w+ImagePlugin)\.py|turbojpeg|simplejpeg|torchvision/io/|torchaudio/|soundfile|librosa/"
    r"|pyarrow/(parquet|csv|json|feather|ipc)|json/(decoder|__init__|scanner)|gzip\.py|zlib|zstandard|lzma\.py"
    r"|bz2\.py|csv\.py|pickle\.py|decord|imageio/|av/|nibabel/|pydicom/|tifffile|xml/)"
)
_DECODE_NAME = re.compile(
    r"(^|_)(decode|decoder|imdecode|imread|decompress|inflate|deserialize|unpickle|unpack|parse|loads"
    r"|decoding|row_group|frombytes|from_bytes|(load|read|open)_(image|img|photo|picture|jpe?g|png|audio|wav|video))(_|$)"
)
_READ_FILE = re.compile(
    r"(^|/)(fsspec/|s3fs/|gcsfs/|adlfs/|boto3/|botocore/|s3transfer/|smart_open/|urllib3?/|requests/|httpx/|aiohttp/"
    r"|http/client\.py|socket\.py|ssl\.py|pathlib(\.py|/)|h5py/|lmdb/|numpy/lib/(_?npyio\w*|_?format\w*)\.py|zipfile(\.py|/)|tarfile\.py|obstore/|mmap)"
)
_READ_NAME = re.compile(
    r"(^|_)(open|read|reads|readinto|recv|recv_into|download|fetch|readline|readlines|memmap|get_object|fromfile)(_|$)"
)


@dataclass(frozen=True, slots=True)
class SampledFrame:
    """One frame of a stack sample, as `qualname (file:line)` says it."""

    text: str
    qualname: str
    file: str

    @property
    def function(self) -> str:
        """The last part of the qualified name."""
        return self.qualname.rsplit(".", 1)[-1]


def frames(stack: str) -> list[SampledFrame]:
    """Split a stack, outermost frame first; a frame of unknown form is its own name."""
    found = []
    for text in filter(None, map(str.strip, stack.split(";"))):
        match = _FRAME.match(text)
        name, file = (match["qualname"], match["file"].replace("\\", "/")) if match else (text, "")
        found.append(SampledFrame(text, name, file))
    return found


def below_dataset(stack: list[SampledFrame]) -> list[SampledFrame]:
    """Return the frames below the dataset's own ones; empty when the dataset itself was running.

    Datasets that wrap datasets (a subset, a concatenation) are passed through: the innermost one counts.
    Where no frame has a dataset's name (a generator function), the outermost one is the dataset's.
    """
    stack = [frame for frame in stack if _LOADER_FILE.search(frame.file) is None]
    own = [i for i, frame in enumerate(stack) if frame.function in _OWN]
    if not own:
        return stack[1:]
    last = own[0]
    for i in own[1:]:
        # A container with an index operator far below (a lookup in a transform) is not a dataset.
        if any(_works(frame) for frame in stack[last + 1 : i]):
            break
        last = i
    return stack[last + 1 :]


def _works(frame: SampledFrame) -> bool:
    return frame.function not in _OWN and frame.function not in _CALLS


def entry(stack: list[SampledFrame]) -> SampledFrame | None:
    """Return the callable that the dataset calls; wrappers and streams that only call others are skipped."""
    below = below_dataset(stack)
    below = [frame for frame in below if not _only_calls(frame.file)] or below
    for i, frame in enumerate(below):
        if i + 1 == len(below) or not _is_wrapper(frame, below[i + 1]):
            return frame
    return stack[-1] if stack else None


def _only_calls(file: str) -> bool:
    return _STREAM_FILE.search(file) is not None or _DECORATOR_FILE.search(file) is not None


def _is_wrapper(frame: SampledFrame, called: SampledFrame) -> bool:
    if frame.function not in _CALLS:
        return False
    if frame.function not in ("__call__", "forward"):
        return True
    if "." not in frame.qualname:
        # Old Pythons know no owner: one object that calls another is taken for a chain of transforms.
        return called.function in _CALLS
    owner = frame.qualname.rsplit(".", 2)[-2].lower()
    return any(word in owner for word in _WRAPPERS)


def stage(stack: list[SampledFrame]) -> str:
    """Classify a stack sample as `read`, `decode` or `transform`.

    The innermost frame that is known decides, so that a transform which opens its image lazily decodes there.
    """
    for frame in reversed(below_dataset(stack)):
        if _DECODE_FILE.search(frame.file) or _DECODE_NAME.search(_words(frame.function)):
            return "decode"
        if frame.file.endswith("PIL/Image.py") and frame.function in ("open", "load", "preinit", "init"):
            return "decode"
        if _READ_FILE.search(frame.file) or _READ_NAME.search(_words(frame.function)):
            return "read"
    return "transform"


def _words(name: str) -> str:
    """Turn readRowGroup into read_row_group."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


# PyTorch's own collate functions: their time depends on the size of the samples only.
_DEFAULT_COLLATE = re.compile(r"^default_(collate|convert)\b")


@dataclass(frozen=True, slots=True)
class SampledCallable:
    """A callable that builds batches, and its share of the time in which they are built."""

    name: str
    """`qualname (file:line)`; the line where it was called most."""
    stage: str
    """The stage most of its time belongs to."""
    fetch_pct: float
    stages: dict[str, float]
    """Stage → percent of building batches."""


def callables(
    samples: Iterable[tuple[str, float]], joins: Iterable[tuple[str, float]] = ()
) -> list[SampledCallable]:
    """Return the callables that build batches, the most expensive first.

    Args:
        samples: (stack, time it stands for) each; the same stack may come many times. They are grouped by the
            callable of the dataset.
        joins: (name of the collate function, its time) each, of the same batches. PyTorch's own functions
            count as time, and are not returned.
    """
    by_place: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    texts: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    total = 0.0
    for text, weight in samples:
        stack = frames(text)
        found = entry(stack)
        if found is None:
            continue
        # Lines of the dataset's own code count separately.
        own = not below_dataset(stack)
        place = (found.text, "") if own else (found.qualname, found.file)
        by_place[place][stage(stack)] += weight
        texts[place][found.text] += weight
        total += weight
    for name, weight in joins:
        total += weight
        if not _DEFAULT_COLLATE.match(name):
            by_place[name, "collate"]["collate"] += weight
            texts[name, "collate"][name] += weight
    if total <= 0:
        return []
    result = []
    for place, stages in by_place.items():
        share = {name: 100.0 * weight / total for name, weight in stages.items()}
        result.append(
            SampledCallable(
                name=max(texts[place].items(), key=lambda item: item[1])[0],
                stage=max(share.items(), key=lambda item: item[1])[0],
                fetch_pct=sum(share.values()),
                stages=share,
            )
        )
    return sorted(result, key=lambda c: (-c.fetch_pct, c.name))
