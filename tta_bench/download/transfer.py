"""Fetches one address into a file: resumes a broken transfer, retries a weak connection, refuses a wrong reply.

urllib suffices and adds no dependency. pooch does not resume; requests and httpx leave ranges and checks to the caller,
as urllib does.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tta_bench.errors import UserError
from tta_bench.files import write_whole, writing

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
TRIES = 4  # in a row without a new byte
PAUSE = 1.0  # seconds before the second try; doubles
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)

OnBytes = Callable[[int, "int | None"], None]  # bytes on disk, of how many
OnSize = Callable[[int], None]  # the bytes that are still to come


class _Interrupted(Exception):
    """The transfer stopped; another try may continue it."""


@dataclass(frozen=True)
class Reply:
    """What the server is about to send."""

    start: int  # the position of its first byte
    total: int | None
    version: str  # changes when the file on the server does; empty if the server does not say


def fetch(address: str, part: Path, *, expected: int | None, on_bytes: OnBytes, on_size: OnSize) -> None:
    """Fetch all bytes of an address into `part`; what `part` already holds is not fetched again.

    `expected` is the published size. If the transfer fails, `part` stays for the next call to continue.
    """
    failures = 0
    while True:
        before = size_of(part)
        try:
            if _fetch_rest(address, part, expected, on_bytes, on_size):
                _note(part).unlink(missing_ok=True)
                return
        except _Interrupted as error:
            failures = 0 if size_of(part) > before else failures + 1
            if failures >= TRIES:
                done = f"; {size_of(part):,} bytes are kept, run the same command again to continue"
                raise UserError(f"{address}: {error}{done if size_of(part) else ''}") from error
            time.sleep(PAUSE * 2 ** max(failures - 1, 0) if failures else 0)


def remote_size(address: str) -> int | None:
    """The size that a server states; None if it does not."""
    try:
        with _open(urllib.request.Request(address, method="HEAD")) as response:
            return _length(response)
    except (UserError, _Interrupted):
        return None


def size_of(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _fetch_rest(address: str, part: Path, expected: int | None, on_bytes: OnBytes, on_size: OnSize) -> bool:
    """One request. True if `part` is complete, False if the transfer must start again from its first byte."""
    held = size_of(part)
    if expected is not None and held == expected:
        return True
    if expected is not None and held > expected:
        part.unlink()
        held = 0
    try:
        with _open(_request(address, part, held)) as response:
            reply = _reply(response, held)
            _refuse_wrong(address, response, reply, expected)
            on_size((reply.total or expected or reply.start) - reply.start)
            _keep_version(part, reply)
            total = reply.total or expected
            _write(part, response, reply.start, total, on_bytes)
    except urllib.error.HTTPError as error:
        if error.code == 416 and held:  # nothing after what we hold: complete, or of another version
            whole = error.headers.get("Content-Range", "").rpartition("/")[2]
            if whole == str(held) and expected is None:
                return True
            part.unlink()
            return False
        raise _refusal(address, error) from error
    if total is not None and size_of(part) < total:
        raise _Interrupted(f"the server ended after {size_of(part):,} of {total:,} bytes")
    return True


def _request(address: str, part: Path, held: int) -> urllib.request.Request:
    headers = {"User-Agent": "tta-bench", "Accept-Encoding": "identity"}
    if held:
        headers["Range"] = f"bytes={held}-"
        if version := _version(part):
            headers["If-Range"] = version  # a file that has changed since is sent whole
    return urllib.request.Request(address, headers=headers)


@contextmanager
def _open(request: urllib.request.Request) -> Iterator[Any]:
    """The response; errors of the network become `_Interrupted` or UserError, also while it is read."""
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in TEMPORARY:
            raise _Interrupted(f"the server answered {error.code} {error.reason}") from error
        if request.get_method() == "HEAD":
            raise UserError(str(error)) from error
        raise
    except urllib.error.URLError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error.reason):
            raise UserError(f"{request.full_url}: the server's certificate is not trusted ({error.reason})") from error
        raise _Interrupted(f"no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(f"the connection broke ({error or type(error).__name__})") from error


def _reply(response: Any, held: int) -> Reply:
    version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
    length = _length(response)
    if response.status != 206:
        return Reply(0, length, version)
    first, _, whole = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    start = first.partition("-")[0]
    if start != str(held):
        raise _Interrupted(f"the server sent bytes from {start or '?'} instead of {held}")
    return Reply(held, int(whole) if whole.isdecimal() else None if length is None else held + length, version)


def _length(response: Any) -> int | None:
    stated = response.headers.get("Content-Length", "")
    return int(stated) if stated.isdecimal() else None


def _refuse_wrong(address: str, response: Any, reply: Reply, expected: int | None) -> None:
    if response.headers.get_content_type() == "text/html":
        raise UserError(f"{address}: the server sent a web page instead of the file: open it in a browser, or --mirror")
    if expected is not None and reply.total not in (None, expected):
        raise UserError(f"{address}: the server's file has {reply.total:,} bytes, the published one {expected:,}")


def _refusal(address: str, error: urllib.error.HTTPError) -> UserError:
    hint = ": the file has moved; --mirror URL takes it from another server" if error.code in (404, 410) else ""
    return UserError(f"{address}: the server answered {error.code} {error.reason}{hint}")


def _write(part: Path, response: Any, start: int, total: int | None, on_bytes: OnBytes) -> None:
    done = start
    with writing(part):  # errors of the disk: those of the network are OSErrors, too
        # Unbuffered, and read1 returns whatever has arrived: a killed process loses nothing.
        file = part.open("ab" if start else "wb", buffering=0)
    with file:
        while chunk := response.read1(CHUNK if total is None else min(CHUNK, total - done) or 1):
            if total is not None and done + len(chunk) > total:
                raise UserError(f"{response.url}: the server sends more than {total:,} bytes")
            left = memoryview(chunk)
            while left:
                with writing(part):
                    left = left[file.write(left) :]
            done += len(chunk)
            on_bytes(done, total)


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _version(part: Path) -> str:
    try:
        found = json.loads(_note(part).read_text())["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and not found.startswith("W/") else ""  # weak tags do not allow ranges


def _keep_version(part: Path, reply: Reply) -> None:
    if reply.start == 0:
        with writing(_note(part)):
            write_whole(_note(part), json.dumps({"version": reply.version}).encode())
