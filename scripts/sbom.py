"""Print what an installation of holter holds, as CycloneDX JSON: python scripts/sbom.py > holter.cdx.json.

Python packages are those that `holter` needs without extras, in the versions of constraints.txt and with the
licences of the installed ones; files of the dashboard are those of package-lock.json, with their hashes.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SHIPPED = ("htm", "preact", "uplot")
"""Packages of npm whose files lie in the wheel; see hatch_build.py."""
_CLASSIFIER = "License :: OSI Approved :: "


def pinned() -> dict[str, str]:
    """Return the version of each package that constraints.txt pins."""
    found = re.findall(
        r"^([A-Za-z0-9._-]+)==([^\s;#]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
    return {plain(name): version for name, version in found}


def plain(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(requirements: list[str], known: set[str] | None = None) -> Iterator[str]:
    """Yield the names of all packages that some requirements bring here, each once."""
    known = set() if known is None else known
    for text in requirements:
        requirement = Requirement(text)
        name = plain(requirement.name)
        if name in known or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        known.add(name)
        yield name
        yield from needed(metadata.requires(name) or [], known)


def licence(name: str) -> str:
    """Return a package's licence: an expression, else what its classifiers or its metadata say."""
    about = metadata.metadata(name)
    classifiers = [
        one.removeprefix(_CLASSIFIER) for one in about.get_all("Classifier") or [] if _CLASSIFIER in one
    ]
    told = (about.get("License-Expression") or "").strip() or ", ".join(classifiers)
    return told or (about.get("License") or "unknown").strip().splitlines()[0]


def component(kind: str, name: str, version: str, licence_: str, **more: Any) -> dict[str, Any]:
    """Return one entry."""
    url = f"pkg:{kind}/{name}@{version}"
    named = {"license": {"name": licence_}}
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "purl": url,
        "licenses": [named],
        **more,
    }


def components() -> Iterator[dict[str, Any]]:
    """Yield what the wheel needs and what it holds."""
    versions = pinned()
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in sorted(needed(project["dependencies"])):
        yield component("pypi", name, versions.get(name) or metadata.version(name), licence(name))
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for name in SHIPPED:
        entry = lock[f"node_modules/{name}"]
        kind, _, digest = entry["integrity"].partition("-")
        hashes = [{"alg": kind.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}]
        yield component("npm", name, entry["version"], entry["license"], hashes=hashes, scope="required")


def document() -> dict[str, Any]:
    """Return the whole document; the same for the same sources."""
    sys.path.insert(0, str(ROOT / "src"))
    import holter

    own = component("pypi", "holter", holter.__version__, "Apache-2.0")
    found = list(components())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": found,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [one["bom-ref"] for one in found]}],
    }


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
