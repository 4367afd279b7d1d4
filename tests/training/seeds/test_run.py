"""A training for several seeds: its folder, what it reports, what is left of it, and what is refused."""

import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.by_name import REQUEST, module_here

from everystep.errors import EverystepError
from everystep.training.seeds import run
from everystep.training.seeds.request import TrainingRequest


def request(**changed):
    return TrainingRequest(**(REQUEST | {"episodes": 3, "seeds": (2, 5)} | changed))


@pytest.fixture
def here(tmp_path):
    with module_here(tmp_path) as folder:
        yield folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished folder, and what was reported."""
    told = []
    with module_here(tmp_path_factory.mktemp("training")) as folder:
        run.train(request(), folder / "out", run.Means(), told.append)
        yield folder / "out", told


def rows(folder):
    return pq.read_table(folder / "episodes.parquet").to_pydict()


@pytest.mark.quick
def test_every_seed_has_a_folder_and_reports_that_it_is_finished(trained):
    out, told = trained
    assert run.read_begun(out).request == request()
    assert run.unfinished(request(), out) == []
    ended = {each.seed: each for each in told if each.kind == "finished"}
    for seed in (2, 5):
        played = rows(run.folder_of(out, seed))
        assert len(played["return"]) == ended[seed].episodes == 3
        assert sum(played["length"]) == ended[seed].steps
        assert sum(played["violation"]) == pytest.approx(ended[seed].violation)


def test_a_larger_request_goes_on_and_one_of_something_else_is_refused(trained, here):
    out = shutil.copytree(trained[0], here / "copy")
    assert run.unfinished(request(seeds=(2, 5, 7)), out) == [7]
    assert run.unfinished(request(episodes=4), out) == [2, 5]
    run.train(request(episodes=4, seeds=(2, 5)), out, run.Means(), lambda message: None)
    for seed in (2, 5):
        longer, shorter = rows(run.folder_of(out, seed)), rows(run.folder_of(trained[0], seed))
        np.testing.assert_array_equal(longer["return"][:3], shorter["return"])
        assert len(longer["return"]) == 4
    for changed, words in (({"agent": "lsvi"}, "agent"), ({"seeds": (2,)}, "seed 5"), ({"episodes": 1}, "4 episodes")):
        with pytest.raises(EverystepError, match=words):
            run.begin(out, request(**({"episodes": 4} | changed)))


@pytest.mark.quick
def test_a_folder_with_other_files_is_left_alone(here):
    out = here / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(EverystepError, match="other files"):
        run.train(request(), out, run.Means(), lambda message: None)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


@pytest.mark.quick
def test_seeds_that_fail_at_once_leave_nothing_and_are_all_named(here):
    failing = request(constraint="walk_by_name:fails")
    with pytest.raises(EverystepError, match="no sensor") as caught:
        run.train(failing, here / "out", run.Means(), lambda message: None)
    assert "seed 2" in str(caught.value)
    assert "seed 5" in str(caught.value)
    assert not (here / "out").exists()


@pytest.mark.quick
def test_a_request_that_was_altered_is_not_read(trained, here):
    out = shutil.copytree(trained[0], here / "copy")
    path = out / "training.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | {"kind": "run"}), encoding="utf-8")
    with pytest.raises(EverystepError, match=r"training\.json"):
        run.read_begun(out)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked here")
def test_a_process_that_starts_hears_no_signal_before_it_ignores_them():
    """Ctrl-C reaches all processes of a terminal: one that still imported modules printed a traceback."""
    words = "import signal, sys; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), sys.flags.safe_path)"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with run._starting():
        told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout
    assert told.split() == [f"{int(signal.SIGINT)}", f"{int(signal.SIGTERM)}", "True"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
