"""What the name of a kernel says of communication: whether it is any, and which collective."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMUNICATION = re.compile(
    r"nccl|rccl|oneccl|hccl|hcom|msccl|nvshmem|cross_device_reduce|one_?shot_?all_?reduce|two_?shot_?all_?reduce"
    r"|multimem_all|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|deep_?ep::(?!layout)"
    r"|(inter|intra)node(_ll)?::(dispatch|combine|barrier|\w*notify)"
)
"""Libraries and collectives. DeepEP's `notify_dispatch` and `cached_notify` wait for all ranks."""
_COLLECTIVES = (
    ("barrier", re.compile(r"::\w*notify")),
    ("reducescatter", re.compile(r"reduce_?scatter")),
    ("allgather", re.compile(r"all_?gather")),
    ("alltoall", re.compile(r"all_?to_?all|::(dispatch|combine)")),
    ("allreduce", re.compile(r"all_?reduce|cross_device_reduce")),
    ("broadcast", re.compile(r"broadcast")),
    ("sendrecv", re.compile(r"send_?recv|_p2p|batch_isend")),
    ("send", re.compile(r"send")),
    ("recv", re.compile(r"recv")),
    ("barrier", re.compile(r"barrier")),
    ("gather", re.compile(r"gather")),
    ("scatter", re.compile(r"scatter")),
    ("reduce", re.compile(r"reduce")),
)
"""From the longest word to those that others hold; DeepEP's barriers also name what they prepare."""
_ELEMENT = {
    "double": 8,
    "long": 8,
    "float": 4,
    "int": 4,
    "half": 2,
    "bfloat16": 2,
    "short": 2,
    "bool": 1,
    "byte": 1,
}


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Tell whether a kernel exchanges data between ranks."""
    return _COMMUNICATION.search(name.lower()) is not None


@lru_cache(maxsize=65536)
def collective(name: str) -> str:
    """Return which collective a name means, a kernel's or the trace's own; empty when it does not say."""
    text = name.lower()
    return next((word for word, spelling in _COLLECTIVES if spelling.search(text)), "")


def moved_bytes(which: str, sent: object, received: object, dtype: object) -> int:
    """Return the bytes of a collective: of the result of an allgather, of the input of all others."""
    size = element_bytes(str(dtype))
    elements = received if which == "allgather" else sent
    return elements * size if isinstance(elements, int) and 0 <= elements < 2**50 else 0


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element of a type as PyTorch or C++ calls it; 0 when it is not known."""
    text = dtype.lower().removeprefix("c10::").removeprefix("torch.")
    if text in _ELEMENT:
        return _ELEMENT[text]
    if text.startswith("float8"):
        return 1
    digits = re.search(r"(8|16|32|64|128)$", text)
    return int(digits[1]) // 8 if digits else 0
