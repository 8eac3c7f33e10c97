"""Kept programs: taken, shared whole, bounded, and without any say in a result."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from tiny_book import ROOT

from tools.notebooks import execute as notebooks
from tools.notebooks import meter, pages, programs

# A process that compiles so many programs of its own, and says how many it compiled and how many it took.
COMPILE = """
import sys
from tools.notebooks import programs
from tools.notebooks.meter import Meter
with programs.borrowed() as settings:
    import jax
    for setting in settings.items():
        jax.config.update(*setting)
    meter = Meter()
    for n in range(int(sys.argv[1])):
        jax.jit(lambda x: x * n + 1)(1.0)
    cost = meter.read()
    assert len(sys.argv) < 3, "stopped"
print(cost.programs, cost.cached)
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def start(count: int, *args: str) -> subprocess.Popen:
    command = [sys.executable, "-c", COMPILE, str(count), *args]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen) -> list[int]:
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return list(map(int, out.split()))


def test_what_one_process_compiled_the_next_one_takes(kept):
    compiled, taken = result(start(5))
    assert compiled >= 5 and taken == 0
    assert result(start(6)) == [1, compiled]


def test_without_the_variable_nothing_is_kept(kept, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, "")
    first = result(start(3))
    monkeypatch.delenv(programs.VARIABLE)
    assert result(start(3)) == first and first[1] == 0
    assert not kept.exists()


def test_processes_side_by_side_share_whole_entries(kept):
    together = [start(20) for _ in range(3)]
    first, *others = (result(process)[0] for process in together)
    assert others == [first] * 2, "nobody reads what another one is writing"
    assert result(start(20)) == [0, first]
    assert not list(kept.glob(f"{programs.PRIVATE}*"))


def test_a_process_that_failed_shares_nothing(kept):
    assert "stopped" in start(3, "stop").communicate()[1]
    assert [path for path in kept.rglob("*") if path.is_file()] == []


def test_another_jax_or_processor_has_a_folder_of_its_own(kept, monkeypatch):
    here = programs.shared()
    monkeypatch.setattr(programs, "version", lambda _: "99.0")
    later = programs.shared()
    monkeypatch.setattr(programs, "_processor", lambda: "another")
    assert len({here, later, programs.shared()}) == 3
    assert {here.parent, later.parent, programs.shared().parent} == {kept}


def test_the_oldest_entries_go_first_and_what_was_left_behind_too(kept, monkeypatch):
    home = programs.shared()
    home.mkdir(parents=True)
    entries, dead, alive = ["new-cache", "old-cache", "oldest-cache"], f"{programs.PRIVATE}a", f"{programs.PRIVATE}b"
    names = lambda folder: sorted(path.name for path in Path(folder).iterdir())
    for age, name in enumerate(entries):
        (home / name).write_bytes(b"x" * 10)
        os.utime(home / name, (time.time() - age * 60,) * 2)
    for name, age in ((dead, 2 * programs.STALE), (alive, 0)):
        (kept / name).mkdir()
        os.utime(kept / name, (time.time() - age,) * 2)
    monkeypatch.setattr(programs, "LIMIT", 25)
    with programs.borrowed() as settings:
        assert names(settings["jax_compilation_cache_dir"]) == entries
    assert names(home) == entries[:2]
    assert names(kept) == sorted([alive, home.name])


def test_no_output_of_a_page_depends_on_it(kept):
    """Cold, then with every program kept; the page trains, draws and checks, and its figures count."""
    runs = []
    for _ in range(2):
        with programs.borrowed() as settings, meter.watched() as (env, records):
            shown = pages.outputs(notebooks.execute(pages.Page(ROOT, "intro"), env | programs.environment(settings)))
            cells = meter.read(records)
        runs.append((shown, sum(cell["programs"] for cell in cells), sum(cell["cached"] for cell in cells)))
    (cold, compiled, none), (warm, rest, taken) = runs
    assert (none, rest, taken) == (0, 0, compiled) and compiled > 10
    assert cold == warm


@pytest.fixture
def settings(kept):
    """Kept programs for this process."""
    with programs.borrowed() as settings:
        old = {name: getattr(jax.config, name) for name in settings}
        for setting in settings.items():
            jax.config.update(*setting)
        compilation_cache.reset_cache()
        yield settings
        for setting in old.items():
            jax.config.update(*setting)
        compilation_cache.reset_cache()


def looped(f) -> bytes:
    """Where two programs could round differently: a long loop of products and transcendental functions."""
    x = np.random.default_rng(0).normal(size=(7, 50, 50)).astype(np.float32)
    jax.clear_caches()
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: f(x @ x), x))
    return np.asarray(loop(x)).tobytes()


def test_a_kept_program_gives_the_same_bits(settings):
    compiled = looped(jnp.tanh)
    watch = meter.Meter()
    assert looped(jnp.tanh) == compiled
    assert watch.read().cached == 1
    # The control: another program in its place gives its own.
    entries = lambda: set(Path(settings["jax_compilation_cache_dir"]).glob("*-cache"))
    (tanh,) = before = entries()
    other = looped(jnp.sin)
    (sin,) = entries() - before
    shutil.copy(sin, tanh)
    assert looped(jnp.tanh) == other != compiled
