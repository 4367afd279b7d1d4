"""What continuous integration runs: a command that finds nothing left on the machine, and leaves nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

RUN = Path(__file__).resolve().parent.parent / ".ci" / "run"
LOOK = """
echo "here: $PWD"
echo "home:" $(cd "$HOME" && find . -type f | sort)
echo "temporary:" $(ls -A "${TMPDIR:-/tmp}")
echo "caches: $XDG_CACHE_HOME $RAY_TMPDIR $MPLCONFIGDIR $PIP_CACHE_DIR"
echo "packages: $PIP_INDEX_URL"
echo "cluster: $RAY_ADDRESS"
touch "$HOME/left" "${TMPDIR:-/tmp}/left"
exit 7
"""
PLACES = ("TMPDIR", "XDG_CACHE_HOME", "RAY_TMPDIR", "MPLCONFIGDIR", "PIP_CACHE_DIR")


@pytest.mark.parametrize("isolation", ["namespace", "variables"])
def test_a_run_finds_an_empty_home_and_no_temporary_files_and_leaves_none(isolation, tmp_path):
    checkout, home, temporary = (tmp_path / name for name in ("a checkout", "home", "temporary"))
    for used in (".npmrc", ".config/pip/pip.conf", ".cache/jax/program", ".ray/auth_token"):
        (home / used).parent.mkdir(parents=True, exist_ok=True)
        (home / used).touch()
    temporary.mkdir()
    (temporary / "old").touch()
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(RUN, checkout / ".ci")
    (checkout / "look").write_text(LOOK, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))

    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environment |= {"HOME": str(home), "RAY_ADDRESS": "10.0.0.1:1", "PIP_INDEX_URL": "there", "ISOLATION": isolation}
    environment |= dict.fromkeys(PLACES, str(temporary))
    command = ["bash", str(checkout / ".ci" / "run"), "bash", "look"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if "a mount namespace cannot be made here" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    assert done.returncode == 7, done.stderr
    said, *lines = done.stdout.splitlines()
    assert {"namespace": "in a mount namespace", "variables": "with variables"}[isolation] in said
    seen = dict(line.split(":", 1) for line in lines)
    assert seen["here"].strip() == str(checkout.resolve())
    assert seen["home"].split() == ["./.config/pip/pip.conf", "./.npmrc"]
    mounted = {"home", checkout.resolve().parts[2]} if isolation == "namespace" else set()
    assert set(seen["temporary"].split()) <= mounted
    assert str(temporary) not in seen["caches"].split()
    assert (seen["packages"].strip(), seen["cluster"].strip()) == ("there", "")
    assert sorted(tmp_path.rglob("*")) == before
