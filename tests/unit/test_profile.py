"""Where a project's profile puts its database."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.suite.profile import locate_database


def _project(folder: Path, path: str, *, more: str = "") -> Path:
    (folder / "dbt_project.yml").write_text("name: shop\nprofile: 'shop'\n")
    (folder / "profiles.yml").write_text(
        "config:\n  send_anonymous_usage_stats: False\n"
        "shop:\n  target: dev\n  outputs:\n"
        "    prod: {type: duckdb, path: prod.duckdb}\n"
        f"    dev:\n      type: duckdb\n      path: {path}\n{more}"
    )
    return folder


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ('"./shop.duckdb"', "shop.duckdb"),
        ("shop.duckdb", "shop.duckdb"),
        ("db/shop.duckdb", "db/shop.duckdb"),
        ("db/../shop.duckdb", "shop.duckdb"),
        ("shop.db", "shop.db"),
        ("\"{{ env_var('SHOP_DB', './env.duckdb') }}\"", "env.duckdb"),
        ('\'{{ env_var("SHOP_DB","env") }}.duckdb\'', "env.duckdb"),
        ("\"db/{{- env_var('A', 'a') -}}/{{ env_var('B', 'b') }}.duckdb\"", "db/a/b.duckdb"),
    ],
)
def test_the_targets_path_is_found(tmp_path: Path, path: str, expected: str) -> None:
    located = locate_database(_project(tmp_path, path))
    assert (located.path, located.note) == (Path(expected), "")


def test_env_var_never_reads_this_machines_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB", "mine.duckdb")
    _project(tmp_path, "\"{{ env_var('SHOP_DB', 'default.duckdb') }}\"")
    assert locate_database(tmp_path).path == Path("default.duckdb")


def test_profile_and_target_names_may_be_rendered(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: \"{{ env_var('P', 'shop') }}\"\n")
    (tmp_path / "profiles.yml").write_text(
        "shop:\n  target: \"{{ env_var('T', 'b') }}\"\n  outputs:\n"
        "    a: {type: duckdb, path: a.duckdb}\n    b: {type: duckdb, path: b.duckdb}\n"
    )
    assert locate_database(tmp_path).path == Path("b.duckdb")


def test_the_default_target_is_dbts(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    (tmp_path / "profiles.yml").write_text(
        "shop:\n  outputs:\n    default: {type: duckdb, path: d.duckdb}\n"
    )
    assert locate_database(tmp_path).path == Path("d.duckdb")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/data/shop.duckdb", "absolute"),
        ("~/shop.duckdb", "absolute"),
        ("../shop.duckdb", "leaves the project"),
        ("db/../../shop.duckdb", "leaves the project"),
        ("\"{{ env_var('X', '../../shop.duckdb') }}\"", "leaves the project"),
        ("':memory:'", "in memory"),
        ("':memory:shop'", "in memory"),
        ("''", "in memory"),
        ("'md:shop'", "remote"),
        ("'s3://bucket/shop.duckdb'", "remote"),
        ("'ducklake:shop.ducklake'", "remote"),
        ("'.'", "names no file"),
    ],
)
def test_a_database_elsewhere_is_a_finding_even_with_one_in_the_folder(
    tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "shop.duckdb").write_bytes(b"")
    located = locate_database(_project(tmp_path, path))
    assert located.path is None
    assert reason in located.note


def test_a_profile_without_a_path_is_in_memory_as_dbt_has_it(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    (tmp_path / "profiles.yml").write_text("shop: {target: dev, outputs: {dev: {type: duckdb}}}\n")
    located = locate_database(tmp_path)
    assert located.path is None and "in memory" in located.note


def test_another_adapter_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "shop.duckdb").write_bytes(b"")
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    (tmp_path / "profiles.yml").write_text(
        "shop: {target: dev, outputs: {dev: {type: postgres, path: shop.duckdb}}}\n"
    )
    located = locate_database(tmp_path)
    assert located.path is None and "'postgres', not duckdb" in located.note


@pytest.mark.parametrize(
    ("project_yml", "profiles_yml", "reason"),
    [
        ("profile: shop\n", None, "no profiles.yml"),
        (None, "shop: {}\n", "no dbt_project.yml"),
        ("name: shop\n", "shop: {}\n", "dbt_project.yml has no 'profile'"),
        ("profile: shop\n", "other: {}\n", "profiles.yml has no 'shop'"),
        ("profile: shop\n", "shop: {target: dev}\n", "has no 'outputs'"),
        ("profile: shop\n", "shop: {target: a, outputs: {b: {}}}\n", "has no 'a'"),
        ("profile: shop\n", "shop: {target: a\n", "not valid YAML (line"),
        ("profile: shop\n", "- shop\n", "holds no mapping"),
        ("profile: shop\n", "", "holds no mapping"),
        (
            "profile: shop\n",
            "shop: {target: a, outputs: {a: {type: duckdb, path: \"{{ env_var('X') }}\"}}}\n",
            "needs the environment variable X",
        ),
        (
            "profile: shop\n",
            "shop: {target: a, outputs: {a: {type: duckdb, path: '{{ var(1) }}'}}}\n",
            "cannot be told",
        ),
    ],
)
def test_without_an_intelligible_profile_the_only_database_is_used_and_said(
    tmp_path: Path, project_yml: str | None, profiles_yml: str | None, reason: str
) -> None:
    for name, text in (("dbt_project.yml", project_yml), ("profiles.yml", profiles_yml)):
        if text is not None:
            (tmp_path / name).write_text(text)
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "only.duckdb").write_bytes(b"")
    (tmp_path / "._only.duckdb").write_bytes(b"")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "scratch.duckdb").write_bytes(b"")
    located = locate_database(tmp_path)
    assert located.path == Path("db/only.duckdb")
    assert reason in located.note and "only database db/only.duckdb is used" in located.note


def test_two_databases_without_a_profile_are_not_chosen_from(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    (tmp_path / "a.duckdb").write_bytes(b"")
    (tmp_path / "b.duckdb").write_bytes(b"")
    located = locate_database(tmp_path)
    assert located.path is None
    assert "holds 2 databases: a.duckdb, b.duckdb" in located.note


def test_no_database_and_no_profile_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    located = locate_database(tmp_path)
    assert located.path is None and "holds 0 databases: none" in located.note


def test_the_only_database_may_lie_in_the_overlay(tmp_path: Path) -> None:
    project, overlay = tmp_path / "project", tmp_path / "overlay"
    project.mkdir()
    overlay.mkdir()
    (overlay / "built.duckdb").write_bytes(b"")
    assert locate_database(project, overlay).path == Path("built.duckdb")
