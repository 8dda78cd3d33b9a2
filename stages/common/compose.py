"""Writes params.yaml from conf/, exactly as `dvc exp run` would: `python -m stages.common.compose`.

Plain `dvc repro` never composes, so the committed params.yaml is the composed default.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dvc.utils.hydra import compose_and_dump
from hydra.errors import HydraException

from stages.common.errors import UserError, main
from stages.common.files import CODE_ROOT


def compose(out: Path, overrides: list[str], *, conf: Path = CODE_ROOT / "conf") -> None:
    """Compose conf/config.yaml under Hydra overrides into `out`.

    Raises:
        UserError: a choice or key that conf/ does not have; Hydra's message lists the valid ones.
    """
    try:
        compose_and_dump(out, str(conf.resolve()), None, "config.yaml", "", overrides)
    except HydraException as error:
        raise UserError(str(error), where=str(conf)) from None


def _main() -> int:
    compose(Path("params.yaml"), sys.argv[1:])
    return 0


if __name__ == "__main__":
    main(_main)
