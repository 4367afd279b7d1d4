"""`everystep train` and `evaluate`: the same as from Python, resumable, and true about what a folder holds."""

import json
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep import files
from everystep.cli.main import main
from everystep.environments.play import named
from everystep.errors import EverystepError
from everystep.features import syntax
from everystep.reports.training import results as training_results
from everystep.training.seeds import run as training_seeds
from everystep.training.seeds.request import TrainingRequest

gymnasium = pytest.importorskip("gymnasium")

MODULE = """
import gymnasium

def lake():
    return gymnasium.make("FrozenLake-v1", max_episode_steps=8, render_mode="rgb_array")

def fell(obs, action, obs_next, info):
    return 1.0 if obs_next in (5, 7, 11, 12) else -1.0

def broken():
    raise OSError("no simulator")

def raises(obs, action, obs_next, info):
    return 1 / 0

def later(obs, action, obs_next, info):
    if obs_next != 0:
        raise RuntimeError("a sensor failed")
    return -1.0

number = 3
seen = []

def look(learner):
    seen.append(learner.number)
    return learner.number > 6
"""
ARGUMENTS = [
    "train",
    "--env",
    "holes_for_test:lake",
    "--constraint",
    "holes_for_test:fell",
    "--agent",
    "lsvi-ae",
    "--set",
    "beta=0.3",
]
EPISODES = 12


@pytest.fixture(autouse=True)
def in_a_folder_with_a_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holes_for_test.py").write_text(MODULE)
    yield
    sys.modules.pop("holes_for_test", None)


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    """A finished folder of two seeds, made once; tests that change it copy it."""
    folder = tmp_path_factory.mktemp("training")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "holes_for_test.py").write_text(MODULE)
        numbers = ["--episodes", str(EPISODES), "--seeds", "2", "--evaluate", "3"]
        assert main([*ARGUMENTS, *numbers, "--jobs", "1", "--out", "two"]) == 0
    return folder / "two"


def rows(folder):
    table = pq.read_table(folder / "episodes.parquet")
    return {name: table[name].to_numpy().tolist() for name in table.column_names}


def arrays(folder):
    with np.load(folder / "policy" / "policy.npz") as file:
        return {name: file[name].tobytes() for name in file.files}


def lake_and_constraint():
    return named.environment("holes_for_test:lake"), named.constraint("holes_for_test:fell")


def by_python(seed, out, **length):
    lake, fell = lake_and_constraint()
    agent = es.agents.lsvi_ae(beta=0.3)
    options = {"constraint": fell, "seed": seed, "out": out}
    return es.train(lake, agent, **(length or {"episodes": EPISODES}), **options)


def test_the_command_trains_what_python_trains_and_seeds_do_not_depend_on_each_other(two_seeds, tmp_path):
    for seed in (0, 1):
        by_python(seed, tmp_path / f"python-{seed}")
        for read in (rows, arrays):
            assert read(two_seeds / f"seed-{seed}") == read(tmp_path / f"python-{seed}")
    assert rows(two_seeds / "seed-0") != rows(two_seeds / "seed-1")


def test_a_file_gives_the_same_training_as_flags(two_seeds, tmp_path, capsys):
    (tmp_path / "training.toml").write_text(
        'env = "holes_for_test:lake"\nconstraint = "holes_for_test:fell"\nepisodes = 5\nseeds = [1]\nevaluate = 0\n'
        'agent = "lsvi-ae"\nout = "by-file"\n[settings]\nbeta = 0.3\n'
    )
    assert main(["train", "training.toml", "--episodes", str(EPISODES)]) == 0
    assert rows(tmp_path / "by-file" / "seed-1") == rows(two_seeds / "seed-1")
    (tmp_path / "training.toml").write_text('env = "CartPole-v1"\nepisode = 5\nout = "x"\n')
    assert main(["train", "training.toml"]) == 2
    assert "line 2: no key of a training 'episode'" in capsys.readouterr().err


def test_a_stopped_training_resumes_bit_for_bit(two_seeds, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training_seeds, "OFTEN", 0.0)
    request = training_seeds.read_begun(two_seeds).request

    def stop_in_the_second_seed(message):
        if message.seed == 1 and message.episodes == 4:
            raise KeyboardInterrupt

    out = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        training_seeds.train(request, out, training_seeds.Means(), stop_in_the_second_seed)
    results = training_results.read(out)
    assert results.unfinished == [1]
    assert 4 <= results.seeds[1].episodes <= EPISODES
    assert main(["summary", str(out)]) == 0
    told = capsys.readouterr().out
    assert "unfinished; 12 episodes, 2 seeds" in told
    assert f"everystep resume {out}" in told
    assert main(["resume", str(out), "--jobs", "1"]) == 0
    assert "unfinished" not in capsys.readouterr().out
    for seed in (0, 1):
        assert rows(out / f"seed-{seed}") == rows(two_seeds / f"seed-{seed}")
        assert arrays(out / f"seed-{seed}") == arrays(two_seeds / f"seed-{seed}")
    assert main(["resume", str(out)]) == 2
    assert "finished" in capsys.readouterr().err


def test_a_folder_that_another_process_trains_in_is_left_alone(two_seeds, tmp_path, capsys):
    out = tmp_path / "two"
    shutil.copytree(two_seeds, out)
    work = out / "seed-1" / ".work"  # as it is before the first checkpoint
    work.mkdir()
    shutil.move(out / "seed-1" / "spec.json", work / "spec.json")
    before = sorted(out.rglob("*"))
    with files.held(out, work / "pid"):
        assert (
            main([*ARGUMENTS, "--episodes", str(EPISODES), "--seeds", "2", "--evaluate", "3", "--out", str(out)]) == 2
        )
    assert "in use by another process" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before


def test_steps_end_with_the_episode_that_reaches_them(two_seeds, tmp_path):
    lengths = rows(two_seeds / "seed-0")["length"]
    wanted = sum(lengths[:5]) - 1
    result = by_python(0, tmp_path / "steps", steps=wanted)
    assert result.spec["seed"] == 0
    assert rows(tmp_path / "steps")["length"] == lengths[:5]
    again = by_python(0, tmp_path / "steps", steps=sum(lengths[:5]) + 1)  # and goes on
    assert again.plans == 6
    assert rows(tmp_path / "steps")["length"] == lengths[:6]
    with pytest.raises(EverystepError, match="give one of the two"):
        by_python(0, None, steps=3, episodes=3)


def test_more_episodes_learn_on_and_an_old_evaluation_is_not_shown(two_seeds, tmp_path, capsys):
    out = tmp_path / "two"
    shutil.copytree(two_seeds, out)
    more = ["--episodes", str(EPISODES + 1), "--seeds", "2", "--evaluate", "0", "--jobs", "1", "--out", str(out)]
    assert main([*ARGUMENTS, *more]) == 0
    told = capsys.readouterr().out
    assert "before they were trained on" in told
    assert rows(out / "seed-0")["return"][:EPISODES] == rows(two_seeds / "seed-0")["return"]
    for change, word in (
        (["--episodes", "3", "--seeds", "2"], "13 episodes"),
        (["--episodes", "13", "--seeds", "1"], "seed 1"),
        (["--episodes", "13", "--seeds", "2", "--horizon", "3"], "horizon"),
        (["--steps", "500", "--seeds", "2"], "13 episodes"),
    ):
        assert main([*ARGUMENTS, *change, "--out", str(out)]) == 2
        assert word in capsys.readouterr().err


def test_the_table_shows_the_numbers_of_the_rows(two_seeds, capsys):
    assert main(["summary", str(two_seeds)]) == 0
    told = capsys.readouterr().out
    violation = [sum(rows(two_seeds / f"seed-{seed}")["violation"]) for seed in (0, 1)]
    lines = {line.split()[0]: line.split() for line in told.splitlines() if line}
    assert [float(lines[each][3]) for each in ("0", "1")] == violation
    assert float(lines["mean"][1]) == pytest.approx(np.mean(violation))
    seed = training_results.read(two_seeds).seeds[0]
    ends = np.cumsum(seed.columns["length"])
    late = [r for r, begin in zip(seed.columns["return"], [0, *ends[:-1]], strict=True) if begin >= 0.7 * ends[-1]]
    assert seed.numbers()[2] == np.mean(late)


def test_an_evaluation_is_that_of_python_and_makes_a_gif(two_seeds, tmp_path, capsys):
    lake, fell = lake_and_constraint()
    out = tmp_path / "two"
    shutil.copytree(two_seeds, out)
    pytest.importorskip("PIL")
    gif = ["--gif", str(tmp_path / "episode.gif")]
    assert main(["evaluate", str(out), "--episodes", "4", "--seed", "7", *gif]) == 0
    assert "95 % bootstrap interval" in capsys.readouterr().out
    policy = es.Policy.load(out / "seed-1" / "policy")
    found = es.evaluate(policy, lake, constraint=fell, episodes=4, seed=7)
    saved = json.loads((out / "evaluation.json").read_text())["seeds"]
    assert np.mean(saved[1]["violation"]) == found.interval("violation")[0]
    assert np.mean(saved[1]["length"]) == found.interval("length")[0]
    from PIL import Image

    with Image.open(tmp_path / "episode.gif") as picture:
        assert 1 <= picture.n_frames <= saved[0]["length"][0] + 1  # equal frames are joined
    (out / "evaluation.json").write_text("{}")
    assert main(["summary", str(out)]) == 2
    assert main(["evaluate", str(tmp_path)]) == 2


def test_figures_of_a_training_are_drawn_also_of_an_unfinished_one(two_seeds, tmp_path):
    out = tmp_path / "figures"
    assert main(["figures", str(two_seeds), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} >= {"training.png", "training.svg"}


def test_other_commands_say_what_the_folder_is(two_seeds, tmp_path, capsys):
    for command in (
        ["certify", str(two_seeds)],
        ["theory", str(two_seeds)],
        ["compare", "--out", str(two_seeds)],
    ):
        assert main(command) == 2
        assert "training, not an experiment" in capsys.readouterr().err
    assert main(["resume", str(two_seeds / "seed-0")]) == 2
    assert f"everystep resume {two_seeds}" in capsys.readouterr().err
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "training.json").write_text('{"kind": "training", "format": 1, "request": {"env": 3}}')
    for command in ("summary", "figures", "report", "compare", "resume", "evaluate"):
        assert main([command, "foreign"]) == 2
        assert "foreign/training.json' is not in the list of what was written" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["training.json"]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--env", "Nope-v7"], "Nope-v7"),
        (["--env", "holes_for_test:broken"], "no simulator"),
        (["--env", "holes_for_test:nothing"], "has no 'nothing'"),
        (["--env", "holes_for_test:number"], "which is 3"),
        (["--env", "no_such_module:x"], "no_such_module"),
        (["--constraint", "holes_for_test:raises"], "division by zero"),
        (["--constraint", "holes_for_test:later"], "a sensor failed"),
        (["--constraint", "fell"], "module:function"),
        (["--features", "fourie(3)"], "Did you mean fourier"),
        (["--features", "__import__('os')"], "no features"),
        (["--cost-features", "tiles(x)"], "cost_features"),
        (["--set", "beta=much"], "beta"),
        (["--agent", "nobody"], "nobody"),
        (["--seeds", "0"], "seeds is 0"),
        (["--steps", "9"], "give one of the two"),
        (["--jobs", "0"], "jobs is 0"),
        (["--envs", "0"], "envs is 0"),
        (["--memory", "-1"], "memory is -1"),
        (["--reward-range", "5"], "two numbers"),
        (["--reward-range=2,1"], "the lower first"),
        (["--without-exploration", "3"], "explore in at least one"),
        (["--on-episode", "look"], "module:function"),
        (["--on-plan", "holes_for_test:number"], "module:function"),
        (["--stop-at-return", "nan"], "stop_at_return is nan"),
        (["--log", "paper"], "no log 'paper'"),
        (["--engine", "moon"], "no engine 'moon'"),
        (["--engine", "ray", "--jobs", "2"], "--jobs is for the engine local"),
    ],
)
def test_a_wrong_input_is_one_sentence_and_nothing_is_left(flags, word, tmp_path, capsys):
    before = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert main([*ARGUMENTS, "--episodes", "3", *flags, "--out", "out/bad"]) == 2
    told = capsys.readouterr().err
    assert word in told
    assert "Traceback" not in told
    left = sorted(path.name for path in tmp_path.iterdir() if path.name not in ("__pycache__", "out"))
    assert left == before
    if word != "a sensor failed":  # which is found in the first episode, whose steps are kept
        assert not Path("out/bad").exists()


def test_options_of_the_learner_and_an_early_end_are_those_of_python(tmp_path, capsys):
    flags = ["--envs", "2", "--reseed", "--reward-range", "0,2", "--without-exploration", "2", "--memory", "0"]
    end = ["--on-episode", "holes_for_test:look", "--episodes", str(EPISODES), "--evaluate", "0"]
    assert main([*ARGUMENTS, *flags, *end, "--out", "ended"]) == 0
    assert "unfinished" not in capsys.readouterr().out
    assert sys.modules["holes_for_test"].seen == [2, 3, 4, 5, 6, 7]
    _, fell = lake_and_constraint()
    pair = named.environments("holes_for_test:lake", 2)
    es.train(
        pair, es.agents.lsvi_ae(beta=0.3), constraint=fell, reseed=True, reward_range=(0, 2), memory=None, episodes=6,
        out=tmp_path / "python",
    )  # fmt: skip
    assert rows(tmp_path / "ended" / "seed-0") == rows(tmp_path / "python")
    assert main(["resume", "ended"]) == 2
    assert "finished" in capsys.readouterr().err
    (tmp_path / "training.toml").write_text(
        'env = "holes_for_test:lake"\nconstraint = "holes_for_test:fell"\nenvs = 2\nreseed = true\nevaluate = 0\n'
        'reward_range = [0, 2]\nwithout_exploration = 2\nmemory = 0\non_episode = "holes_for_test:look"\n'
        f'agent = "lsvi-ae"\nepisodes = {EPISODES}\nout = "ended"\n[settings]\nbeta = 0.3\n'
    )
    assert main(["train", "training.toml"]) == 0  # the same training, which is finished
    for line, word in (("reseed = 1", "reseed is 1"), ("reward_range = 3", "two numbers"), ("envs = 0", "envs is 0")):
        (tmp_path / "bad.toml").write_text(f'env = "CartPole-v1"\nepisodes = 2\nout = "x"\n{line}\n')
        assert main(["train", "bad.toml"]) == 2
        told = capsys.readouterr().err
        assert "line 4" in told
        assert word in told


class OneAfterAnother:
    """What the Ray engine does with tasks, in this process: turns of no length, all that is sent pickled."""

    def __init__(self):
        self.turns = 0

    def spread(self, tasks):
        for job in tasks.jobs:
            finished = False
            while not finished:
                sent = pickle.loads(pickle.dumps((tasks.work, tasks.shared, job, tasks.stands(job))))
                finished = tasks.take(job, pickle.loads(pickle.dumps(sent[0](*sent[1:], 0.0))))
                self.turns += 1
        return {}


def test_a_training_on_a_cluster_is_the_same_byte_for_byte(two_seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(training_seeds, "OFTEN", 0.0)
    cluster, told, out = OneAfterAnother(), [], tmp_path / "cluster"
    request = replace(training_seeds.read_begun(two_seeds).request, seeds=(0,))
    training_seeds.train(request, out, training_seeds.Means(cluster=cluster), told.append)
    content = lambda folder: {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (files.RECORD, "evaluation.json", "CARD.md")  # evaluated
    }
    assert content(out / "seed-0") == content(two_seeds / "seed-0")
    assert cluster.turns > EPISODES // 2
    assert [each.kind for each in told].count("finished") == 1


@pytest.mark.quick
def test_features_are_read_from_their_text_and_never_evaluated():
    same = {
        "auto": "auto",
        "one-hot": es.features.one_hot(),
        "fourier(100)": es.features.fourier(100),
        "fourier(20, lengthscale=[0.5, 1], low=-1, high=[2, 3.5])": es.features.fourier(
            20, lengthscale=[0.5, 1], low=-1, high=[2, 3.5]
        ),
        " polynomial(2) ": es.features.polynomial(2),
        "joined(tiles(4, bins=3), polynomial(1))": es.features.joined(
            es.features.tiles(4, bins=3), es.features.polynomial(1)
        ),
        "centres(3, constant=true)": es.features.centres(3, constant=True),
        "mirrored(fourier(5), actions=[1, 0])": es.features.mirrored(es.features.fourier(5), actions=[1, 0]),
    }
    for text, spec in same.items():
        assert syntax.read(text) == spec
    for text in (
        "",
        "fourier(",
        "fourier(2*3)",
        "os.system('x')",
        "fourier(open('x'))",
        "(" * 900,
        "joined(3)",
        "mirrored(3, [1, 0])",
        "mirrored(fourier(5))",
        "function(f)",
    ):
        with pytest.raises(EverystepError, match="features is"):
            syntax.read(text)


@pytest.mark.quick
def test_a_request_survives_json_and_anything_else_is_refused():
    request = TrainingRequest(
        "CartPole-v1",
        agent="lsvi-ae",
        settings={"beta": "0.3"},
        episodes=5,
        seeds=(3, 1),
        reward_range=(0.0, 1.0),
        stop_at_return=2.5,
    )
    written = json.loads(json.dumps(request.to_json()))
    assert TrainingRequest.from_json(written) == request
    short = {"env": "CartPole-v1", "episodes": 5}  # as an earlier version may have written it
    assert TrainingRequest.from_json(short) == TrainingRequest(**short)
    for key, value in (
        *(("env", None), ("seeds", []), ("episodes", 0), ("settings", {"beta": []}), ("agent", "nobody")),
        *(("envs", 0), ("memory", None), ("reseed", 1), ("reward_range", [1]), ("on_plan", 3), ("more", 1)),
    ):
        with pytest.raises(ValueError, match=r"."):
            TrainingRequest.from_json(written | {key: value})
