"""The sentence pairs: the published files as they are, downloaded once; what is not whole and right is not kept."""

import hashlib
import http.server
import os
import sys

import pytest
from loopback import running
from sts_support import data_folder

from lsalib.sts import __main__ as command
from lsalib.sts import data

CONTENT = b'A plane lands.,"Well, it lands.",4.8\r\n' * 3000


def test_the_splits_are_the_published_ones(capsys):
    splits = {split: data.load(split, data_folder()) for split in data._SHA256}
    assert {name: len(pairs.score) for name, pairs in splits.items()} == {"train": 5749, "dev": 1500, "test": 1379}
    assert splits["train"].first[0] == "A plane is taking off." and splits["train"].score[0] == 5.0
    assert splits["test"].second[-1] == "North Korea Delegation Meets With South Korean Officials"
    assert all(0 <= pairs.score.min() < pairs.score.max() <= 5 for pairs in splits.values())
    assert command.main(["data"]) == 0 and "'dev': 1500" in capsys.readouterr().out


class Handler(http.server.BaseHTTPRequestHandler):
    """The file by its name, in a folder that says what goes wrong."""

    def do_GET(self):
        self.server.asked.append(self.path)
        kind = self.path.split("/")[1]
        if kind == "missing":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write({"wrong": CONTENT[:-1] + b"x", "dies": CONTENT[:1000]}.get(kind, CONTENT))

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A publisher on this machine, of a split of its own, and an empty folder."""
    assert data._URL.startswith("https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/99a65f1b68667f69a57bea13")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LSALIB_STS_DATA", str(tmp_path))
    monkeypatch.setattr(data, "_SHA256", {"dev": hashlib.sha256(CONTENT).hexdigest()})
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        server.asked = []
        server.serve = lambda kind: monkeypatch.setattr(data, "_URL", f"http://127.0.0.1:{server.server_port}/{kind}/")
        yield server


def test_a_file_is_downloaded_once_and_again_if_it_is_altered(server, tmp_path, capfd):
    server.serve("right")
    for _ in range(2):
        pairs = data.load("dev")
        assert len(pairs.score) == 3000 and pairs.second[0] == "Well, it lands." and pairs.score[-1] == 4.8
    assert os.listdir(tmp_path) == ["stsb-en-dev.csv"] and capfd.readouterr().err == ""
    (tmp_path / "stsb-en-dev.csv").write_bytes(b"mine")
    assert len(data.load("dev").score) == 3000
    assert server.asked == ["/right/stsb-en-dev.csv"] * 2


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("dies", OSError, r"dev\.csv cannot be downloaded \(.*\); try again, or put it into the folder "),
        ("missing", OSError, "cannot be downloaded .*404"),
        ("wrong", ValueError, "hash of downloaded file .* does not match"),
    ],
)
def test_what_is_not_whole_and_right_is_not_kept(kind, error, words, server, tmp_path):
    server.serve(kind)
    with pytest.raises(error, match=words):
        data.load("dev")
    assert os.listdir(tmp_path) == []


def test_a_missing_package_is_named_with_the_command_for_the_clone(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"by pooch \(.*\): pip install '\.\[sts\]' in the book's repository"):
        data.load("dev")
