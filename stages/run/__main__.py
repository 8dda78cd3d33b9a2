"""The run stage: `python -m stages.run`."""

from __future__ import annotations

import shutil
import signal
import sys
from concurrent.futures import Executor
from pathlib import Path
from types import FrameType

from hydra.utils import instantiate
from rich.console import Console

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.params import Params, load_params
from stages.run.door import close_relays, shared_relay
from stages.run.hygiene import remove_leftovers, run_folder
from stages.run.models import POLICY, TaskResult, TrialStatus
from stages.run.plan import Plan, make_plan
from stages.run.progress import LOGGER, Display, run_log
from stages.run.sandbox import Sandbox
from stages.run.schedule import RUNS, carry_out, relay_config
from stages.run.store import TrialStore
from stages.run.trial import STOPPING

LOG = Path("results/run.log")


def run() -> int:
    """Carry out the plan; exit code 1 when an infrastructure failure is left at the end.

    DVC then records nothing of the stage, so that the next `dvc repro` comes back to exactly
    those trials; the finished ones are in the store.
    """
    console = make_console()
    params = load_params()
    instantiate(params.agent_instance())
    sandbox: Sandbox = instantiate(params.sandbox.instance())
    store = TrialStore()
    plan = make_plan(params, store)
    sandbox.check(plan.stack)
    if leftovers := remove_leftovers(sandbox):
        console.print(f"removed what {leftovers} killed run(s) had left behind")
    with run_log(LOG), run_folder(sandbox) as (run_id, work):
        signal.signal(signal.SIGTERM, _interrupt)
        _check_relay(plan, params, sandbox, run_id, console)
        results = _run(plan, params, sandbox, store, console, run_id, work)
    return _summary(plan, results)


def _check_relay(
    plan: Plan, params: Params, sandbox: Sandbox, run_id: str, console: Console
) -> None:
    """Make sure of the model before the first trial, where any trial needs one."""
    if params.agent.needs_model and not all(trial.reuse for trial in plan.trials):
        config = relay_config(params)
        if amiss := shared_relay(sandbox, config, run_id).check():
            console.print(f"warning: {amiss}", soft_wrap=True, markup=False)


def _run(
    plan: Plan,
    params: Params,
    sandbox: Sandbox,
    store: TrialStore,
    console: Console,
    run_id: str,
    work: Path,
) -> list[TaskResult]:
    shutil.rmtree(RUNS, ignore_errors=True)
    RUNS.mkdir(parents=True)
    for name, reason in plan.left_out.items():
        LOGGER.info("left out %s: %s", name, reason)
    executor: Executor = instantiate(params.concurrency.instance())
    with Display(console, len(plan.trials)) as display:
        try:
            return carry_out(
                plan,
                params,
                executor=executor,
                store=store,
                run_id=run_id,
                work=work,
                display=display,
            )
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            STOPPING.set()
            executor.shutdown(wait=False, cancel_futures=True)
            sandbox.cleanup(run_id)
            done = sum(store.find(trial.key.key) is not None for trial in plan.trials)
            LOGGER.info("interrupted: %d of %d trials are kept", done, len(plan.trials))
            print(
                f"\ninterrupted: everything that was started is stopped; {done} of "
                f"{len(plan.trials)} trials are finished and kept. `dvc repro` goes on with the "
                "rest.",
                file=sys.stderr,
            )
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
            close_relays(run_id)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _summary(plan: Plan, results: list[TaskResult]) -> int:
    failed = [result for result in results if POLICY[result.status].retry]
    left = sum(result.status is TrialStatus.NOT_RUN for result in results)
    if left:
        print(
            f"the run's budget is spent: {left} of {len(results)} trials were not run; with a "
            "larger `budget.per_run_usd`, `dvc repro` goes on with them"
        )
    if failed:
        names = ", ".join(f"{result.instance_id}/{result.trial}" for result in failed)
        raise UserError(
            f"{len(failed)} of {len(results)} trials ended in an infrastructure failure, which "
            f"says nothing of the agent: {names}",
            where=f"{LOG} has the reason of each",
            remedy="the finished trials are kept; mend the cause, and `dvc repro` runs exactly "
            "these again (to score the finished ones first: `dvc repro -s evaluate report`)",
        )
    return 0


if __name__ == "__main__":
    main(run)
