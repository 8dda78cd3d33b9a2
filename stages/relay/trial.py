"""One trial's side of the relay: whose call it is, how often it is tried, what it used."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from stages.relay.answer import (
    JSON,
    STOPS,
    Answer,
    Call,
    Gate,
    Source,
    StreamCutError,
    UnreachableError,
    error_answer,
)
from stages.relay.asked import Asked, read_request
from stages.relay.budget import STATUS, Purse
from stages.relay.config import RelayConfig
from stages.relay.message import Collector
from stages.relay.play import Player
from stages.relay.record import Recorder
from stages.relay.recording import MAIN
from stages.relay.stream import Streamed
from stages.relay.usage import Meter, Usage

SPAWNS = ("Agent", "Task")
"""The tools that start a subagent, in the CLI's newer and older versions."""


@dataclass
class Trial:
    """Everything that the relay keeps of one trial; used inside its event loop."""

    config: RelayConfig
    meter: Meter
    source: Source
    gate: Gate
    purse: Purse
    keeper: Player | Recorder | None
    """Who names conversations; None where nobody needs their names."""
    active: int = 0
    """Calls under way."""
    _names: dict[str | None, str] = field(default_factory=dict)
    """Conversations by the CLI's agent id; None is the main agent's."""
    _spawned: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Type and prompt of each subagent that was called for, by the call's id."""
    _begun: set[str | None] = field(default_factory=set)
    """The calls whose subagent has come."""

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Answer a call of `messages` or `count_tokens`; `path` is from `/v1` on."""
        try:
            asked = read_request(json.loads(body), headers)
        except (ValueError, TypeError, AttributeError) as error:
            return _respond(error_answer(400, "invalid_request_error", str(error)))
        counting = path.partition("?")[0].endswith("/count_tokens")
        whose = None if counting or asked.side else self._whose(asked)
        if counting:
            self.meter.token_counts += 1
        elif whose is None:
            self.meter.side_requests += 1
        else:
            self.meter.requests += 1
        if not counting and (spent := self.purse.spent(self.meter.dollars)):
            self.meter.over_budget = spent
            return _respond(error_answer(STATUS, spent, f"{spent}: no more calls", final=True))
        self.active += 1
        counted = False
        try:
            answer = await self._try(Call(path, headers, body, asked, whose))
            if isinstance(answer.body, bytes):
                if answer.status == 200 and not counting:
                    self._take_whole(whose, asked, answer.body)
                return _respond(answer)
            counted = True
            return Streamed(self._watch(whose, asked, answer.body), answer.status)
        finally:
            if not counted:
                self.active -= 1

    def usage(self) -> Usage:
        """What the trial used so far."""
        if isinstance(self.keeper, Player):
            self.meter.parted = self.keeper.parted
            return self.meter.usage(self.keeper.unplayed())
        if isinstance(self.keeper, Recorder):
            self.meter.unrecorded = self.keeper.gaps()
        return self.meter.usage({})

    def _whose(self, asked: Asked) -> str:
        """The conversation's name, found once for each agent id."""
        if asked.agent_id not in self._names:
            calls = [i for i, (_, told) in self._spawned.items() if told.strip() == asked.opening]
            # Of two calls with the same prompt, one that no subagent came of yet.
            call = min(calls, key=self._begun.__contains__, default=None)
            kind = self._spawned[call][0] if call is not None else None
            self._begun.add(call)
            if self.keeper is not None:
                name = self.keeper.name(asked, kind, set(self._names.values()))
            else:
                name = MAIN if asked.agent_id is None else kind or "subagent"
            self._names[asked.agent_id] = name
        return self._names[asked.agent_id]

    async def _try(self, call: Call) -> Answer:
        """Send a call until it is answered, or its tries are spent.

        Raises nothing of the endpoint's doing: an error is an answer, as the API words it.
        """
        config = self.config
        for number in range(1, config.tries + 1):
            await self.gate.wait()
            try:
                answer = await self.source.send(call)
                reached = True
            except UnreachableError as error:
                what = f"the model's endpoint gives no answer: {error}"
                answer, reached = error_answer(502, "api_error", what), False
            if reached and answer.status not in STOPS:
                self.meter.credential_refused |= answer.status in (401, 403)
                return answer
            pause = answer.retry_after
            if pause is None:
                pause = min(config.pause_max_s, config.pause_s * 2 ** (number - 1))
            if number == config.tries or pause > config.pause_max_s:
                break
            self.meter.retries += 1
            self.gate.shut(pause)
        self.meter.overloaded |= reached
        self.meter.unreachable |= not reached
        # The tries are spent: the client's own would only multiply them.
        answer.headers = {**answer.headers, "x-should-retry": "false"}
        return answer

    async def _watch(
        self, whose: str | None, asked: Asked, body: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Pass a stream on and count it, up to where it ends, breaks off or is abandoned."""
        collector, taken = Collector(model=asked.model), False
        try:
            async for event in body:
                collector.take_event(event)
                if b"content_block_stop" in event:
                    # The CLI may start a subagent before the answer is at its end.
                    self._note_spawned(collector)
                if collector.whole and not taken:
                    # Before the client has the end of it, and asks for more or leaves.
                    self._take(whose, asked, collector)
                    taken = True
                yield event
        except StreamCutError:
            self.meter.cut_streams += 1
            raise
        finally:
            if not taken:
                self._take(whose, asked, collector)
            self.active -= 1

    def _take_whole(self, whose: str | None, asked: Asked, body: bytes) -> None:
        collector = Collector(model=asked.model)
        # What is no message counts as nothing; the client will say what it makes of it.
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            collector.take_message(json.loads(body))
            self._take(whose, asked, collector)

    def _take(self, whose: str | None, asked: Asked, answer: Collector) -> None:
        """Count an answer; keep a whole one, and the subagents that it calls for."""
        if answer.model:
            self.purse.add(self.meter.add(answer.model, answer.tokens, answer.written_1h))
        if not answer.whole or whose is None:
            return
        self._note_spawned(answer)
        if isinstance(self.keeper, Recorder):
            self.keeper.take(whose, asked, answer)

    def _note_spawned(self, answer: Collector) -> None:
        for block in answer.content:
            given = block.get("input")
            if block.get("name") in SPAWNS and isinstance(given, dict) and given.get("prompt"):
                kind = str(given.get("subagent_type", ""))
                self._spawned[str(block.get("id"))] = kind, str(given["prompt"])


def _respond(answer: Answer) -> Response:
    """A whole answer as it goes to the client."""
    headers = dict(answer.headers)
    if answer.retry_after is not None:
        headers["retry-after"] = f"{answer.retry_after:g}"
    return Response(
        answer.body if isinstance(answer.body, bytes) else b"",
        answer.status,
        headers,
        media_type=JSON,
    )
