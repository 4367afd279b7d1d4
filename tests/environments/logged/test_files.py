"""Files of transitions: written and read again, and what is refused."""

import os
import pickle

import numpy as np
import pytest
from helpers.transitions import table, the_same
from hypothesis import given, settings
from hypothesis import strategies as st

import everystep as es
from everystep.environments.logged import Batch
from everystep.errors import EverystepError


@pytest.mark.quick
@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npz"])
@pytest.mark.parametrize("vectors", [True, False])
def test_what_is_written_is_read_again_to_the_last_bit(tmp_path, ending, vectors):
    numbers = {"observations": np.arange(6), "next_observations": np.arange(6) + 1, "costs": np.full(6, 1 / 3)}
    batch = Batch.of(**table(**({} if vectors else numbers)))
    path = es.logged.write(batch, tmp_path / f"log{ending}")
    assert the_same(es.logged.read(path), batch)
    assert sorted(os.listdir(tmp_path)) == [".everystep.sha256", f"log{ending}"]


@settings(derandomize=True, deadline=None, database=None, max_examples=25)
@given(st.lists(st.floats(-1e300, 1e300), min_size=6, max_size=6))
def test_no_number_changes_in_a_text_file(tmp_path_factory, rewards):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    es.logged.write(Batch.of(**table(rewards=rewards)), path)
    assert es.logged.read(path).rewards.tolist() == rewards


def test_a_table_by_hand_needs_no_more_than_its_columns(tmp_path):
    path = tmp_path / "hand.csv"
    path.write_text(
        "time,observation,action,reward,cost,next_observation,terminated,episode\n"
        "9:15,0,1,0.5,-1,3,false,1\n9:16,3,0,0,1,4,true,1\n9:17,0,0,0,-1,1,false,2\n",
        encoding="utf-8",
    )
    batch = es.logged.read(path)
    assert batch.observations.tolist() == [0, 3, 0]
    assert batch.observations.dtype == np.int64
    assert batch.costs.tolist() == [[-1], [1], [-1]]
    assert batch.terminated.tolist() == [False, True, False]
    assert batch.steps.tolist() == [0, 1, 0]


def test_pictures_go_into_npz_files_only(tmp_path):
    pictures = np.zeros((6, 3, 4))
    batch = Batch.of(**table(observations=pictures, next_observations=pictures))
    assert the_same(es.logged.read(es.logged.write(batch, tmp_path / "log.npz")), batch)
    with pytest.raises(EverystepError, match=r"observations have shape \(6, 3, 4\)"):
        es.logged.write(batch, tmp_path / "log.csv")


COLUMNS = "observation,action,reward,cost,next_observation,terminated,step\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "", r"it ends in '\.txt'; give \.parquet, \.csv, \.npz\.$"),
        ("log.csv", "", r"it cannot be read as \.csv"),
        ("log.parquet", "no parquet", r"it cannot be read as \.parquet"),
        ("log.npz", "no zip", r"it cannot be read as \.npz"),
        ("log.csv", "observation,reward\n1,2\n", r"it has no column next_observation \(it has observation, reward\)"),
        ("log.csv", COLUMNS.replace(",step", "") + "0,0,0,0,0,0\n", r"it has no column step"),
        ("log.csv", COLUMNS.replace("action", "act") + "0,0,0,0,0,0,0\n", r"it has no column action"),
        ("log.csv", COLUMNS + "0,0,,0,0,0,0\n", r"reward is empty in 1 rows; fill them or leave them out\.$"),
        ("log.csv", COLUMNS + "0,0,x,0,0,0,0\n", r"rewards are not an array of numbers"),
        ("log.csv", COLUMNS + "0,7,1,0,0,0,0\n", r"action is 7 in row 0; actions are numbered from 0 to 2\.$"),
        ("log.csv", COLUMNS.replace("cost", "cost_0") + "0,0,0,0,0,0,0\n", r"it has no column cost_1 among cost_0"),
        ("log.csv", COLUMNS.replace("cost", "reward") + "0,0,0,0,0,0,0\n", r"it has 2 columns reward; keep one\.$"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EverystepError, match=r"^log '.*': .*" + message):
        es.logged.read(tmp_path / name, action_count=3)


def test_a_missing_file_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(EverystepError, match="cannot be opened"):
        es.logged.read(tmp_path / "none.csv")
    for ending in (".csv", ".parquet", ".npz"):
        with pytest.raises(EverystepError, match="cannot be written"):
            es.logged.write(Batch.of(**table()), tmp_path / "none" / f"log{ending}")
    with pytest.raises(EverystepError, match=r"ends in '\.xls'; choose"):
        es.logged.write(Batch.of(**table()), tmp_path / "log.xls")


class Bomb:
    def __reduce__(self):
        return os._exit, (1,)


def test_a_pickle_in_a_file_is_never_opened(tmp_path):
    np.savez(tmp_path / "bomb.npz", observation=np.array([Bomb()], dtype=object))
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(EverystepError, match="never unpickled"):
        es.logged.read(tmp_path / "bomb.npz")
    with pytest.raises(EverystepError, match="cannot be read"):
        es.logged.read(tmp_path / "plain.npz")
