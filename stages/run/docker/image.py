"""The images: built by `make image`, known by the digest of what they hold.

`python -m stages.run.docker.image [STACK …]`
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from docker.errors import DockerException
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import CODE_ROOT, digest_file, digest_text, digest_tree
from stages.common.params import load_params
from stages.run.docker.engine import BROKEN, engine, find_image, unavailable
from stages.run.keys import NOT_PROJECT, code_digest
from stages.stack.environments import stack_lock

RECIPE = "spider2.recipe"
"""Label: digest of everything of ours that went into the image."""

BUILD_S = 3600
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
RELAY = "spider2-dbt-relay"


def agent_image(stack: str) -> str:
    """The name of the image that holds a stack."""
    return f"spider2-dbt-agent:{stack}"


def agent_recipe(stack: str) -> str:
    """SHA-256 (hex) of what goes into the agent's image, but for its base."""
    return digest_text(_docker_files(), code_digest(), digest_file(stack_lock(stack)))


def relay_recipe() -> str:
    """SHA-256 (hex) of what goes into the relay's image, but for its base."""
    stages = CODE_ROOT / "stages"
    common = [digest_file(stages / "common" / name) for name in ("errors.py", "files.py")]
    return digest_text(_docker_files(), digest_tree(stages / "relay", skip=NOT_PROJECT), *common)


def _docker_files() -> str:
    return digest_tree(CODE_ROOT / "docker", skip=NOT_PROJECT)


def content_digest(image: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of an image's layers and of how it starts; build times and tags are no part."""
    config = image["Config"]
    started = [str(config.get(key)) for key in ("Env", "Entrypoint", "User", "WorkingDir")]
    return digest_text(*image["RootFS"]["Layers"], *started)


def checked(name: str, recipe: str, remedy: str) -> dict[str, Any]:
    """An image that is there and no older than the code.

    Raises:
        UserError: it is missing or outdated; `remedy` is the command that builds it.
    """
    image = find_image(name)
    if image is None:
        raise UserError(
            f"there is no image {name}", where="the Docker engine", remedy=f"run `{remedy}`"
        )
    if (image["Config"].get("Labels") or {}).get(RECIPE) != recipe:
        raise UserError(
            f"the image {name} is older than the code, the locks or the Dockerfile",
            where="the Docker engine",
            remedy=f"run `{remedy}`",
        )
    return image


def checked_agent(stack: str, image: str | None) -> dict[str, Any]:
    """The agent's image for a stack, or another made from it; raises as `checked`."""
    remedy = f"make image STACK={stack}"
    if image is not None:
        remedy += f"`, then build {image} anew `FROM {agent_image(stack)}"
    return checked(image or agent_image(stack), agent_recipe(stack), remedy)


def checked_relay() -> dict[str, Any]:
    """The relay's image; raises as `checked`."""
    return checked(RELAY, relay_recipe(), "make image")


def build(name: str, target: str, recipe: str, arguments: Mapping[str, str]) -> None:
    """Build one target of docker/Dockerfile; the engine's output goes to standard error.

    Raises:
        UserError: a step failed, or the base image is not there.
    """
    given = {key: os.environ[key] for key in PROXIES if key in os.environ}
    if base := os.environ.get("BASE_IMAGE"):
        given["BASE_IMAGE"] = base
    platform = os.environ.get("PLATFORM") or None
    print(f"building {name} …", file=sys.stderr)
    try:
        output = engine().build(
            path=str(CODE_ROOT),
            dockerfile="docker/Dockerfile",
            tag=name,
            target=target,
            buildargs={**given, **arguments},
            labels={RECIPE: recipe},
            platform=platform,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=BUILD_S,
        )
        problem = _follow(output)
    except BROKEN as error:
        raise unavailable(error) from None
    if problem:
        raise UserError(
            f"the image {name} could not be built: {problem}",
            where="docker/Dockerfile",
            remedy="the step's output is above. No registry in reach: make a base of your own and "
            "name it in BASE_IMAGE; certificates refused: put your authority into "
            "docker/ca/<name>.crt",
        )


def _follow(output: Iterator[dict[str, Any]]) -> str:
    """Show the build's steps as they come; returns its error, or nothing."""
    for item in output:
        text = str(item.get("stream", "")).rstrip()
        if text:
            print(f"  {text}", file=sys.stderr)
        if "error" in item:
            return str(item["error"]).strip()
    return ""


def print_layers(name: str) -> None:
    """An image's size, and what each of its layers holds."""
    client = engine()
    image = client.inspect_image(name)
    table = Table("MB", "made by", title=f"{name}: {image['Size'] / 1e6:,.0f} MB", box=None)
    for layer in reversed(client.history(name)):
        if layer["Size"] >= 500_000:
            made = layer["CreatedBy"].removeprefix("/bin/sh -c ").removeprefix("#(nop) ")
            table.add_row(f"{layer['Size'] / 1e6:,.1f}", " ".join(made.split())[:110])
    make_console().print(table)
    print(f"content {content_digest(image)}")


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stages.run.docker.image", description=__doc__)
    parser.add_argument("stacks", nargs="*", help="by default the one that params.yaml names")
    stacks = parser.parse_args().stacks or [load_params().stack.name]
    build(RELAY, "relay", relay_recipe(), {})
    for stack in stacks:
        stack_lock_of(stack)
        build(agent_image(stack), "agent", agent_recipe(stack), {"STACK": stack})
    for name in (RELAY, *(agent_image(stack) for stack in stacks)):
        try:
            print_layers(name)
        except DockerException as error:
            raise unavailable(error) from None
    return 0


def stack_lock_of(stack: str) -> None:
    """Make sure that a stack has a lock; raises `UserError`."""
    if not stack_lock(stack).is_file():
        raise UserError(
            f"stack {stack!r} has no lock file",
            where=str(stack_lock(stack)),
            remedy="name one of stacks/*.lock",
        )


if __name__ == "__main__":
    main(_main)
