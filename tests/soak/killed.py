"""A small run in a process of its own, to be killed. Not a test.

It writes a checkpoint after every chunk, and a letter to the pipe when it begins and ends (small and capital letter) to
start (s), to write a file (w), to flush one (f), to rename one (r), to fill the finished folder (p), or to remove .work
(d); writes and renames are slowed down so that a killer can hit them.
"""

import math
import os
import resource
import shutil
import signal
import time
from pathlib import Path

SLOW = 0.003


def marked(pipe, letter, function, slow=0.0):
    def wrapped(*arguments, **options):
        os.write(pipe.fileno(), letter.encode())
        time.sleep(slow)
        result = function(*arguments, **options)
        os.write(pipe.fileno(), letter.upper().encode())
        return result

    return wrapped


def run(out: Path, pipe, errors: Path, cache: Path, largest: int | None = None) -> None:
    """Begin or resume the run of a folder; what goes wrong is written to a file, as is what was compiled.

    With `largest`, no file may have more bytes, as if the disk were full.
    """
    os.write(pipe.fileno(), b"s")
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    import jax  # here, so that a process of its own can be killed while it imports

    import everystep as es
    from everystep import files
    from everystep.experiments import experiment, runner
    from everystep.experiments.folder import run_folder
    from everystep.files import store
    from everystep.runtime import memory

    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    store.EVERY, store.COST = 0.0, 0
    memory.free_disk = lambda path: math.inf  # a disk that was empty enough when the run began
    files.write = marked(pipe, "w", files.write, SLOW)
    os.fsync = marked(pipe, "f", os.fsync, SLOW / 3)
    os.replace = marked(pipe, "r", os.replace, SLOW)
    run_folder.write_results = marked(pipe, "p", run_folder.write_results)
    shutil.rmtree = marked(pipe, "d", shutil.rmtree)
    if largest is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    os.write(pipe.fileno(), b"S")

    if run_folder.is_unfinished(out):
        runner.resume(out)
    else:
        pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
        runner.run(experiment.prepare(pond, ["lsvi-ae"], 1200, 3), out, figures=False)
    os.write(pipe.fileno(), b"E")
