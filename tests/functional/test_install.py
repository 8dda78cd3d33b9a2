"""Laying the official suite out from a clone and two zips, whatever shape they come in."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from stages.common.errors import UserError
from stages.common.files import digest_tree
from stages.common.params import SuiteParams
from stages.stack.environments import ensure_stack, stack_lock
from stages.suite.audit import audit_suite
from stages.suite.install import STAGING, install, run
from stages.suite.layout import EVALUATIONS, read_evaluations, read_slots
from stages.suite.models import Status

TASKS = ("hats001", "hats002", "socks001")
START = "CREATE TABLE raw AS SELECT 1 AS id"
FULL_DISK = type(shutil.disk_usage("."))(1000, 900, 100)
GOLD = "CREATE TABLE sums AS SELECT 2 AS id"


def _database(path: Path, *statements: str) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


def _evaluation(key: str) -> str:
    parameters = {"gold": "shop.duckdb", "condition_tabs": ["sums"], "condition_cols": [[0]]}
    grading = {"func": "duckdb_match", "parameters": parameters}
    return json.dumps({"instance_id": key, "evaluation": grading}) + "\n"


def _write_source(folder: Path, tasks: tuple[str, ...], names: dict[str, str]) -> None:
    """A folder of the shape of spider2-dbt, with a project a task."""
    config = folder / "evaluation_suite" / "gold" / EVALUATIONS
    config.parent.mkdir(parents=True)
    config.write_text("".join(_evaluation(key) for key in tasks))
    (folder / "setup.py").write_text("raise SystemExit\n")
    for key in tasks:
        project = folder / "examples" / key
        (project / "models").mkdir(parents=True)
        (project / "dbt_project.yml").write_text(f"name: {key}\nprofile: shop\n")
        (project / "profiles.yml").write_text(
            f"shop: {{target: a, outputs: {{a: {{type: duckdb, path: ./{names[key]}}}}}}}\n"
        )
        (project / "models" / "raw.sql").write_text(f"select 1 -- {key}\n")
    lines = [json.dumps({"instance_id": key, "instruction": "do", "type": "DBT"}) for key in tasks]
    (folder / "examples" / "spider2-dbt.jsonl").write_text("\n".join(lines))


def _git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


class Parts:
    """A source, a start folder and a gold folder, to be bent by a test."""

    def __init__(self, root: Path) -> None:
        self.clone = root / "clone"
        self.source = self.clone / "spider2-dbt"
        self.start = root / "start"
        self.gold = root / "gold"
        self.target = root / "data" / "spider2-dbt"
        _write_source(self.source, TASKS, dict.fromkeys(TASKS, "shop.duckdb"))
        for key in TASKS:
            _database(self.start / key / "shop.duckdb", START)
            _database(self.gold / key / "shop.duckdb", GOLD)

    def commit(self) -> None:
        _git(self.clone, "init", "--quiet")
        _git(self.clone, "add", "--all")
        _git(self.clone, "commit", "--quiet", "-m", "all")

    def install(self, **instead: Path) -> None:
        given = {"source": self.clone, "start": self.start, "gold": self.gold, **instead}
        arguments = [f"--{key}={path}" for key, path in given.items()]
        run([*arguments, f"--target={self.target}", "--no-dvc"])

    def audit(self) -> dict[str, Status]:
        suite = SuiteParams(
            name="spider2-dbt",
            root=self.target,
            built=self.target / "built",
            sources=False,
            gold_stack="spider2",
        )
        evaluations = read_evaluations(suite.gold / EVALUATIONS)
        entries = audit_suite(suite, read_slots(suite, {}), evaluations)
        return {entry.instance_id: entry.status for entry in entries}

    def databases(self) -> list[str]:
        return sorted(
            path.relative_to(self.target).as_posix() for path in self.target.rglob("*.duckdb")
        )


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def _zip(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def _zipped(folder: Path, *, top: str = "") -> Path:
    entries = {
        top + path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return _zip(folder.with_suffix(".zip"), entries)


def _scoreable(parts: Parts) -> bool:
    return parts.audit() == dict.fromkeys(TASKS, Status.SCOREABLE)


def test_a_work_tree_and_two_folders_give_a_suite_that_can_be_scored(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    parts.install()
    assert _scoreable(parts)
    assert (parts.target / "examples" / "hats001" / "models" / "raw.sql").is_file()
    assert sorted(path.name for path in parts.target.iterdir()) == ["evaluation_suite", "examples"]
    printed = capsys.readouterr().out
    assert "tasks with start and gold │ 3" in printed
    assert "warning" not in printed and "without" not in printed


@pytest.mark.parametrize("kind", ["folder", "bare", "dot_git", "no_checkout"])
def test_any_form_of_the_source_gives_the_same_projects(
    parts: Parts, tmp_path: Path, kind: str
) -> None:
    script = parts.source / "examples" / "hats001" / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    parts.install()
    expected = digest_tree(parts.target)
    parts.commit()
    sources = {"folder": parts.source, "dot_git": parts.clone / ".git"}
    if kind in ("bare", "no_checkout"):
        sources[kind] = tmp_path / kind
        _git(tmp_path, "clone", "--quiet", f"--{kind.replace('_', '-')}", str(parts.clone), kind)
    parts.install(source=sources[kind])
    assert digest_tree(parts.target) == expected
    assert os.access(parts.target / "examples" / "hats001" / "run.sh", os.X_OK)
    assert _scoreable(parts)


def test_git_variables_of_a_calling_hook_do_not_redirect_the_source(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.commit()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    parts.install(source=parts.clone / ".git")
    assert _scoreable(parts)


def test_absent_and_damaged_blobs_and_submodules_are_named_and_the_rest_is_laid(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    parts.commit()
    head = _git(parts.clone, "rev-parse", "HEAD")
    package = "spider2-dbt/examples/socks001/dbt_packages/extra"
    _git(parts.clone, "update-index", "--add", "--cacheinfo", f"160000,{head},{package}")
    _git(parts.clone, "commit", "--quiet", "-m", "a submodule")
    for key, data in (("hats001", None), ("hats002", b"no object")):
        blob = _git(parts.clone, "rev-parse", f"HEAD:spider2-dbt/examples/{key}/models/raw.sql")
        path = parts.clone / ".git" / "objects" / blob[:2] / blob[2:]
        path.chmod(0o644)
        path.unlink() if data is None else path.write_bytes(data)
    parts.install(source=parts.clone / ".git")
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "files that SOURCE lacks (2): "
        "examples/hats001/models/raw.sql, examples/hats002/models/raw.sql"
    ) in printed
    assert "submodules that SOURCE lacks (1): examples/socks001/dbt_packages/extra" in printed
    assert not (parts.target / "examples" / "hats001" / "models" / "raw.sql").exists()
    assert _scoreable(parts)


def test_an_empty_folder_of_a_work_tree_is_named(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts.source / "examples" / "socks001" / "dbt_packages" / "extra").mkdir(parents=True)
    parts.install()
    assert "examples/socks001/dbt_packages/extra" in "".join(capsys.readouterr().out.split())


def test_a_link_out_of_the_source_is_left_out_and_named(
    parts: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "private.txt").write_text("mine")
    link = parts.source / "examples" / "hats001" / "notes.txt"
    link.symlink_to(tmp_path / "private.txt")
    parts.install()
    assert not (parts.target / "examples" / "hats001" / "notes.txt").exists()
    assert "files that SOURCE lacks (1): examples/hats001/notes.txt" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("what", ["absent", "empty", "other_repository"])
def test_a_source_that_is_no_spider2_clone_is_refused(
    parts: Parts, tmp_path: Path, what: str
) -> None:
    source = tmp_path / what
    if what != "absent":
        source.mkdir()
    if what == "other_repository":
        _git(source, "init", "--quiet")
        _git(source, "commit", "--quiet", "--allow-empty", "-m", "nothing")
    complaint = {
        "absent": r"SOURCE is not there",
        "empty": r"no clone that git can read",
        "other_repository": r"has no spider2-dbt/examples",
    }
    with pytest.raises(UserError, match=complaint[what] + r"[\s\S]*remedy: +give a clone of"):
        parts.install(source=source)


def test_zips_with_an_extra_top_folder_and_mac_leftovers_are_read(parts: Parts) -> None:
    for folder in (parts.start, parts.gold):
        (folder / "hats001" / ".DS_Store").write_bytes(b"x")
        (folder / "hats001" / "._shop.duckdb").write_bytes(b"x")
        (folder / "__MACOSX" / "hats001").mkdir(parents=True)
        (folder / "__MACOSX" / "hats001" / "._shop.duckdb").write_bytes(b"x")
        (folder / "__MACOSX" / "hats001" / "shop2.duckdb").write_bytes(b"x")
    parts.install(
        start=_zipped(parts.start, top="DBT_start_db/v2/"), gold=_zipped(parts.gold, top="gold/")
    )
    assert _scoreable(parts)
    assert parts.databases() == sorted(
        [f"examples/{key}/shop.duckdb" for key in TASKS]
        + [f"evaluation_suite/gold/{key}/shop.duckdb" for key in TASKS]
    )


def test_zips_written_with_backslashes_are_read(parts: Parts, tmp_path: Path) -> None:
    entries = {
        f"start\\{k}\\shop.duckdb": (parts.start / k / "shop.duckdb").read_bytes() for k in TASKS
    }
    parts.install(start=_zip(tmp_path / "windows.zip", entries))
    assert _scoreable(parts)


def test_databases_nested_deeper_in_a_tasks_folder_come_to_its_top(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (parts.start, parts.gold):
        deep = folder / "hats001" / "a" / "b"
        deep.mkdir(parents=True)
        (folder / "hats001" / "shop.duckdb").rename(deep / "shop.duckdb")
    (parts.start / "hats002" / "copy").mkdir()
    (parts.start / "hats002" / "copy" / "shop.duckdb").write_bytes(b"second")
    parts.install()
    assert _scoreable(parts)
    assert "left out (1): hats002/copy/shop.duckdb" in capsys.readouterr().out


def test_a_start_database_goes_where_the_profile_looks_for_it(parts: Parts) -> None:
    profiles = parts.source / "examples" / "hats001" / "profiles.yml"
    profiles.write_text(profiles.read_text().replace("./shop.duckdb", "db/shop.duckdb"))
    parts.install()
    assert (parts.target / "examples" / "hats001" / "db" / "shop.duckdb").is_file()
    assert _scoreable(parts)


def test_databases_of_the_source_are_replaced(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts.source / "examples" / "hats001" / "shop.duckdb").write_bytes(b"old")
    (parts.source / "examples" / "hats001" / "old.duckdb").write_bytes(b"old")
    parts.install()
    laid = parts.target / "examples" / "hats001"
    assert [path.name for path in laid.glob("*.duckdb")] == ["shop.duckdb"]
    with duckdb.connect(laid / "shop.duckdb", read_only=True) as connection:
        assert connection.sql("from raw").fetchall() == [(1,)]


def test_unknown_folders_and_missing_databases_are_listed(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts.start / "hats001").rename(parts.start / "gloves001")
    (parts.gold / "socks001" / "shop.duckdb").unlink()
    (parts.gold / "stray.duckdb").write_bytes(b"")
    shutil.rmtree(parts.source / "examples" / "socks001")
    parts.install()
    printed = capsys.readouterr().out
    assert "tasks without a project (1): socks001" in printed
    assert "tasks without a start database (1): hats001" in printed
    assert "tasks without gold (1): socks001" in printed
    assert "in START, ignored (1): gloves001/" in printed
    assert "in GOLD, ignored (1): stray.duckdb" in printed
    assert "tasks with start and gold │ 1" in printed
    assert parts.audit() == {
        "hats001": Status.NO_START_DATABASE,
        "hats002": Status.SCOREABLE,
        "socks001": Status.NO_START_DATABASE,
    }


def test_the_evaluation_config_of_gold_goes_before_the_sources(parts: Parts) -> None:
    (parts.gold / EVALUATIONS).write_text("".join(_evaluation(key) for key in TASKS[:2]))
    parts.install(gold=_zipped(parts.gold, top="dbt_gold/"))
    assert set(read_evaluations(parts.target / "evaluation_suite" / "gold" / EVALUATIONS)) == set(
        TASKS[:2]
    )


def test_without_any_evaluation_config_nothing_is_installed(parts: Parts) -> None:
    (parts.source / "evaluation_suite" / "gold" / EVALUATIONS).unlink()
    with pytest.raises(UserError, match=r"there is no spider2_eval.jsonl"):
        parts.install()
    assert list(parts.target.iterdir()) == []


def test_exchanged_zips_are_noticed(parts: Parts) -> None:
    start, gold = _zipped(parts.start), _zipped(parts.gold)
    with pytest.raises(UserError, match=r"look exchanged: of 3 tasks[\s\S]*other way round of 0"):
        parts.install(start=gold, gold=start)
    with pytest.raises(UserError, match=r"START and GOLD are the same"):
        parts.install(start=gold, gold=gold)


def test_one_strange_task_among_good_ones_is_no_exchange(parts: Parts) -> None:
    _database(parts.start / "hats001" / "shop.duckdb", GOLD)
    _database(parts.gold / "hats001" / "shop.duckdb", "DROP TABLE sums")
    parts.install()
    assert parts.audit()["hats001"] is Status.GOLD_INCOMPLETE


def test_start_databases_that_hold_stale_graded_tables_are_no_exchange(parts: Parts) -> None:
    for key in TASKS:
        _database(parts.start / key / "shop.duckdb", "CREATE TABLE sums AS SELECT 0 AS id")
    parts.install()
    assert _scoreable(parts)


def test_a_database_that_does_not_open_is_left_to_the_audit(parts: Parts) -> None:
    (parts.gold / "hats001" / "shop.duckdb").write_bytes(b"x" * 5000)
    parts.install()
    assert parts.audit()["hats001"] is Status.GOLD_UNREADABLE


def _no_zip(path: Path) -> None:
    path.write_bytes(b"<html>please sign in</html>")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-400])


def _flipped(path: Path) -> None:
    """Damage the compressed bytes of the first entry, so that only reading it tells."""
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(byte ^ 0xFF for byte in data[200:260])
    path.write_bytes(data)


def _encrypted(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(data)


def _adding(name: str, *, mode: int = 0) -> Callable[[Path], None]:
    def add(path: Path) -> None:
        info = zipfile.ZipInfo("placeholder")
        info.filename = info.orig_filename = name
        info.external_attr = mode << 16
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(info, b"/etc/passwd")

    return add


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (_no_zip, r"START is no zip"),
        (_truncated, r"START is no zip, or only a part of one"),
        (_flipped, r"START: hats001/shop.duckdb is damaged"),
        (_encrypted, r"entry 'hats001/shop.duckdb' is encrypted"),
        (_adding("../evil.duckdb"), r"entry '../evil.duckdb' leaves the folder"),
        (_adding("hats001/../../evil.duckdb"), r"leaves the folder"),
        (_adding("hats001\\..\\..\\evil.duckdb"), r"leaves the folder"),
        (_adding("/tmp/hats001/evil.duckdb"), r"leaves the folder"),
        (_adding("C:\\hats001\\evil.duckdb"), r"leaves the folder"),
        (_adding("hats001/evil.duckdb", mode=stat.S_IFLNK | 0o777), r"is a link"),
    ],
)
def test_a_hostile_or_damaged_zip_is_refused_and_the_older_suite_stays(
    parts: Parts, tmp_path: Path, harm: Callable[[Path], None], complaint: str
) -> None:
    parts.install()
    before = digest_tree(parts.target)
    start = _zipped(parts.start)
    harm(start)
    with pytest.raises(UserError, match=complaint):
        parts.install(start=start)
    assert digest_tree(parts.target) == before
    assert not list(tmp_path.rglob("evil.duckdb"))


def test_a_zip_that_would_fill_the_disk_is_refused(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = _zipped(parts.start)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: FULL_DISK)
    with pytest.raises(UserError, match=r"hats001/shop.duckdb takes \d+ bytes, and 100 are free"):
        parts.install(start=start)


def test_a_zip_of_other_things_is_refused(parts: Parts, tmp_path: Path) -> None:
    other = _zip(tmp_path / "other.zip", {"photos/cat.jpg": b"x", "db/x.duckdb": b"x"})
    with pytest.raises(UserError, match=r"GOLD has no database in a folder named after a task"):
        parts.install(gold=other)
    with pytest.raises(UserError, match=r"START is not there"):
        parts.install(start=tmp_path / "nothing.zip")


def test_running_again_replaces_and_leaves_the_readme(parts: Parts) -> None:
    parts.target.mkdir(parents=True)
    (parts.target / "README.md").write_text("about\n")
    parts.install()
    first = digest_tree(parts.target)
    (parts.target / "examples" / "hats001" / "models" / "raw.sql").write_text("changed")
    (parts.target / "examples" / "old001").mkdir()
    (parts.target / "examples" / "old001" / "dbt_project.yml").write_text("name: old\n")
    parts.install()
    assert digest_tree(parts.target) == first
    assert (parts.target / "README.md").read_text() == "about\n"


def test_an_installation_killed_between_its_renames_is_taken_back(parts: Parts) -> None:
    parts.install()
    before = digest_tree(parts.target / "examples")
    staging = parts.target / STAGING
    staging.mkdir()
    (parts.target / "examples").rename(staging / "previous_examples")
    with pytest.raises(UserError, match=r"START is not there"):
        parts.install(start=parts.start / "nothing")
    assert digest_tree(parts.target / "examples") == before
    assert not staging.exists()


def test_a_variable_left_out_of_make_spider2_is_asked_for(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run([f"--source={parts.clone}", "--start=", f"--gold={parts.gold}"])
    assert "--start: is empty; make spider2 SOURCE=" in capsys.readouterr().err


def _dvc(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=folder, check=True, capture_output=True
    )


def test_the_suite_is_put_under_dvc(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _git(tmp_path, "init", "--quiet")
    _dvc(tmp_path, "init", "--quiet")
    _dvc(tmp_path, "config", "core.analytics", "false")
    monkeypatch.chdir(tmp_path)
    given = [f"--source={parts.clone}", f"--start={parts.start}", f"--gold={parts.gold}"]
    run(given)
    root = Path("data/spider2-dbt")
    tracked = (root / "examples.dvc").read_text()
    assert (root / "evaluation_suite.dvc").is_file()
    (parts.source / "examples" / "hats001" / "models" / "new.sql").write_text("select 2")
    run(given)
    assert (root / "examples.dvc").read_text() != tracked


def test_a_failing_dvc_is_told_and_the_suite_is_there(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [f"--source={parts.clone}", f"--start={parts.start}", f"--gold={parts.gold}"]
    with pytest.raises(UserError, match=r"dvc add failed: .*DVC repository[\s\S]*--no-dvc"):
        run([*given, f"--target={parts.target}"])
    assert _scoreable(parts)


@pytest.mark.spider2_data
def test_every_real_task_with_databases_is_read_and_scoreable(
    spider2_shared: Path, tmp_path: Path
) -> None:
    real = spider2_shared / "spider2"
    names = {path.parent.name: path.name for path in (real / "start").glob("*/*.duckdb")}
    clone, target = tmp_path / "clone", tmp_path / "target"
    _write_source(clone / "spider2-dbt", tuple(sorted(names)), names)
    config = Path("evaluation_suite") / "gold" / EVALUATIONS
    shutil.copyfile(real / "gold" / EVALUATIONS, clone / "spider2-dbt" / config)
    installed = install(clone, real / "start", real / "gold", target)
    assert set(installed.start.databases) == set(installed.gold.databases) == set(names)
    suite = SuiteParams(
        name="spider2-dbt",
        root=target,
        built=tmp_path / "built",
        sources=False,
        gold_stack="spider2",
    )
    evaluations = read_evaluations(suite.gold / EVALUATIONS)
    audit = audit_suite(suite, read_slots(suite, {}), evaluations)
    misnamed = {entry.instance_id for entry in audit if entry.status is Status.GOLD_MISNAMED}
    assert misnamed == {"social_media001", "xero_new001", "xero_new002"}
    assert {e.instance_id for e in audit if e.status is Status.SCOREABLE} == set(names) - misnamed
    assert len(names) == 34
    with pytest.raises(UserError, match=r"look exchanged"):
        install(clone, real / "gold", real / "start", target)


def test_start_databases_of_a_newer_format_are_rewritten_so_that_each_stack_opens_them(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    _database(
        parts.start / TASKS[0] / "shop.duckdb",
        "CREATE SCHEMA other",
        'CREATE TABLE other."order" AS SELECT range AS id FROM range(5000) ORDER BY range DESC',
        "CREATE VIEW last AS SELECT * FROM shop.main.raw",
    )
    (parts.start / TASKS[1] / "shop.duckdb").write_text("no database")
    parts.install()
    printed = capsys.readouterr().out
    assert "which every stack opens: 2" in printed
    assert f"cannot be read or rewritten (1): {TASKS[1]}/shop.duckdb" in printed
    stack = ensure_stack("spider2", stack_lock("spider2"))
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); "
        "print(c.sql('select id from other.\"order\"').fetchall() == "
        "[(i,) for i in range(4999, -1, -1)], c.sql('from last').fetchall())"
    )
    laid = parts.target / "examples" / TASKS[0] / "shop.duckdb"
    done = subprocess.run([stack.python, "-c", program, laid], capture_output=True, text=True)
    assert done.stdout.strip() == "True [(1,)]", done.stderr
