"""Tools as functions: what a client sees of one comes from its signature and docstring."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from stages.gateway.models import Answer


@dataclass(frozen=True)
class Tool:
    """One tool: its function takes a `Desk` and the arguments that a client sends."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[..., Answer]

    def schema(self) -> dict[str, Any]:
        """The arguments' JSON schema."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return schema


def tool(function: Callable[..., Answer]) -> Tool:
    """Read a tool off its function; the first parameter, the desk, is not the client's."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        needed = parameter.default is inspect.Parameter.empty
        fields[parameter.name] = (hints[parameter.name], ... if needed else parameter.default)
    return Tool(
        name=function.__name__,
        description=inspect.getdoc(function) or "",
        arguments=create_model(
            function.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields
        ),
        run=function,
    )


def by_name(functions: Iterable[Callable[..., Answer]]) -> dict[str, Tool]:
    """The tools of these functions."""
    return {made.name: made for made in map(tool, functions)}
