"""Downloads against a real server that misbehaves: what is not whole and right is not kept."""

import hashlib
import http.server
import os
import socket
import threading

import pytest

from lsalib.sts import files

CONTENT = bytes(range(256)) * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        body = {"/wrong": CONTENT[:-1] + b"x", "/dies": CONTENT[:1000]}.get(self.path, CONTENT)
        self.send_response(200)
        if self.path != "/unannounced":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/hangs":
            self.server.released.wait(10)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.asked, running.released = [], threading.Event()
    running.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    running.released.set()
    running.shutdown()
    thread.join()
    running.server_close()


def test_a_file_is_downloaded_once_and_whole(server, tmp_path):
    path = files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path / "new")
    assert path.read_bytes() == CONTENT and os.listdir(path.parent) == ["a"]
    assert files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path / "new") == path
    assert server.asked == ["/right"]
    assert files.fetch(f"{server.url}/unannounced", DIGEST, "b", folder=tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("page", "kind", "message"),
    [
        (
            "dies",
            OSError,
            r"a cannot be downloaded from http://127.*/dies \(the connection ended after 1000 of 256000 bytes\)",
        ),
        (
            "missing",
            OSError,
            r"a cannot be downloaded from .*/missing \(HTTP Error 404: Not Found\); try again, or put the file at .*a",
        ),
        (
            "wrong",
            ValueError,
            rf"a from .*/wrong must have the SHA-256 {DIGEST}, got [0-9a-f]{{64}} \(256000 bytes\); nothing was kept",
        ),
    ],
)
def test_what_is_not_whole_and_right_is_not_kept(page, kind, message, server, tmp_path):
    with pytest.raises(kind, match=message):
        files.fetch(f"{server.url}/{page}", DIGEST, "a", folder=tmp_path)
    assert os.listdir(tmp_path) == []
    # The next attempt finds nothing in its way.
    assert files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path).read_bytes() == CONTENT


def test_a_refused_connection_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
        with pytest.raises(OSError, match=f"a cannot be downloaded from {url} .*refused"):
            files.fetch(url, DIGEST, "a", folder=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_server_that_stops_sending_is_given_up(server, tmp_path):
    server.RequestHandlerClass = type("Slow", (Handler,), {"do_GET": lambda self: self.server.released.wait(10)})
    with pytest.raises(OSError, match=r"cannot be downloaded.*timed out"):
        files.fetch(f"{server.url}/a", DIGEST, "a", folder=tmp_path, timeout=0.2)
    assert os.listdir(tmp_path) == []


def test_an_altered_file_in_the_cache_is_refused_and_left(server, tmp_path):
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(
        ValueError, match=f"a must have the SHA-256 {DIGEST}, got [0-9a-f]{{64}}; remove it, and it is downloaded again"
    ):
        files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"mine" and server.asked == []


def test_a_write_that_breaks_off_keeps_the_file_from_before(tmp_path, monkeypatch):
    files.write(tmp_path / "a", b"before")

    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        files.write(tmp_path / "a", b"after")
    assert (tmp_path / "a").read_bytes() == b"before" and os.listdir(tmp_path) == ["a"]


def test_the_cache_is_where_the_system_keeps_it(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert files.cache_folder() == tmp_path / "lsalib"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache_folder() == tmp_path / ".cache/lsalib"


def test_without_platformdirs_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "platformdirs", None)
    with pytest.raises(ImportError, match=r"lsalib\[sts\]"):
        files.cache_folder()
