"""Makes up runs of any size, laid out as the pipeline lays them out: nothing in them was run."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Sequence
from pathlib import Path

from stages.agent.models import Event, Tokens
from stages.common.files import digest_text, write_json, write_text
from stages.common.params import Params
from stages.dates.models import DateStatus, Evidence, GoldDate, Rule
from stages.evaluate.models import (
    Cause,
    ColumnDiagnosis,
    Diagnosis,
    Reason,
    Resolution,
    RowDifference,
    TableVerdict,
    TaskVerdict,
    write_verdicts,
)
from stages.gateway.models import Call
from stages.report.models import RunSummary
from stages.report.summary import read_summary
from stages.run.models import TaskResult, TrialStatus
from stages.suite.models import AuditEntry, Status, Task, write_audit, write_tasks

NOUNS = ("berth", "lease", "animal", "recipe", "tool", "stop", "loaf", "tree", "parcel", "meter")
PARTS = ("daily", "monthly", "total", "first", "last", "open", "closed", "average", "number")
DAY = datetime.date(2024, 9, 8)


class Maker:
    """Makes results folders from a seed: the same folders each time."""

    def __init__(self, root: Path, seed: int = 1) -> None:
        self.root = root
        self.random = random.Random(seed)

    def word(self) -> str:
        """A column's or a table's name."""
        number = self.random.randrange(400)
        return f"{self.random.choice(NOUNS)}_{self.random.choice(PARTS)}_{number}"

    def number(self) -> str:
        """A value."""
        return f"{self.random.uniform(-1e4, 1e6):.2f}"

    def sql(self, lines: int) -> str:
        """A model of so many columns."""
        columns = ",\n".join(
            f"    round(sum(s.{self.word()}), 2) as {self.word()}" for _ in range(lines)
        )
        source = f"{{{{ ref('stg_{self.word()}') }}}}"
        grain = f"-- one row a {self.random.choice(NOUNS)}"
        return f"{grain}\nselect\n{columns}\nfrom {source} as s\ngroup by all\n"

    def rows(self, rows: int) -> str:
        """A result as a table in Markdown."""
        head = " | ".join(self.word() for _ in range(6))
        body = "\n".join(f"| {' | '.join(self.number() for _ in range(6))} |" for _ in range(rows))
        return f"| {head} |\n|---|---|---|---|---|---|\n{body}"

    def trace(self, events: int) -> list[Event]:
        """A trace with what agents do: think, query, write, build, and be checked."""
        made: list[Event] = []
        at = 0.0
        turn = 0
        while len(made) < events:
            who = "verifier" if len(made) > events * 0.8 else "main"
            turn += who == "main"
            at += self.random.uniform(0.5, 9)
            number = len(made)
            if number % 7 == 0:
                text = " ".join(self.word() for _ in range(40))
                made.append(Event(time_s=at, turn=turn, who=who, kind="thinking", text=text))
            if number % 5 == 0:
                text = f"The grain of {self.word()} is one row a {self.random.choice(NOUNS)}. " * 2
                made.append(Event(time_s=at, turn=turn, who=who, kind="text", text=text))
            tool, given, result = self.tool()
            name = f"toolu_{self.random.randrange(10**12):012d}"
            use = Event(
                time_s=round(at, 3),
                turn=turn,
                who=who,
                kind="tool_use",
                tool=tool,
                tool_id=name,
                text=json.dumps(given),
            )
            at += self.random.uniform(0.05, 6)
            answer = Event(
                time_s=round(at, 3),
                turn=turn,
                who=who,
                kind="tool_result",
                text=result,
                tool_id=name,
                error=self.random.random() < 0.04,
            )
            made += [use, answer]
        made[events - 1] = Event(time_s=at, turn=turn, who="main", kind="result", text="Built.")
        return made[:events]

    def tool(self) -> tuple[str, dict[str, str], str]:
        """A tool, its input and its result."""
        kind = self.random.randrange(4)
        if kind == 0:
            return "mcp__gateway__query_database", {"sql": self.sql(4)}, self.rows(12)
        if kind == 1:
            path = f"/trial/project/models/{self.word()}.sql"
            return "Write", {"file_path": path, "content": self.sql(14)}, f"Wrote {path}"
        if kind == 2:
            log = "\n".join(
                f"12:0{n % 10}:{self.random.randrange(60):02d}  {n} of 30 OK created sql table "
                f"model main.{self.word()} .... [OK in {self.random.random():.2f}s]"
                for n in range(24)
            )
            return "Bash", {"command": f"dbt build --select {self.word()}+"}, log
        return "Read", {"file_path": f"/trial/project/models/{self.word()}.sql"}, self.sql(18)

    def run(
        self, name: str, tasks: Sequence[str], *, trials: int, events: int, share: float
    ) -> Path:
        """A results folder in which each trial passes with the probability `share`."""
        out = self.root / name
        verdicts = []
        for number, task in enumerate(tasks):
            for trial in range(trials):
                passed = self.random.random() < share
                if number % 17 != 5:
                    verdicts.append(self.verdict(task, trial, passed))
                self.trial(out / "runs" / task / str(trial), task, trial, events, name)
        write_verdicts(out / "verdicts.json", verdicts)
        write_audit(out / "suite_audit.json", [self.audit(n, task) for n, task in enumerate(tasks)])
        write_tasks(out / "suite" / "tasks.json", [self.task(task) for task in tasks])
        write_json(out / "dates.json", {task: self.date() for task in tasks})
        return out

    def audit(self, number: int, task: str) -> AuditEntry:
        """The audit of a task; one in seventeen cannot be scored."""
        status, detail = Status.SCOREABLE, ""
        if number % 17 == 5:
            status, detail = Status.NO_GOLD, "no gold folder"
        elif number % 17 == 9:
            status, detail = Status.GOLD_MISNAMED, "the config names another file"
        return AuditEntry(
            instance_id=task, status=status, detail=detail, gold_database=None, evaluation=None
        )

    def task(self, name: str) -> Task:
        """A task with a start project of a few models."""
        project = self.root / "examples" / name
        if not project.is_dir():
            for number in range(4):
                write_text(project / "models" / f"given_{number}.sql", self.sql(12))
        words = " ".join(self.word() for _ in range(30))
        return Task(
            instance_id=name,
            instruction=f"Build the models of {name}: {words}.",
            project=project,
            overlay=None,
            database=Path("x.duckdb"),
            start_digest="",
        )

    def date(self) -> GoldDate:
        """A gold date with evidence."""
        found = Evidence(
            table=self.word(),
            column=self.word(),
            value=DAY.isoformat(),
            rule=Rule.ELAPSED_TIME,
            low=DAY,
            high=DAY,
            best=DAY,
        )
        return GoldDate(date=DAY, status=DateStatus.EXACT, low=DAY, high=DAY, evidence=(found,) * 2)

    def verdict(self, task: str, trial: int, passed: bool) -> TaskVerdict:
        """A verdict on two tables; a failure comes with its diagnosis."""
        cause = self.random.choice(list(Cause))
        marks = (Resolution.FCT_FACT,) if passed and self.random.random() < 0.1 else ()
        fine = TableVerdict(
            table=self.word(),
            official=True,
            reason=Reason.MATCHED,
            strict=True,
            detail="all 6 graded columns found",
            resolutions=marks,
        )
        bad = TableVerdict(
            table=self.word(),
            official=False,
            reason=Reason.VALUES_DIFFER,
            strict=False,
            detail="2 of 6 graded columns found no match",
            diagnosis=self.diagnosis(cause),
        )
        tables = (fine, fine) if passed else (bad, fine)
        return TaskVerdict(
            instance_id=task,
            trial=trial,
            status=TrialStatus.COMPLETED,
            passed=passed,
            passed_officially=passed and not marks,
            passed_strictly=passed and not marks,
            resolutions=marks,
            tables=tables,
            reason="all 2 graded tables match" if passed else f"{bad.table}: {cause}",
        )

    def diagnosis(self, cause: Cause) -> Diagnosis:
        """A diagnosis with columns and rows."""
        columns = tuple(
            ColumnDiagnosis(
                column=self.word(),
                position=n,
                nearest=self.word(),
                equal_share=round(self.random.random(), 3),
                cause=cause,
            )
            for n in range(4)
        )
        rows = tuple(
            RowDifference(
                key={"id": str(n), "day": DAY.isoformat()},
                column=columns[n % 4].column,
                gold=self.number(),
                result=None if n % 5 == 0 else self.number(),
            )
            for n in range(20)
        )
        text = f"{len(columns)} columns have no equal: {cause.value}"
        return Diagnosis(
            cause=cause,
            text=text,
            gold_rows=1200,
            result_rows=1187,
            columns=columns,
            rows=rows,
            days_off=1 if cause is Cause.ROW_COUNT else None,
        )

    def trial(self, folder: Path, task: str, trial: int, events: int, model: str) -> None:
        """A trial's folder."""
        trace = self.trace(events)
        write_json(folder / "trace.json", trace)
        parts = {part: digest_text(part, task, model) for part in ("agent", "code", "project")}
        TaskResult(
            instance_id=task,
            trial=trial,
            agent="claude",
            model=model,
            status=TrialStatus.COMPLETED,
            run_key=digest_text(task, model),
            run_key_parts=parts,
            gold_date=DAY,
            sealed=True,
            database="x.duckdb",
            turns=max(event.turn for event in trace),
            elapsed_s=trace[-1].time_s,
            attempts=1,
            cost_usd=round(self.random.uniform(0.1, 2.5), 4),
            tokens=Tokens(
                input=self.random.randrange(90_000),
                cache_read=self.random.randrange(900_000),
                output=self.random.randrange(30_000),
            ),
            versions={"dbt-core": "1.11.16", "duckdb": "2.0.1"},
        ).write(folder / "task_result.json")
        for number in range(3):
            write_text(folder / "project" / "models" / f"new_{number}.sql", self.sql(25))
        write_text(folder / "project" / "models" / "given_0.sql", self.sql(12))
        calls = [
            Call(
                time=f"2024-09-08T12:{n // 60:02d}:{n % 60:02d}.000+00:00",
                tool="query_database",
                arguments={},
                sql=self.sql(4),
                rows=12,
                ms=self.random.randrange(4000),
                outcome="ok",
                error="",
            )
            for n in range(40)
        ]
        lines = "".join(call.model_dump_json() + "\n" for call in calls)
        write_text(folder / "queries" / "queries.jsonl", lines)


def make_runs(
    root: Path,
    params: Params,
    *,
    tasks: int = 68,
    models: int = 5,
    trials: int = 1,
    events: int = 300,
) -> list[RunSummary]:
    """So many runs over the same tasks, each by another model, in folders below `root`."""
    maker = Maker(root)
    names = [f"{NOUNS[n % len(NOUNS)]}{n // len(NOUNS) + 1:03d}" for n in range(tasks)]
    runs = []
    for number in range(models):
        label = f"model-{chr(97 + number)}"
        share = 0.75 - 0.12 * number
        folder = maker.run(label, names, trials=trials, events=events, share=share)
        chosen = params.model.model_copy(update={"name": label})
        own = params.model_copy(update={"model": chosen, "tasks": None, "trials": trials})
        runs.append(read_summary(own, folder, label))
    return runs
