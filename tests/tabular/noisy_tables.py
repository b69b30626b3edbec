"""The simulated tables of benchmarks/coverage.py."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
_SPEC = importlib.util.spec_from_file_location("benchmark_of_coverage", _PATH)
benchmark = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(benchmark)
KINDS, LEVELS, simulated, held = (
    benchmark.KINDS,
    benchmark.LEVELS,
    benchmark.simulated,
    benchmark.held,
)
