"""Takes the JavaScript libraries out of the installed Python packages that carry them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from stages.common.errors import UserError
from stages.common.files import write_text

PLOTLY = ("plotly", "package_data/plotly.min.js")
TABLES = ("itables", "html/dt_bundle.js")
EXPORT = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?")


def write_libraries(folder: Path) -> None:
    """Write plotly.js and datatables.js, each a plain script, into `folder`.

    Raises:
        UserError: a package is not installed, or is of a version that is built otherwise.
    """
    write_text(folder / "plotly.js", _read(*PLOTLY))
    write_text(folder / "datatables.js", as_script(_read(*TABLES), "DataTable"))


def as_script(module: str, name: str) -> str:
    """An ES module as a plain script that sets the global `name` to its default export.

    Browsers load modules from no file: only scripts.
    """
    exports = EXPORT.findall(module)
    default = re.search(r"([\w$]+) as default\b", exports[0]) if len(exports) == 1 else None
    if default is None:
        raise UserError(
            "the bundle of DataTables is not built as it was",
            where="/".join(TABLES),
            remedy="install what requirements.lock names: make setup",
        )
    body = EXPORT.sub(lambda _: f";globalThis.{name}={default.group(1)};", module)
    return f"(function(){{{body}\n}})();\n"


def _read(package: str, name: str) -> str:
    spec = find_spec(package)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    path = folder / name if folder else None
    if path is None or not path.is_file():
        raise UserError(
            f"the report needs {name} of the package {package}",
            where=package,
            remedy="install what requirements.lock names: make setup",
        )
    return path.read_text(encoding="utf-8")
