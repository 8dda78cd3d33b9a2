"""Builds each stack's environment from its hash-locked file, once."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from filelock import FileLock
from uv import find_uv_bin

from stages.common.errors import UserError
from stages.common.files import CODE_ROOT, Record, digest_file, project_root, write_text

NAMED = ("dbt-core", "dbt-duckdb", "duckdb", "libfaketime")
"""The packages whose versions decide what a build yields."""


class Stack(Record):
    """An environment that holds dbt, dbt-duckdb, DuckDB and libfaketime."""

    name: str
    prefix: Path
    """The environment's folder, absolute."""
    versions: dict[str, str]
    """Locked version of each package in `NAMED`."""

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.prefix / "bin" / "python"


def stack_lock(name: str) -> Path:
    """The lock file of a stack by its name."""
    return CODE_ROOT / "stacks" / f"{name}.lock"


@cache
def locked_versions(lock: Path) -> dict[str, str]:
    """The versions of `NAMED` that a lock file pins."""
    text = lock.read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE))
    missing = [name for name in NAMED if name not in pins]
    if missing:
        raise UserError(
            f"the lock does not pin {', '.join(missing)}",
            where=str(lock),
            remedy="add it to the .in file beside it and run `make lock`",
        )
    return {name: pins[name] for name in NAMED}


def ensure_stack(name: str, lock: Path) -> Stack:
    """The stack's environment under `.stacks/<name>`, built first if it is absent or outdated.

    Two processes may ask at once: one builds, the other waits. An interrupted build leaves
    no completion mark and is done again.

    Raises:
        UserError: the lock is missing, or the installation failed.
    """
    if not lock.is_file():
        raise UserError(
            f"stack {name!r} has no lock file", where=str(lock), remedy="run `make lock`"
        )
    prefix = project_root() / ".stacks" / name
    stack = Stack(name=name, prefix=prefix, versions=locked_versions(lock.resolve()))
    mark = prefix / ".complete"
    digest = digest_file(lock)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(prefix.with_suffix(".lock")):
        if not (mark.is_file() and mark.read_text().strip() == digest):
            print(f"building the stack {name!r} ({_describe(stack)}) …", file=sys.stderr)
            _install(prefix, lock)
            write_text(mark, digest + "\n")
    return stack


def _describe(stack: Stack) -> str:
    return ", ".join(f"{package} {version}" for package, version in stack.versions.items())


def _install(prefix: Path, lock: Path) -> None:
    uv = find_uv_bin()
    for step in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(prefix)],
        [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(prefix), str(lock)],
    ):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode != 0:
            raise UserError(
                f"the stack could not be installed: {done.stderr.strip()[-2000:]}",
                where=str(lock),
                remedy="check the network and disk space, then run `make setup` again",
            )


def main() -> int:
    """Build the stacks named on the command line, or the one that params.yaml names."""
    from stages.common.params import load_params

    for name in sys.argv[1:] or [load_params().stack.name]:
        stack = ensure_stack(name, stack_lock(name))
        print(f"stack {name}: {_describe(stack)}")
    return 0


if __name__ == "__main__":
    from stages.common.errors import main as run

    run(main)
