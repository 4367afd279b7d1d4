"""Pictures of the first episode and of the policy: taken when a training ends, read without its environment."""

import json
import shutil
from types import SimpleNamespace

import pytest
from helpers.by_name import REQUEST, module_here
from helpers.sealing import seal_again

from everystep.errors import EverystepError
from everystep.training.seeds import filmstrip
from everystep.training.seeds.request import TrainingRequest

pytest.importorskip("PIL", reason="Pillow is not installed: pictures are not tested")
REQUESTED = TrainingRequest(**REQUEST, episodes=2, seeds=(3,))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A training of one seed, and the folder of its pictures."""
    with module_here(tmp_path_factory.mktemp("training")) as folder:
        learner = REQUESTED.learner(3)
        result = learner.train(2)
        for name, data in filmstrip.record(REQUESTED, 3, result).items():
            (folder / "seed-3" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "seed-3" / name).write_bytes(data)
        seal_again(folder / "seed-3" / "pictures")
        yield folder, result


@pytest.mark.quick
def test_pictures_show_the_first_episode_and_one_of_the_policy(recorded):
    folder, result = recorded
    first, policy = filmstrip.read(folder / "seed-3", "restore it.")
    assert first.strip.length == policy.strip.length == 6
    assert first.strip.violation == result.columns["violation"][0]
    assert first.strip.earned == result.columns["return"][0]
    assert [each.step for each in first.strip.pictures] == list(range(7))
    assert first.strip.pictures[-1].unsafe == first.strip.unsafe == result.columns["unsafe_steps"][0]
    assert all(each.data.startswith("data:image/jpeg;base64,") for each in policy.strip.pictures)


def test_an_episode_that_does_not_repeat_is_not_shown(recorded):
    _, result = recorded
    other = result.columns | {"return": result.columns["return"] + 1}
    made = filmstrip.record(REQUESTED, 3, SimpleNamespace(columns=other, policy=result.policy))
    about = json.loads(made["pictures/pictures.json"])
    assert "does not repeat" in about["first"]["why"]
    assert about["policy"]["length"] == 6


@pytest.mark.parametrize("wrong", [{"width": 10**9}, {"step": [0] * 99}, {"length": "x"}, {"height": 11}])
def test_pictures_that_are_not_as_described_are_not_decoded(recorded, tmp_path, wrong):
    folder = shutil.copytree(recorded[0] / "seed-3", tmp_path / "seed-3")
    path = folder / "pictures" / "pictures.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(about | {"first": about["first"] | wrong}), encoding="utf-8")
    seal_again(folder / "pictures")
    with pytest.raises(EverystepError, match=r"pictures\.json .*cannot be read"):
        filmstrip.read(folder, "restore it.")


@pytest.mark.quick
def test_a_seed_without_pictures_says_so(tmp_path):
    (film,) = filmstrip.read(tmp_path, "restore it.")
    assert film.strip is None
    assert "no pictures" in film.why
