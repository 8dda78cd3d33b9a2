"""One trial from start to store: work directory, sandbox, collection, retry."""

from __future__ import annotations

import datetime
import errno
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from tenacity import (
    Retrying,
    retry_if_result,
    sleep_using_event,
    stop_after_attempt,
    stop_any,
    stop_when_event_set,
    wait_exponential,
)

from stages.agent.models import UNFINISHED, Outcome, TrialFolder, TrialSpec
from stages.common.errors import reason
from stages.common.files import Record, copy_tree, write_json, write_text
from stages.relay.budget import BudgetSpentError
from stages.relay.config import RelayConfig
from stages.run.door import Used, admitted
from stages.run.keys import NOT_PROJECT, client_versions
from stages.run.models import POLICY, RunKey, TaskResult, TrialStatus
from stages.run.sandbox import Cut, Ended, LimitError, Sandbox, Site, Workplace
from stages.run.store import RESULT, TrialStore
from stages.stack.environments import Stack

STOPPING = threading.Event()
"""Set on Ctrl-C: nothing is tried again."""

NO_SPACE = "No space left on device"


class TrialJob(Record):
    """Everything that a worker needs to carry out one trial; it can be pickled."""

    run_id: str
    trial: int
    key: RunKey
    spec: TrialSpec
    project: Path
    overlay: Path | None
    solution: Path | None
    gold_date: datetime.date
    agent: str
    model: str | None
    relay: RelayConfig | None
    """How the model is reached; null for an agent without one."""
    recording: Path | None
    """What is played, or written."""
    stack: Stack
    sandbox: dict[str, Any]
    """The sandbox's configuration, built by `hydra.utils.instantiate`."""
    work: Path
    """Folder for work directories, on the file system of the store."""
    store: Path
    retries: int
    pause_s: float
    """First pause before a retry, seconds; it doubles."""

    @property
    def name(self) -> str:
        """Short name in logs."""
        return f"{self.spec.instance_id}/{self.trial}"


def run_trial(job: TrialJob) -> TaskResult:
    """Carry out one trial; what is a result goes into the store, the rest is only returned.

    An infrastructure failure is tried again in a fresh work directory, with growing pauses.
    Never raises for what happens to one trial: the others go on.
    """
    sandbox: Sandbox = instantiate(job.sandbox)
    used = Used()
    attempts = 0

    def attempt() -> TaskResult:
        nonlocal attempts
        attempts += 1
        return _attempt(job, sandbox, attempts, used)

    retrying = Retrying(
        retry=retry_if_result(lambda result: POLICY[result.status].retry),
        stop=stop_any(stop_after_attempt(1 + job.retries), stop_when_event_set(STOPPING)),
        wait=wait_exponential(multiplier=job.pause_s, max=60),
        sleep=sleep_using_event(STOPPING),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    result: TaskResult = retrying(attempt)
    return result


def _attempt(job: TrialJob, sandbox: Sandbox, attempt: int, used: Used) -> TaskResult:
    started = time.monotonic()
    folder = TrialFolder(job.work / f"{job.spec.instance_id}-{job.trial}-{attempt}")
    try:
        with admitted(
            sandbox,
            job.relay,
            job.run_id,
            name=job.name,
            recording=job.recording,
            project=sandbox.inside(folder).project,
            attempt=attempt,
        ) as admission:
            door = admission.door
            _lay_out(job, folder, door.url if door else None)
            site = Site(
                folder=folder,
                stack=job.stack,
                day=job.gold_date,
                run_id=job.run_id,
                trial_id=folder.root.name,
                door=door,
            )
            with sandbox.open(site) as place:
                outcome, used.sandbox_s = _solve(place, sandbox, folder)
        outcome = admission.judge(outcome)
        used.add(admission.usage)
        result = _result(job, sandbox, outcome, attempt, time.monotonic() - started, used)
        if POLICY[result.status].keep:
            _collect(folder, outcome, result)
            TrialStore(job.store).publish(folder.root, job.key.key)
            return result
    except BudgetSpentError as error:
        outcome = Outcome(status=TrialStatus.NOT_RUN, detail=error.what)
        result = _result(job, sandbox, outcome, attempt, time.monotonic() - started, used)
    except Exception as error:
        outcome = Outcome(status=TrialStatus.INFRA_ERROR, detail=_explain(error))
        result = _result(job, sandbox, outcome, attempt, time.monotonic() - started, used)
    shutil.rmtree(folder.root, ignore_errors=True)
    return result


def _lay_out(job: TrialJob, folder: TrialFolder, endpoint: str | None) -> None:
    """A private copy of the project, with the start database, and what the sandbox is told."""
    copy_tree(job.project, folder.project, skip=NOT_PROJECT)
    if job.overlay is not None:
        copy_tree(job.overlay, folder.project)
    if job.solution is not None:
        copy_tree(job.solution, folder.solution)
    job.spec.model_copy(update={"endpoint": endpoint}).write(folder.spec)


def _solve(place: Workplace, sandbox: Sandbox, folder: TrialFolder) -> tuple[Outcome, float]:
    """Let the agent work, then freeze the database's views, however the agent ended.

    Of one that filled its disk nothing is kept but the log. Returns what became of it, and the
    seconds that both took together.
    """
    ended = place.run("solve", limit_s=sandbox.trial_s)
    if ended.cut is Cut.DISK or (ended.code != 0 and ended.cut not in RESULT_OF_CUT):
        place.collect(everything=False)
        return _outcome(ended, folder, sandbox.trial_s), ended.seconds
    # A minute on top: the limit inside marks single views, this one ends a hang.
    limit_s = sandbox.freeze_s + 60
    frozen = place.run("finish", str(sandbox.freeze_s), limit_s=limit_s)
    seconds = ended.seconds + frozen.seconds
    try:
        place.collect(everything=True)
    except LimitError as error:
        return Outcome(status=TrialStatus.AGENT_ERROR, detail=str(error)), seconds
    outcome = _outcome(ended, folder, sandbox.trial_s)
    if frozen.cut in (Cut.MEMORY, Cut.DISK):
        detail = f"the database's views could not be read: {frozen.note}"
        outcome = outcome.model_copy(update={"status": TrialStatus.AGENT_ERROR, "detail": detail})
    elif frozen.code != 0:
        detail = f"the database could not be frozen: {_why(folder)}"
        outcome = outcome.model_copy(update={"status": TrialStatus.INFRA_ERROR, "detail": detail})
    return outcome, seconds


RESULT_OF_CUT = {
    Cut.TIME: TrialStatus.TIMEOUT,
    Cut.MEMORY: TrialStatus.AGENT_ERROR,
    Cut.DISK: TrialStatus.AGENT_ERROR,
}
"""Limits that an agent runs into are its own doing."""


def _outcome(ended: Ended, folder: TrialFolder, limit_s: float) -> Outcome:
    """What became of the agent, from its own report or, without one, from how it ended."""
    if ended.cut in RESULT_OF_CUT:
        detail = f"not done after {limit_s:g} s" if ended.cut is Cut.TIME else ended.note
        return Outcome(status=RESULT_OF_CUT[ended.cut], detail=detail)
    if ended.code in (0, UNFINISHED) and folder.outcome.is_file():
        outcome = Outcome.read(folder.outcome)
        if outcome.status is TrialStatus.AGENT_ERROR and NO_SPACE in outcome.detail:
            return outcome.model_copy(update={"status": TrialStatus.INFRA_ERROR})
        detail = "; ".join(part for part in (outcome.detail, ended.note) if part)
        return outcome.model_copy(update={"detail": detail})
    how = f"killed by signal {-ended.code}" if ended.code < 0 else f"exited with {ended.code}"
    if ended.cut is Cut.OUTSIDE:
        how = f"{how}, from outside"
    return Outcome(
        status=TrialStatus.INFRA_ERROR, detail=f"the sandbox's process {how}: {_why(folder)}"
    )


def _why(folder: TrialFolder) -> str:
    if not folder.log.is_file():
        return "no output"
    return reason(folder.log.read_text(encoding="utf-8", errors="replace"))


def _collect(folder: TrialFolder, outcome: Outcome, result: TaskResult) -> None:
    """Bring the folder into the shape of the file contract."""
    for extra in (folder.spec, folder.outcome):
        extra.unlink(missing_ok=True)
    if not folder.queries.exists():
        write_text(folder.queries, "")
    write_json(folder.root / "trace.json", outcome.events)
    result.write(folder.root / RESULT)


def _result(
    job: TrialJob,
    sandbox: Sandbox,
    outcome: Outcome,
    attempt: int,
    seconds: float,
    used: Used,
) -> TaskResult:
    return TaskResult(
        instance_id=job.spec.instance_id,
        trial=job.trial,
        agent=job.agent,
        model=job.model,
        status=outcome.status,
        detail=outcome.detail,
        run_key=job.key.key,
        run_key_parts=job.key.parts,
        gold_date=job.gold_date,
        sealed=sandbox.sealed,
        database=job.spec.database,
        turns=outcome.turns,
        elapsed_s=round(seconds, 3),
        sandbox_s=round(used.sandbox_s, 3),
        attempts=attempt,
        cost_usd=round(used.cost_usd, 6),
        tokens=used.tokens,
        refused=dict(used.refused),
        budget_usd=job.relay.budget.per_trial_usd if job.relay and used.over_budget else None,
        versions=job.stack.versions | (client_versions() if job.relay else {}),
    )


def _explain(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{NO_SPACE}: free some, then `dvc repro` goes on"
    return f"{type(error).__name__}: {error}"
