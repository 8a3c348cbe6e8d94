"""Check the JavaScript of the recorder plugin and its tests with ESLint, and the types of the plugin with TypeScript.

    python tests/javascript/checks.py lint
    python tests/javascript/checks.py types

Both are pinned by the lock file here and installed into the user's cache. The plugin stays plain JavaScript: its types
are comments, and what it uses of OpenClaw is declared in openclaw.d.ts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from openclaw.install import install_packages  # noqa: E402

LINTED = ("critiqor/clawhub", "critiqor/openclaw", "tests/plugin", "tests/javascript", "benchmarks")


def main(check: str) -> int:
    packages = install_packages(HERE, "javascript") / "node_modules"
    commands = {
        "lint": ["eslint", "--config", str(HERE / "eslint.config.mjs"), "--max-warnings", "0", *LINTED],
        "types": ["tsc", "--project", str(HERE), "--typeRoots", str(packages / "@types")],
    }
    program, *arguments = commands[check]
    node = Path(sys.executable).parent / "node"
    return subprocess.run([node, packages / ".bin" / program, *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if sys.argv[1:] in (["lint"], ["types"]) else __doc__)
