"""Which runs the GPU kernel takes, and how its numbers are added up."""

import jax
import numpy as np
import pytest

from everystep import agents
from everystep.errors import EverystepError
from everystep.experiments.engines import gpu
from everystep.lsvi import loop
from everystep.problems.frozen_lake import from_map

DONE, CAPACITY = 20, 24


@pytest.fixture(scope="module")
def small():
    return from_map(["SFF", "FHG"], horizon=5)


def job_of(problem, built):
    return loop.Job(built.agent, problem.world, problem.sizes, built.share_values, built.share_costs)


@pytest.mark.quick
@pytest.mark.parametrize(
    "recipe",
    [
        agents.lsvi_ae(switch=2),
        agents.lsvi_ae(react=True),
        agents.lsvi_ae(share_values=False),
        agents.lsvi_ae(share_costs=False),
        agents.lsvi_ae(features=np.eye(24).reshape(6, 4, 24)),
        agents.sucbvi(),
    ],
    ids=lambda recipe: ",".join([recipe.name, *recipe.settings]),
)
def test_what_the_kernel_does_not_do_is_run_plainly(small, recipe):
    built = recipe.resolve(small, 10).build()
    assert not gpu.supports(job_of(small, built))


def test_a_run_is_added_up_by_episode_and_by_seed(small):
    sums = gpu.run(small, agents.lsvi_ae(precision="float32"), range(4), 30, capacity=CAPACITY)
    assert sums.by_episode.value.shape == (30,)
    assert sums.by_seed.value.shape == (4,)
    assert sums.by_seed.value.dtype == np.float32
    np.testing.assert_allclose(sums.by_seed.value.sum(), sums.by_episode.value.sum(), 1e-5)


@pytest.mark.quick
@pytest.mark.filterwarnings("error")
def test_numbers_too_large_for_single_precision_are_refused():
    with jax.enable_x64(False), pytest.raises(EverystepError, match=r"is 1e\+308, which is too large for .* float32"):
        gpu.in_precision(np.array([1.0, 1e308]))
