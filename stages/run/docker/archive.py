"""Files into a container and out of it, as a stream: never whole in memory."""

from __future__ import annotations

import errno
import io
import math
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Self

from stages.common.files import walk

CHUNK = 1 << 20


def pack(root: Path, user: int) -> Iterator[bytes]:
    """The files and folders below `root` as a tar stream, owned by `user`."""
    for folder, names, _ in os.walk(root):
        for name in names:
            yield _header(Path(folder) / name, root, user)
    for path in walk(root):
        info = _info(path, root, user)
        yield info.tobuf(tarfile.PAX_FORMAT)
        if info.isreg():
            with path.open("rb") as file:
                while data := file.read(CHUNK):
                    yield data
            yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(path: Path, root: Path, user: int) -> bytes:
    return _info(path, root, user).tobuf(tarfile.PAX_FORMAT)


def _info(path: Path, root: Path, user: int) -> tarfile.TarInfo:
    status = path.lstat()
    info = tarfile.TarInfo(path.relative_to(root).as_posix())
    info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
    info.uid = info.gid = user
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
    else:
        info.size = status.st_size
    return info


class TooMuchError(Exception):
    """A stream holds more than it may."""


def unpack(stream: Iterable[bytes], target: Path, *, most: float = math.inf) -> list[str]:
    """Write a tar stream's files below `target`; returns the names of those that were refused.

    What would lie or point outside, devices and pipes are refused: the stream's author is an
    agent. Owners are not kept; a file is the caller's.

    Args:
        stream: the archive, in pieces of any size.
        target: an existing folder.
        most: bytes that all files together may have. A sparse file counts, and comes, in full.

    Raises:
        TooMuchError: there is more; what came before is there.
        tarfile.ReadError: the stream breaks off, or is no archive.
    """
    refused = []
    left = most
    reader = _Reader(stream)
    with tarfile.open(fileobj=reader, mode="r|", bufsize=CHUNK, tarinfo=_Member) as archive:
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # Else it keeps them all.
            left -= member.size
            if left < 0:
                raise TooMuchError(f"more than {most:g} bytes")
            if _climbs(member) or _leads_nowhere(member, target):
                refused.append(member.name)
                continue
            try:
                archive.extract(member, target, filter="data")
            except tarfile.FilterError:
                refused.append(member.name)
            except OSError as error:
                # A path that is longer here than it was there.
                if error.errno != errno.ENAMETOOLONG:
                    raise
                refused.append(member.name)
    return refused


def _climbs(member: tarfile.TarInfo) -> bool:
    """Whether a link goes up after it has gone down.

    Where that leads depends on other links; the library's own answer can be led astray by paths
    that are too long to be resolved (CVE-2025-4517).
    """
    if not (member.issym() or member.islnk()):
        return False
    parts = PurePosixPath(member.linkname).parts
    down = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    return ".." in parts[down:]


def _leads_nowhere(member: tarfile.TarInfo, target: Path) -> bool:
    """Whether it is another name of a file that was refused; the library would read on for it."""
    return member.islnk() and not (target / member.linkname).exists()


class _Member(tarfile.TarInfo):
    """One file of a stream, whose end must be marked: the library takes any for a whole one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """See `tarfile.TarInfo`; a header that is cut or no header raises `ReadError`."""
        if len(buf) != tarfile.BLOCKSIZE:
            raise tarfile.ReadError("the archive breaks off")
        if not any(buf):
            return super().frombuf(buf, encoding, errors)  # Which tells the end.
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"the archive is damaged: {error}") from None


class _Reader(io.RawIOBase):
    """Chunks as a file that can be read forward only."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        have = 0
        while size < 0 or have < size:
            if not self._held:
                self._held = next(self._chunks, b"")
                if not self._held:
                    break
            part = self._held if size < 0 else self._held[: size - have]
            self._held = self._held[len(part) :]
            parts.append(part)
            have += len(part)
        return b"".join(parts)
