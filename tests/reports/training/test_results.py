"""The results of a training: numbers of its rows, the table of its seeds, and folders that hold none."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from environments_for_tests.rings import Levers
from helpers.trainings import made

import everystep as es
from everystep.errors import EverystepError
from everystep.experiments import tables
from everystep.reports.training import results as training_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a training from Python."""
    out = tmp_path_factory.mktemp("training") / "levers"
    es.train(Levers(), "lsvi-ae", episodes=3, length=20, horizon=2, seed=4, out=out, progress=lambda n: None)
    return out


@pytest.mark.quick
def test_the_numbers_of_a_seed_are_sums_and_the_mean_return_at_the_end():
    first, second = made().seeds
    assert (first.episodes, first.steps) == (4, 50)
    assert first.numbers() == (7.0, 10.0, 4.0)  # one episode begins in the last 30 % of the steps
    assert second.numbers()[:2] == (6.5, 8.0)


@pytest.mark.quick
def test_the_table_has_a_row_for_each_seed_and_their_mean():
    table = training_results.table(made())
    assert [row[:4] for row in table.rows] == [["0", "4", "50", "7"], ["1", "3", "40", "6.500"]]
    assert [row[0] for row in table.over_seeds] == ["mean", "95 %"]
    assert table.over_seeds[0][3] == "6.750"
    assert training_results.table(made(seeds=1)).over_seeds == []
    told = training_results.summary(made(finished=False))
    assert "0 (unfinished)" in told
    assert "Ring, lsvi-ae: unfinished" in told


@pytest.mark.quick
@pytest.mark.parametrize(("value", "words"), [(3.0, "3"), (2.5, "2.500"), (np.nan, ""), (12345.0, "12345")])
def test_counts_have_no_decimals(value, words):
    assert tables.count_or_number(value) == words


def test_a_folder_is_read_as_it_was_written(folder):
    results = training_results.read(folder)
    (seed,) = results.seeds
    assert (seed.seed, seed.finished, seed.agent, results.unfinished) == (4, True, "lsvi-ae", [])
    rows = pq.read_table(folder / "episodes.parquet")
    for name in training_results.NEEDED:
        np.testing.assert_array_equal(seed.columns[name], rows[name])


@pytest.mark.parametrize("name", ["spec.json", "episodes.parquet", "policy/policy.json", "policy/policy.npz"])
def test_a_file_that_was_altered_is_named(folder, tmp_path, name):
    copy = shutil.copytree(folder, tmp_path / "copy")
    with (copy / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(EverystepError, match=name.split("/")[-1]):
        training_results.read(copy)


def test_a_folder_without_a_finished_episode_holds_no_results(tmp_path):
    with pytest.raises(EverystepError):
        training_results.read(tmp_path)
