"""Monitor files of stable-baselines3 become rows."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep.cli import main as command

pytestmark = pytest.mark.quick


def monitor(path, episodes, names="r,l,t,harm", header='#{"t_start": 1.5, "env_id": "Cart"}'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join([header, names, *(",".join(map(str, each)) for each in episodes)]) + "\n", encoding="utf-8"
    )
    return path


def test_monitor_files_become_rows_at_the_resolution_of_episodes(tmp_path, capsys):
    monitor(
        tmp_path / "ppo_seed3.monitor.csv", [(5, 10, 0.1, 0.5), (7, 20, 0.2, 0), (8, 10, 0.3, 1.5), (9, 60, 0.4, 0)]
    )
    monitor(tmp_path / "ppo_seed4.monitor.csv", [(1, 50, 0.1, 0)] * 30)
    words = ["leaderboard", "--convert", str(tmp_path), "--system", "ppo", "--problem", "cart", "--out"]
    assert command.main([*words, str(tmp_path / "new" / "ppo.parquet"), "--versions", '{"torch": "2.4"}']) == 0
    assert "2 rows of ppo on cart" in capsys.readouterr().out
    first, second = pq.read_table(tmp_path / "new" / "ppo.parquet").to_pylist()
    assert {name: first[name] for name in ("seed", "steps", "harm", "unsafe_steps", "last_violation")} == {
        "seed": 3, "steps": 100, "harm": 2.0, "unsafe_steps": 20, "last_violation": 40,
    }  # fmt: skip
    assert (first["final_return"], first["final_harm"], first["final_episodes"]) == (9.0, 0.0, 1)
    assert (first["versions"], first["seconds"], first["kind"]) == ('{"torch": "2.4"}', 0.4, "rival")
    ends = np.array([10, 30, 40, 100])
    for i, harm in enumerate(first["harm_curve"]):  # at steps 2, 4, ..., 100
        assert harm == sum(h for end, h in zip(ends, (0.5, 0, 1.5, 0), strict=True) if end <= 2 * (i + 1))
    assert {i: each for i, each in enumerate(first["return_curve"]) if each == each} == {
        4: 5.0,
        14: 7.0,
        19: 8.0,
        49: 9.0,
    }
    assert (second["last_violation"], second["final_episodes"]) == (0, 9)
    assert json.loads(first["settings"])["last_violation"] == "the end of the last episode with a violation"


def test_final_policies_and_counted_unsafe_steps_are_used_if_they_are_there(tmp_path):
    for seed in (0, 1):
        monitor(tmp_path / "train" / f"{seed}.monitor.csv", [(5, 10, 0.1, 4, 0.5)], "r,l,t,unsafe_steps,cost")
        monitor(tmp_path / "eval" / f"{seed}.monitor.csv", [(5 + seed, 10, 0.1, 0), (7, 10, 0.1, 1)], "r,l,t,cost")
    out = es.convert_monitor(
        tmp_path / "train", tmp_path / "sac.parquet", system="sac", problem="cart", final=tmp_path / "eval",
        harm_column="cost", seeds=[7, 8], kind="ours",
    )  # fmt: skip
    rows = pq.read_table(out).to_pylist()
    assert [each["seed"] for each in rows] == [7, 8]
    assert [each["final_return"] for each in rows] == [6.0, 6.5]
    assert [(each["unsafe_steps"], each["final_harm"], each["final_episodes"]) for each in rows] == [(4, 0.5, 2)] * 2
    assert json.loads(rows[0]["settings"])["unsafe_steps"] == "counted"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"header": "r,l,t,harm"}, "begins with 'r,l,t,harm', not # and JSON"),
        ({"names": "r,l,t,cost"}, "has no column harm, only r, l, t, cost"),
        ({"episodes": []}, "has no episode"),
        ({"episodes": [(1, 2, 3)]}, "episode 1 has 3 values instead of 4"),
        (
            {"episodes": [(1, 2, 3, 0), (1, 2, 3, -1)]},
            "harm of episode 2 is '-1'; it must be a finite number of at least 0",
        ),
        ({"episodes": [("nan", 2, 3, 0)]}, "r of episode 1 is 'nan'"),
        ({"episodes": [(1, 2.5, 3, 0)]}, "l of episode 1 is '2.5'; it must be a whole number of at least 1"),
    ],
)
def test_what_is_no_monitor_file_is_refused(content, words, tmp_path):
    monitor(tmp_path / "0.monitor.csv", **({"episodes": [(1, 2, 3, 0)]} | content))
    with pytest.raises(es.EverystepError, match=re.escape(words)):
        es.convert_monitor(tmp_path, tmp_path / "x.parquet", system="s", problem="p")


def test_seeds_of_monitor_files_must_be_clear(tmp_path):
    convert = lambda **more: es.convert_monitor(tmp_path, tmp_path / "x.parquet", system="s", problem="p", **more)
    with pytest.raises(es.EverystepError, match="holds no file"):
        convert()
    monitor(tmp_path / "v2-17.monitor.csv", [(1, 2, 3, 0)])
    with pytest.raises(es.EverystepError, match="does not name one seed"):
        convert()
    monitor(tmp_path / "seed-2" / "monitor.csv", [(1, 2, 3, 0)])
    with pytest.raises(es.EverystepError, match="has 2 files; give one for each"):
        convert(seeds=[1])
    assert pq.read_table(convert(seeds=[2, 1]))["seed"].to_pylist() == [1, 2]
    (tmp_path / "v2-17.monitor.csv").rename(tmp_path / "seed2.monitor.csv")
    with pytest.raises(es.EverystepError, match="are both of seed 2"):
        convert()
