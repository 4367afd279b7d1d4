"""How large the state of an agent is."""

import pytest

import everystep as es
from everystep.experiments import experiment, needs

POND = ("SF", "FG")


@pytest.fixture
def pond():
    return es.problems.from_map(POND, horizon=4)


@pytest.mark.quick
def test_the_estimate_of_a_state_is_the_size_of_its_arrays(pond):
    prepared = experiment.prepare(pond, ["lsvi-ae"], 200, 2)
    import jax

    with jax.enable_x64(True):
        leaves = jax.tree.leaves(prepared.pairs[0].start_seeds(1))
    assert needs.of(prepared).state == sum(leaf.nbytes for leaf in leaves)
