"""The audit's status of a task, one hazard at a time, on real databases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from stages.common.errors import UserError
from stages.common.params import SuiteParams
from stages.suite.__main__ import prepare, runnable, summary
from stages.suite.audit import audit_suite
from stages.suite.layout import read_evaluations, read_slots
from stages.suite.models import AuditEntry, Status, read_audit, read_tasks

RAW = "CREATE TABLE raw AS SELECT 1 AS id"
GRADED = "CREATE TABLE sums AS SELECT i AS id, i * 2 AS doubled FROM range(5) r(i)"


def make(path: Path, *statements: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


class Suite:
    """A suite on disk that tests add tasks to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.params = SuiteParams(
            name="mine", root=root, built=root / "built", sources=False, gold_stack="spider2"
        )
        self.params.gold.mkdir(parents=True)
        self.params.examples.mkdir()
        (self.params.gold / "spider2_eval.jsonl").touch()

    def task(self, key: str = "shop001") -> Path:
        project = self.params.examples / key
        project.mkdir()
        (project / "dbt_project.yml").write_text("name: shop\nprofile: shop\n")
        (project / "profiles.yml").write_text(
            "shop: {target: a, outputs: {a: {type: duckdb, path: shop.duckdb}}}\n"
        )
        self._append(self.params.examples / "spider2-dbt.jsonl", key, instruction="do it")
        return project

    def evaluation(self, key: str = "shop001", /, **parameters: object) -> None:
        given = {"gold": "shop.duckdb", "condition_tabs": ["sums"], **parameters}
        grading = {"func": "duckdb_match", "parameters": given}
        self._append(self.params.gold / "spider2_eval.jsonl", key, evaluation=grading)

    def gold(self, *statements: str, key: str = "shop001", file: str = "shop.duckdb") -> Path:
        return make(self.params.gold / key / file, *statements)

    def ready(self, key: str = "shop001", /, **parameters: object) -> Path:
        """A task that can be scored: its project's folder."""
        project = self.task(key)
        make(project / "shop.duckdb", RAW)
        self.gold(RAW, GRADED, key=key)
        self.evaluation(key, **parameters)
        return project

    def audit(self) -> dict[str, AuditEntry]:
        slots = read_slots(self.params, {})
        evaluations = read_evaluations(self.params.gold / "spider2_eval.jsonl")
        return {e.instance_id: e for e in audit_suite(self.params, slots, evaluations)}

    def one(self, key: str = "shop001") -> AuditEntry:
        return self.audit()[key]

    def _append(self, path: Path, key: str, **more: object) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"instance_id": key, **more}) + "\n")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


def test_a_whole_task_is_scoreable_and_nothing_is_said(suite: Suite) -> None:
    suite.ready(condition_cols=[[0, 1]], ignore_orders=[True])
    entry = suite.one()
    assert (entry.status, entry.detail) == (Status.SCOREABLE, "")
    assert entry.gold_database == suite.params.gold / "shop001" / "shop.duckdb"
    assert entry.evaluation is not None


def test_no_evaluation_line_is_no_gold(suite: Suite) -> None:
    make(suite.task() / "shop.duckdb", RAW)
    suite.gold(GRADED)
    entry = suite.one()
    assert entry.status is Status.NO_GOLD
    assert "evaluation config has no line" in entry.detail
    assert entry.gold_database is None and entry.evaluation is None


def test_no_gold_folder_is_no_gold(suite: Suite) -> None:
    suite.ready()
    shutil.rmtree(suite.params.gold / "shop001")
    entry = suite.one()
    assert (entry.status, entry.detail) == (Status.NO_GOLD, "it has no gold folder")


def test_an_empty_gold_folder_is_no_gold(suite: Suite) -> None:
    suite.ready()
    (suite.params.gold / "shop001" / "shop.duckdb").rename(
        suite.params.gold / "shop001" / "._shop.duckdb"
    )
    entry = suite.one()
    assert entry.status is Status.NO_GOLD
    assert "gold shop.duckdb is absent; there is no database" in entry.detail


def test_the_only_other_gold_file_is_used_and_said(suite: Suite) -> None:
    suite.ready(gold="store.duckdb")
    entry = suite.one()
    assert entry.status is Status.GOLD_MISNAMED and entry.status.scoreable
    assert "gold store.duckdb is absent; shop.duckdb, the only one there, is used" in entry.detail
    assert entry.gold_database == suite.params.gold / "shop001" / "shop.duckdb"


def test_two_other_gold_files_are_not_chosen_from(suite: Suite) -> None:
    suite.ready(gold="store.duckdb")
    suite.gold(GRADED, file="second.duckdb")
    entry = suite.one()
    assert entry.status is Status.NO_GOLD and entry.gold_database is None
    assert "there is second.duckdb, shop.duckdb" in entry.detail


def test_a_graded_table_that_gold_lacks_is_named(suite: Suite) -> None:
    suite.ready(condition_tabs=["sums", "means", "modes"])
    entry = suite.one()
    assert entry.status is Status.GOLD_INCOMPLETE
    assert entry.detail == "gold has no table means, modes (2 of 3 graded)"


def test_a_misnamed_gold_without_its_tables_is_incomplete_first(suite: Suite) -> None:
    suite.ready(gold="store.duckdb", condition_tabs=["means"])
    entry = suite.one()
    assert entry.status is Status.GOLD_INCOMPLETE
    assert entry.detail.startswith("gold has no table means")
    assert "store.duckdb is absent" in entry.detail


def test_a_graded_view_counts_as_a_table_and_is_not_evaluated(suite: Suite) -> None:
    suite.ready(condition_cols=[[0]])
    suite.gold("CREATE VIEW sums AS SELECT error('evaluated')::INTEGER AS id")
    entry = suite.one()
    assert (entry.status, entry.detail) == (Status.SCOREABLE, "")


def test_a_graded_view_that_does_not_bind_here_is_said(suite: Suite) -> None:
    suite.ready()
    suite.gold("CREATE TABLE t(a INT)", "CREATE VIEW sums AS FROM t", "DROP TABLE t")
    entry = suite.one()
    assert entry.status is Status.SCOREABLE
    assert "gold's view sums cannot be described here: Catalog Error" in entry.detail


@pytest.mark.parametrize(
    ("graded", "statements", "said"),
    [
        ("SUMS", [GRADED], ""),
        ("fct_sums", ["CREATE TABLE fact_sums(a INT)"], "fct_sums is gold's fact_sums"),
        ("FACT_sums", ["CREATE VIEW fct_Sums AS SELECT 1 a"], "FACT_sums is gold's fct_Sums"),
        ("select", ['CREATE TABLE "select"("from" INT)'], ""),
        ('a "b" c', ['CREATE TABLE "a ""b"" c"("x;--" INT)'], ""),
        ("sums", ["CREATE SCHEMA odd", "CREATE TABLE odd.sums(a INT)"], "sums is gold's odd.sums"),
        (
            "fct_sums",
            [
                "CREATE TABLE fact_sums(a INT)",
                "CREATE SCHEMA odd",
                "CREATE TABLE odd.fct_sums(a INT)",
            ],
            "fct_sums is gold's fact_sums",
        ),
        ("odd.sums", ["CREATE SCHEMA odd", "CREATE TABLE odd.sums(a INT)"], ""),
    ],
)
def test_graded_names_are_found_as_duckdb_has_them(
    suite: Suite, graded: str, statements: list[str], said: str
) -> None:
    suite.ready(condition_tabs=[graded])
    suite.gold(*statements)
    entry = suite.one()
    assert entry.status is Status.SCOREABLE
    assert said in entry.detail and bool(said) == bool(entry.detail)


def test_a_name_in_two_other_schemas_is_missing(suite: Suite) -> None:
    suite.ready()
    suite.gold(*(f"CREATE SCHEMA {s}; CREATE TABLE {s}.sums(a INT)" for s in ("a", "b")))
    assert suite.one().status is Status.GOLD_INCOMPLETE


def test_without_condition_tabs_every_table_of_gold_is_graded(suite: Suite) -> None:
    suite.ready(condition_tabs=None, condition_cols=[[0]])
    entry = suite.one()
    assert entry.status is Status.BAD_COLUMNS
    assert "1 entries for 2 graded tables" in entry.detail


def test_gold_without_any_table_is_incomplete(suite: Suite) -> None:
    suite.ready(condition_tabs=None)
    suite.gold()
    entry = suite.one()
    assert (entry.status, entry.detail) == (Status.GOLD_INCOMPLETE, "gold holds no table")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"condition_cols": [[0, 2]]}, "condition_cols of sums names column 2, gold has 2"),
        ({"condition_cols": [[-3]]}, "names column -3"),
        ({"condition_cols": [[0], [0]]}, "condition_cols has 2 entries for 1 graded"),
        ({"condition_cols": []}, "condition_cols has 0 entries for 1 graded"),
        ({"ignore_orders": [True, False]}, "ignore_orders has 2 entries for 1 graded"),
        ({"condition_tabs": []}, "nothing is graded"),
    ],
)
def test_columns_that_cannot_be_graded_are_named(
    suite: Suite, parameters: dict[str, object], said: str
) -> None:
    suite.ready(**parameters)
    entry = suite.one()
    assert entry.status is Status.BAD_COLUMNS
    assert said in entry.detail


def test_negative_columns_count_from_the_end_as_officially(suite: Suite) -> None:
    suite.ready(condition_cols=[[-1]])
    assert suite.one().status is Status.SCOREABLE


def test_gold_that_the_start_database_holds_already_is_found_in_any_order(suite: Suite) -> None:
    project = suite.ready()
    make(
        project / "shop.duckdb",
        "CREATE TABLE Sums AS SELECT i * 2 AS DOUBLED, 'more' AS more, i AS id "
        "FROM range(5) r(i) ORDER BY i DESC",
    )
    entry = suite.one()
    assert entry.status is Status.GOLD_EQUALS_START and not entry.status.scoreable
    assert "already holds gold's content of sums" in entry.detail


def test_only_graded_columns_need_to_be_equal(suite: Suite) -> None:
    project = suite.ready(condition_cols=[[0]])
    make(
        project / "shop.duckdb",
        "CREATE TABLE sums AS SELECT i AS id, 0 AS doubled FROM range(5) r(i)",
    )
    assert suite.one().status is Status.GOLD_EQUALS_START


@pytest.mark.parametrize(
    "stale",
    [
        "CREATE TABLE sums AS SELECT i AS id, 0 AS doubled FROM range(5) r(i)",
        "CREATE TABLE sums AS SELECT i AS id, i * 2 AS doubled FROM range(4) r(i)",
        "CREATE TABLE sums AS SELECT i AS id FROM range(5) r(i)",
        "CREATE TABLE sums AS SELECT i AS id, (i * 2)::VARCHAR AS doubled FROM range(5) r(i)",
        # As many rows and the same set, other multiplicities.
        "CREATE TABLE sums AS SELECT id, id * 2 AS doubled FROM unnest([0, 1, 2, 3, 3]) r(id)",
    ],
)
def test_a_stale_graded_table_in_the_start_database_is_said_and_scoreable(
    suite: Suite, stale: str
) -> None:
    project = suite.ready()
    make(project / "shop.duckdb", stale)
    entry = suite.one()
    assert entry.status is Status.SCOREABLE
    assert "already holds sums with other content" in entry.detail


def test_one_equal_table_of_two_leaves_the_task_scoreable(suite: Suite) -> None:
    project = suite.ready(condition_tabs=["raw", "sums"])
    assert (project / "shop.duckdb").is_file()
    entry = suite.one()
    assert entry.status is Status.SCOREABLE
    assert "already holds raw as in gold" in entry.detail


@pytest.mark.parametrize("side", ["gold", "start"])
def test_views_are_never_compared_by_content(suite: Suite, side: str) -> None:
    project = suite.ready()
    view = "CREATE VIEW sums AS SELECT error('evaluated') AS id"
    make(project / "shop.duckdb", view if side == "start" else GRADED)
    suite.gold(view if side == "gold" else GRADED)
    assert suite.one().status is Status.SCOREABLE


def test_nan_and_null_are_equal_to_themselves(suite: Suite) -> None:
    rows = "CREATE TABLE sums AS SELECT * FROM (VALUES ('nan'::DOUBLE), (NULL)) v(x)"
    make(suite.ready() / "shop.duckdb", rows)
    suite.gold(rows)
    assert suite.one().status is Status.GOLD_EQUALS_START


@pytest.mark.parametrize("content", [b"", b"<html>sign in</html>" * 500])
def test_gold_that_is_no_database_is_unreadable_in_duckdbs_words(
    suite: Suite, content: bytes
) -> None:
    suite.ready()
    (suite.params.gold / "shop001" / "shop.duckdb").write_bytes(content)
    entry = suite.one()
    assert entry.status is Status.GOLD_UNREADABLE
    assert "not a valid DuckDB database file" in entry.detail
    assert "\n" not in entry.detail
    assert str(suite.root) not in entry.detail, "a machine's path would differ elsewhere"


def test_a_damaged_block_of_a_graded_table_makes_gold_unreadable(suite: Suite) -> None:
    suite.ready()
    path = suite.gold(
        "CREATE TABLE sums AS SELECT i AS id, md5(i::VARCHAR) AS h FROM range(200000) r(i)"
    )
    data = bytearray(path.read_bytes())
    data[600_000:600_050] = b"\xff" * 50
    path.write_bytes(data)
    entry = suite.one()
    assert entry.status is Status.GOLD_UNREADABLE
    assert "checksum" in entry.detail


def _sum(block: bytes) -> int:
    """DuckDB's checksum of a block whose length is a multiple of eight bytes."""
    state = 5381
    for at in range(0, len(block), 8):
        word = int.from_bytes(block[at : at + 8], "little")
        state ^= word * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    return state


def test_gold_of_a_newer_format_is_unreadable(suite: Suite) -> None:
    suite.ready()
    path = suite.params.gold / "shop001" / "shop.duckdb"
    data = bytearray(path.read_bytes())
    assert int.from_bytes(data[:8], "little") == _sum(bytes(data[8:4096]))
    data[12:20] = (9999).to_bytes(8, "little")
    data[:8] = _sum(bytes(data[8:4096])).to_bytes(8, "little")
    path.write_bytes(data)
    entry = suite.one()
    assert entry.status is Status.GOLD_UNREADABLE
    assert "9999" in entry.detail


def test_no_start_database_comes_first_and_the_rest_is_said(suite: Suite) -> None:
    suite.task()
    suite.evaluation()
    entry = suite.one()
    assert entry.status is Status.NO_START_DATABASE
    assert entry.detail == "the profile's database shop.duckdb is absent; it has no gold folder"


def test_a_start_database_that_does_not_open_is_none(suite: Suite) -> None:
    (suite.ready() / "shop.duckdb").write_bytes(b"\0" * 20_000)
    entry = suite.one()
    assert entry.status is Status.NO_START_DATABASE
    assert "cannot be opened: IO Error" in entry.detail


def test_an_assumed_database_is_said_and_scoreable(suite: Suite) -> None:
    (suite.ready() / "profiles.yml").unlink()
    entry = suite.one()
    assert entry.status is Status.SCOREABLE
    assert "no profiles.yml; its only database shop.duckdb is used" in entry.detail


def test_bad_files_of_one_task_leave_the_others_alone(suite: Suite) -> None:
    suite.ready("good001")
    suite.ready("gold001")
    (suite.params.gold / "gold001" / "shop.duckdb").write_bytes(b"x" * 9000)
    (suite.ready("start001") / "shop.duckdb").unlink()
    (suite.ready("profile001") / "profiles.yml").write_text(
        "shop: {target: a, outputs: {a: {type: duckdb, path: /tmp/shop.duckdb}}}\n"
    )
    audit = suite.audit()
    assert {key: entry.status for key, entry in audit.items()} == {
        "good001": Status.SCOREABLE,
        "gold001": Status.GOLD_UNREADABLE,
        "start001": Status.NO_START_DATABASE,
        "profile001": Status.NO_START_DATABASE,
    }
    slots = read_slots(suite.params, {})
    tasks = runnable([slot.task for slot in slots if slot.task], list(audit.values()))
    assert {task.instance_id for task in tasks} == {"good001", "gold001"}
    assert summary(list(audit.values()), len(tasks)) == (
        "4 tasks, 2 can be run, 1 scoreable; "
        "by status: scoreable 1, gold_unreadable 1, no_start_database 2"
    )


def test_the_databases_stay_as_they_are(suite: Suite) -> None:
    project = suite.ready()
    before = {p: p.read_bytes() for p in suite.root.rglob("*.duckdb")}
    suite.audit()
    assert {p: p.read_bytes() for p in suite.root.rglob("*.duckdb*")} == before
    assert sorted(p.name for p in project.iterdir()) == [
        "dbt_project.yml",
        "profiles.yml",
        "shop.duckdb",
    ]


def test_the_stage_writes_its_outs_and_prints_the_denominators(
    suite: Suite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    suite.ready("shop001", condition_tabs=["means"])
    suite.ready("shop002")
    suite.task("shop003")
    suite.evaluation("other001")
    known = suite.params.solutions / "shop002" / "models"
    known.mkdir(parents=True)
    (known / "sums.sql").write_text("select 1")
    monkeypatch.chdir(tmp_path)
    left = suite.params.built / "gold" / "old001"
    left.mkdir(parents=True)
    prepare(suite.params)
    assert [task.instance_id for task in read_tasks(Path("results/suite/tasks.json"))] == [
        "shop001",
        "shop002",
    ]
    assert {e.instance_id: e.status for e in read_audit(Path("results/suite_audit.json"))} == {
        "shop001": Status.GOLD_INCOMPLETE,
        "shop002": Status.SCOREABLE,
        "shop003": Status.NO_START_DATABASE,
    }
    assert list(json.loads(Path("results/suite/solutions.json").read_text())) == ["shop002"]
    for folder in ("start", "gold"):
        assert list((suite.params.built / folder).iterdir()) == []
    printed = capsys.readouterr().out
    assert "evaluation lines of no task, ignored: other001" in printed
    assert "3 tasks, 2 can be run, 1 scoreable; by status: scoreable 1" in printed


def test_the_stage_names_the_remedy_for_an_absent_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absent = SuiteParams(
        name="spider2-dbt",
        root=Path("data/spider2-dbt"),
        built=Path("data/built"),
        sources=False,
        gold_stack="spider2",
    )
    with pytest.raises(UserError, match=r"make spider2 SOURCE=.* START=.* GOLD="):
        prepare(absent)
