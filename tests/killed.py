"""A small run in a process of its own, to be killed: python killed.py OUT PIPE. Not a test.

It writes a checkpoint after every chunk, and a letter to the pipe when it begins and ends (small and capital letter) to
write a file (w), to flush one (f), to rename one (r), to fill the finished folder (p), or to remove .work (d); writes
and renames are slowed down so that a killer can hit them.
"""

import os
import shutil
import sys
import time

OUT, PIPE = sys.argv[1], int(sys.argv[2])
SLOW = 0.003


def marked(letter, function, slow=0.0):
    def wrapped(*arguments, **options):
        os.write(PIPE, letter.encode())
        time.sleep(slow)
        result = function(*arguments, **options)
        os.write(PIPE, letter.upper().encode())
        return result

    return wrapped


os.write(PIPE, b"s")
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

from pathlib import Path  # noqa: E402

import everystep as es  # noqa: E402
from everystep import checkpoint, durable, experiment, runner, store  # noqa: E402

checkpoint.EVERY, checkpoint.COST = 0.0, 0
durable.write = marked("w", durable.write, SLOW)
os.fsync = marked("f", os.fsync, SLOW / 3)
os.replace = marked("r", os.replace, SLOW)
store.fill = marked("p", store.fill)
shutil.rmtree = marked("d", shutil.rmtree)
os.write(PIPE, b"S")

if store.is_unfinished(Path(OUT)):
    runner.resume(Path(OUT))
else:
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    runner.run(experiment.prepare(pond, ["lsvi-ae"], 1200, 3), Path(OUT), figures=False)
os.write(PIPE, b"E")
