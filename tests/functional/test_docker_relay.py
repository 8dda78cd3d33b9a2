"""The relay in a container of its own: it plays, passes on and records, and holds the key alone."""

from __future__ import annotations

import json

import pytest
import yaml
from docker import APIClient

from stages.agent.models import TrialStatus
from tests.functional.conftest import Workspace
from tests.functional.docker_tools import bridge, relays, running, serve_endpoint
from tests.functional.test_claude import PLAY, bash, say, turn

pytestmark = pytest.mark.docker

KEY = "canary-of-the-relay"
VARIABLE = "RELAY_TEST_KEY"
PRICES = {"claude": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}


@pytest.fixture
def one(sealed: Workspace) -> Workspace:
    """A workspace with one task."""
    del sealed.tasks["two"]
    return sealed


def passing(client: APIClient, port: int, **more: object) -> dict[str, object]:
    """A relay that forwards to a port of this machine, as a model's endpoint elsewhere is."""
    return {
        "mode": "pass",
        "base_url": f"http://{bridge(client)}:{port}",
        "credential": {"variable": VARIABLE, "kind": "api_key"},
        "prices": PRICES,
        "tries": 1,
        **more,
    }


def test_a_recording_plays_in_containers(one: Workspace) -> None:
    one.claude(PLAY | {"prices": PRICES}, verifier=False)
    one.record(
        "one",
        turn(bash("which dbt; id -u"), usage={"input": 1000, "output": 100}),
        turn(
            say("Done."),
            expect={"result": ["/usr/local/bin/dbt", "10001"]},
            usage={"input": 2000, "output": 50},
        ),
    )
    done = one.run()
    assert done.returncode == 0, done.stdout
    result = one.result("one")
    assert (result.status, result.detail) == (TrialStatus.COMPLETED, "")
    assert result.turns == 2
    assert (result.tokens.input, result.tokens.output) == (3000, 150)
    assert result.cost_usd == pytest.approx((3000 * 3 + 150 * 15) / 1e6)
    assert result.refused == {}
    done = one.run()
    assert one.log("reuse") == {"one/0"}


def test_a_recording_that_no_longer_fits_says_where_they_part(one: Workspace) -> None:
    one.claude(PLAY, verifier=False)
    one.params["retries"]["count"] = 0
    one.record(
        "one", turn(bash("echo this")), turn(say("Done."), expect={"result": ["something else"]})
    )
    done = one.run()
    assert done.returncode == 1
    assert one.result("one").status is TrialStatus.INFRA_ERROR
    assert "one.yaml parts from the conversation at main, turn 2" in one.result("one").detail


def test_a_recording_that_is_not_valid_is_told_with_its_place(one: Workspace) -> None:
    one.claude(PLAY, verifier=False)
    one.params["retries"]["count"] = 0
    one.record("one", turn(say("Done."))).write_text("conversations: {main: 5}\n")
    done = one.run()
    assert done.returncode == 1
    assert one.result("one").status is TrialStatus.INFRA_ERROR
    assert "one.yaml" in one.result("one").detail


def test_the_key_reaches_the_endpoint_and_no_other_place(
    one: Workspace, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    with serve_endpoint() as endpoint:
        one.claude(passing(client, endpoint.port), verifier=False)
        process = one.start()
        assert endpoint.wait_for("Write the model of one")
        names = [*running(client), *relays(client)]
        seen = [json.dumps(client.inspect_container(name)) for name in names]
        endpoint.go.set()
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    result = one.result("one")
    assert result.status is TrialStatus.COMPLETED
    assert result.tokens.input > 0
    assert result.cost_usd > 0
    keys = {headers.get("x-api-key") for path, headers, _ in endpoint.heard if "messages" in path}
    assert keys == {KEY}
    assert len(seen) >= 2
    assert not any(KEY in text for text in seen)
    assert KEY not in output
    for place in (one.root / "results", one.root / ".cache"):
        for path in place.rglob("*"):
            if path.is_file():
                assert KEY.encode() not in path.read_bytes(), path


def test_the_key_may_stand_in_the_dotenv_file(one: Workspace, client: APIClient) -> None:
    (one.root / ".env").write_text(f'export {VARIABLE}="{KEY}"\n')
    with serve_endpoint() as endpoint:
        endpoint.go.set()
        one.claude(passing(client, endpoint.port), verifier=False)
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert KEY in {headers.get("x-api-key") for _, headers, _ in endpoint.heard}


def test_what_a_model_says_is_recorded_on_the_host_and_plays_back(
    one: Workspace, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    recording = one.root / "recordings" / "one.yaml"
    with serve_endpoint() as endpoint:
        endpoint.go.set()
        one.claude(passing(client, endpoint.port, mode="record"), verifier=False)
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert KEY not in recording.read_text()
    turns = yaml.safe_load(recording.read_text())["conversations"]["main"]["turns"]
    assert turns[0]["answer"] == [{"text": "Go on."}]
    one.claude(PLAY, verifier=False)
    done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.log("run") == {"one/0"}
    assert one.result("one").status is TrialStatus.COMPLETED


def test_a_missing_key_stops_the_stage_before_the_first_trial(
    one: Workspace, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    one.claude(passing(client, 9), verifier=False)
    done = one.run()
    assert done.returncode == 1
    assert VARIABLE in done.stdout
    assert "remedy" in done.stdout
    assert not (one.root / "results" / "runs").exists()


def test_a_dead_endpoint_is_an_infrastructure_failure(
    one: Workspace, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    one.params["retries"]["count"] = 0
    with serve_endpoint() as endpoint:
        port = endpoint.port
    one.claude(passing(client, port), verifier=False)
    done = one.run()
    assert done.returncode == 1
    assert one.result("one").status is TrialStatus.INFRA_ERROR
    assert "could not be reached" in one.result("one").detail


def test_a_model_on_this_machine_s_loopback_is_reached(
    one: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of one's own, served beside the pipeline."""
    monkeypatch.setenv(VARIABLE, KEY)
    with serve_endpoint() as endpoint:
        endpoint.go.set()
        url = f"http://127.0.0.1:{endpoint.port}"
        relay = {"mode": "pass", "base_url": url, "credential": None, "tries": 1}
        one.claude(relay, verifier=False)
        done = one.run()
    assert done.returncode == 0, done.stdout
    assert one.result("one").status is TrialStatus.COMPLETED
    assert endpoint.heard
