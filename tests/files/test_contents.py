"""Arrays and JSON: what a file claims is compared with what it holds before it is read."""

import os
import zipfile
from tokenize import TokenError

import numpy as np
import pytest

import everystep as es
from everystep import files
from everystep.files import contents

pytestmark = pytest.mark.quick
HEADERS = {  # texts in the place of a header of an array, on which Python's parser fails in different ways
    "not closed": "{'descr': " + "'" * 3,
    "indented": "  1\n 2",
    "unhashable": "{[]: 1}",
    "deep": "-" * 9000 + "1",
    "long": "1" + "+1" * 4900,
    "names": "{1: 2, 'a': 3}",
    "no type": "{'descr': [('a',)], 'fortran_order': False, 'shape': (1,)}",
    "large": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30},)}}",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-5,)}",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_cannot_be_parsed_is_one_sentence_in_every_python(kind, tmp_path):
    header = HEADERS[kind].encode()
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    with pytest.raises(es.EverystepError, match=r"cannot be read as \.npz"):
        files.read_npz(tmp_path / "x.npz", lambda name: True)


@pytest.mark.parametrize("error", [TokenError, SyntaxError, MemoryError, RecursionError, TypeError, AttributeError])
def test_whatever_the_parser_of_a_header_raises_is_that_sentence(error, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise error

    files.write_npz(tmp_path / "x.npz", [("a", np.ones(2))])
    monkeypatch.setattr("ast.literal_eval", fail)
    with pytest.raises(es.EverystepError, match=r"cannot be read as \.npz"):
        files.read_npz(tmp_path / "x.npz", lambda name: True)


def test_an_array_that_claims_more_than_its_file_holds_is_not_made(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(es.EverystepError, match=r"cannot be read as \.npz"):
        files.read_npz(tmp_path / "x.npz", lambda name: True)


def test_arrays_that_take_far_more_than_their_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "ROOM", 2**16)
    arrays = [("wanted", np.ones(3)), ("bomb", np.zeros(10**5))]
    files.write_npz(tmp_path / "x.npz", arrays, compressed=True)
    with pytest.raises(es.EverystepError, match=r"would take 800024 bytes .* may take 65536"):
        files.read_npz(tmp_path / "x.npz", lambda name: True)
    assert list(files.read_npz(tmp_path / "x.npz", lambda name: name == "wanted")) == ["wanted"]
    files.write_npz(tmp_path / "plain.npz", arrays)
    assert len(files.read_npz(tmp_path / "plain.npz", lambda name: True)["bomb"]) == 10**5


def test_a_json_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "x.json").write_text("[1, 2, 3]")
    monkeypatch.setattr(contents, "LARGEST_JSON", 8)
    with pytest.raises(ValueError, match="too large"):
        files.read_json(tmp_path / "x.json")


def test_json_that_is_nested_too_deeply_or_no_file_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "x.json"
    for levels in (files.DEEPEST + 1, 900, 5000):
        path.write_text("[" * levels + "]" * levels, encoding="utf-8")
        with pytest.raises(ValueError, match="nested too deeply"):
            files.read_json(path)
    path.write_text('{"a": [{"b": 1}]}', encoding="utf-8")
    assert files.read_json(path) == {"a": [{"b": 1}]}
    path.unlink()
    os.mkfifo(path)  # which would wait for ever
    with pytest.raises(OSError, match="no regular file"):
        files.read_json(path)
