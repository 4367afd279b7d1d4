"""An experiment in work units: which seeds they have, and that their rows are those of the whole run."""

import jax
import numpy as np
import pytest

import everystep as es
from everystep.experiments import experiment
from everystep.experiments.engines import local
from everystep.experiments.folder.checkpoints import WorkUnit
from everystep.experiments.work_units import WorkUnits, as_records


@pytest.fixture(scope="module")
def prepared():
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    return experiment.prepare(pond, ["lsvi", "uniform"], 5, [4, 7, 9])


@pytest.mark.quick
def test_every_agent_meets_every_seed_once(prepared):
    units = WorkUnits(prepared, 2)
    assert units.all() == [WorkUnit(0, 0), WorkUnit(0, 2), WorkUnit(1, 0), WorkUnit(1, 2)]
    for agent in (0, 1):
        mine = [units.seeds(unit)[: units.seed_count(unit)] for unit in units.of_agent(agent)]
        np.testing.assert_array_equal(np.concatenate(mine), [4, 7, 9])
    assert [len(units.seeds(unit)) for unit in units.all()] == [2] * 4  # the last batch is filled up
    assert units.name(WorkUnit(0, 0)) == "lsvi, seeds 4 and 7"
    assert units.name(WorkUnit(1, 2)) == "uniform, seed 9"


def test_the_rows_of_all_units_are_those_of_the_run(prepared):
    units, whole = WorkUnits(prepared, 2), prepared.run()
    with jax.enable_x64(True):
        for unit in units.of_agent(0):
            start = lambda shaped: None
            (chunk,) = [chunk for chunks in units.chunks([unit], [start]) for chunk in chunks]
            assert chunk.start == 0
            assert chunk.final is not None
            count = units.seed_count(unit)
            for name in ("value", "violation", "return"):
                kept = whole.columns["lsvi"][name][unit.first : unit.first + count]
                np.testing.assert_array_equal(chunk.rows[name], kept)
    assert local.BATCH >= 1


@pytest.mark.quick
def test_records_hold_columns_of_any_type():
    records = as_records({"a": np.arange(6).reshape(2, 3), "b": np.ones((2, 3))})
    assert records.shape == (2, 3)
    assert records["a"].dtype == np.int64
    np.testing.assert_array_equal(records["a"], [[0, 1, 2], [3, 4, 5]])
