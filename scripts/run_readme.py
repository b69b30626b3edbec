"""Run README's Python examples with the installed softbins, as `make dist` does from the wheel."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import softbins

README = Path(__file__).parent.parent / "README.md"

if __name__ == "__main__":
    if not Path(softbins.__file__).is_relative_to(sys.prefix):
        sys.exit(f"softbins comes from {softbins.__file__}, not from the environment {sys.prefix}")
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for code in examples:
        exec(compile(code, "README.md", "exec"), names)
    print(f"softbins {softbins.__version__}: {len(examples)} examples of README.md ran")
