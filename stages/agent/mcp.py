"""How the CLI starts the governed MCP server, ours or another, by configuration alone."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from claude_agent_sdk.types import McpHttpServerConfig, McpServerConfig, McpStdioServerConfig
from pydantic import Field

from stages.agent.models import TrialFolder, TrialSpec
from stages.common.files import CODE_ROOT, Record
from stages.stack.clock import clock_environment
from stages.stack.dbt import DAY_VARIABLE, STACK_VARIABLE


class GatewayConfig(Record):
    """conf/gateway: which MCP server an agent reads its database through."""

    name: str
    prefix: str
    """The server's name to the CLI: tools are `mcp__<prefix>__<tool>`."""
    kind: str
    """`builtin`, `command` or `url`."""
    command: tuple[str, ...] = ()
    """For `command`: the program and its arguments. `{database}`, `{project}`, `{stack}` and
    `{queries}` stand for the trial's paths."""
    environment: dict[str, str] = Field(default_factory=dict)
    """For `command`: variables beside the sandbox's own."""
    about: str = ""
    """What its tools are for, told to the model; the built-in one has a text of its own."""
    url: str | None = None
    """For `url`: a server that speaks streamable HTTP."""
    on_task_clock: bool = True
    """Whether the server lives on the gold date, as the built-in one does."""

    @property
    def tool_prefix(self) -> str:
        """What the names of the server's tools begin with."""
        return f"mcp__{self.prefix}__"


def server_config(config: GatewayConfig, spec: TrialSpec, folder: TrialFolder) -> McpServerConfig:
    """The CLI's entry for the server; the built-in one runs in the stack's environment."""
    prefix = Path(os.environ[STACK_VARIABLE])
    paths = {
        "database": str(folder.project / spec.database),
        "project": str(folder.project),
        "queries": str(folder.queries),
        "stack": str(prefix),
    }
    if config.kind == "url":
        return McpHttpServerConfig(type="http", url=config.url or "")
    if config.kind == "builtin":
        program = [str(prefix / "bin" / "python"), "-m", "stages.gateway"]
        command = [*program, "--database={database}", "--project={project}", "--log={queries}"]
    else:
        command = list(config.command)
    command = [part.format_map(paths) for part in command]
    environment = dict(config.environment)
    if config.on_task_clock:
        day = datetime.date.fromisoformat(os.environ[DAY_VARIABLE])
        environment |= clock_environment(prefix, day)
    if config.kind == "builtin":
        environment["PYTHONPATH"] = str(CODE_ROOT)
        # Else the project's own files come first: one named types.py would be imported.
        environment["PYTHONSAFEPATH"] = "1"
    return McpStdioServerConfig(type="stdio", command=command[0], args=command[1:], env=environment)
