"""A web server on 127.0.0.1 that serves files and misbehaves as asked: ranges, cuts, wrong bytes, errors, pages."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Website:
    """What the server has and how it behaves; `seen` lists the requests."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None  # bytes per answer
    errors: list[int] = field(default_factory=list)  # the first answers
    ranges: bool = True
    page: bool = False  # answers everything with a web page
    moved: dict[str, str] = field(default_factory=dict)  # paths that redirect to others
    states_length: bool = True
    wait: threading.Event | None = None  # answers after this
    gone: float = 0.0  # seconds of silence in the middle of an answer
    seen: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, range
    address: str = ""

    @property
    def bodies(self) -> list[tuple[str, str]]:
        """Path and range of each request for a file's content."""
        return [(path, wanted) for method, path, wanted in self.seen if method == "GET"]


@contextmanager
def serve(website: Website) -> Iterator[Website]:
    """Serve a website on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(website))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    website.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield website
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(website: Website) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, *, with_body: bool) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range", "")
            website.seen.append((self.command, name, wanted))
            if website.wait:
                website.wait.wait(10)
            if website.errors and with_body:
                self.fail(website.errors.pop(0))
            elif website.page:
                self.send(200, b"<html>Please log in</html>", "text/html; charset=utf-8")
            elif name in website.moved:
                self.send(302, b"", "text/plain", {"Location": f"{website.address}/{website.moved[name]}"})
            elif name not in website.files:
                self.fail(404)
            else:
                self.send_file(website.files[name], wanted, with_body)

        def fail(self, code: int) -> None:
            self.send(code, b"sorry", "text/plain")

        def send_file(self, content: bytes, wanted: str, with_body: bool) -> None:
            tag, start, headers = f'"{hashlib.md5(content).hexdigest()}"', 0, {}
            if website.ranges and wanted and self.headers.get("If-Range", tag) == tag:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self.send(416, b"", "text/plain", {"Content-Range": f"bytes */{len(content)}"})
                    return
                headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            body = content[start:] if with_body else b""
            self.send(
                206 if headers else 200, body, "application/x-tar", {**headers, "ETag": tag}, len(content) - start
            )

        def send(self, code: int, body: bytes, kind: str, more: dict[str, str] | None = None, size: int = -1) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            if website.states_length:
                self.send_header("Content-Length", str(len(body) if size < 0 else size))
            for name, value in (more or {}).items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            if website.gone:
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                threading.Event().wait(website.gone)
                return
            with suppress(OSError):  # the client has gone
                self.wfile.write(body if website.cut_after is None else body[: website.cut_after])
            self.close_connection = True

    return Handler
