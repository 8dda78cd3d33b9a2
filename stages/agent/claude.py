"""The agent on the Claude Agent SDK and its CLI, checked by a verifier subagent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import (
    TERMINAL_TASK_STATUSES,
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    Message,
    ResultMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)

from stages.agent.brief import lay_out
from stages.agent.mcp import GatewayConfig, server_config
from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus
from stages.agent.prompts import Facts, Prompt, fill
from stages.agent.trace import Trace

VERIFIER = "verifier"
TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "TodoWrite", "Skill", "Agent")
NOT_TOOLS = ("WebSearch", "WebFetch", "NotebookEdit", "KillShell", "ExitPlanMode")
VERIFIER_TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep")
ASK_VERIFIER = (
    f"Before you finish: start the `{VERIFIER}` agent with the Agent tool, and wait for its report."
)
TOOL_TIMEOUT_MS = 900_000
TRIAL_OVER_BUDGET = "trial_over_budget"
"""What the relay's refusal says where the trial's budget is spent."""
RESULTS = {
    "success": TrialStatus.COMPLETED,
    "error_max_turns": TrialStatus.MAX_TURNS,
    "error_max_budget_usd": TrialStatus.OVER_BUDGET,
}


@dataclass(frozen=True)
class ClaudeAgent:
    """Solves a task with a Claude model through the SDK."""

    model: str
    max_turns: int
    max_budget_usd: float | None
    thinking_tokens: int | None
    """Tokens for thinking a turn; null leaves it to the CLI."""
    verifier: bool
    """Whether a subagent checks the work before the run is over."""
    skeletons: bool
    """Whether a file is laid for each missing model, from its YAML columns."""
    skills: Sequence[str]
    gateway: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the CLI beside those that it needs."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        """Brief the project folder, let the model work, and wait for the verifier's report."""
        gateway = GatewayConfig.model_validate(dict(self.gateway))
        facts = lay_out(spec, folder, gateway, self.skills, skeletons=self.skeletons)
        folder.queries.parent.mkdir(parents=True, exist_ok=True)
        trace = Trace()
        conversation = _Conversation(trace, verified=not self.verifier)
        try:
            asyncio.run(
                self._converse(spec, self._options(spec, folder, gateway, facts), conversation)
            )
        except ClaudeSDKError as error:
            return self._outcome(conversation, f"{type(error).__name__}: {error}")
        return self._outcome(conversation)

    async def _converse(
        self, spec: TrialSpec, options: ClaudeAgentOptions, conversation: _Conversation
    ) -> None:
        async with ClaudeSDKClient(options) as client:
            await client.query(spec.instruction)
            async for message in client.receive_messages():
                conversation.take(message)
                if not conversation.may_end:
                    continue
                if conversation.verified or conversation.failed or conversation.asked:
                    return
                conversation.asked = True
                await client.query(ASK_VERIFIER)

    def _options(
        self, spec: TrialSpec, folder: TrialFolder, gateway: GatewayConfig, facts: Facts
    ) -> ClaudeAgentOptions:
        agents = {}
        if self.verifier:
            agents[VERIFIER] = AgentDefinition(
                description="Checks every required model against the project's YAML and the data.",
                prompt=fill(Prompt.VERIFIER, facts),
                tools=[*VERIFIER_TOOLS, f"mcp__{gateway.prefix}"],
                model="inherit",
            )
        return ClaudeAgentOptions(
            cwd=folder.project,
            system_prompt=fill(Prompt.SYSTEM, facts),
            model=self.model,
            max_turns=self.max_turns,
            max_budget_usd=self.max_budget_usd,
            max_thinking_tokens=self.thinking_tokens,
            tools=[*TOOLS],
            disallowed_tools=[*NOT_TOOLS],
            # Only because the sandbox is what holds the agent.
            permission_mode="bypassPermissions",
            setting_sources=["project"],
            skills=list(self.skills) or None,
            mcp_servers={gateway.prefix: server_config(gateway, spec, folder)},
            strict_mcp_config=True,
            agents=agents,
            forward_subagent_text=True,
            env={
                "ANTHROPIC_BASE_URL": spec.endpoint or "",
                "ANTHROPIC_API_KEY": "held-by-the-relay",
                "CLAUDE_CONFIG_DIR": str(folder.home / "claude"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                # Else the CLI hides MCP tools behind a search for them.
                "ENABLE_TOOL_SEARCH": "false",
                "IS_SANDBOX": "1",
                # A query may wait long for dbt's lock, and dbt may take long.
                "MCP_TOOL_TIMEOUT": str(TOOL_TIMEOUT_MS),
                "BASH_DEFAULT_TIMEOUT_MS": str(TOOL_TIMEOUT_MS),
                "BASH_MAX_TIMEOUT_MS": str(TOOL_TIMEOUT_MS),
                **self.environment,
            },
        )

    def _outcome(self, conversation: _Conversation, problem: str = "") -> Outcome:
        result = conversation.result
        if result is None:
            status, detail = TrialStatus.INFRA_ERROR, problem or "the CLI ended without a result"
        else:
            status, detail = _judge(result)
            detail = detail or problem
        if status is TrialStatus.COMPLETED and not conversation.verified:
            detail = "the verifier has not reported"
        return Outcome(
            status=status,
            detail=detail,
            turns=conversation.trace.turn,
            events=tuple(conversation.trace.events),
        )


class _Conversation:
    """Follows the messages: which subagents are at work, and whether all is said."""

    def __init__(self, trace: Trace, *, verified: bool) -> None:
        self.trace = trace
        self.verified = verified
        self.asked = False
        self.result: ResultMessage | None = None
        self._tasks: dict[str, str] = {}
        self._answered = False

    def take(self, message: Message) -> None:
        """Note one message."""
        self.trace.add(message)
        if isinstance(message, TaskStartedMessage):
            self._tasks[message.task_id] = self.trace.owner(message.tool_use_id or "")
        elif isinstance(message, TaskNotificationMessage):
            self._end(message.task_id)
        elif isinstance(message, TaskUpdatedMessage):
            if message.status in TERMINAL_TASK_STATUSES:
                self._end(message.task_id)
        elif isinstance(message, ResultMessage):
            self.result = message
            self._answered = True
        else:
            self._answered = False

    def _end(self, task_id: str) -> None:
        if self._tasks.pop(task_id, "") == VERIFIER:
            self.verified = True
        self._answered = False

    @property
    def failed(self) -> bool:
        """Whether the last result is an error: nothing more can be asked."""
        return self.result is not None and self.result.is_error

    @property
    def may_end(self) -> bool:
        """Whether the main agent has answered and no subagent is at work."""
        return self.failed or (self._answered and not self._tasks)


def _judge(result: ResultMessage) -> tuple[TrialStatus, str]:
    status = RESULTS.get(result.subtype, TrialStatus.AGENT_ERROR)
    if not result.is_error or status in (TrialStatus.MAX_TURNS, TrialStatus.OVER_BUDGET):
        return status, "" if status is TrialStatus.COMPLETED else result.subtype
    said = result.result or "; ".join(result.errors or []) or result.subtype
    if TRIAL_OVER_BUDGET in said:
        return TrialStatus.OVER_BUDGET, said
    if result.api_error_status is not None or result.subtype == "success":
        return TrialStatus.INFRA_ERROR, f"API error {result.api_error_status or ''}: {said}"
    return TrialStatus.AGENT_ERROR, said
