"""`python -m stages.gateway --database FILE --project FOLDER --log FILE [limits]`, on stdio."""

from __future__ import annotations

import argparse
from pathlib import Path

import anyio

from stages.common.errors import main
from stages.gateway.models import Limits, Settings
from stages.gateway.server import serve


def run() -> int:
    """Serve until the client leaves."""
    parser = argparse.ArgumentParser(prog="python -m stages.gateway", description=__doc__)
    parser.add_argument("--database", type=Path, required=True, help="the task's DuckDB file")
    parser.add_argument("--project", type=Path, required=True, help="the task's dbt project")
    parser.add_argument("--log", type=Path, required=True, help="where calls are logged, as JSONL")
    for name, field in Limits.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(option, type=kind, default=field.default, help="default %(default)s")
    given = vars(parser.parse_args())
    limits = Limits(**{name: given.pop(name) for name in Limits.model_fields})
    paths = {name: path.resolve() for name, path in given.items()}
    anyio.run(serve, Settings(**paths, limits=limits))
    return 0


if __name__ == "__main__":
    main(run)
