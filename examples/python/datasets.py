"""Data that is on the machine once the packages are installed."""

import importlib
import inspect
import re
import sys

import numpy as np
import pyarrow as pa


def digits():
    """1,797 pictures of handwritten digits, 8 x 8 pixels each, from scikit-learn."""
    from sklearn.datasets import load_digits

    data = load_digits()
    rows = {"id": np.arange(len(data.target)), "digit": data.target.astype(np.int32)}
    return table(rows, data.data.astype(np.float32)), "digit >= 5", lambda table: np.asarray(table["digit"]) >= 5


def sentences():
    """What Python's standard library says of its functions, as vectors of a language model."""
    from minilm import MiniLM

    said = {}
    for name in sorted(sys.stdlib_module_names):
        # Some modules of other systems cannot be imported, others do something at once.
        if name.startswith("_") or name in ("antigravity", "idlelib", "this", "turtle", "turtledemo"):
            continue
        try:
            module = importlib.import_module(name)
        except Exception:
            continue
        for member, value in inspect.getmembers(module, inspect.isroutine):
            text = re.split(r"\n\s*\n", inspect.getdoc(value) or "")[0].replace("\n", " ").strip()
            if not member.startswith("_") and 20 < len(text) < 300 and getattr(value, "__module__", None) == name:
                said.setdefault(text, (name, f"{name}.{member}"))
    names = [name for _, name in said.values()]
    modules = [module for module, _ in said.values()]
    rows = {"id": np.arange(len(said)), "name": names, "module": modules, "text": list(said)}
    vectors = MiniLM().embed(list(said))
    return table(rows, vectors), "module < 'm'", lambda table: np.array([name < "m" for name in table["module"].to_pylist()])


def table(rows, vectors):
    """Columns, with the vectors as what Pointsman searches: fixed-size lists of single numbers."""
    flat = pa.array(vectors.ravel(), pa.float32())
    return pa.table({**rows, "embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})
