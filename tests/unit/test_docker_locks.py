"""The images' locks agree with the pipeline's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def pinned(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["agent", "relay"])
def test_an_image_s_versions_are_the_pipeline_s(repository: Path, name: str) -> None:
    """A trial in a container runs on the packages that one in a child process runs on."""
    ours, image = (
        pinned(repository / "requirements.lock"),
        pinned(repository / f"docker/{name}.lock"),
    )
    assert image
    assert {package: ours.get(package) for package in image} == image
