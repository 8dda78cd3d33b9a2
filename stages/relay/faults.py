"""Faults on purpose: which one is due, and what it makes of an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from stages.relay.answer import STOPS, Answer, Call, Source, error_answer
from stages.relay.config import Fault, FaultKind, PlacedFault
from stages.relay.play import Player
from stages.relay.stream import cut_short

STATUS = {FaultKind.RATE_LIMITED: 429, FaultKind.OVERLOADED: 529}
SLOW_S = 2.0
"""Delay of a slow answer that says no other."""


class FaultySource:
    """A source with the faults of its recording and of the configuration.

    A fault stands between the source and the gate, where a real one would come from.
    """

    def __init__(
        self, source: Source, placed: Sequence[PlacedFault], attempt: int, made: Counter[str]
    ) -> None:
        self._source = source
        self._placed = placed
        self._attempt = attempt
        self._made = made
        self._spent: Counter[tuple[str, int, int]] = Counter()

    async def send(self, call: Call) -> Answer:
        """See `Source`."""
        fault = self._due(call)
        if fault is None:
            return await self._source.send(call)
        self._made[fault.kind.value] += 1
        if fault.kind in STATUS:
            status = STATUS[fault.kind]
            answer = error_answer(status, STOPS[status], "A fault that the relay makes on purpose")
            answer.retry_after = fault.seconds
            return answer
        if fault.kind is FaultKind.SLOW:
            await asyncio.sleep(SLOW_S if fault.seconds is None else fault.seconds)
            return await self._source.send(call)
        answer = await self._source.send(call)
        if answer.status != 200:
            return answer
        return Answer(answer.status, cut_short(answer.body), answer.retry_after, answer.headers)

    def _due(self, call: Call) -> Fault | None:
        """The first fault of this turn that is not used up, which it uses once."""
        if call.whose is None:
            return None
        where = (call.whose, call.asked.turn)
        faults: list[Fault] = [f for f in self._placed if (f.conversation, f.turn) == where]
        if isinstance(self._source, Player):
            turn = self._source.turn(*where)
            faults += [turn.fault] if turn is not None and turn.fault is not None else []
        for number, fault in enumerate(faults):
            spent = self._spent[*where, number]
            if fault.attempt in (None, self._attempt) and spent < fault.times:
                self._spent[*where, number] += 1
                return fault
        return None
