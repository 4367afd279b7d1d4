"""Numbered checkpoints, of which the last two are kept; JSON with arrays that carries its checksums."""

import json

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.files import store

pytestmark = pytest.mark.quick
ARRAYS = {"x": np.arange(3.0), "more": np.ones((2, 2), np.int32)}


def add(work, text):
    store.add(work, lambda folder: (folder / "text").write_text(text, encoding="utf-8"))


def read(place):
    text = (place / "text").read_text(encoding="utf-8")
    if text == "damaged":
        raise store.DamagedError(f"'{place}' has changed; restore it.")
    return text


def test_the_last_two_checkpoints_are_kept_newest_first(tmp_path):
    for text in "abcd":
        add(tmp_path, text)
    assert [read(place) for place in store.saved(tmp_path)] == ["d", "c"]
    assert store.next_number(tmp_path) == 5


def test_a_checkpoint_that_could_not_be_filled_leaves_the_others(tmp_path):
    add(tmp_path, "a")
    with pytest.raises(ZeroDivisionError):
        store.add(tmp_path, lambda folder: 1 / 0)
    assert [read(place) for place in store.saved(tmp_path)] == ["a"]


def test_the_newest_that_is_not_damaged_is_read_and_the_others_are_named(tmp_path, capsys):
    add(tmp_path, "a")
    add(tmp_path, "damaged")
    assert store.newest(store.saved(tmp_path), read) == "a"
    told = capsys.readouterr().err
    assert "checkpoint-000002" in told
    assert "the one before it is used" in told
    add(tmp_path, "damaged")
    assert store.newest(store.saved(tmp_path), read) is None
    assert "there is none before it" in capsys.readouterr().err


def test_writing_takes_at_most_a_small_part_of_the_time(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(store.time, "monotonic", lambda: clock[0])
    kept = store.Store(tmp_path)
    assert not kept.is_due()
    clock[0] = store.EVERY
    assert kept.is_due()
    kept.add(lambda folder: clock.__setitem__(0, clock[0] + 1.0))  # which takes a second
    clock[0] += store.COST - 0.5
    assert not kept.is_due()
    clock[0] += 1
    assert kept.is_due()


def written(folder, **content):
    store.write_sealed(folder / "what.json", {"format": 3, "name": "lake"} | content, ARRAYS)
    return folder / "what.json"


def reading(path, wanted=("x", "more")):
    return store.read_sealed(path, "policy", 3, "policy.save", wanted)


def test_content_and_arrays_are_read_as_they_were_written(tmp_path):
    content, arrays = reading(written(tmp_path))
    assert content["name"] == "lake"
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        np.testing.assert_array_equal(array, ARRAYS[name])
    assert reading(tmp_path / "what.json", ("x",))[1].keys() == {"x"}


def test_any_change_is_noticed(tmp_path):
    path = written(tmp_path)
    (npz,) = tmp_path.glob("*.npz")
    whole, arrays = path.read_bytes(), npz.read_bytes()
    for place, content in ((path, whole.replace(b"lake", b"sea!")), (npz, arrays[:-1] + b"x"), (path, whole[:-3])):
        place.write_bytes(content)
        with pytest.raises(store.DamagedError, match="policy"):
            reading(path)
        path.write_bytes(whole)
        npz.write_bytes(arrays)
    npz.unlink()
    with pytest.raises(store.DamagedError):
        reading(path)


def test_another_format_and_arrays_elsewhere_are_refused(tmp_path):
    with pytest.raises(EverystepError, match="format 2"):
        reading(written(tmp_path, format=2))
    path = written(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("checksum")
    content["arrays"]["name"] = "../" + content["arrays"]["name"]
    path.write_text(json.dumps(content | {"checksum": store.checksum(content)}), encoding="utf-8")
    with pytest.raises(store.DamagedError):
        reading(path)


def test_a_digest_changes_with_names_types_shapes_and_numbers():
    others = (
        {"y": ARRAYS["x"], "more": ARRAYS["more"]},
        ARRAYS | {"x": ARRAYS["x"].astype(np.float32)},
        ARRAYS | {"x": ARRAYS["x"][None]},
        ARRAYS | {"x": ARRAYS["x"] + 1e-9},
    )
    assert store.digest(dict(reversed(ARRAYS.items()))) == store.digest(ARRAYS)
    assert store.digest(ARRAYS) not in map(store.digest, others)
