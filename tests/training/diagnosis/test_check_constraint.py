"""check_constraint: corridors whose answer is known, and environments that cannot be copied."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.falls import EntangledSled, Sled, SledWithoutCopies

import everystep as es
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


def wall(obs, action, obs_next, info):
    return (obs_next[0] - 9) / 9


def test_a_limit_that_the_next_action_decides():
    found = es.check_constraint(Sled(fastest=1), wall, episodes=4)
    assert found.verdict == "one decision"
    assert found.unsafe > 0  # at random it drives into the wall
    assert found.trapped == 0 < found.after
    assert "lsvi-ae fits" in str(found)


def test_a_limit_with_momentum_needs_to_look_ahead():
    found = es.check_constraint(Sled(fastest=3), wall, episodes=8)
    assert found.verdict == "look ahead"
    assert found.trapped > 0
    # At speed v it stops after v - 1 + ... + 1 cells, so braking one or two steps earlier is enough.
    assert set(found.avoidable) <= {1, 2}
    assert found.horizon >= 7
    assert '"lsvi-ahead" with horizon=' in str(found)
    x, v = found.example
    assert x + max(v - 1, 0) > 9  # no action keeps it there


def test_nothing_helps_behind_the_wall():
    found = es.check_constraint(Sled(start=10), wall, episodes=2)
    assert found.verdict == "not kept"
    assert found.trapped == 2
    assert found.avoidable == (None, None)
    assert "loosen it" in str(found)


def test_constraints_that_never_bind_or_never_change_are_named():
    found = es.check_constraint(Sled(fastest=1), lambda *step: [wall(*step), -1.0], episodes=2)
    assert "constraint 2 never exceeded 0" in found.remarks
    idle = es.check_constraint(Sled(), lambda *step: -0.5, episodes=1)
    assert idle.verdict == "never active"
    assert "constraint 1 is -0.5 everywhere" in str(idle)


@pytest.mark.parametrize(
    ("fastest", "start", "verdict"), [(1, 0, "one decision"), (3, 0, "look ahead"), (3, 10, "not kept")]
)
def test_an_environment_that_cannot_be_copied_is_replayed_from_its_seed(fastest, start, verdict):
    replayed, copied = (
        es.check_constraint(kind(fastest, start), wall, episodes=8) for kind in (SledWithoutCopies, Sled)
    )
    assert replayed.verdict == copied.verdict == verdict
    assert set(replayed.avoidable) <= {None, 1, 2}
    assert 0 < replayed.states < copied.states  # only those where an action was unsafe
    assert "copying the environment failed (TypeError)" in str(replayed)
    assert "by replaying episodes" in str(replayed)


def test_the_effort_of_replays_is_bounded(monkeypatch):
    monkeypatch.setattr("everystep.training.diagnosis.check_constraint.MOST_COPIES", 30)
    found = es.check_constraint(SledWithoutCopies(), wall, episodes=8)
    assert "the effort was bounded" in str(found)
    assert (found.verdict, found.agent) == ("unknown", "lsvi-nets")


@pytest.mark.parametrize("env", [EntangledSled(), "global"])
def test_an_environment_that_does_not_repeat_is_named_and_the_default_agent_is_advised(env):
    class Global(Sled):
        def step(self, action):
            x, *rest = super().step(action)
            return x + np.random.random(), *rest  # noqa: NPY002

    found = es.check_constraint(Global() if env == "global" else env, wall, episodes=2)
    assert (found.verdict, found.states, found.agent, found.horizon) == ("unknown", 0, "lsvi-nets", 50)
    assert "unknown whether other actions would have been safe" in str(found)
    words = "NumPy's global generator" if env == "global" else "the same seed and the same actions gave other steps"
    assert words in str(found)
    assert "let it draw from self.np_random" in str(found)


def test_an_environment_that_repeats_at_first_but_not_for_long_is_found_out_by_the_replays():
    class Late(SledWithoutCopies):
        def step(self, action):
            x, *rest = super().step(action)
            return x + 0.1 * (self.x > 6) * drift.random(), *rest

    drift = np.random.default_rng(0)
    found = es.check_constraint(Late(fastest=1), wall, episodes=2)
    assert (found.verdict, found.states) == ("unknown", 0)
    assert "the same seed and the same actions gave other steps" in str(found)


@pytest.mark.parametrize("informed", [False, True])
def test_it_reports_whether_the_constraint_is_a_function_of_observations(informed):
    env = Sled()
    limit = (lambda x, a, y, info: float(env.x) - 5) if informed else wall
    found = str(es.check_constraint(env, limit, episodes=2))
    assert ("lsvi-nets calls it on imagined steps" in found) != informed
    assert ("agents have to learn it" in found) == informed


def test_an_agent_and_a_horizon_are_always_named():
    cases = {"one decision": (Sled(1), wall), "look ahead": (Sled(3), wall), "not kept": (Sled(start=10), wall)}
    cases["never active"] = Sled(), lambda *step: -0.5
    for verdict, case in cases.items():
        found = es.check_constraint(*case, episodes=4)
        assert found.verdict == verdict
        assert f'Train "{found.agent}"' in str(found)
        assert str(found.horizon) in str(found)


def test_chance_is_said_and_the_same_seed_gives_the_same_answer():
    class Windy(Sled):
        def step(self, action):
            return super().step(int(action) if self.np_random.random() < 0.7 else 0)

    one, again = (es.check_constraint(Windy(), wall, episodes=4, seed=5) for _ in range(2))
    assert str(one) == str(again)
    assert "chance decides" in str(one)
    assert "chance" not in str(es.check_constraint(Sled(), wall, episodes=1))


def test_the_effort_is_bounded_and_said(monkeypatch):
    monkeypatch.setattr("everystep.training.diagnosis.check_constraint.MOST_COPIES", 10)
    found = es.check_constraint(Sled(), wall, episodes=3)
    assert "the effort was bounded: 10 steps of copies" in str(found)
    assert found.states <= 5


def test_wrong_input_is_refused():
    with pytest.raises(EverystepError, match="episodes is 0"):
        es.check_constraint(Sled(), wall, episodes=0)
    with pytest.raises(EverystepError, match="there are 2 constraints, and 1 before"):
        es.check_constraint(Sled(), lambda x, a, y, i: [0.0] if y[0] < 3 else [0.0, 1.0])
    with pytest.raises(EverystepError, match="info has neither"):
        es.check_constraint(Sled())
    with pytest.raises(EverystepError, match="not in a vector environment"):
        es.check_constraint(gymnasium.vector.SyncVectorEnv([Sled]), wall)
