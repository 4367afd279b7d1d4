"""Arrays in npz files, never pickled and never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from everystep.errors import EverystepError


def read_npz(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The arrays whose names are wanted; others are not touched."""
    broken = EverystepError("it cannot be read as .npz. Write it with numpy.savez.")
    if not zipfile.is_zipfile(path):  # numpy takes any other file for a pickle
        raise broken
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if wanted(name)}
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise broken from None
        raise EverystepError("it holds Python objects, which are never unpickled. Save plain number arrays.") from None
    except (OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise broken from None


def write_npz(file: str | Path | BinaryIO, arrays: Iterable[tuple[str, np.ndarray]], compressed: bool = False) -> None:
    """Arrays under their names, one after another: they need not be in memory together. The same arrays, same bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
