"""Hostile and broken statements, through the MCP client, on both stacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from stages.common.files import digest_file
from tests.functional.gateway_client import STACKS, Answered, Client, Place, gateway, make_place
from tests.functional.gateway_statements import COSTLY, HOSTILE, Hostile


class Served:
    """A gateway that answers statement after statement."""

    def __init__(self, place: Place, client: Client, portal: BlockingPortal) -> None:
        self.place = place
        self._client = client
        self._portal = portal

    def query(self, sql: str) -> Answered:
        return self._portal.call(self._client.query, sql)

    def files(self) -> dict[str, str]:
        """Every file of the project with its digest."""
        return {
            path.relative_to(self.place.project).as_posix(): digest_file(path)
            for path in self.place.project.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module", params=STACKS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    place = make_place(tmp_path_factory.mktemp("shop"))
    limits = {"query_s": 3, "memory_mb": 512}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(gateway(place, request.param, **limits)) as client,
    ):
        yield Served(place, client, portal)


def name_of(hostile: Hostile) -> str:
    return re.sub(r"\W+", "_", hostile.sql[:60], flags=re.ASCII).strip("_") or "empty"


@pytest.mark.parametrize("hostile", HOSTILE, ids=name_of)
def test_a_hostile_statement_is_refused_or_cut_and_the_next_call_is_answered(
    served: Served, hostile: Hostile
) -> None:
    before = served.files()

    answered = served.query(hostile.sql)

    if hostile.outcome == "cut":
        assert not answered.error, answered.text
    else:
        assert answered.error, answered.text
        assert re.match(f"{hostile.outcome}: ", answered.text), answered.text
    assert re.search(hostile.says, answered.text), answered.text
    assert "fault of its own" not in answered.text
    assert len(answered.text.encode()) < 30_000
    assert served.files() == before
    following = served.query("SELECT 40 + 2 AS answer")
    assert not following.error and "| 42 |" in following.text
    call, _ = served.place.calls()[-2:]
    assert re.fullmatch(hostile.outcome, call["outcome"])


def test_at_least_eighty_statements_are_tried() -> None:
    assert len({hostile.sql for hostile in HOSTILE}) - len(COSTLY) >= 80
