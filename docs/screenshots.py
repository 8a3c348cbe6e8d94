"""Make demo runs, open them in the dashboard and the terminal, and save the pictures in docs/images.

    python docs/screenshots.py

It uses the Chromium of the browser tests. The agents are those of the lab: they follow a script, so that the pictures
show the same runs each time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from browser.chromium import browser  # noqa: E402
from browser.stage import make_demo, record_another  # noqa: E402
from served import Served  # noqa: E402
from support import BIN, Runs  # noqa: E402

LARGEST_BYTES = 150_000
COLUMNS = 110
SHOOT = ROOT / "docs" / "screenshots.mjs"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = make_demo(folder)
        play, live = record_another(folder, 0)
        _draw("show", runs["claim"], folder)
        _shoot(folder, runs, live["run"])
        Path(live["gate"]).touch()
        play.join()
    for image in sorted(IMAGES.iterdir()):
        size = image.stat().st_size
        print(f"{image.relative_to(ROOT)}  {size:,} bytes")
        if size > LARGEST_BYTES:
            raise SystemExit(f"{image.name} is larger than {LARGEST_BYTES:,} bytes")


def _shoot(folder: Path, runs: dict[str, str], live: str) -> None:
    """Save pictures of pages of the dashboard, at the size of a window."""
    run = runs["claim"]
    pages = {
        "overview": f"/runs/{run}",
        "conversation": f"/runs/{run}/conversation",
        "diagnosis": f"/runs/{run}/diagnosis",
        "timeline": f"/runs/{runs['forgetful']}/timeline",
        "evidence": f"/runs/{run}/evidence",
        "live": f"/runs/{live}/live",
        "runs": "/runs",
    }
    with Served(Runs(folder / "runs"), folder) as served:
        request = {**served.data, "browser": browser()._asdict(), "images": str(IMAGES), "pages": pages}
        subprocess.run([str(BIN / "node"), str(SHOOT), json.dumps(request)], check=True)


def _draw(verb: str, run: str, folder: Path) -> None:
    """Save the output of a verb in a terminal as an SVG picture."""
    import pexpect
    from rich.console import Console
    from rich.text import Text

    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    program, size = str(BIN / "critiqor"), (60, COLUMNS)
    child = pexpect.spawn(program, [verb, run], dimensions=size, cwd=str(folder), env=environment, encoding="utf-8")
    child.expect(pexpect.EOF)
    assert child.before is not None
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(child.before.replace("\r\n", "\n").strip("\n")))
        picture = console.export_svg(title=f"critiqor {verb} {run}", unique_id=verb)
    # Without the web font of rich, which browsers would download: any monospaced font will do.
    (IMAGES / f"{verb}.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
