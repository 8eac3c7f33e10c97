"""What passed with which versions is read from what the tests print, and nothing is noted of a run that failed."""

import io
import json
import platform

import pytest

from studies.trust import versions

LOG = "....\n===== 12 passed, 3 skipped in 1.50s =====\nmemory: at most 0.4 GB a process\n2 passed in 0.1s\n"


def noted(tmp_path, monkeypatch, log, *args):
    (tmp_path / "pyproject.toml").write_text((versions.ROOT / "pyproject.toml").read_text())
    monkeypatch.setattr("sys.stdin", io.StringIO(log))
    versions.main([*args, "--root", str(tmp_path)])
    return json.loads((tmp_path / versions.STORE).read_text())


def test_a_run_is_noted_with_its_versions(tmp_path, monkeypatch, capsys):
    (entry,) = noted(tmp_path, monkeypatch, LOG, "library", "--packages", "lowest")
    assert (entry["packages"], entry["python"]) == ("lowest", platform.python_version())
    assert entry["parts"]["library"] | {"date": ""} == {"passed": 14, "skipped": 3, "date": ""}
    assert {"jax", "numpy", "pytest"} <= entry["versions"].keys()
    assert LOG in capsys.readouterr().out
    # Another part of the same set joins it; another set stands beside it.
    (entry,) = noted(tmp_path, monkeypatch, "1 passed in 2.00s\n", "book", "--packages", "lowest")
    assert {part: found["passed"] for part, found in entry["parts"].items()} == {"library": 14, "book": 1}
    both = noted(tmp_path, monkeypatch, LOG, "library", "--packages", "newest")
    assert [entry["packages"] for entry in both] == ["lowest", "newest"]
    # What passed with other versions is not what passes with these.
    monkeypatch.setattr(versions, "installed", lambda names: {"jax": "0"})
    _, entry = noted(tmp_path, monkeypatch, LOG, "library", "--packages", "lowest")
    assert entry["parts"].keys() == {"library"}


@pytest.mark.parametrize(
    "log", ["", "1 failed, 12 passed in 3.00s\n", "12 passed, 1 error in 3.00s\n", "2 errors in 1.00s\n"]
)
def test_a_run_that_failed_is_not_noted(tmp_path, monkeypatch, log):
    with pytest.raises(SystemExit, match="nothing added"):
        noted(tmp_path, monkeypatch, log, "library", "--packages", "newest")
    assert not (tmp_path / versions.STORE).exists()


def test_an_environment_of_another_name_has_to_say_which(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.prefix", "/elsewhere")
    with pytest.raises(SystemExit):
        noted(tmp_path, monkeypatch, LOG, "library")
