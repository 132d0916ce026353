"""Secrets in a command line: they are masked before it is written down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "***"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "token",
    }
)
_KEYS = frozenset(
    {
        "access",
        "account",
        "api",
        "auth",
        "client",
        "encryption",
        "license",
        "private",
        "secret",
        "service",
        "signing",
    }
)
"""What stands before `key` where the key is a secret; any other one, as of a dictionary, is none."""
_SPECIAL = frozenset(
    {
        "begin",
        "bos",
        "class",
        "cls",
        "end",
        "eos",
        "image",
        "mask",
        "next",
        "pad",
        "sep",
        "special",
        "start",
        "stop",
        "unk",
    }
)
"""What stands before `token` where it is one of a text."""
_OPEN = re.compile(
    r"(?:true|false|none|null|yes|no|on|off|auto|\d{1,3}|<[^<>]*>|\[[^\[\]]*\])?", re.IGNORECASE
)
"""Values that hide nothing: of a switch, a count, a special token."""
_VALUE = r"((?:(?:Bearer|Basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s\"';&|,]+))"
_PAIRS = (
    re.compile(r"(?<![A-Za-z0-9])([A-Za-z][\w.-]{0,80})([\"']?\s*[=:]\s*)" + _VALUE),
    re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]{0,80})(\s+)(?!-)" + _VALUE),
)
"""Inside of a word, as of a shell's script or of a header: a name and its value."""
_URL = re.compile(r"(?<=://)([^\s/:@]*):([^\s/]+)(?=@)")
_SHAPED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|gh[opsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"
)
"""Keys that their makers made to be known: Hugging Face, OpenAI, GitHub, GitLab, Slack, AWS, Google, JWT."""


def masked(command: Iterable[str]) -> list[str]:
    """Return a command's words without the secrets among them.

    A secret is what an option or a variable is given whose name says so (`--api-key V`, `--api-key=V`,
    `API_KEY=V`), the password of a URL, and what has the shape of a well-known key.
    """
    found: list[str] = []
    named = False
    for word in command:
        name, equals, value = word.partition("=")
        if named and not word.startswith("-") and not _OPEN.fullmatch(word):
            found.append(MASK)
        elif equals and not any(map(str.isspace, name)) and _secret(name):
            found.append(word if _OPEN.fullmatch(value) else f"{name}={MASK}")
        else:
            for pairs in _PAIRS:
                word = pairs.sub(_pair, word)
            found.append(_SHAPED.sub(MASK, _URL.sub(rf"\1:{MASK}", word)))
        named = not equals and word.startswith("-") and _secret(word)
    return found


def _pair(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    bare = value.strip("\"'")
    hidden = bare != MASK and not bare.startswith("//") and not _OPEN.fullmatch(bare) and _secret(name)
    return f"{name}{between}{MASK}" if hidden else match[0]


def _secret(name: str) -> bool:
    """Tell whether a name speaks of a secret: by its last word, as of an API key, not of a pad token."""
    words = [word.lower() for word in _WORDS.findall(name)]
    last, before = words[-1] if words else "", words[-2] if len(words) > 1 else ""
    if last == "token" and before in _SPECIAL:
        return False
    return last in _ALWAYS or (last == "key" and before in _KEYS)
