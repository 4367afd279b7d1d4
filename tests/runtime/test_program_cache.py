"""Compiled programs kept between commands: the same results, private, bounded, and never in the way."""

import argparse
import hashlib
import os
import stat
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from everystep.cli import shared
from everystep.runtime import program_cache

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A cache in a folder of the test."""
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(program_cache, "LEAST_SECONDS", 0.0)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    yield tmp_path / "cache"
    program_cache.disable()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


def entries(home):
    return sorted(path for path in home.rglob("*") if path.is_file())


def compiled(number=3.0):
    """A small program, compiled or looked up as if this process were new: JAX knows this function not yet."""
    return float(jax.jit(lambda x: jnp.sin(x) * number)(1.0))


@pytest.mark.quick
def test_a_program_is_kept_and_used_again(home):
    assert program_cache.enable() is not None
    value = compiled()
    kept = entries(home)
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    for path in kept:
        os.utime(path, (1, 1))
    assert compiled() == value
    assert entries(home) == kept
    assert all(path.stat().st_mtime > 1 for path in kept), times  # they were read


@pytest.mark.parametrize("harm", ["cut", "altered", "empty", "another"])
def test_a_damaged_entry_is_compiled_again_and_mended(home, harm, recwarn):
    program_cache.enable()
    value = compiled()
    whole = {path: path.read_bytes() for path in entries(home)}
    for path, content in whole.items():
        changed = bytes([content[-1] ^ 1])
        harms = {"cut": content[:-20], "altered": content[:-1] + changed, "empty": b"", "another": b"x" * 99}
        path.write_bytes(harms[harm])
    assert compiled() == value
    for path in whole:
        content = path.read_bytes()
        assert hashlib.sha256(content[program_cache.SEAL :]).digest() == content[: program_cache.SEAL]
    assert not list(recwarn)


@posix
@pytest.mark.quick
@pytest.mark.parametrize("open_to", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_open_is_not_trusted(home, open_to):
    folder = program_cache.enable()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for each in (folder, folder.parent):
        each.chmod(open_to)
        assert program_cache.enable() is None
        each.chmod(0o700)
    assert program_cache.enable() == folder


@posix
@pytest.mark.quick
def test_no_link_no_file_no_relative_path_and_no_folder_of_another_user_is_used(home, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.symlink_to(tmp_path / "elsewhere")
    assert program_cache.enable() is None
    home.unlink()
    home.write_text("not a folder", encoding="utf-8")
    assert program_cache.enable() is None
    home.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert program_cache.enable() is None
    assert not home.exists()
    monkeypatch.undo()
    for word in ("relative/cache", "off"):
        monkeypatch.setenv(program_cache.VARIABLE, word)
        assert program_cache.enable() is None
    monkeypatch.setenv(program_cache.VARIABLE, str(home))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "own"))  # the user's own goes first
    assert program_cache.enable() is None


@pytest.mark.quick
def test_a_cache_that_cannot_be_written_is_no_trouble(home, recwarn):
    folder = program_cache.enable()
    cache = program_cache.ProgramCache(folder / "gone")
    cache.put("key", b"value")
    assert cache.get("key") is None
    for path in (*folder.iterdir(), folder):
        path.rmdir() if path.is_dir() else path.unlink()
    assert compiled(5.0) == compiled(5.0)
    assert not list(recwarn)


@pytest.mark.quick
def test_those_used_longest_ago_go_first_when_there_are_too_many(home, monkeypatch):
    folder = program_cache.enable()
    cache = program_cache.ProgramCache(folder)
    for i in range(5):
        cache.put(f"program-{i}", bytes(1000))
        os.utime(folder / f"program-{i}", (i + 1, i + 1))
    assert cache.get("program-0") == bytes(1000)  # used now
    monkeypatch.setattr(program_cache, "MOST", 3500)
    program_cache.enable()
    assert {path.name for path in entries(home)} == {"program-0", "program-3", "program-4"}
    assert not list(home.rglob("*.partial"))


@pytest.mark.quick
def test_another_version_or_processor_has_another_folder(home, monkeypatch, tmp_path):
    folder = program_cache.enable()
    monkeypatch.setattr(program_cache, "__version__", "99")
    assert program_cache.enable() != folder
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("processor : 0\nflags : sse avx\nMHz : 1\n\nprocessor : 1\nflags : sse avx\n", encoding="utf-8")
    other.write_text("processor : 0\nflags : sse\nMHz : 1\n", encoding="utf-8")
    assert program_cache._processor(one) != program_cache._processor(other)
    other.write_text("processor : 0\nflags : sse avx\nMHz : 2\n", encoding="utf-8")
    assert program_cache._processor(one) == program_cache._processor(other)


CHILD = """
import sys
import everystep as es
from everystep.runtime import program_cache
program_cache.enable() if sys.argv[2] == "yes" else program_cache.disable()
es.run("bandit", ["lsvi"], episodes=30, seeds=2).save(sys.argv[1], figures=False)
"""


def test_a_run_is_the_same_byte_for_byte_without_with_and_from_the_cache(tmp_path):
    environment = os.environ | {program_cache.VARIABLE: str(tmp_path / "cache")}
    for out, use in (("without", "no"), ("first", "yes"), ("again", "yes")):
        command = [sys.executable, "-c", CHILD, str(tmp_path / out), use]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]  # how far it is
        assert (done.returncode, said) == (0, [])
        kept = entries(tmp_path / "cache")
        assert bool(kept) == (use == "yes")
    files = lambda name: {p.relative_to(tmp_path / name): p.read_bytes() for p in entries(tmp_path / name)}
    assert files("without") == files("first") == files("again")


@pytest.mark.quick
def test_a_command_keeps_programs_unless_told_otherwise_and_those_of_the_tests_never(home, monkeypatch):
    shared.use_cache(argparse.Namespace(no_cache=False))
    assert compiled(7.0)
    kept = entries(home)
    assert kept
    shared.use_cache(argparse.Namespace(no_cache=True))
    assert compiled(8.0)
    assert entries(home) == kept
    monkeypatch.undo()
    assert os.environ[program_cache.VARIABLE] == "off"
    shared.use_cache(argparse.Namespace(no_cache=False))
    assert compiled(9.0)
    assert entries(home) == kept
