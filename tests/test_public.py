"""What the package promises to the outside, and how its parts may depend on each other."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import softbins

SOURCE = Path(softbins.__file__).parent
# Each layer may import those before it, and itself. `evaluation` is the public name of `report`.
LAYERS = [
    {"core"},
    {"nn"},
    {"tabular"},
    {"report", "evaluation", "paper"},
    {"serve"},
    {"cli"},
]
PACKAGES = {"nn", "tabular", "report", "evaluation", "paper", "serve", "cli"}
PAPER = ["data", "run", "show"]
PUBLIC = {
    "Bins",
    "Explanation",
    "FromCDF",
    "Gaussian",
    "GradientBound",
    "Histogram",
    "HistogramHead",
    "HistogramLoss",
    "HistogramRegressor",
    "ModelFileError",
    "NeuralRegressor",
    "OneBin",
    "Payoff",
    "Similarity",
    "StackedBins",
    "StackedHistogram",
    "Target",
    "TwoHot",
    "UniformMix",
    "gradient_bound",
    "load",
}


def test_public_names_are_exactly_these():
    assert set(softbins.__all__) == PUBLIC
    assert len(softbins.__all__) == len(PUBLIC)
    modules = {name for name, value in vars(softbins).items() if inspect.ismodule(value)}
    visible = {name for name in dir(softbins) if not name.startswith("_")}
    assert visible - modules == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_documented(name):
    item = getattr(softbins, name)
    assert item.__doc__
    for attribute, member in vars(item).items() if inspect.isclass(item) else []:
        own = inspect.isfunction(member) or isinstance(member, (property, classmethod))
        if own and not attribute.startswith("_"):
            assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def imports(path):
    """The modules of softbins that a file imports, as parts of their names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "softbins":
            yield from ([alias.name] for alias in node.names if alias.name not in PUBLIC)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softbins."):
            parts = node.module.split(".")[1:]
            yield from ([*parts, alias.name] for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name.split(".")[1:] for name in names if name.startswith("softbins."))


def layer(parts):
    room = parts[0] if parts[0] in PACKAGES else "core"
    room = "cli" if parts[0] == "__main__" else room
    return next(number for number, rooms in enumerate(LAYERS) if room in rooms), room


def module(path):
    return list(path.relative_to(SOURCE).with_suffix("").parts)


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: ".".join(module(path)))
def test_imports_point_one_way(path):
    own, room = layer(module(path))
    for parts in imports(path):
        other, theirs = layer(parts)
        name = ".".join(parts)
        assert other <= own, f"{name} is in a layer above this one"
        neighbours = {room, theirs} <= {"report", "evaluation"}
        assert other < own or room == theirs or neighbours, f"{name} is beside this one"


@pytest.mark.parametrize("room", PAPER)
def test_the_rooms_of_the_paper_point_one_way(room):
    paths = list((SOURCE / "paper" / room).glob("*.py"))
    used = {parts[1] for path in paths for parts in imports(path) if parts[0] == "paper"}
    assert paths
    assert used <= set(PAPER[: PAPER.index(room) + 1])


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        softbins.nothing  # noqa: B018


def test_importing_softbins_is_quick():
    slow = ("torch", "sklearn", "pandas", "click", "jax", "keras")
    code = f"import sys, softbins; print([m for m in {slow} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert softbins.__version__ == version("softbins")
