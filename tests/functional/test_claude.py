"""The agent `claude` on the real SDK, CLI, gateway and dbt, with the relay's recordings."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import duckdb
import httpx
import pytest
import yaml

from stages.agent.models import TrialStatus
from stages.relay.config import Mode, RelayConfig
from stages.relay.relay import Relay
from tests.functional.conftest import REPOSITORY, Workspace

CANARY = "sk-ant-canary-of-the-tests-0123456789"
PLAY = {"mode": "play"}


def tool(name: str, **given: Any) -> dict[str, Any]:
    return {"tool": name, "input": given}


def turn(*answer: Any, expect: Any = None, **more: Any) -> dict[str, Any]:
    return {"answer": list(answer), **({"expect": expect} if expect else {}), **more}


def say(text: str) -> dict[str, Any]:
    return {"text": text}


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="A step")


VERIFY = [
    turn(tool("Agent", subagent_type="verifier", description="Check", prompt="Check it.")),
    turn(say("I wait.")),
    turn(say("Done."), expect={"message": ["Checked"]}),
]


def trace(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    """The events of a trial."""
    events: list[dict[str, Any]] = json.loads((workspace.trial(name) / "trace.json").read_text())
    return events


@pytest.fixture
def one(workspace: Workspace) -> Workspace:
    """A workspace with one task."""
    del workspace.tasks["two"]
    return workspace


def test_the_gateway_dbt_and_the_snapshot_live_on_the_gold_date(one: Workspace) -> None:
    one.claude(PLAY)
    one.record(
        "one",
        turn(tool("mcp__gateway__query_database", sql="select current_date as today")),
        turn(bash("dbt --no-use-colors run"), expect={"result": ["2024-02-29"]}),
        turn(
            bash("cat reference_snapshot.md; date +%Y"),
            expect={"result": ["Completed successfully"]},
        ),
        turn(say("Now the verifier."), VERIFY[0]["answer"][0], expect={"result": ["2024-02-29"]}),
        *VERIFY[1:],
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.result("one").status is TrialStatus.COMPLETED
    with duckdb.connect(one.trial("one") / "frozen/views.duckdb", read_only=True) as frozen:
        days = frozen.sql("select distinct seen_on from seen").fetchall()
    assert [str(day) for (day,) in days] == ["2024-02-29"]


def test_the_trace_tells_the_verifier_s_events_from_the_main_agent_s(one: Workspace) -> None:
    one.claude(PLAY)
    one.record(
        "one",
        turn({"thinking": "First the skill."}, tool("Skill", skill="dbt-workflow")),
        turn(say("Now the verifier."), VERIFY[0]["answer"][0]),
        *VERIFY[1:],
        verifier=[turn(tool("mcp__gateway__list_tables")), turn(say("Checked: nothing to do."))],
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    events = trace(one, "one")
    used = [(event["who"], event["tool"]) for event in events if event["kind"] == "tool_use"]
    assert used == [
        ("main", "Skill"),
        ("main", "Agent"),
        ("verifier", "mcp__gateway__list_tables"),
    ]
    assert ("verifier", "Checked: nothing to do.") in [(e["who"], e["text"]) for e in events]
    times = [event["time_s"] for event in events]
    assert times == sorted(times)
    queries = (one.trial("one") / "queries" / "queries.jsonl").read_text().splitlines()
    assert [json.loads(line)["tool"] for line in queries] == ["list_tables"]
    result = one.result("one")
    assert result.model == "test"
    assert result.tokens.output > 0
    assert result.versions["claude-agent-sdk"]


def test_a_run_is_over_only_when_the_verifier_has_reported(one: Workspace) -> None:
    """An agent that stops without it is asked to start it."""
    one.claude(PLAY)
    one.record("one", turn(say("I am done.")), *VERIFY)
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.result("one").detail == ""
    assert "verifier" in {event["who"] for event in trace(one, "one")}


def test_the_brief_skills_and_skeletons_lie_in_the_work_directory(one: Workspace) -> None:
    project = one.root / "suite/examples/one"
    (project / "models" / "schema.yml").write_text(
        yaml.safe_dump({"models": [{"name": "wanted", "columns": [{"name": "a"}, {"name": "b"}]}]})
    )
    one.params["skills"] = {"name": "some", "skills": ["duckdb-sql"]}
    one.claude(PLAY, skeletons=True, verifier=False)
    one.record(
        "one",
        turn(
            bash("cat CLAUDE.md models/wanted.sql; ls .claude/skills; git status --short; dbt deps")
        ),
        turn(
            say("Done."), expect={"result": ["Write the model of one", "null as b", "duckdb-sql"]}
        ),
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    project = one.trial("one") / "project"
    assert (project / "models" / "wanted.sql").is_file()
    assert not (project / ".git").exists()
    assert [path.name for path in (project / ".claude" / "skills").iterdir()] == ["duckdb-sql"]


def test_an_overload_is_tried_again_and_both_attempts_are_paid(one: Workspace) -> None:
    one.claude(PLAY, verifier=False)
    overload = {"kind": "overloaded", "times": 200, "attempt": 1, "seconds": 0}
    one.record(
        "one",
        turn(bash("ls; touch mark"), usage={"input": 1000, "output": 10}),
        turn(bash("ls"), fault=overload, usage={"input": 500, "output": 5}),
        turn(say("Done."), usage={"input": 100, "output": 1}),
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    result = one.result("one")
    assert (result.status, result.attempts) == (TrialStatus.COMPLETED, 2)
    assert result.tokens.input == 1000 + 1000 + 500 + 100
    listed = next(event for event in trace(one, "one") if event["kind"] == "tool_result")
    assert "mark" not in listed["text"], "the second attempt must start in a fresh folder"


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"max_turns": 3}, TrialStatus.MAX_TURNS),
        ({"max_budget_usd": 0.0001}, TrialStatus.OVER_BUDGET),
    ],
)
def test_limits_end_a_run_with_their_status(
    one: Workspace, settings: dict[str, Any], status: TrialStatus
) -> None:
    one.claude(PLAY, **settings)
    one.record("one", turn(bash("ls"), repeat=50, usage={"input": 5000, "output": 500}))
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.result("one").status is status


def test_a_recording_that_no_longer_fits_says_where_they_part(one: Workspace) -> None:
    one.claude(PLAY)
    one.params["retries"]["count"] = 0
    one.record(
        "one", turn(bash("echo this")), turn(say("Done."), expect={"result": ["something else"]})
    )
    done = one.run()
    assert done.returncode == 1
    assert one.result("one").status is TrialStatus.INFRA_ERROR
    assert "at main, turn 2" in one.result("one").detail
    assert "something else" in one.result("one").detail
    assert one.stored() == []


def test_a_task_without_a_recording_stops_the_stage_before_anything_runs(one: Workspace) -> None:
    one.claude(PLAY)
    done = one.run()
    assert done.returncode == 1
    assert "there is none for 1 of 1 tasks (one)" in done.stdout
    assert not (one.root / "results" / "runs").exists()


@contextmanager
def upstream(workspace: Workspace, name: str) -> Iterator[str]:
    """A model's endpoint for one trial: a relay that plays the task's recording."""
    with Relay(RelayConfig(mode=Mode.PLAY)) as relay:
        yield relay.open_trial(name, workspace.root / "recordings" / f"{name}.yaml")


def passing(url: str) -> dict[str, Any]:
    """A relay that forwards to `url` with the canary as its key."""
    credential = {"variable": "TEST_MODEL_KEY", "kind": "api_key"}
    return {"mode": "pass", "base_url": url, "credential": credential, "tries": 2, "pause_s": 0.01}


def test_the_key_reaches_the_endpoint_and_no_other_place(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", CANARY)
    one.record(
        "one", turn(bash("env | sort > environment.txt; cat environment.txt")), turn(say("."))
    )
    with upstream(one, "one") as url:
        one.claude(passing(url), verifier=False)
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert CANARY not in done.stdout
    environment = (one.trial("one") / "project" / "environment.txt").read_text()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1" in environment
    places = (one.root / "results", one.root / ".cache")
    for path in (path for place in places for path in place.rglob("*") if path.is_file()):
        assert CANARY.encode() not in path.read_bytes(), path


class Eavesdropper(BaseHTTPRequestHandler):
    """Stands between the relay and an endpoint, and keeps what it is sent."""

    endpoint = ""
    heard: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.heard.append(self.path.encode() + str(self.headers).encode() + body)
        own = ("host", "content-length", "accept-encoding", "connection")
        headers = {key: value for key, value in self.headers.items() if key.lower() not in own}
        answer = httpx.post(self.endpoint + self.path, content=body, headers=headers, timeout=60)
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def overheard(endpoint: str) -> Iterator[str]:
    """An address that forwards to `endpoint`, overhearing what is sent there."""
    Eavesdropper.endpoint, Eavesdropper.heard = endpoint, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Eavesdropper)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def test_nothing_of_gold_reaches_the_sandbox_or_the_model(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries in gold, in the evaluation config and in the known solution."""
    monkeypatch.setenv("TEST_MODEL_KEY", CANARY)
    planted = "canary-of-gold-5d1c"
    gold = one.root / "suite" / "evaluation_suite" / "gold"
    (gold / "one").mkdir(parents=True)
    with duckdb.connect(gold / "one" / "one.duckdb") as connection:
        connection.execute(f"create table graded as select '{planted}' as answer")
    (gold / "spider2_eval.jsonl").write_text(f'{{"instance_id": "one", "note": "{planted}"}}\n')
    solution = one.root / "suite" / "solutions" / "one" / "models" / "seen.sql"
    solution.parent.mkdir(parents=True)
    solution.write_text(f"select '{planted}'")
    look = f"grep -rl {planted[:14]}.{planted[15:]} .. ; env | grep -c canary ; echo looked"
    one.record(
        "one",
        turn(bash("cat CLAUDE.md reference_snapshot.md"), tool("mcp__gateway__schema_overview")),
        turn(bash(look)),
        turn(say("Now the verifier."), VERIFY[0]["answer"][0], expect={"result": ["0\nlooked"]}),
        *VERIFY[1:],
    )
    with upstream(one, "one") as endpoint, overheard(endpoint) as url:
        one.claude(passing(url))
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert len(Eavesdropper.heard) >= 5
    assert any(CANARY.encode() in heard for heard in Eavesdropper.heard), "the key must arrive"
    assert not any(planted.encode() in heard for heard in Eavesdropper.heard)
    for path in one.trial("one").rglob("*"):
        if path.is_file():
            assert planted.encode() not in path.read_bytes(), path


def test_what_a_model_says_is_recorded_and_plays_back(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", CANARY)
    first = one.record("one", turn(bash("echo heard > {project}/mark.txt")), turn(say("Done.")))
    played = first.rename(one.root / "first.yaml")
    with Relay(RelayConfig(mode=Mode.PLAY)) as relay:
        one.claude(passing(relay.open_trial("one", played)) | {"mode": "record"}, verifier=False)
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert first.is_file(), "the relay must have written the recording"
    assert CANARY not in first.read_text()
    one.claude(PLAY, verifier=False)
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.log("run") == {"one/0"}
    assert (one.trial("one") / "project" / "mark.txt").read_text() == "heard\n"


def test_a_missing_credential_stops_the_stage_before_the_first_trial(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_MODEL_KEY", raising=False)
    one.claude(passing("http://127.0.0.1:9"))
    done = one.run()
    assert done.returncode == 1
    assert "TEST_MODEL_KEY" in done.stdout
    assert "remedy" in done.stdout
    assert not (one.root / "results" / "runs").exists()


def test_a_dead_endpoint_is_an_infrastructure_failure_and_the_next_run_completes_it(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", CANARY)
    one.params["retries"]["count"] = 0
    one.record("one", turn(say("Done.")))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    one.claude(passing(f"http://127.0.0.1:{port}"), verifier=False)
    done = one.run()
    assert done.returncode == 1
    assert one.result("one").status is TrialStatus.INFRA_ERROR
    assert "could not be reached" in one.result("one").detail
    assert one.stored() == []
    with upstream(one, "one") as url:
        one.params["model"]["relay"]["base_url"] = url
        assert one.run().returncode == 0
    assert one.log("run") == {"one/0"}


@pytest.mark.heavy
def test_another_mcp_server_takes_the_gateway_s_place_by_configuration(
    one: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("third-party")
    lock = REPOSITORY / "tests" / "third_party" / "mcp-server-motherduck.lock"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", "-p", sys.executable, place / "venv"], check=True)
    subprocess.run(
        [uv, "pip", "sync", "-q", "--require-hashes", "-p", place / "venv", lock], check=True
    )
    external = yaml.safe_load((REPOSITORY / "conf/gateway/external.yaml").read_text())
    program = str(place / "venv" / "bin" / "mcp-server-motherduck")
    external["command"] = [program, "--db-path", "{database}", "--ephemeral-connections"]
    external["environment"] = {"HOME": str(place), "PATH": os.defpath}
    one.params["gateway"] = external
    one.claude(PLAY, verifier=False)
    one.record(
        "one",
        turn(tool("mcp__duckdb__execute_query", sql="select count(*) as n, current_date from a")),
        turn(say("Done."), expect={"result": ["2024-02-29"]}),
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.result("one").status is TrialStatus.COMPLETED
