"""Downloads against a real server that misbehaves: what is not whole and right is not kept."""

import hashlib
import http.server
import os
import socket
import sys
import threading

import pytest
from loopback import running

from lsalib.sts import files

CONTENT = bytes(range(256)) * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/hangs":
            self.server.released.wait()
            return
        body = {"/wrong": CONTENT[:-1] + b"x", "/dies": CONTENT[:1000]}.get(self.path, CONTENT)
        self.send_response(200)
        if self.path != "/unannounced":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        server.asked, server.released, server.url = [], threading.Event(), f"http://127.0.0.1:{server.server_port}"
        yield server
        server.released.set()


def test_a_file_is_downloaded_once_and_whole(server, tmp_path):
    path = files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path / "new")
    assert path.read_bytes() == CONTENT and os.listdir(path.parent) == ["a"]
    assert files.fetch(f"{server.url}/right", DIGEST, "a", folder=tmp_path / "new") == path
    assert server.asked == ["/right"]
    assert files.fetch(f"{server.url}/unannounced", DIGEST, "b", folder=tmp_path).read_bytes() == CONTENT


FAILURES = [
    ("dies", OSError, r"downloaded from http://127.*/dies \(the connection ended after 1000 of 256000 bytes\)"),
    (
        "missing",
        OSError,
        r"downloaded from .*/missing \(HTTP Error 404: Not Found\); try again, or put the file at .*a",
    ),
    (
        "wrong",
        ValueError,
        rf"wrong must have the SHA-256 {DIGEST}, got [0-9a-f]{{64}} \(256000 bytes\); nothing was kept",
    ),
    ("hangs", OSError, r"a cannot be downloaded from .*timed out"),
]


@pytest.mark.parametrize(("page", "kind", "message"), FAILURES)
def test_what_is_not_whole_and_right_is_not_kept(page, kind, message, server, tmp_path):
    with pytest.raises(kind, match=message):
        files.fetch(f"{server.url}/{page}", DIGEST, "a", folder=tmp_path, **{"timeout": 0.2} if page == "hangs" else {})
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


def test_an_altered_file_in_the_cache_is_refused_and_left(server, tmp_path):
    (tmp_path / "a").write_bytes(b"mine")
    words = f"a must have the SHA-256 {DIGEST}, got [0-9a-f]{{64}}; remove it, and it is downloaded again"
    with pytest.raises(ValueError, match=words):
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
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match=r"lsalib\[sts\]"):
        files.cache_folder()
