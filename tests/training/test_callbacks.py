"""Functions that a training calls: they change nothing, may end it, and what goes wrong in them loses nothing."""

import json

import numpy as np
import pytest

import everystep as es
from everystep.training.result import BrokenError

gymnasium = pytest.importorskip("gymnasium")

EPISODES = 6


def lake():
    return gymnasium.make("FrozenLake-v1", max_episode_steps=8)


def fell(obs, action, obs_next, info):
    return 1.0 if obs_next in (5, 7, 11, 12) else -1.0


def trained(episodes=EPISODES, **options):
    return es.train(lake(), "lsvi-ae", constraint=fell, episodes=episodes, **options)


@pytest.fixture(scope="module")
def alone():
    return trained()


def rows(result):
    return {name: column.tolist() for name, column in result.columns.items()}


def test_they_are_called_after_every_episode_and_plan_and_change_nothing(alone):
    seen, plans = [], []
    look = {"on_episode": lambda learner: seen.append(learner.last_episode)}
    result = trained(**look, on_plan=lambda learner: plans.append(learner.plans))
    assert rows(result) == rows(alone)
    assert [each["return"] for each in seen] == alone.columns["return"].tolist()
    assert plans == list(range(1, sum(alone.columns["planned"]) + 1))


@pytest.mark.parametrize("name", ["on_episode", "on_plan"])
def test_true_ends_training_as_if_no_more_had_been_asked_for(name, alone):
    result = trained(**{name: lambda learner: learner.number >= 4}, evaluate=1)
    n = len(result.columns["return"])
    assert rows(result) == {key: column[:n] for key, column in rows(alone).items()}
    assert n == (3 if name == "on_episode" else 4)
    assert any(f"{name} ended training" in remark for remark in result.remarks)
    assert result.evaluation is not None


def test_in_a_folder_the_same_call_returns_and_a_longer_one_goes_on(tmp_path, alone):
    stop = {"on_episode": lambda learner: learner.number > 3}
    first = trained(out=tmp_path / "a", **stop)
    assert len(first.columns["return"]) == 3
    assert not (tmp_path / "a" / ".work").exists()
    before = (tmp_path / "a" / "spec.json").read_bytes()
    assert rows(trained(out=tmp_path / "a", **stop)) == rows(first)
    assert (tmp_path / "a" / "spec.json").read_bytes() == before
    assert rows(trained(EPISODES + 1, out=tmp_path / "a"))["return"][:EPISODES] == rows(alone)["return"]
    assert "stopped" not in json.loads((tmp_path / "a" / "spec.json").read_text())


def raises(learner):
    raise ValueError("no room")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (raises, r"after episode 1, on_episode raised ValueError \(no room\)"),
        (lambda learner: 3, "returned 3; return True"),
    ],
)
def test_what_goes_wrong_in_them_is_said_and_everything_is_kept(given, words, alone):
    with pytest.raises(BrokenError, match=words) as caught:
        trained(on_episode=given)
    assert rows(caught.value.result)["return"] == rows(alone)["return"][:1]
    with pytest.raises(BrokenError, match="after episode 1, progress raised") as caught:
        trained(progress=lambda: None)
    assert rows(caught.value.result)["return"] == rows(alone)["return"][:1]
    with pytest.raises(es.EverystepError, match=r"^progress raised TypeError"):
        es.evaluate(alone.policy, lake(), constraint=fell, episodes=1, progress=lambda: None)
    with pytest.raises(es.EverystepError, match=r"on_plan is .*x"):
        trained(on_plan="x")


def test_returns_are_reached_over_a_number_of_episodes(alone):
    returns = alone.columns["return"]
    means = [returns[max(0, n - 2) : n].mean() for n in range(2, EPISODES + 1)]
    least = max(means)
    result = trained(on_episode=es.callbacks.stop_at_return(least, over=2))
    assert len(result.columns["return"]) == 2 + int(np.argmax(np.array(means) >= least))
    assert len(trained(on_episode=es.callbacks.stop_at_return(least + 1, over=2)).columns["return"]) == EPISODES


def test_curves_for_tensorboard_are_over_steps(tmp_path, alone):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    log = es.callbacks.tensorboard(tmp_path / "logs")
    trained(on_episode=log)
    log.close()
    (file,) = (tmp_path / "logs").iterdir()
    found = []
    data = file.read_bytes()
    while data:  # length (8 bytes), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(data[:8], "little")
        found += [
            (event.step, value.simple_value)
            for event in [Event.FromString(data[12 : 12 + size])]
            for value in event.summary.value
            if value.tag == "episode/length"
        ]
        data = data[16 + size :]
    lengths = alone.columns["length"]
    assert found == list(zip(np.cumsum(lengths).tolist(), lengths.tolist(), strict=True))


@pytest.mark.quick
@pytest.mark.parametrize(("given", "field"), [({"least": "x"}, "least"), ({"least": 1, "over": 0}, "over")])
def test_wrong_numbers_are_named(given, field):
    with pytest.raises(es.EverystepError, match=f"{field} of stop_at_return"):
        es.callbacks.stop_at_return(**given)
