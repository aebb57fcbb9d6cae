"""`portable plugin …`: start a backend of your own, list those that are installed."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from portable.errors import ParameterError

app = typer.Typer(help="Backends of your own.", no_args_is_help=True)
console = Console(highlight=False)

_SUFFIX = ".tmpl"


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="name of the backend, as in using(backend=...)")],
    into: Annotated[Path, typer.Option(help="folder to make it in")] = Path(),
) -> None:
    """A distribution with one op that conforms at once: install it, then replace its kernel."""
    folder = skeleton(name, into)
    shown = escape(str(folder))
    console.print(f"made {shown}; next:")
    console.print(f"  pip install --editable {shown}")
    console.print(f"  portable conformance {escape(name)}")
    console.print(f"  pytest {shown}/tests")


@app.command("list")
def list_() -> None:
    """Every backend found by entry point, where it comes from, and what is wrong with it."""
    from portable import registry

    table = Table("backend", "from", "api", "state", box=None)
    for entry in sorted(registry.registered().values(), key=lambda e: e.name):
        version = str(getattr(entry.backend, "api_version", "-"))
        state = escape(entry.why) if entry.why else "ok"
        table.add_row(escape(entry.name), escape(entry.origin), version, state)
    console.print(table)


def skeleton(name: str, into: Path) -> Path:
    """Writes the skeleton of a plugin to `into/portable-NAME`; the folder.

    Raises:
        ParameterError: a name that cannot be one of a Python module, or is taken by ours.
        FileExistsError: the folder exists.
    """
    _check_name(name)
    words = {
        "@NAME@": name,
        "@DIST@": f"portable-{name.replace('_', '-')}",
        "@PACKAGE@": f"portable_{name}",
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
    }
    target = into / words["@DIST@"]
    target.mkdir(parents=True, exist_ok=False)
    for place, text in _templates(files("portable") / "plugin_template"):
        for word, value in words.items():
            text = text.replace(word, value)
        file = target / place.replace("package/", f"{words['@PACKAGE@']}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return target


def _check_name(name: str) -> None:
    from portable import registry

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ParameterError(
            f"plugin name is {name!r}; takes a lower-case Python name such as 'acme' or 'acme_npu'"
        )
    known = registry.registered().get(name)
    if known is not None:
        raise ParameterError(
            f"a backend named {name!r} is installed already ({known.origin}); choose another name"
        )


def _templates(root: Traversable, place: str = "") -> Iterator[tuple[str, str]]:
    for item in root.iterdir():
        if item.is_dir():
            yield from _templates(item, f"{place}{item.name}/")
        elif item.name.endswith(_SUFFIX):
            yield f"{place}{item.name.removesuffix(_SUFFIX)}", item.read_text("utf-8")
