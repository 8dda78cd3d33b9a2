"""Carries out calls in a process of its own, so that no query can take the server down."""

from __future__ import annotations

import contextlib
import resource
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stages.common.errors import UserError
from stages.gateway.desk import Desk
from stages.gateway.models import CallError, Reply, Settings
from stages.gateway.tools import TOOLS

OVERHEAD_MB = 1536
"""Address space beside DuckDB's memory limit: libraries, and what threads reserve."""

SPENT = 0.6
"""Share of the address space from which a worker is replaced: allocators keep what they had."""


def serve(pipe: Connection, settings: Settings) -> None:
    """Answer calls `(tool, arguments)` with phases (text) and one `Reply`, until the pipe ends."""
    limit = (settings.limits.memory_mb + OVERHEAD_MB) * 1024 * 1024
    # Some allocations bypass DuckDB's own limit. Not every system has this one.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        pipe.send("ready")
        while True:
            name, arguments = pipe.recv()
            desk = Desk(settings, pipe.send)
            reply = carry_out(desk, name, arguments)
            pipe.send(reply.model_copy(update={"spent": address_space() > SPENT * limit}))


def address_space() -> int:
    """Bytes of address space that this process holds; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def carry_out(desk: Desk, name: str, arguments: dict[str, Any]) -> Reply:
    """Run one tool. Whatever it raises becomes the reply."""
    try:
        answer = TOOLS[name].run(desk, **arguments)
    except CallError as error:
        return _reply(desk, str(error), error.outcome)
    except UserError as error:
        return _reply(desk, str(error), "failed")
    except MemoryError:
        return _reply(desk, "the call needs more memory than it may take", "failed")
    except RecursionError:
        return _reply(desk, "the statement is nested too deeply to be judged", "refused")
    except Exception as error:
        return _reply(desk, f"{name} has a fault of its own: {type(error).__name__}: {error}")
    return Reply(
        text=desk.note(answer),
        outcome="cut" if answer.cut else "ok",
        rows=answer.rows,
        sql=";\n".join(desk.statements),
    )


def _reply(desk: Desk, text: str, outcome: Any = "failed") -> Reply:
    return Reply(text=text, outcome=outcome, sql=";\n".join(desk.statements))
