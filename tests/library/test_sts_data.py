"""The sentence pairs: the published files as they are, and nothing in their place."""

import hashlib
import re

import pytest
from sts_support import data_folder

from lsalib.sts import __main__ as command
from lsalib.sts import data


def test_the_splits_are_the_published_ones(capsys):
    splits = {split: data.load(split, data_folder()) for split in data._SHA256}
    assert {name: len(pairs.score) for name, pairs in splits.items()} == {
        "train": 5749,
        "dev": 1500,
        "test": 1379,
    }
    assert (
        splits["train"].first[0] == "A plane is taking off."
        and splits["train"].score[0] == 5.0
    )
    assert (
        splits["test"].second[-1]
        == "North Korea Delegation Meets With South Korean Officials"
    )
    assert all(
        0 <= pairs.score.min() < pairs.score.max() <= 5 for pairs in splits.values()
    )
    assert command.main(["data"]) == 0 and "'dev': 1500" in capsys.readouterr().out


def test_the_right_file_is_read_and_a_missing_one_downloaded(monkeypatch, tmp_path):
    """Where the publisher does not answer, the error says where to put the file."""
    assert data._URL.startswith(
        "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/99a65f1b68667f69a57bea13"
    )
    path, content = (
        tmp_path / "stsb-en-dev.csv",
        b'A plane lands.,"Well, it lands.",4.8\r\n',
    )
    monkeypatch.setattr(data, "_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr(data, "_SHA256", {"dev": hashlib.sha256(content).hexdigest()})
    for name, value in {
        "no_proxy": "127.0.0.1",
        "LSALIB_STS_DATA": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    path.write_bytes(content)
    pairs = data.load("dev")
    assert (pairs.first, pairs.second, pairs.score.tolist()) == (
        ["A plane lands."],
        ["Well, it lands."],
        [4.8],
    )
    path.unlink()
    words = (
        r"dev\.csv cannot be downloaded \(.*\); try again, or put it into the folder "
    )
    with pytest.raises(OSError, match=words):
        data.load("dev")


ROWS = b"A plane lands.,It lands.,4.8\r\nA cat.,A dog.,1.0\r\n"


def test_a_file_that_is_not_the_published_one_is_named(monkeypatch, tmp_path):
    """Where the right one cannot be had."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(data, "_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr(data, "_SHA256", {"dev": hashlib.sha256(ROWS).hexdigest()})
    path = tmp_path / "stsb-en-dev.csv"
    path.write_bytes(ROWS)
    assert data.load("dev", tmp_path).first == ["A plane lands.", "A cat."]
    path.write_bytes(ROWS.replace(b"\r\n", b"\n"))
    words = f"{path} is not the published file"
    with pytest.raises(OSError, match=re.escape(words)):
        data.load("dev", tmp_path)


def test_a_file_in_the_place_of_the_folder_is_named(monkeypatch, tmp_path):
    (file := tmp_path / "cache").touch()
    monkeypatch.setenv("LSALIB_STS_DATA", str(file))
    with pytest.raises(
        OSError, match=f"Not a directory: .*put it into the folder {file}"
    ):
        data.load("dev")
