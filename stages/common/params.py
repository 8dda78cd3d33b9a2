"""params.yaml as typed values: parsed once per stage, unknown keys refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, Field, ValidationError

from stages.common.errors import UserError
from stages.common.files import Record


class SuiteParams(Record):
    """Which suite, and where its parts are (paths relative to the workspace)."""

    name: str
    root: Path
    """Folder in the official layout: `examples/` and `evaluation_suite/gold/`."""
    built: Path
    """Folder that the suite stage fills with the databases it builds: `start/` and `gold/`."""
    sources: bool
    """True where databases are built from `sources/`, false where the suite brings them."""
    gold_stack: str
    """Name of the stack that gold was built with; gold's views are read with it."""

    @property
    def examples(self) -> Path:
        """The task projects and `spider2-dbt.jsonl`."""
        return self.root / "examples"

    @property
    def gold(self) -> Path:
        """The folder of `spider2_eval.jsonl`, and of gold where the suite brings it."""
        return self.root / "evaluation_suite" / "gold"

    @property
    def gold_databases(self) -> Path:
        """The folder that holds one folder of gold databases a task."""
        return self.built / "gold" if self.sources else self.gold

    @property
    def solutions(self) -> Path:
        """One folder a task with its known solution; absent where none is known."""
        return self.root / "solutions"


class StackParams(Record):
    """The environment that a task's project is built with."""

    name: str
    lock: Path
    """Hash-locked requirements file."""


class DatesParams(Record):
    """What the dates stage falls back to, and whether it proves what it found."""

    fallback: datetime.date
    """The day for a task whose gold holds no evidence of one."""
    rebuild: bool
    """Build the models that a task ships day by day, to prove its date."""
    rebuild_s: float = Field(gt=0)
    """Wall-clock limit of one task's rebuild, seconds."""


class RetryParams(Record):
    """What is done about infrastructure failures."""

    count: int = Field(ge=0)
    """How often a trial is tried again."""
    pause_s: float = Field(ge=0)
    """Pause before the first retry, seconds; it doubles with each."""


class BudgetParams(Record):
    """What may be spent on the model, in US dollars; null sets no limit. No part of a run key."""

    per_trial_usd: float | None = Field(gt=0)
    """On one trial; one that reaches it is over budget, and is run again only with more."""
    per_run_usd: float | None = Field(gt=0)
    """On all trials of one run together; what is left then is not run."""


class Component(Record):
    """Something exchangeable: `_target_` is built by Hydra with the remaining keys.

    `name` is the choice's name in conf/. The target refuses keys that it does not know.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    name: str
    target: str = Field(alias="_target_")

    def instance(self) -> dict[str, Any]:
        """The mapping that `hydra.utils.instantiate` takes."""
        return {key: value for key, value in self.config().items() if key != "name"}

    def config(self) -> dict[str, Any]:
        """Everything, as in params.yaml."""
        return self.model_dump(mode="json", by_alias=True)


class AgentParams(Component):
    """Who solves the tasks."""

    needs_solution: bool
    """True where the agent is given the task's known solution."""
    needs_model: bool
    """True where the agent is driven by a language model."""

    def instance(self) -> dict[str, Any]:
        """The mapping that `hydra.utils.instantiate` takes."""
        needs = ("needs_solution", "needs_model")
        return {key: value for key, value in super().instance().items() if key not in needs}


class ModelParams(Record):
    """The language model behind an agent, and the relay's way to it."""

    name: str
    id: str
    """The model's name to the endpoint."""
    recordings: Path | None
    """Folder of one recording a task, played or written; null where the relay only passes."""
    relay: dict[str, Any]
    """The relay's configuration; checked by the run stage."""


class SkillsParams(Record):
    """Which skills an agent is given."""

    name: str
    skills: tuple[str, ...]


class GatewayParams(Record):
    """Which MCP server an agent reads its database through; checked where it is started."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str


class Params(Record):
    """Everything that params.yaml holds, composed from conf/."""

    suite: SuiteParams
    stack: StackParams
    agent: AgentParams
    model: ModelParams
    skills: SkillsParams
    gateway: GatewayParams
    sandbox: Component
    concurrency: Component
    dates: DatesParams
    retries: RetryParams
    budget: BudgetParams
    tasks: tuple[str, ...] | None
    """The instance ids to run; null for all."""
    trials: int = Field(ge=1)
    """How often each task is run."""
    run_unscoreable: bool
    """Also run tasks that the audit found cannot be scored."""

    def agent_instance(self) -> dict[str, Any]:
        """What builds the agent: its own settings and, if it needs one, those of its model."""
        inner = self.agent.instance()
        if self.agent.needs_model:
            inner["model"] = self.model.id
            inner["skills"] = list(self.skills.skills)
            inner["gateway"] = self.gateway.model_dump(mode="json")
        return inner


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check params.yaml; raises `UserError` naming the key that is wrong."""
    try:
        return Params.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UserError(f"no {path} here", where=str(Path.cwd()), remedy="make params") from None
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(str(step) for step in item['loc'])}: {item['msg']}"
            for item in error.errors()
        )
        raise UserError(
            f"{path} does not fit: {details}",
            remedy="compare it with conf/, or rewrite it from there with `make params`",
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        # YAML itself makes dates, and raises a bare ValueError for a day that does not exist.
        raise UserError(f"{path} is not valid YAML: {error}", remedy="make params") from None
