"""A changed kernel, or a changed helper of it, makes old records void; a neighbour does not."""

from __future__ import annotations

import importlib
import sys

import pytest

from portable.records import source, source_hash


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "hashed_backend"
    folder.mkdir()
    files = {
        "__init__.py": "",
        "matmul.py": "from hashed_backend import _tiles\nSOURCES = ('matmul.cl',)\n",
        "softmax.py": "from ._rows import rows\n",
        "_tiles.py": "from hashed_backend._deep import x\n",
        "_deep.py": "x = 1\n",
        "_rows.py": "rows = 1\n",
        "matmul.cl": "kernel\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [n for n in sys.modules if n.startswith("hashed_backend")]:
        del sys.modules[name]


def hashes():
    source._hash.cache_clear()
    source._imported.cache_clear()
    modules = (importlib.import_module(f"hashed_backend.{op}") for op in ("matmul", "softmax"))
    return tuple(source_hash(m) for m in modules)


@pytest.mark.parametrize(
    ("changed", "which"),
    [("_deep.py", 0), ("_tiles.py", 0), ("matmul.cl", 0), ("matmul.py", 0), ("_rows.py", 1)],
)
def test_what_a_change_reaches(package, changed, which):
    before = hashes()
    with (package / changed).open("a") as file:
        file.write("\n# changed\n")
    after = hashes()
    assert after[which] != before[which]
    assert after[1 - which] == before[1 - which]


def test_our_own_backends_have_hashes():
    from portable import registry

    entry = registry.registered()["numpy"]
    found = {op: source_hash(registry.implementation(entry, op)) for op in registry.op_names()}
    assert all(found.values())
    assert len(set(found.values())) == len(found)
