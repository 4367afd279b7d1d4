"""Which cluster of Ray is joined."""

import importlib.util
import tempfile
from pathlib import Path

import pytest

from everystep.cli import main
from everystep.errors import EverystepError
from everystep.experiments.engines import ray as ray_engine
from everystep.experiments.engines import ray_cluster

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="RAY IS NOT INSTALLED: the Ray engine is not tested; pip install 'everystep[ray]'",
)


@needs_ray
def test_an_address_where_nobody_answers_is_said():
    with pytest.raises(EverystepError, match=r"127\.0\.0\.1:1"):
        with ray_engine.connected("127.0.0.1:1"):
            pass


@pytest.mark.quick
def test_the_current_cluster_is_the_recorded_one_that_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "mine"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    for place, address in {"mine": "10.0.0.1:1\n", "temporary": "10.0.0.1:2"}.items():
        record = tmp_path / place / "ray" / "ray_current_cluster"
        record.parent.mkdir(parents=True)
        record.write_text(address, encoding="utf-8")

    def current(*running):
        monkeypatch.setattr(ray_cluster, "running", lambda: set(running))
        return ray_cluster.current()

    assert current("10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3") == "10.0.0.1:1"
    assert current("10.0.0.1:2", "10.0.0.1:3") == "10.0.0.1:2"  # the other record is of a cluster that has ended
    assert current("10.0.0.1:3") == "10.0.0.1:3"
    with pytest.raises(EverystepError, match=r"2 Ray clusters .*10\.0\.0\.1:3, 10\.0\.0\.1:4"):
        current("10.0.0.1:3", "10.0.0.1:4")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:5")
    assert current("10.0.0.1:3") == "10.0.0.1:5"


@pytest.mark.quick
@needs_ray
def test_where_no_cluster_runs_there_is_none_to_join(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_cluster, "running", set)
    flags = ["--engine", "ray", "--address", "auto", "--out", str(tmp_path / "run")]
    assert main.main(["run", "--problem", "frozen-lake", "--agents", "lsvi", *flags]) == 2
    said = capsys.readouterr().err
    assert "address is 'auto', but no Ray cluster runs on this machine; start one with `ray start --head`" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("place", "where"), [("s", "s"), ("l" * 20, None), ("a b", None)])
def test_the_folder_of_a_private_cluster_has_a_short_path(place, where, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as here:
        temporary = Path(here) / place
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        with ray_cluster.private_folder() as folder:
            (folder / "logs").mkdir()
            assert folder.parent == (Path(here) / where if where else Path("/tmp"))
            assert len(str(folder)) <= ray_cluster.LONGEST
        assert not folder.exists()
