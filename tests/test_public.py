"""What the package promises to the outside, and how its parts may depend on each other."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import softbins

SOURCE = Path(softbins.__file__).parent
# Each room may import those before it.
ORDER = [
    "checks",
    "bins",
    "targets",
    "fused",
    "histogram",
    "losses",
    "objectives",
    "scores",
    "calibration",
    "gradients",
    "network",
    "adam",
    "muon",
    "scaling",
    "training",
    "thinning",
    "heads",
    "progress",
    "storage",
    "columns",
    "models",
    "regressor",
    "recipe",
    "binning",
    "boosting",
    "ensemble",
    "tuning",
    "fitting",
    "tabular",
    "comparison",
    "__init__",
    "tables",
    "plots",
    "evaluation",
    "options",
    # The paper comes after all of the core, which never imports it; only the command line does.
    "paper.methods",
    "paper.download",
    "paper.originals",
    "paper.phantoms",
    "paper.simulate",
    "paper.datasets",
    "paper.splits",
    "paper.plan",
    "paper.store",
    "paper.execute",
    "paper.runner",
    "paper.display",
    "paper.published",
    "paper.cells",
    "paper.artefacts",
    "paper.render",
    "paper.figures",
    "paper.claims",
    "paper.report",
    "paper.__init__",
    "paper.commands",
    "cli",
]
PUBLIC = {
    "Bins",
    "FromCDF",
    "Gaussian",
    "GradientBound",
    "Histogram",
    "HistogramLoss",
    "HistogramRegressor",
    "ModelFileError",
    "NeuralRegressor",
    "OneBin",
    "Payoff",
    "Similarity",
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
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in ("softbins", "softbins.paper"):
            inside = node.module.removeprefix("softbins").strip(".")
            names = [f"{inside}.{alias.name}".strip(".") for alias in node.names]
            yield from (
                name if name in ORDER else f"{inside}.__init__".strip(".") for name in names
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softbins."):
            yield node.module.removeprefix("softbins.")


def room(path):
    return str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=room)
def test_imports_point_one_way(path):
    assert room(path) in ORDER, f"add {room(path)} to the order of rooms"
    allowed = ORDER[: ORDER.index(room(path))]
    assert set(imports(path)) <= set(allowed)


def test_every_room_is_on_the_page_about_the_design():
    page = (SOURCE.parent.parent / "docs" / "design.md").read_text()
    for name in ORDER:
        assert f"{name.rpartition('.')[2]}.py" in page, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        softbins.nothing  # noqa: B018


def test_importing_softbins_is_quick():
    code = (
        "import sys, softbins; "
        "print([m for m in ('torch', 'sklearn', 'pandas', 'click') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert softbins.__version__ == version("softbins")
