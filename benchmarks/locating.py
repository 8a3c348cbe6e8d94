"""Can a newcomer find a function by the names of folders and files alone?

    python benchmarks/locating.py [--count N] [--seed N]     print the tree and N functions without their places
    python benchmarks/locating.py --answers FILE [...]       score answers, one `number path` per line

Give the first output to somebody who has not read the code. A function is shown as its signature and its docstring; the
answer is the path of the file in which they would look for it. The same seed draws the same functions.
"""

from __future__ import annotations

import argparse
import ast
import random
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent / "critiqor"


class Place(NamedTuple):
    path: str
    text: str


def main() -> None:
    options = parse_options()
    places = random.Random(options.seed).sample(public_functions(), options.count)
    if options.answers is None:
        print("\n".join(sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))))
        for number, place in enumerate(places, 1):
            print(f"\n{number}. {place.text}")
        return
    answers = dict(line.split(maxsplit=1) for line in options.answers.read_text("utf-8").splitlines() if line.strip())
    found = 0
    for number, place in enumerate(places, 1):
        answer = answers.get(str(number), "").strip()
        found += answer == place.path
        if answer != place.path:
            print(f"{number}. {place.text.splitlines()[0]}\n   is in {place.path}, expected in {answer or 'no file'}")
    print(f"found: {found} of {len(places)} (at least 23 of 25)")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answers", type=Path)
    return parser.parse_args()


def public_functions() -> list[Place]:
    """Every public function and method of the package that has a docstring."""
    return [place for path in sorted(ROOT.rglob("*.py")) for place in functions_in(path)]


def functions_in(path: Path) -> list[Place]:
    name = str(path.relative_to(ROOT))
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        inner, owner = [node], ""
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            inner, owner = list(node.body), f"{node.name}."
        for function in inner:
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name.startswith("_"):
                continue
            if (text := ast.get_docstring(function)) is not None:
                result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
                signature = f"def {owner}{function.name}({ast.unparse(function.args)}){result}"
                found.append(Place(name, f"{signature}\n   {text}"))
    return found


if __name__ == "__main__":
    main()
