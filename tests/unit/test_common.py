"""Errors, digests, atomic writes and links."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from stages.common.errors import UnknownChoiceError, UserError, main, reason
from stages.common.files import copy_tree, digest_text, digest_tree, write_json, write_text
from stages.common.links import link_tree


def test_an_error_says_what_where_and_the_remedy_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(UserError("it broke", where="here", remedy="mend it")))
    assert str(error) == "it broke\n  where:  here\n  remedy: mend it"
    choice = pickle.loads(pickle.dumps(UnknownChoiceError("task", "on", ["one", "two"])))
    assert isinstance(choice, UnknownChoiceError)
    assert "did you mean one? valid: one, two" in str(choice)


def test_an_entry_point_prints_a_user_error_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> int:
        raise UserError("it broke")

    with pytest.raises(SystemExit, match="1"):
        main(fail)
    assert capsys.readouterr().err == "error: it broke\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "Traceback\n  File x\nduckdb.IOException: IO Error: bad\nsee a page",
            "duckdb.IOException: IO Error: bad",
        ),
        ("error: it broke\n  where:  here\n  remedy: mend it", "error: it broke"),
        ("one\ntwo\n", "two"),
        ("", "no output"),
    ],
)
def test_the_line_that_names_the_error_is_found(output: str, expected: str) -> None:
    assert reason(output) == expected


def test_digests_tell_apart_what_a_plain_join_would_confuse() -> None:
    assert digest_text("ab", "c") != digest_text("a", "bc")


def test_a_tree_s_digest_follows_names_and_bytes_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_text(tmp_path / name / "x" / "file.sql", "select 1")
    assert digest_tree(tmp_path / "a") == digest_tree(tmp_path / "b")
    os.utime(tmp_path / "b" / "x" / "file.sql", (1, 1))
    assert digest_tree(tmp_path / "a") == digest_tree(tmp_path / "b")
    (tmp_path / "b" / "x" / "file.sql").rename(tmp_path / "b" / "x" / "other.sql")
    assert digest_tree(tmp_path / "a") != digest_tree(tmp_path / "b")


def test_a_dangling_link_neither_stops_a_digest_nor_a_copy(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "file", "x")
    (tmp_path / "a" / "loose").symlink_to("nowhere")
    digest_tree(tmp_path / "a")
    copy_tree(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["file"]


def test_a_copy_is_writable_and_keeps_what_can_be_run(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "script", "#!/bin/sh\n")
    (tmp_path / "a" / "script").chmod(0o555)
    write_text(tmp_path / "a" / "text", "x")
    (tmp_path / "a" / "text").chmod(0o444)
    copy_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "script").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "b" / "text").stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"b": 1, "a": 2})
    assert path.read_text() == '{\n  "a": 2,\n  "b": 1\n}\n'
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": object()})
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        write_text(path, "\ud800")
    assert json.loads(path.read_text()) == {"a": 2, "b": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["value.json"]


def test_linked_files_share_their_place_on_disk(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "x" / "file", "content")
    link_tree(tmp_path / "a", tmp_path / "b")
    linked = tmp_path / "b" / "x" / "file"
    assert linked.read_text() == "content"
    assert linked.samefile(tmp_path / "a" / "x" / "file") or linked.stat().st_nlink == 1
