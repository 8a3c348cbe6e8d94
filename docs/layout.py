"""Write the list of folders and modules in docs/architecture.md from the tree and the docstrings of its packages.

python docs/layout.py
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- layout: begin -->\n", "<!-- layout: end -->\n"


def main() -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + layout() + END + rest.partition(END)[2], "utf-8")


def layout() -> str:
    """Return one line per loose module, and one line per folder with everything that it holds."""
    package = ROOT / "critiqor"
    loose = [path for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
    lines = [f"- `critiqor/{path.name}`: {summary(path)}\n" for path in loose]
    for folder in sorted(path.parent for path in package.rglob("__init__.py") if path.parent != package):
        inside = sorted(path.parent.name + "/" for path in folder.glob("*/__init__.py"))
        inside += sorted(path.stem for path in folder.glob("*.py") if path.name != "__init__.py")
        names = ", ".join(f"`{name}`" for name in inside)
        lines.append(f"- `{folder.relative_to(ROOT)}/`: {summary(folder / '__init__.py')} Holds {names}.\n")
    return "".join(lines)


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    main()
