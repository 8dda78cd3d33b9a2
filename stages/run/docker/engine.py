"""The Docker engine: one connection a thread, limits on how long it may take, errors in words."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils import kwargs_from_env

from stages.common.errors import UserError

CONTROL_S = 60
"""Longest wait for the engine's answer to anything but the end of a container, seconds."""

BROKEN = (DockerException, requests.exceptions.RequestException, tarfile.TarError, OSError)
"""What is raised where the engine refuses, is gone, or breaks off."""

IN_USE_OR_GONE = (403, 404, 409)
"""Status of a removal that somebody else has done, is doing or must do first."""

_local = threading.local()


class EngineError(Exception):
    """The engine refused, or went away, in the middle of a trial."""


def engine() -> APIClient:
    """This thread's connection.

    Raises:
        UserError: there is no engine, or it may not be used; with the remedy.
    """
    client: APIClient | None = getattr(_local, "client", None)
    if client is None:
        try:
            client = APIClient(**kwargs_from_env(), version="auto", timeout=CONTROL_S)
        except BROKEN as error:
            raise unavailable(error) from None
        _local.client = client
    return client


def unavailable(error: BaseException) -> UserError:
    """Why there is no engine, told from what the library raised."""
    where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    chain = _chain(error)
    refused = any(isinstance(item, PermissionError) for item in chain)
    if refused or "Permission denied" in str(error):
        return UserError(
            "you may not use the Docker engine",
            where=where,
            remedy="join the group that owns its socket (`sudo usermod -aG docker $USER`, then log "
            "in again), or choose `-S sandbox=process`, which isolates nothing",
        )
    return UserError(
        f"there is no Docker engine: {reason(error)}",
        where=where,
        remedy="start it (`sudo systemctl start docker`, or `sudo dockerd`), name another one in "
        "DOCKER_HOST, or choose `-S sandbox=process`, which isolates nothing",
    )


def reason(error: BaseException) -> str:
    """The innermost cause in one line."""
    if isinstance(error, APIError) and error.explanation:
        return str(error.explanation).strip()
    inner = _chain(error)[-1]
    return (str(inner) or type(inner).__name__).strip().splitlines()[0]


def _chain(error: BaseException) -> list[BaseException]:
    """An exception, and what it says that caused it, wherever the libraries keep that."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            waiting += [item.__cause__, item.__context__, *item.args]
            waiting.append(getattr(item, "reason", None))
    return found


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turn whatever the library raises into an `EngineError` that says what was attempted."""
    try:
        yield
    except BROKEN as error:
        raise EngineError(f"the Docker engine could not {what}: {reason(error)}") from error


def find_image(name: str) -> dict[str, Any] | None:
    """What the engine knows of an image; None where it has none of that name."""
    try:
        found: dict[str, Any] = engine().inspect_image(name)
    except ImageNotFound:
        return None
    except BROKEN as error:
        raise unavailable(error) from None
    return found


def check_disk(least_gb: float) -> None:
    """Make sure that the engine's disk has room; one on another machine is not looked at.

    Raises:
        UserError: fewer than `least_gb` gigabytes are free.
    """
    try:
        place = Path(str(engine().info().get("DockerRootDir", "")))
    except BROKEN as error:
        raise unavailable(error) from None
    if not place.is_dir():
        return
    free = shutil.disk_usage(place).free / 1e9
    if free < least_gb:
        raise UserError(
            f"the Docker engine's disk has {free:.1f} GB left, and a trial needs {least_gb:g}",
            where=str(place),
            remedy="free some (`make clean-docker`, `docker system prune`), or lower "
            "`sandbox.least_free_gb`",
        )


def remove_container(container: str) -> bool:
    """Kill and remove a container; false where that was done already.

    It is gone afterwards: one that the engine is removing at this moment is waited for.
    """
    removed = _removed(lambda: engine().remove_container(container, force=True, v=True))
    if not removed:
        with contextlib.suppress(NotFound):
            engine().wait(container, condition="removed")
    return removed


def remove_volume(volume: str) -> bool:
    """Remove a volume; false where it is gone, or something still uses it."""
    return _removed(lambda: engine().remove_volume(volume, force=True))


def remove_network(network: str) -> bool:
    """Remove a network; false where it is gone, or something still uses it."""
    return _removed(lambda: engine().remove_network(network))


def _removed(remove: Callable[[], None]) -> bool:
    try:
        remove()
    except APIError as error:
        if error.status_code in IN_USE_OR_GONE:
            return False
        raise
    return True
