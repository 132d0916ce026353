"""Bundles ES modules into one script, because browsers load no modules for a page that is a local file.

The modules are the dashboard's own and the third-party ones. Each becomes a function that is called once,
after the modules that it imports. The bundler understands the syntax that these files use: imports by name or
of the default, at the beginning of a line; exports of declarations, or a list at the end of the file. Other
syntax raises an error, and a test in a browser runs the result. Comments on lines of their own are removed,
except for copyright notices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_IMPORT = re.compile(r'^import\s+(?:(\w+)|\{([^}]*)\})\s+from\s+"([^"]+)";\n?', re.MULTILINE)
_DECLARED = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_LISTED = re.compile(r"\bexport\s*\{([^}]*)\};?\s*\Z")
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/[ \t]*\n|//[^\n]*\n)", re.MULTILINE | re.DOTALL)
_LEFT = re.compile(r"^(?:import|export)\b(?!\()[^\n]*", re.MULTILINE)


def bundle(entry: Path) -> str:
    """Return a script that does what a module and all that it imports do.

    Modules that import each other in a circle, or whose syntax is not supported, raise `ValueError`.
    """
    names: dict[Path, str] = {}
    return '"use strict";\n' + "".join(_modules(entry.resolve(), names, []))


def _modules(path: Path, names: dict[Path, str], above: list[Path]) -> Iterator[str]:
    if path in above:
        raise ValueError(f"{path.name} imports itself, over {', '.join(one.name for one in above)}")
    text = _COMMENT.sub(
        lambda found: found[0] if "Copyright" in found[0] else "", path.read_text(encoding="utf-8")
    )
    heads = []
    for default, listed, where in _IMPORT.findall(text):
        needed = (path.parent / where).resolve()
        if needed not in names:
            yield from _modules(needed, names, [*above, path])
        wanted = f"{{ default: {default} }}" if default else f"{{{listed.replace(' as ', ': ')}}}"
        heads.append(f"const {wanted} = {names[needed]};\n")
    text = _IMPORT.sub("", text)
    exported = {name: name for name in _DECLARED.findall(text)}
    text = _DECLARED.sub("", text)
    if found := _LISTED.search(text):
        pairs = (one.strip().partition(" as ") for one in found[1].split(",") if one.strip())
        exported |= {(other or own): own for own, _, other in pairs}
        text = text[: found.start()]
    if odd := _LEFT.search(text):
        raise ValueError(f"{path.name}: not understood: {odd[0]}")
    names[path] = f"m{len(names)}"
    given = ", ".join(f"{name}: {own}" for name, own in exported.items())
    yield f"const {names[path]} = (() => {{\n{''.join(heads)}{text}\nreturn {{ {given} }};\n}})();\n"
