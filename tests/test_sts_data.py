"""The sentence pairs: the published files as they are, and every other file refused by its name and line."""

import csv
import os
import re
import shutil

import numpy as np
import pytest
from sts_support import data_folder

from lsalib.sts import __main__ as command
from lsalib.sts import data, files

ROW = "A plane is taking off.,An air plane is taking off.,5.0\r\n"


@pytest.fixture
def copies(tmp_path):
    """The published files in a folder of the test's own."""
    source = data_folder() or files.cache_folder() / "stsb"
    for split in data.SPLITS:
        shutil.copyfile(os.path.join(source, f"stsb-en-{split}.csv"), tmp_path / f"stsb-en-{split}.csv")
    return tmp_path


def test_the_splits_are_the_published_ones(copies):
    splits = {split: data.load(split, copies) for split in data.SPLITS}
    assert {name: len(pairs.score) for name, pairs in splits.items()} == {"train": 5749, "dev": 1500, "test": 1379}
    assert splits["train"].first[0] == "A plane is taking off." and splits["train"].score[0] == 5.0
    assert splits["test"].second[-1] == "North Korea Delegation Meets With South Korean Officials"
    for name, pairs in splits.items():
        # Read a second way: the whole file at once.
        with open(copies / f"stsb-en-{name}.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert [list(column) for column in zip(*rows, strict=True)][:2] == [pairs.first, pairs.second]
        np.testing.assert_array_equal([float(row[2]) for row in rows], pairs.score)
        assert 0 <= pairs.score.min() < pairs.score.max() <= 5


def test_the_variable_names_the_folder(copies, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(copies))
    assert len(data.load("dev").score) == 1500
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(copies / "elsewhere"))
    with pytest.raises(
        FileNotFoundError,
        match=r"elsewhere/stsb-en-dev.csv does not exist; put the file there, or unset LSALIB_STS_DATA",
    ):
        data.load("dev")
    assert len(data.load("dev", copies).score) == 1500, "an argument goes before the variable"


def test_without_a_folder_it_is_fetched_from_its_publisher_and_checked(copies, monkeypatch, tmp_path):
    asked = []

    def download(url, timeout):
        asked.append(url)
        return (copies / url.rsplit("/", 1)[1]).read_bytes()

    monkeypatch.delenv(data.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(files, "_download", download)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    for _ in range(2):
        assert len(data.load("test").score) == 1379
    assert asked == [f"https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/{data.COMMIT}/data/stsb-en-test.csv"]
    cached = tmp_path / "cache/stsb/stsb-en-test.csv"
    cached.write_bytes(cached.read_bytes().replace(b",2.5\r\n", b",2.5x\r\n", 1))
    with pytest.raises(
        ValueError, match=r"cache/stsb/stsb-en-test.csv, line 1: the score must be a number from 0 to 5, got '2.5x'"
    ):
        data.load("test")
    assert len(asked) == 1


def test_the_command_gets_all_of_it_or_says_what_is_missing(copies, monkeypatch, capsys):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(copies))
    assert command.main(["data"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{split}: {pairs} pairs, the published ones" for split, (pairs, _) in data.SPLITS.items()
    ]
    (copies / "stsb-en-test.csv").unlink()
    assert command.main(["data"]) == 2
    assert "stsb-en-test.csv does not exist" in capsys.readouterr().err


DAMAGED = {
    "cut in a line": (
        lambda content: content[:-20],
        r"stsb-en-test.csv, line 1379: a row must be «sentence,sentence,score»",
    ),
    "cut at a line": (
        lambda content: content[: content[:-2].rfind(b"\n") + 1],
        r"stsb-en-test.csv must have 1379 lines, got 1378",
    ),
    "empty": (lambda content: b"", r"must have 1379 lines, got 0"),
    "another word": (
        lambda content: content.replace(b"girl", b"lady", 1),
        r"stsb-en-test.csv must have the SHA-256 11523b62[0-9a-f]{56}, got [0-9a-f]{64}",
    ),
    "other line ends": (lambda content: content.replace(b"\r\n", b"\n"), r"must have the SHA-256 11523b62"),
    "a web page": (lambda content: b"<!DOCTYPE html>\n<html>", r"line 1: a row must be"),
    "a line twice": (lambda content: content + content.splitlines(keepends=True)[0], r"must have 1379 lines, got 1380"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused(damage, copies):
    change, message = DAMAGED[damage]
    path = copies / "stsb-en-test.csv"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        data.load("test", copies)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,b\r\n", "a row must be «sentence,sentence,score» in UTF-8, got b'a,b'"),
        ("a,b,c,1.0\r\n", "too many values"),
        ('"a,b,1.0\r\n', "unexpected end of data"),
        ('"a"x,b,1.0\r\n', "',' expected after"),
        ("\r\n", "a row must be"),
        (" ,b,1.0\r\n", "both sentences must have a word"),
        ("a,b,5.001\r\n", "got '5.001'"),
        ("a,b,-0.1\r\n", "got '-0.1'"),
        ("a,b,nan\r\n", "got 'nan'"),
        ("a,b,inf\r\n", "got 'inf'"),
        ("a,b,\r\n", "got ''"),
    ],
)
def test_the_first_malformed_line_is_named(row, message):
    for before in (0, 3):
        with pytest.raises(ValueError, match=rf"my.csv, line {before + 1}: .*{re.escape(message)}"):
            data.parse((ROW * before + row + ROW + row).encode(), "my.csv")
    assert len(data.parse((ROW * 4).encode(), "my.csv").score) == 4


def test_bytes_that_are_no_text_are_named():
    with pytest.raises(ValueError, match=r"my.csv, line 2: a row must be .* in UTF-8"):
        data.parse(ROW.encode() + b"\xff\xfe,b,1.0\r\n", "my.csv")


def test_an_unknown_split_is_refused(unchecked):
    with pytest.raises(ValueError, match="split must be one of train, dev, test, got 'validation'"):
        data.load("validation")
