"""The sentence pairs: the published files as they are; what is downloaded or lies there otherwise is refused."""

import hashlib
import http.server
import os
import shutil
import sys
from pathlib import Path

import pytest
from loopback import running
from sts_support import data_folder

from lsalib.sts import __main__ as command
from lsalib.sts import data, files

PAIRS = {"train": 5749, "dev": 1500, "test": 1379}


@pytest.fixture
def copies(tmp_path):
    """The published files in a folder of the test's own."""
    for split in data._SHA256:
        shutil.copy(Path(data_folder() or files.folder("cache") / "stsb", f"stsb-en-{split}.csv"), tmp_path)
    return tmp_path


def test_the_splits_are_the_published_ones(copies, monkeypatch, capsys):
    splits = {split: data.load(split, copies) for split in data._SHA256}
    assert {name: len(pairs.score) for name, pairs in splits.items()} == PAIRS
    assert splits["train"].first[0] == "A plane is taking off." and splits["train"].score[0] == 5.0
    assert splits["test"].second[-1] == "North Korea Delegation Meets With South Korean Officials"
    assert all(0 <= pairs.score.min() < pairs.score.max() <= 5 for pairs in splits.values())
    monkeypatch.setenv("LSALIB_STS_DATA", str(copies))
    assert command.main(["data"]) == 0 and "dev: 1500 pairs" in capsys.readouterr().out
    monkeypatch.setenv("LSALIB_STS_DATA", str(copies / "elsewhere"))
    assert command.main(["data"]) == 2 and "elsewhere/stsb-en-train.csv does not exist" in capsys.readouterr().err
    assert len(data.load("dev", copies).score) == 1500, "an argument goes before the variable"


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-20], lambda content: content.replace(b"girl", b"lady", 1)], ids=["cut", "word"]
)
def test_a_damaged_file_is_refused(damage, copies):
    path = copies / "stsb-en-test.csv"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"stsb-en-test\.csv must have the SHA-256 11523b62[0-9a-f]{56}, got"):
        data.load("test", copies)


CONTENT = b'A plane lands.,"Well, it lands.",4.8\r\n' * 3000


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
    """A publisher on this machine, of a split of its own, and an empty cache."""
    assert data._URL.startswith("https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/99a65f1b68667f69a57bea13")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("LSALIB_STS_DATA", raising=False)
    monkeypatch.setattr(files, "folder", lambda kind: tmp_path)
    monkeypatch.setattr(data, "_SHA256", {"dev": hashlib.sha256(CONTENT).hexdigest()})
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        server.asked = []
        server.serve = lambda kind: monkeypatch.setattr(data, "_URL", f"http://127.0.0.1:{server.server_port}/{kind}/")
        yield server


def test_a_file_is_downloaded_once_and_whole(server, tmp_path, capfd):
    server.serve("right")
    for _ in range(2):
        pairs = data.load("dev")
        assert len(pairs.score) == 3000 and pairs.second[0] == "Well, it lands." and pairs.score[-1] == 4.8
    assert os.listdir(tmp_path / "stsb") == ["stsb-en-dev.csv"] and capfd.readouterr().err == ""
    # What is altered later is noticed, and downloaded again.
    (tmp_path / "stsb/stsb-en-dev.csv").write_bytes(b"mine")
    assert len(data.load("dev").score) == 3000
    assert server.asked == ["/right/stsb-en-dev.csv"] * 2


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("dies", OSError, r"dev\.csv cannot be downloaded from http://127.*; try again, or put the file at .*csv"),
        ("missing", OSError, "cannot be downloaded from http://127.*404"),
        ("wrong", ValueError, "SHA256 hash of downloaded file .* does not match"),
    ],
)
def test_what_is_not_whole_and_right_is_not_kept(kind, error, words, server, tmp_path):
    server.serve(kind)
    with pytest.raises(error, match=words):
        data.load("dev")
    assert os.listdir(tmp_path / "stsb") == []
    # The next attempt finds nothing in its way.
    server.serve("right")
    assert len(data.load("dev").score) == 3000


def test_files_lie_where_the_system_keeps_them(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "LSALIB_STS_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.folder("cache") == tmp_path / ".cache/lsalib"
    assert files.folder("results") == tmp_path / ".local/share/lsalib/sts-results"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "fast"))
    monkeypatch.setenv("LSALIB_STS_RESULTS", str(tmp_path / "mine"))
    assert (files.folder("cache"), files.folder("results")) == (tmp_path / "fast/lsalib", tmp_path / "mine")


@pytest.mark.parametrize("package", ["platformdirs", "pooch"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    monkeypatch.delenv("LSALIB_STS_DATA", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"by {package} \(.*\): pip install '\.\[sts\]'"):
        data.load("dev")
