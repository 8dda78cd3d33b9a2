"""Briefs a project folder for a model: CLAUDE.md, skills, skeletons, and a first commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stages.agent.mcp import GatewayConfig
from stages.agent.models import TrialFolder, TrialSpec
from stages.agent.prompts import Facts, Prompt, describe_skills, fill
from stages.agent.skeletons import lay_skeletons
from stages.agent.skills import install_skills, read_skills
from stages.common.files import write_text
from stages.stack.dbt import DAY_VARIABLE

IGNORED = ("*.duckdb", "*.duckdb.wal", "target/", "logs/", "dbt_packages/")


def lay_out(
    spec: TrialSpec,
    folder: TrialFolder,
    gateway: GatewayConfig,
    skills: Sequence[str],
    *,
    skeletons: bool,
) -> Facts:
    """Write what the model reads first, and commit the project; what the prompts may say.

    The commit lets `git diff` show the model its own work.
    """
    laid = lay_skeletons(folder.project) if skeletons else []
    chosen = read_skills(skills)
    install_skills(chosen, folder.project)
    names = ", ".join(f"`{path.relative_to(folder.project).as_posix()}`" for path in laid)
    facts = Facts(
        instruction=spec.instruction,
        database=spec.database,
        today=os.environ[DAY_VARIABLE],
        dbt_version=spec.versions["dbt-core"],
        duckdb_version=spec.versions["duckdb"],
        tool_prefix=gateway.tool_prefix,
        tools=gateway.about,
        skills=describe_skills({skill.name: skill.description for skill in chosen}),
        prepared=f"Skeletons were laid for you to replace: {names}." if laid else "",
    )
    if gateway.kind == "builtin":
        facts = facts.model_copy(update={"tools": fill(Prompt.TOOLS, facts)})
    write_text(folder.project / "CLAUDE.md", fill(Prompt.CLAUDE_MD, facts))
    commit(folder.project)
    return facts


def commit(project: Path) -> None:
    """A repository with one commit of the project's text; databases and packages stay out."""
    identity = ("-c", "user.name=start", "-c", "user.email=start@localhost")
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "start")):
        if arguments[0] == "add":
            write_text(project / ".git" / "info" / "exclude", "\n".join(IGNORED) + "\n")
        subprocess.run(
            ["git", *identity, "-C", str(project), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
