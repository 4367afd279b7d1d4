"""What users do with networks that were trained: shields, masks, policies elsewhere, seeds, copies, logged data."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from training.learnt.small import Cart, ending

import everystep as es
from everystep.cli.main import main
from everystep.reports.training import cost_slice, learnt
from everystep.reports.training import results as training_results
from everystep.web import training_report

AGENT = es.agents.lsvi_nets(rounds=2)
X = np.random.default_rng(1).uniform(-0.15, 0.15, (20, 2))


@pytest.fixture(scope="module")
def trained():
    made = ending(seed=1)
    made.play(steps=100)
    return made


def test_a_shield_replaces_what_leads_to_more_harm(trained):
    policy = trained.policy()
    shield = es.shield(policy)
    seen = trained.agent.rows["x"][:20]
    harm = policy.plan.harm(policy.plan.estimates(0, seen), -1.0)
    tolerance = shield.tolerance(policy.plan)
    assert tolerance == pytest.approx(0.01 * trained.agent.cost_scale[0])
    for x, own in zip(seen, harm.T, strict=True):
        allowed = shield.admissible(x)
        assert (own[allowed] <= max(tolerance, own.min() + 1e-6)).all()
        assert allowed[shield(x, int(own.argmax()))]


def test_another_agent_sees_masks_and_a_guide_learns_its_episodes():
    guide = ending(seed=2)
    guide.play(steps=40)
    before = len(guide.agent.rows)
    shield = es.shield(guide)
    env = shield.wrap(Cart(ends=True, two=True, limit=0.2, length=30))
    env.reset(seed=5)
    over, steps = False, 0
    while not over:
        masks = env.action_masks()
        assert masks.shape == (3,)
        assert masks.any()
        _, _, terminated, truncated, info = env.step(2)
        assert masks[info["played"]]
        over, steps = terminated or truncated, steps + 1
    assert len(guide.agent.rows) == before + steps
    assert guide.agent.quality.steps == before  # another agent's actions are learnt, but not judged
    assert shield.record._looks_ahead


def test_a_policy_acts_alike_in_another_process(trained, tmp_path):
    policy = trained.policy()
    policy.save(tmp_path / "policy")
    program = (
        "import json, sys, numpy as np, everystep as es; policy = es.Policy.load(sys.argv[1]); "
        "X = json.loads(sys.argv[2]); "
        "print(json.dumps([[int(policy(np.array(x))) for x in X], [policy.certify(np.array(x)).tolist() for x in X]]))"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "policy"), json.dumps(X.tolist())]
    actions, labels = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert actions == [policy(x) for x in X]
    assert labels == [policy.certify(x).tolist() for x in X]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A training of two seeds by the command, in this process."""
    folder = tmp_path_factory.mktemp("seeds")
    words = ["train", "--env", "training.learnt.small:at_the_limit", "--agent", "lsvi-nets", "--set", "rounds=2"]
    words += ["--steps", "100", "--seeds", "2", "--evaluate", "0", "--jobs", "1", "--out", str(folder / "two")]
    assert main(words) == 0
    return folder / "two"


def test_several_seeds_are_trainings_of_their_own(two, trained):
    results = training_results.read(two)
    assert [each.seed for each in results.seeds] == [0, 1]
    np.testing.assert_array_equal(results.seeds[1].columns["return"], trained.columns["return"])
    quality = learnt.quality(results.seeds[1])
    assert quality == json.loads(json.dumps(trained.agent.figures()))
    assert quality["random"] == 16


def test_the_page_shows_predictions_and_slices_of_what_lies_ahead(two, monkeypatch):
    for name in ("POINTS", "TRIED", "ROWS"):
        monkeypatch.setattr(cost_slice, name, 7)
    found = training_report.contents(training_results.read(two), pictures=False)
    page = training_report.page(found)
    content = json.loads(page.split('id="content">')[1].split("</script>")[0])
    charts = {each["name"]: each for each in content["charts"]}
    expected = {"share", "error", "constraint", "reward", "return", "violation", "reliability", "labels"}
    assert {name.removeprefix("learnt-") for name in charts if name.startswith("learnt-")} == expected
    quality = found.inputs.learnt.quality
    lines = {each["name"]: each["values"] for each in charts["learnt-violation"]["lines"]}
    assert lines == {"what came": quality["violated"]["came"], "imagined": quality["violated"]["imagined"]}
    assert sum(each["count"] for each in charts["learnt-labels"]["bars"]) == sum(n for *_, n in quality["violations"])
    assert {"slice-0", "slice-1", "slice-2"} <= set(charts)
    for words in (
        "5, 20, 50 steps, discounted",
        "spread of networks",
        "The first 16 steps were random",
        "networks of the",
    ):
        assert words in page, words
    card = (two / "seed-0" / "policy" / "CARD.md").read_text(encoding="utf-8")
    assert "| features | none: networks of the observation |" in card


def test_copies_are_judged_like_one_environment():
    made = es.Learner(gym.vector.SyncVectorEnv([lambda: Cart(ends=True, two=True, limit=0.2)] * 2), AGENT, seed=5)
    made.play(steps=30)
    quality = made.agent.quality
    assert quality.steps == len(made.agent.rows)
    assert quality.random == 16
    assert not len(quality.waiting)


def test_after_a_warm_start_the_first_action_is_of_the_networks():
    logged = es.logged.from_env(Cart(), None, episodes=2)
    result = es.train(Cart(), AGENT, episodes=1, warm_start=logged, seed=1)
    assert result.found["learnt"]["random"] == 0
    assert not any("random in the first" in each for each in result.remarks)
    again = es.train(Cart(), AGENT, episodes=2, seed=1)
    assert "actions were random in the first 16 steps, and chosen by networks since" in again.remarks


@pytest.mark.quick
def test_the_first_action_after_logged_data_does_not_wait_for_a_step():
    made = es.Learner(Cart(), AGENT, seed=1)
    made.learn(es.logged.from_env(Cart(), None, episodes=2))
    assert made.agent.newest().trained
