"""Generators of an environment are saved with a learner."""

import numpy as np
import pytest
from helpers.resumed import check_resumed
from soak.drifting import Drift, options

import everystep as es
from everystep.training.folder import env_state


def test_an_environment_with_a_generator_of_its_own_is_restored_or_it_is_said(tmp_path):
    class Hidden(Drift):
        """Draws from a generator that nothing can find."""

        hidden = np.random.default_rng(0)

        def reset(self, *, seed=None, options=None):
            self.x = self.hidden.uniform(-0.5, 0.5, 2)
            return self.x.copy(), {}

        np_random = hidden

    class Own(Hidden):
        """Draws from one among its attributes."""

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.__dict__["np_random"] = self.own = np.random.default_rng(seed)
            self.x = self.own.uniform(-0.5, 0.5, 2)
            return self.x.copy(), {}

    check_resumed(tmp_path, Own, {}, **options())
    learner = es.Learner(Hidden(), "lsvi-ae", **options())
    learner.play(2)
    learner.save(tmp_path / "hidden")
    found = (
        es.Learner.load(
            tmp_path / "hidden",
            Hidden(),
        )
        .result()
        .remarks
    )
    assert any("no generator of NumPy was found in it): the episodes after resuming differ" in each for each in found)


@pytest.mark.quick
def test_an_environment_that_never_drew_is_not_trusted():
    class Still(Drift):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._np_random = np.random.default_rng(seed)
            return np.zeros(2), {}

    stage, arrays = es.Learner(Still(), "lsvi-ae", **options()).stage, {}
    stage.reset(1)
    state = env_state.save(stage, arrays)
    assert "never drew from its np_random; if it draws elsewhere" in env_state.restore(stage, state, arrays)
