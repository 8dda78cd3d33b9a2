"""The MCP server: lists the tools, checks arguments, hands calls on, and logs each of them."""

from __future__ import annotations

import functools
import time
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from stages.gateway import log
from stages.gateway.models import Call, Reply, Settings
from stages.gateway.supervise import Supervisor
from stages.gateway.tools import TOOLS

INSTRUCTIONS = """Read-only access to the task's database, {name}, in the engine and on the date
that dbt builds its models with. Start with dbt_project_map and schema_overview. One SELECT a call;
answers are bounded and say CUT where something is left out. No lock is held between calls, so dbt
can run as soon as a call has returned; while dbt runs, a call waits."""


class Gateway:
    """Answers `tools/list` and `tools/call` for one database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._supervisor = Supervisor(settings)

    async def list_tools(self, _context: Any, _page: Any) -> types.ListToolsResult:
        """Every tool with its schema."""
        hints = types.ToolAnnotations(
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        )
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.schema(),
                    annotations=hints,
                )
                for tool in TOOLS.values()
            ]
        )

    async def call_tool(
        self, _context: Any, asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Carry out one call and log it, whatever comes of it."""
        arrived = log.now()
        started = time.monotonic()
        given = asked.arguments or {}
        reply = Reply(text="the client gave the call up", outcome="failed")
        try:
            reply = await self._reply(asked.name, given)
        finally:
            self._log(asked.name, given, reply, arrived, time.monotonic() - started)
        good = reply.outcome in ("ok", "cut")
        # Lone surrogates, which a JSON string can carry, have no UTF-8 form.
        text = reply.text.encode(errors="replace").decode()
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=text if good else f"{reply.outcome}: {text}")
            ],
            is_error=not good,
        )

    def _log(
        self, tool: str, given: dict[str, Any], reply: Reply, arrived: str, seconds: float
    ) -> None:
        good = reply.outcome in ("ok", "cut")
        call = Call(
            time=arrived,
            tool=tool,
            arguments={name: value for name, value in given.items() if name != "sql"},
            sql=str(given.get("sql") or reply.sql),
            rows=reply.rows,
            ms=round(seconds * 1000),
            outcome=reply.outcome,
            error="" if good else reply.text.splitlines()[0],
        )
        log.append(self._settings.log, call)

    async def _reply(self, name: str, given: dict[str, Any]) -> Reply:
        tool = TOOLS.get(name)
        if tool is None:
            return Reply(
                text=f"no tool {name!r}; there are {', '.join(sorted(TOOLS))}", outcome="failed"
            )
        try:
            arguments = tool.arguments.model_validate(given).model_dump()
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
                for item in error.errors(include_input=False, include_url=False)
            )
            return Reply(text=f"wrong arguments for {name}: {faults}", outcome="failed")
        return await anyio.to_thread.run_sync(
            functools.partial(self._supervisor.call, name, arguments), abandon_on_cancel=True
        )

    def close(self) -> None:
        """End the worker."""
        self._supervisor.close()


async def serve(settings: Settings) -> None:
    """Serve one database on standard input and output until the client leaves."""
    gateway = Gateway(settings)
    server: Server[Any] = Server(
        settings.name,
        instructions=INSTRUCTIONS.format(name=settings.name).replace("\n", " "),
        on_list_tools=gateway.list_tools,
        on_call_tool=gateway.call_tool,
    )
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        gateway.close()
