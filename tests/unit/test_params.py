"""conf/ and params.yaml: they agree, every choice can be built, wrong ones are answered."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml
from hydra.utils import get_class, instantiate

from stages.agent.mcp import GatewayConfig
from stages.agent.skills import read_skills
from stages.common.compose import compose
from stages.common.errors import UserError
from stages.common.params import load_params
from stages.relay.config import RelayConfig

GROUPS = (
    "agent",
    "concurrency",
    "gateway",
    "model",
    "sandbox",
    "skills",
    "stack",
    "suite",
)


def choices(repository: Path) -> list[str]:
    """Every `group=choice` that conf/ offers."""
    conf = repository / "conf"
    return [f"{path.parent.name}={path.stem}" for path in sorted(conf.glob("*/*.yaml"))]


def test_the_committed_params_are_the_composed_default(repository: Path, tmp_path: Path) -> None:
    compose(tmp_path / "params.yaml", [])
    assert (repository / "params.yaml").read_text() == (tmp_path / "params.yaml").read_text()


def test_every_choice_composes_and_can_be_built(repository: Path, tmp_path: Path) -> None:
    given = choices(repository)
    assert {choice.partition("=")[0] for choice in given} == set(GROUPS)
    for choice in given:
        compose(tmp_path / "params.yaml", [choice])
        params = load_params(tmp_path / "params.yaml")
        group, _, name = choice.partition("=")
        assert getattr(params, group).name == name
        assert (repository / params.stack.lock).is_file()
        instantiate(params.agent_instance())
        instantiate(params.sandbox.instance())
        RelayConfig.model_validate(params.model.relay)
        GatewayConfig.model_validate(params.gateway.model_dump())
        read_skills(params.skills.skills)
        executor = params.concurrency.instance()
        known = inspect.signature(get_class(executor.pop("_target_"))).parameters
        assert set(executor) <= set(known)


def test_a_suite_names_its_stack_and_can_be_overruled(tmp_path: Path) -> None:
    out = tmp_path / "params.yaml"
    compose(out, ["suite=spider2-dbt"])
    assert load_params(out).stack.name == "spider2"
    compose(out, ["suite=spider2-dbt", "stack=current"])
    assert load_params(out).stack.name == "current"
    assert load_params(out).suite.gold_stack == "spider2"


def test_a_wrong_choice_is_answered_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Available options in 'agent':\s+claude\s+nop\s+oracle"):
        compose(tmp_path / "params.yaml", ["agent=oracel"])


def test_an_unknown_key_is_refused_by_name(repository: Path, tmp_path: Path) -> None:
    params = yaml.safe_load((repository / "params.yaml").read_text())
    params["suite"]["colour"] = "blue"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    with pytest.raises(UserError, match=r"suite\.colour: Extra inputs are not permitted"):
        load_params(tmp_path / "params.yaml")


def test_a_missing_params_file_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make params"):
        load_params(tmp_path / "params.yaml")


def test_what_changes_no_result_is_no_parameter_of_a_stage(repository: Path) -> None:
    stages = yaml.safe_load((repository / "dvc.yaml").read_text())["stages"]
    named = {name for stage in stages.values() for name in stage.get("params", [])}
    assert named.isdisjoint({"concurrency", "retries"})
    assert named <= set(yaml.safe_load((repository / "params.yaml").read_text()))
