"""Files into a container and out of it: what is kept, what is refused, and how much memory."""

from __future__ import annotations

import io
import os
import tarfile
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from stages.run.docker.archive import TooMuchError, pack, unpack

MB = 1 << 20


def members(*given: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A tar archive, as an engine would stream it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for item in given:
            info, data = item if isinstance(item, tuple) else (item, b"")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def pieces(data: bytes, size: int = 7_000) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty folder, beside a file that must stay as it is."""
    (tmp_path / "outside").write_text("untouched")
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def test_files_folders_modes_and_links_come_back_as_they_were(target: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "deep" / "er" / ("long" * 50)).write_bytes(b"x" * 1_000)
    (source / "none").write_bytes(b"")
    (source / "block").write_bytes(b"b" * tarfile.BLOCKSIZE)
    (source / "größe 'n' \"more\"\n").write_text("odd name")
    (source / "script").write_text("#!/bin/sh\n")
    (source / "script").chmod(0o755)
    (source / "to_file").symlink_to("deep/er")
    (source / "deep" / "up").symlink_to("../none")
    assert unpack(pack(source, 10001), target) == []
    found = {path.relative_to(target) for path in target.rglob("*")}
    assert found == {path.relative_to(source) for path in source.rglob("*")}
    for path in source.rglob("*"):
        copy = target / path.relative_to(source)
        assert copy.is_symlink() == path.is_symlink()
        if path.is_symlink():
            assert copy.readlink() == path.readlink()
        elif path.is_file():
            assert copy.read_bytes() == path.read_bytes()
            assert copy.stat().st_mode & 0o777 == path.stat().st_mode & 0o777
            assert int(copy.stat().st_mtime) == int(path.stat().st_mtime)


def test_what_goes_in_belongs_to_the_given_user(tmp_path: Path) -> None:
    (tmp_path / "source" / "folder").mkdir(parents=True)
    (tmp_path / "source" / "folder" / "file").write_text("a")
    file = io.BytesIO(b"".join(pack(tmp_path / "source", 10001)))
    with tarfile.open(fileobj=file) as archive:
        owners = {info.name: (info.uid, info.gid) for info in archive}
    assert owners == {"folder": (10001, 10001), "folder/file": (10001, 10001)}


def test_a_big_file_is_never_whole_in_memory(target: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "big").open("wb") as file:
        file.truncate(100 * MB)
    tracemalloc.start()
    try:
        unpack(pack(source, 0), target)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (target / "big").stat().st_size == 100 * MB
    assert most < 20 * MB


def test_many_files_take_no_memory_each(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.run.docker.archive.CHUNK", 10 * tarfile.BLOCKSIZE)
    taken = []

    def stream() -> Iterator[bytes]:
        for number in range(1_000):
            yield member(f"{number % 7}").tobuf(tarfile.PAX_FORMAT)
            taken.append(tracemalloc.get_traced_memory()[0])
        yield bytes(2 * tarfile.BLOCKSIZE)

    tracemalloc.start()
    try:
        unpack(stream(), target)
    finally:
        tracemalloc.stop()
    assert taken[-1] - taken[100] < 100_000


HOSTILE = {
    "a path that climbs out": [(member("../outside"), b"changed")],
    "a path that goes down and out": [(member("a/../../outside"), b"changed")],
    "a device": [member("device", tarfile.CHRTYPE)],
    "a pipe": [member("pipe", tarfile.FIFOTYPE)],
    "a link to an absolute path": [member("link", tarfile.SYMTYPE, "/etc/passwd")],
    "a link outside": [member("link", tarfile.SYMTYPE, "../outside")],
    "another name of a file outside": [member("link", tarfile.LNKTYPE, "../outside")],
    "another name of an absolute file": [member("link", tarfile.LNKTYPE, "/etc/passwd")],
    "a link that climbs after it went down": [member("link", tarfile.SYMTYPE, "a/../../outside")],
    "another name of a refused pipe": [
        member("pipe", tarfile.FIFOTYPE),
        member("link", tarfile.LNKTYPE, "pipe"),
    ],
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_what_leads_outside_is_refused_and_the_rest_comes(case: str, target: Path) -> None:
    harmless = [(member("before"), b"1"), *HOSTILE[case], (member("after"), b"2")]
    refused = unpack(pieces(members(*harmless)), target)
    hostile = [item[0] if isinstance(item, tuple) else item for item in HOSTILE[case]]
    assert refused == [info.name for info in hostile]
    assert sorted(path.name for path in target.rglob("*")) == ["after", "before"]
    assert (target / "after").read_bytes() == b"2"
    assert (target.parent / "outside").read_text() == "untouched"


def test_an_absolute_path_is_taken_below_the_target(target: Path) -> None:
    place = target.parent / "outside"
    unpack([members((member(str(place)), b"changed"))], target)
    assert place.read_text() == "untouched"


def test_links_over_paths_too_long_to_be_resolved_lead_nowhere_outside(target: Path) -> None:
    """The way of CVE-2025-4517: beyond PATH_MAX the library takes a path as it stands."""
    part, made, inside = "d" * 247, [], ""
    for letter in "abcdefghijklmnop":
        made += [
            member(f"{inside}{part}", tarfile.DIRTYPE),
            member(f"{inside}{letter}", tarfile.SYMTYPE, part),
        ]
        inside += f"{part}/"
    short = "/".join("abcdefghijklmnop")
    long = f"{short}/{'l' * 254}"
    made += [
        member(long, tarfile.SYMTYPE, "../" * 16),
        member("escape", tarfile.SYMTYPE, f"{long}/../outside"),
        (member("escape"), b"changed"),
    ]
    unpack(pieces(members(*made)), target)
    assert (target.parent / "outside").read_text() == "untouched"
    assert not (target / "escape").is_symlink()


def test_a_path_too_long_for_this_machine_is_refused_alone(target: Path) -> None:
    name = "/".join(["d" * 200] * 21)
    info = member(name)
    refused = unpack([members(info, (member("after"), b"2"))], target)
    assert refused == [name]
    assert (target / "after").is_file()


def test_what_is_refused_has_no_set_user_id_and_its_owner_is_the_caller(target: Path) -> None:
    info = member("program")
    info.mode, info.uid = 0o6777, 12345
    unpack([members(info)], target)
    status = (target / "program").stat()
    assert status.st_mode & 0o7777 == 0o755
    assert status.st_uid == os.getuid()


WHOLE = members((member("first"), b"a" * 3_000), (member("second"), b"b" * 3_000))
HEADER = tarfile.BLOCKSIZE


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        ([], "breaks off"),
        ([WHOLE[:100]], "breaks off"),
        ([WHOLE[: HEADER + 1_000]], "unexpected end of data"),
        ([WHOLE[: HEADER + 3_072]], "breaks off"),
        ([WHOLE[: HEADER + 3_072 + 100]], "breaks off"),
        ([WHOLE[: HEADER + 3_072], b'{"message": "an error"}'.ljust(HEADER)], "damaged"),
        ([b"this is no archive".ljust(HEADER)], "damaged"),
    ],
    ids=["empty", "in a header", "in a file", "between", "in the next", "an error", "no archive"],
)
def test_a_stream_that_breaks_off_is_not_taken_for_a_whole_one(
    stream: Iterable[bytes], what: str, target: Path
) -> None:
    with pytest.raises(tarfile.ReadError, match=what):
        unpack(stream, target)


def test_more_than_is_allowed_is_not_written(target: Path) -> None:
    archive = members((member("first"), b"a" * 600), (member("second"), b"b" * 600))
    with pytest.raises(TooMuchError, match="more than 1000 bytes"):
        unpack(pieces(archive), target, most=1000)
    assert [path.name for path in target.iterdir()] == ["first"]
