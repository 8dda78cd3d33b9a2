"""Whose a container, volume or network is: labels, and the removal of everything that bears them.

`python -m stages.run.docker.labels` removes what is this checkout's.
"""

from __future__ import annotations

import getpass
import socket

from stages.common.console import make_console
from stages.common.errors import main
from stages.common.files import digest_text, project_root
from stages.run.docker.engine import (
    BROKEN,
    engine,
    remove_container,
    remove_network,
    remove_volume,
    unavailable,
)

OWNER = "spider2.owner"
RUN = "spider2.run"
TRIAL = "spider2.trial"


def owner() -> str:
    """This user's checkout on this machine: only what bears its name is ever removed."""
    who = digest_text(socket.gethostname(), getpass.getuser(), str(project_root()))
    return who[:16]


def labels(run_id: str, trial_id: str = "") -> dict[str, str]:
    """The labels of something that belongs to a run, and to one trial of it."""
    return {OWNER: owner(), RUN: run_id} | ({TRIAL: trial_id} if trial_id else {})


def runs() -> set[str]:
    """The ids of all runs that something is left of."""
    client, mine = engine(), {"label": f"{OWNER}={owner()}"}
    found = [item["Labels"] for item in client.containers(all=True, filters=mine)]
    found += [item["Labels"] for item in client.volumes(filters=mine)["Volumes"] or ()]
    found += [item["Labels"] for item in client.networks(filters=mine)]
    return {item[RUN] for item in found if RUN in item}


def remove(run_id: str | None = None) -> int:
    """Remove everything of a run, or of all runs of this owner; how many things there were.

    What another thread is still at work with is passed over.

    Raises:
        UserError: there is no engine, or it refuses for another reason.
    """
    client = engine()
    wanted = [f"{OWNER}={owner()}"]
    if run_id is not None:
        wanted.append(f"{RUN}={run_id}")
    mine = {"label": wanted}
    count = 0
    try:
        for item in client.containers(all=True, filters=mine):
            count += remove_container(item["Id"])
        for item in client.volumes(filters=mine)["Volumes"] or ():
            count += remove_volume(item["Name"])
        for item in client.networks(filters=mine):
            count += remove_network(item["Id"])
    except BROKEN as error:
        raise unavailable(error) from None
    return count


def _main() -> int:
    make_console().print(f"removed {remove()} containers, volumes and networks of this checkout")
    return 0


if __name__ == "__main__":
    main(_main)
