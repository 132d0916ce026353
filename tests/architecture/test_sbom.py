"""The bill of materials names what an installation holds, and each of it may be shipped and used freely."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
FREE = re.compile(r"MIT|BSD|Apache|PSF|MPL-2\.0|Zlib|0BSD|CC0|ISC")


def document():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "scripts/sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.document()


def test_the_bill_of_materials():
    made = document()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    found = {one["name"]: one for one in made["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[>=<;\[ ]", text)[0].replace(".", "-").lower() for text in project["dependencies"]}
    assert needed - set(found) <= {"backports-zstd"}, "newer Pythons have it"
    assert {"htm", "preact", "uplot"} <= set(found)
    pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", (ROOT / "constraints.txt").read_text(), re.M))
    for name in sorted(needed & set(found)):
        pinned = {key.replace(".", "-").lower(): version for key, version in pins.items()}[name]
        assert found[name]["version"] == pinned
    for name, one in found.items():
        assert FREE.search(one["licenses"][0]["license"]["name"]), (name, one["licenses"])
        assert one["version"]
    assert all(
        re.fullmatch(r"[0-9a-f]{128}", found[name]["hashes"][0]["content"]) for name in ("htm", "uplot")
    )
    assert made == document(), "the same sources make the same document"
