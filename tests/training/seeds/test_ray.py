"""Seeds on a cluster: files that travel, turns that end early, and seeds that are lost."""

import pickle

import pytest
from helpers.by_name import REQUEST, module_here

from everystep import files
from everystep.errors import EverystepError
from everystep.training.seeds import ray, run
from everystep.training.seeds.request import TrainingRequest

REQUESTED = TrainingRequest(**REQUEST, episodes=2, seeds=(3,))


class InTurns:
    """A cluster of this process alone: everything travels as bytes, and a turn ends as soon as it may."""

    def __init__(self, lost=()):
        self.lost, self.turns = lost, 0

    def spread(self, tasks):
        for job in (each for each in tasks.jobs if each not in self.lost):
            finished = False
            while not finished:
                work, shared, stands = pickle.loads(pickle.dumps((tasks.work, tasks.shared, tasks.stands(job))))
                finished = tasks.take(job, work(shared, job, stands, 0.0))
                self.turns += 1
        return dict.fromkeys(self.lost, "its machine was lost")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "OFTEN", 0.0)
    with module_here(tmp_path) as folder:
        yield folder


def content(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != files.RECORD
    }


def test_a_seed_in_several_turns_is_that_of_this_machine(here):
    told, cluster = [], InTurns()
    run.train(REQUESTED, here / "cluster", run.Means(cluster=cluster), told.append)
    run.train(REQUESTED, here / "alone", run.Means(), lambda message: None)
    assert cluster.turns > 1
    assert content(here / "cluster" / "seed-3") == content(here / "alone" / "seed-3")
    assert told[-1].kind == "finished"


def test_a_seed_that_is_lost_is_named(here):
    with pytest.raises(EverystepError, match="seed 3: its machine was lost"):
        run.train(REQUESTED, here / "out", run.Means(cluster=InTurns(lost=(3,))), lambda message: None)


@pytest.mark.quick
def test_a_worker_with_other_versions_is_refused(here):
    shared = ray.Shared(REQUESTED.to_json(), str(here), str(here / "out"), {"numpy": "0"})
    with pytest.raises(EverystepError, match="install the same"):
        ray._work(shared, 3, None, 0.0)
