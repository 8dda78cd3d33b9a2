"""A throw-away clone of this checkout, in which the pipeline runs on the starter suite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from stages.common.files import CODE_ROOT, project_root


@contextmanager
def clone() -> Iterator[Path]:
    """A clone beside this checkout's caches; it shares the stacks and the built databases."""
    cache = project_root() / ".cache"
    cache.mkdir(exist_ok=True)
    root = Path(mkdtemp(prefix="bench-", dir=cache))
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=CODE_ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (CODE_ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(CODE_ROOT / name, root / name)
        (root / "stages/stack/bin/dbt").chmod(0o755)
        (root / ".cache").mkdir()
        for shared in (".stacks", ".cache/suite"):
            (project_root() / shared).mkdir(parents=True, exist_ok=True)
            (root / shared).symlink_to(project_root() / shared)
        call(root, "git", "init", "-q")
        call(root, "git", "add", "-A")
        call(root, "git", "commit", "-q", "--no-verify", "-m", "bench")
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def call(root: Path, *command: str) -> float:
    """Run a command in the clone; seconds. Raises `CalledProcessError` with its output."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GIT_AUTHOR_NAME": "bench",
        "GIT_AUTHOR_EMAIL": "bench@localhost",
        "GIT_COMMITTER_NAME": "bench",
        "GIT_COMMITTER_EMAIL": "bench@localhost",
    }
    environment.pop("DVC_ROOT", None)
    started = time.perf_counter()
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
        done.check_returncode()
    return time.perf_counter() - started
