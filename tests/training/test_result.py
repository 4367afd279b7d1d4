"""What a training returns, also when it breaks."""

import json
import pickle

import numpy as np
import pytest
from environments_for_tests.rings import Ring, VectorRing

import everystep as es
from everystep import agents, features
from everystep.errors import EverystepError
from everystep.experiments.folder import run_folder
from everystep.training.result import BrokenError


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


class Faulty(VectorRing):
    """Shows something else from some step on."""

    def __init__(self, wrong, at):
        super().__init__()
        self.wrong, self.at = wrong, at

    def see(self):
        return super().see() if self.steps < self.at else self.wrong


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [np.array([np.nan, 0.0], np.float32), np.zeros(3, np.float32), 1], ids=str)
@pytest.mark.parametrize("at", [0, 7, 10], ids=["at the very first", "within an episode", "at a reset"])
def test_an_observation_that_does_not_fit_ends_in_a_sentence_with_what_was_seen(wrong, at):
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    for agent in (agents.lsvi_ae(), agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel))):
        learner = es.Learner(
            Faulty(wrong, at), agent, constraint=lambda *step: -1.0, features=features.centres(3), horizon=5
        )
        with pytest.raises(BrokenError, match=r"episode \d") as caught:
            learner.train(4)
        assert at == 0 or len(caught.value.result.columns["return"]) in (2, 3)
    travelled = pickle.loads(pickle.dumps(caught.value))  # from a worker process
    assert (str(travelled), travelled.result) == (str(caught.value), None)


def test_an_environment_that_breaks_leaves_everything_until_then():
    learner = es.Learner(Ring(breaks_at=13), "lsvi-ae", constraint=harm, horizon=5)
    with pytest.raises(BrokenError, match=r"episode 3, step 3: .* RuntimeError: a wheel") as caught:
        learner.train(10)
    result = caught.value.result
    assert list(result.columns["length"]) == [5, 5, 2]
    assert result.policy(0) in (0, 1)
    assert len(learner.train(2).columns["return"]) == 5  # and it can go on


def test_the_spec_of_a_training_run_has_its_kind_and_is_not_read_as_an_experiment(tmp_path):
    result = es.train(Ring(), agents.lsvi_ae(radius="paper"), constraint=harm, horizon=5, episodes=2)
    result.save(tmp_path / "run")
    result.save(tmp_path / "run")  # the same run again
    spec = json.loads((tmp_path / "run" / "spec.json").read_text(encoding="utf-8"))
    assert (spec["kind"], spec["format"], spec["confidence"]) == ("training", 2, 0.05)
    assert spec["guarantee"] == result.policy.confidence
    with pytest.raises(EverystepError, match=r"holds a training"):
        run_folder.check_run(tmp_path / "run")
