"""What the two images hold: the code of their stages and the locked packages, and nothing else."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
from docker import APIClient

from stages.common.files import CODE_ROOT, walk
from stages.run.docker.image import RELAY, agent_image
from stages.run.docker.sandbox import PIPELINE
from stages.run.keys import IN_SANDBOX, NOT_PROJECT
from stages.stack.environments import stack_lock

pytestmark = pytest.mark.docker

STAGES = CODE_ROOT / "stages"
BELOW = f"{PIPELINE.lstrip('/')}/"
PACKAGES = ("__init__.py", "common/__init__.py", "stack/__init__.py")
IN_RELAY = ("__init__.py", "common/__init__.py", "common/errors.py", "common/files.py", "relay")
SYSTEM = ("usr/", "etc/python3", "var/lib/dpkg")
"""Where the base's own Python lies."""
TELLING = re.compile(
    r"gold|spider2_eval|evaluat(e|ion)|recordings?|\.env|conf|data|dvc\.yaml|params\.yaml",
    re.IGNORECASE,
)


class Reader:
    """An engine's stream as a file that can be read forward."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held = chunks, b""

    def read(self, size: int) -> bytes:
        while len(self._held) < size and (chunk := next(self._chunks, b"")):
            self._held += chunk
        data, self._held = self._held[:size], self._held[size:]
        return data


@pytest.fixture(scope="module")
def content(docker_images: str) -> Callable[[str], list[str]]:
    """From an image's name to the paths of everything in it, folders with a slash at their end."""
    client = APIClient(version="auto")
    found: dict[str, list[str]] = {}

    def read(image: str) -> list[str]:
        if image not in found:
            container = client.create_container(image, network_disabled=True)["Id"]
            try:
                stream = Reader(iter(client.export(container)))
                with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
                    found[image] = [
                        f"{member.name}/" if member.isdir() else member.name for member in archive
                    ]
            finally:
                client.remove_container(container)
        return found[image]

    return read


def code(names: tuple[str, ...]) -> set[str]:
    """The files below stages/ that an image is to hold, by their path in it."""
    paths = [STAGES / name for name in names]
    found = {file for path in paths for file in (walk_code(path) if path.is_dir() else [path])}
    return {
        f"{PIPELINE.lstrip('/')}/stages/{path.relative_to(STAGES).as_posix()}" for path in found
    }


def walk_code(folder: Path) -> Iterator[Path]:
    return (path for path in walk(folder, skip=NOT_PROJECT) if path.suffix != ".pyc")


IMAGES = {
    agent_image("current"): code((*IN_SANDBOX, *PACKAGES)),
    RELAY: code(IN_RELAY),
}


@pytest.mark.parametrize("image", sorted(IMAGES))
def test_an_image_holds_the_code_of_its_stages_and_no_other(
    image: str, content: Callable[[str], list[str]]
) -> None:
    files = {name for name in content(image) if name.startswith(BELOW) and name[-1] != "/"}
    assert files == IMAGES[image]


@pytest.mark.parametrize("image", sorted(IMAGES))
def test_every_python_file_is_a_package_s_the_system_s_or_of_its_stages(
    image: str, content: Callable[[str], list[str]]
) -> None:
    libraries = ("opt/agent/", "opt/stack/", "opt/relay/", *SYSTEM)
    python = {name for name in content(image) if name.endswith((".py", ".pyc"))}
    assert {name for name in python if not name.startswith(libraries)} == {
        name for name in IMAGES[image] if name.endswith(".py")
    }
    assert not [name for name in python if "/site-packages/stages/" in name]


@pytest.mark.parametrize("image", sorted(IMAGES))
def test_nothing_in_an_image_is_called_as_what_must_stay_outside(
    image: str, content: Callable[[str], list[str]]
) -> None:
    libraries = ("opt/agent/lib/", "opt/stack/lib/", "opt/relay/lib/", "usr/", "var/", "etc/")
    suspects = []
    for name in content(image):
        if not name.startswith(libraries) and name not in IMAGES[image]:
            suspects += [part for part in PurePosixPath(name).parts if TELLING.fullmatch(part)]
    assert suspects == []
    inside = [name for name in content(image) if name.startswith(("usr/", "opt/"))]
    assert not [name for name in inside if re.search(r"spider2_eval|/gold/|\.env$", name)]


def installed(names: list[str], prefix: str) -> dict[str, str]:
    """Packages and versions below a prefix, by their folders of metadata."""
    pattern = re.compile(rf"{prefix}/lib/python3\.\d+/site-packages/([^/]+)-([^/-]+)\.dist-info/$")
    found = [match for name in names if (match := pattern.match(name))]
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in found}


def locked(lock: Path) -> tuple[set[tuple[str, str]], set[str]]:
    """All pairs of package and version; and the packages that every platform and Python gets."""
    found = re.findall(r"^([\w.-]+)==(\S+)( ;)?", lock.read_text(), re.MULTILINE)
    pairs = {(name, version) for name, version, _ in found}
    return pairs, {name for name, _, condition in found if not condition}


@pytest.mark.parametrize(
    ("image", "prefix", "lock"),
    [
        (agent_image("current"), "opt/agent", CODE_ROOT / "docker/agent.lock"),
        (agent_image("current"), "opt/stack", stack_lock("current")),
        (RELAY, "opt/relay", CODE_ROOT / "docker/relay.lock"),
    ],
)
def test_the_packages_are_those_of_the_lock(
    image: str, prefix: str, lock: Path, content: Callable[[str], list[str]]
) -> None:
    packages = installed(content(image), prefix)
    pairs, everywhere = locked(lock)
    assert set(packages.items()) <= pairs
    assert everywhere <= set(packages)


def test_the_agent_s_image_has_the_tools_and_no_installer(
    content: Callable[[str], list[str]],
) -> None:
    names = set(content(agent_image("current")))
    assert {"usr/bin/git", "usr/bin/socat", "usr/local/bin/dbt"} <= names
    assert not [name for name in names if re.search(r"(^|/)bin/(pip3?|uv|docker|curl|wget)$", name)]
    cli = "opt/agent/lib/python3.11/site-packages/claude_agent_sdk/_bundled/claude"
    assert cli in names


@pytest.mark.parametrize(("image", "user"), [(agent_image("current"), "agent"), (RELAY, "relay")])
def test_an_image_s_user_is_not_root(image: str, user: str, client: APIClient) -> None:
    config = client.inspect_image(image)["Config"]
    assert config["User"] == user
    assert not [line for line in config["Env"] if re.match(r"(?i)(https?|no)_proxy=", line)]
