"""What a sealed trial costs beside the agent's own time, and what more workers bring."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from benchmarks.clone import call
from benchmarks.ratio import Ratio
from stages.common.compose import compose
from stages.common.errors import UserError
from stages.run.docker.engine import find_image
from stages.run.docker.image import agent_image
from stages.run.models import TaskResult

STACK = "current"
TIMES = 12
WAIT_S = 5.0
TWELVE = (
    "allotment001",
    "bakery001",
    "cafe001",
    "clinic001",
    "courier001",
    "harbor001",
    "meter001",
    "museum001",
    "orchard001",
    "recipe001",
    "shelter001",
    "tram001",
)


def measure(root: Path) -> list[Ratio]:
    """The ratios, in the clone at `root`; none where there is no engine or no image."""
    try:
        if shutil.which("docker") is None or find_image(agent_image(STACK)) is None:
            return []
    except UserError:
        return []
    bare = [_bare() for _ in range(TIMES // 2)]
    _run(root, 1)
    outside = [result.elapsed_s - result.sandbox_s for result in _results(root)]
    bare += [_bare() for _ in range(TIMES // 2)]
    seconds = {
        workers: _run(root, workers, f"agent.wait_s={WAIT_S}", f"tasks=[{','.join(TWELVE)}]")
        for workers in (1, 3, 6)
    }
    own = f"{len(TWELVE)} trials whose agent waits {WAIT_S:g} s"
    return [
        Ratio(
            what="a sealed nop trial outside the agent to `docker run --rm … true`",
            part=median(outside),
            whole=median(bare),
            unit="s",
        ),
        *(
            Ratio(what=f"{own}: 1 worker to {many}", part=seconds[1], whole=seconds[many], unit="s")
            for many in (3, 6)
        ),
    ]


def _bare() -> float:
    """Seconds of the least that Docker can do with the image."""
    started = time.perf_counter()
    command = ["docker", "run", "--rm", "--entrypoint", "true", agent_image(STACK)]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _run(root: Path, workers: int, *overrides: str) -> float:
    """Seconds of the run stage with nothing in the store."""
    shutil.rmtree(root / ".cache" / "trials", ignore_errors=True)
    given = ["agent=nop", "sandbox=docker", f"concurrency.max_workers={workers}", *overrides]
    compose(root / "params.yaml", given, conf=root / "conf")
    return call(root, "python", "-m", "stages.run")


def _results(root: Path) -> list[TaskResult]:
    return [TaskResult.read(path) for path in root.glob("results/runs/*/*/task_result.json")]
