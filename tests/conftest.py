"""Fixtures that more than one test file uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's folder."""
    return REPOSITORY


@pytest.fixture(scope="session")
def spider2_shared() -> Path:
    """The real databases and recorded verdicts; skips where they are absent, except in CI."""
    named = os.environ.get("SPIDER2_SHARED")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not (folder / "parity").is_dir():
        reason = f"no real data at {folder}; set SPIDER2_SHARED to the folder that holds it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
