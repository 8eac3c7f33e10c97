"""Any numbers give the right result or a ValueError, in a process that is set up as a user's is (``as_users.py``)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import plain_table
import plain_training
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    command = [sys.executable, str(ROOT / "tests/as_users.py")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_process_is_set_up_as_a_user_s_is(report):
    assert (report["promotion"], report["shapes"], report["checked"]) == ("standard", "allow", False)
    assert jax.config.jax_numpy_dtype_promotion == "strict" and plain_table.annotations_are_checked(), (
        "the control: here"
    )


def test_no_public_name_is_left_out(report):
    assert report["missing"] == []


@pytest.mark.parametrize("name", plain_table.TABLE | plain_training.TABLE)
def test_every_form_of_the_arguments_gives_the_same(name, report):
    assert report["found"][name] == []


def test_defects_are_seen(report):
    narrowed, unchecked = report["controls"]
    assert any("is right" in error for error in narrowed)
    assert any("is taken" in error for error in unchecked) and not any("is right" in error for error in unchecked)
