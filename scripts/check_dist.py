"""Check that wheel and sdist hold what they should: `make dist` runs it with the folder of both.

The wheel holds every file of src/softbins (templates, data and py.typed among them) and nothing
else but its own metadata; the sdist holds what it takes to build and test it.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
FOR_BUILD_AND_TESTS = {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "Makefile"}


def sources() -> set[str]:
    """Every file of the package, by its path inside the wheel."""
    paths = (path for path in SOURCES.rglob("*") if path.is_file())
    return {str(p.relative_to(SOURCES)) for p in paths if "__pycache__" not in p.parts}


def check_wheel(path: Path) -> None:
    """Stop with what is missing or too much."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    held = {name for name in names if ".dist-info/" not in name}
    _demand(path, sources() - held, "lacks")
    _demand(path, held - sources(), "should not hold")


def check_sdist(path: Path) -> None:
    """Stop with what is missing."""
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = FOR_BUILD_AND_TESTS | {f"src/{name}" for name in sources()}
    tests = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*.py")}
    _demand(path, (wanted | tests) - names, "lacks")


def _demand(path: Path, wrong: set[str], what: str) -> None:
    if wrong:
        sys.exit(f"{path.name} {what} {', '.join(sorted(wrong))}")


def only(folder: Path, pattern: str) -> Path:
    """The one file of its kind."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder}: need one {pattern}, found {len(found)}")
    return found[0]


if __name__ == "__main__":
    built = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    check_wheel(only(built, "*.whl"))
    check_sdist(only(built, "*.tar.gz"))
    print("wheel and sdist hold what they should")
