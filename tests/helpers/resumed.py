"""A learner that is saved and resumed, compared with one that was not."""

import json

import numpy as np
import pytest
from soak.drifting import check_same

import everystep as es
from everystep.errors import EverystepError
from everystep.training.folder.plain_values import to_plain


def everything(learner):
    """All that a learner holds but its arguments and the plan in force, as arrays; texts and numbers as their bytes."""
    arrays, agent = {}, learner.agent
    held = {f"agent.{name}": value for name, value in vars(agent).items()} | vars(learner)
    made_again = {
        "recipe",
        "stage",
        "resolved",
        "requested",
        "agent",
        "agent.resolved",
        "agent.agent",
        "agent.plan_in_force",
        "_as_arrays",
    }
    plain = {name: to_plain(value, arrays, name) for name, value in held.items() if name not in made_again}
    return arrays | {"plain": np.frombuffer(json.dumps(plain).encode(), np.uint8)}


def check_resumed(tmp_path, make, given, agent="lsvi-ae", **arguments):
    """Train on after saving and loading, twice, and compare with a learner that was never saved."""
    uninterrupted, learner = (es.Learner(make(), agent, **arguments) for _ in range(2))
    learner.play(2)
    learner.save(tmp_path / "learner")
    learner = es.Learner.load(tmp_path / "learner", make(), **given)
    learner.play(3)
    learner.save(tmp_path / "learner")
    learner = es.Learner.load(tmp_path / "learner", make(), **given)
    uninterrupted.play(5)
    check_same(learner.train(4), uninterrupted.train(4))
    one, other = everything(learner), everything(uninterrupted)
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    return learner


def sentence(call, *given, **named):
    with pytest.raises(EverystepError) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)
