"""Batches of transitions, and what they refuse."""

from dataclasses import fields

import numpy as np
import pytest
from helpers.transitions import table

from everystep.environments.logged import Batch
from everystep.errors import EverystepError


@pytest.mark.quick
def test_a_batch_has_sizes_episodes_and_a_total_violation():
    batch = Batch.of(**table())
    assert (len(batch), batch.constraints) == (6, 2)
    assert list(batch.episodes()) == [slice(0, 3), slice(3, 6)]
    assert batch.violation == np.maximum(batch.costs, 0).sum() > 0
    assert {field.name: getattr(batch, field.name).dtype.kind for field in fields(Batch)} == {
        "observations": "f",
        "actions": "i",
        "rewards": "f",
        "costs": "f",
        "next_observations": "f",
        "terminated": "b",
        "steps": "i",
        "episode": "i",
    }


def test_states_that_are_numbers_stay_numbers():
    batch = Batch.of(**table(observations=[0, 1, 2, 0, 1, 2], next_observations=[1, 2, 3, 1, 2, 3], costs=-np.ones(6)))
    assert batch.observations.dtype == np.int64
    assert batch.costs.shape == (6, 1)
    mixed = Batch.of(**table(observations=[0, 1, 2, 0, 1, 2], next_observations=np.arange(6) / 2))
    assert mixed.observations.dtype == mixed.next_observations.dtype == np.float64


def test_missing_steps_or_episodes_are_derived_from_the_other():
    whole = Batch.of(**table())
    assert Batch.of(**table(steps=None)).steps.tolist() == whole.steps.tolist()
    assert Batch.of(**table(episode=None)).episode.tolist() == [0, 0, 0, 1, 1, 1]
    assert Batch.of(**table(episode=None, steps=[5, 6, 9, 2, 3, 4])).episode.tolist() == [0, 0, 0, 1, 1, 1]


def test_one_row_is_an_episode():
    one = {name: column[:1] for name, column in table().items()}
    assert list(Batch.of(**one).episodes()) == [slice(0, 1)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rewards": np.zeros(5)}, r"^rewards have shape \(5,\)"),
        ({"rewards": np.zeros((6, 1))}, r"^rewards have shape \(6, 1\); give one for each"),
        ({"rewards": [0, 0, np.nan, 0, 0, 0]}, "^rewards are nan in row 2"),
        ({"rewards": list("abcdef")}, r"^rewards are not an array of numbers"),
        ({"rewards": 3.0}, r"^rewards are not an array of numbers"),
        ({"observations": [[1], [1, 2], [1], [1], [1], [1]]}, r"^observations are not an array of numbers"),
        ({"observations": np.full((6, 2), np.inf)}, "^observations are inf in row 0"),
        ({"observations": np.zeros((0, 2))}, r"^observations have shape \(0, 2\)"),
        ({"next_observations": np.zeros((6, 3))}, r"^next_observations have shape \(6, 3\), observations \(6, 2\)"),
        ({"actions": [0, 1, 2, 3, 0, 0]}, "^action is 3 in row 3"),
        ({"actions": [0, -1, 2, 0, 0, 0]}, r"^action is -1 in row 1"),
        ({"actions": [0, 0.5, 2, 0, 0, 0]}, r"^actions are 0\.5 in row 1; give whole numbers\.$"),
        ({"costs": np.zeros((6, 2, 2))}, r"^costs have shape \(6, 2, 2\); give \(6,\), or \(6, m\)"),
        ({"costs": np.zeros((6, 0))}, r"^costs have shape \(6, 0\)"),
        ({"costs": np.zeros((6, 101))}, r"^costs have shape \(6, 101\)"),
        ({"costs": np.zeros(7)}, r"^costs have shape \(7, 1\); give one for each of the 6"),
        ({"terminated": [0, 0, 2, 0, 0, 0]}, "^terminated are 2 in row 2"),
        ({"terminated": [0, 1, 1, 0, 0, 0]}, r"^episode 4 continues after it terminated at step 1"),
        ({"steps": [0, 1, 1, 0, 1, 2]}, "^step 1 follows step 1 in episode 4"),
        ({"steps": [-1, 1, 2, 0, 1, 2]}, r"^steps are -1 in row 0; count them from 0\.$"),
        ({"steps": [0, 1, 2, 0]}, r"^steps have shape \(4,\)"),
        ({"episode": [4, 9, 4, 9, 4, 9]}, "^episode 4 is in 3 places"),
        ({"steps": None, "episode": None}, r"^there are neither steps nor episode; give one"),
    ],
)
def test_wrong_columns_are_refused_in_a_sentence(wrong, message):
    with pytest.raises(EverystepError, match=message):
        Batch.of(**table(**wrong), action_count=3)
