"""README and docs are tests: their code runs, their tables are generated, their links exist."""

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import softbins
from softbins.cli.program import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Its block needs another environment: tests/test_mlflow.py runs it there.
ELSEWHERE = [DOCS / "mlflow.md"]
MODULES = ["scores", "calibration", "plots", "evaluation", "pipelines", "jax", "keras"]


def script(name):
    sys.path.insert(0, str(DOCS))  # where a script finds those beside it
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = script("pictures")
named = {"ids": lambda page: str(page.relative_to(ROOT))}


# Code


WITH_CODE = [page for page in PAGES if pictures.blocks(page, "python") and page not in ELSEWHERE]
# An export takes torch many seconds; tests/tabular/test_onnx.py has one for every run.
SLOW = [DOCS / "deploy.md"]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in WITH_CODE],
    **named,
)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checks = LEARNT if page.name == "README.md" else []
    for number, (code, names) in enumerate(pictures.run(page)):
        for check in checks[number : number + 1]:
            check(code, **names)
    assert_pictures_are_those_of_the_page(page, tmp_path)


def table_is_learnt(code, *, y, mean, low, high, quantiles, predicted, **_):
    assert sum(bool(line) for line in code.splitlines()) <= 10
    new = y[400:]
    assert np.abs(mean - new).mean() < 0.8 * np.abs(new - y[:400].mean()).mean()
    assert ((low <= new) & (new <= high)).mean() > 0.8
    assert (np.diff(quantiles) > 0).all()
    assert np.allclose(predicted.mean, mean)


def network_learns(code, *, y, predicted, **_):
    assert sum(bool(line) for line in code.splitlines()) == 10
    low, high = predicted.interval(0.9)
    assert (predicted.mean - y).abs().mean() < 0.25 * y.std()
    assert ((low <= y) & (y <= high)).float().mean() > 0.85


# What the examples of the README promise, in their order.
LEARNT = [table_is_learnt, network_learns]


def assert_pictures_are_those_of_the_page(page, folder):
    """What the blocks have saved is shown by the page, and kept as it would be drawn today.

    The words have to agree, and the places of lines have not: a model that is trained on another
    processor differs in its last digits, and then in more.
    """
    drawn = pictures.saved(page, folder)
    shown = set(re.findall(rf"figures/({page.stem}-\S+\.svg)", page.read_text()))
    assert set(drawn) == (shown if page.parent == DOCS else set())
    for name, svg in drawn.items():
        kept = (pictures.FIGURES / name).read_text()
        assert words(kept) == words(svg), f"{name}: run `make docs`"
        assert len(kept) < 60_000, f"{name} is too large for a page"


def words(svg):
    """The labels of a picture; numbers depend on what was learnt."""
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return {re.sub(r"[\d.−]+", "0", label) for label in labels} - {"0"}


@pytest.mark.parametrize("name", ["branches.svg", "moving_support.svg", "scale.svg"])
def test_a_picture_of_the_results_is_shown_as_it_is(name):
    kept = (pictures.FIGURES / name).read_bytes()
    assert kept == (ROOT / "results" / name).read_bytes(), "run `make docs`"


# Commands


@pytest.mark.parametrize("page", PAGES, **named)
def test_every_make_command_exists(page):
    for target in set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)):
        shown = subprocess.run(
            ["make", "-n", "-C", ROOT, target], capture_output=True, text=True, check=False
        )
        assert shown.returncode == 0, f"{page.name} speaks of `make {target}`: {shown.stderr}"


def command_lines(page):
    """What `softbins` is called with, in shell blocks and in running text."""
    lines = [line for code in pictures.blocks(page, "sh") for line in code.splitlines()]
    lines += re.findall(r"`(softbins [^`\n]+)`", FENCE.sub("", page.read_text()))
    words = [shlex.split(line, comments=True) for line in lines if "..." not in line]
    return [line[1:] for line in words if line[:1] == ["softbins"]]


def check_command(words):
    """Raise click's own error for what the command line would refuse, files aside."""
    command, context = main, click.Context(main, info_name="softbins")
    while isinstance(command, click.Group) and words:
        _, command, words = command.resolve_command(context, words)
        context = click.Context(command, context, command.name)
    values, _, _ = command.make_parser(context).parse_args(list(words))
    for parameter in command.params:
        given = values.get(parameter.name)
        if not isinstance(parameter.type, click.Path) and isinstance(given, (str, list, tuple)):
            parameter.type_cast_value(context, given)
        # A command alone, as in "`softbins info` prints it", need not be complete.
        if words and parameter.required and parameter.name not in complete(values):
            raise click.MissingParameter(ctx=context, param=parameter)


def complete(values):
    """The names of parameters that were given."""
    return {name for name, value in values.items() if isinstance(value, (str, list, tuple, bool))}


@pytest.mark.parametrize("page", [p for p in PAGES if command_lines(p)], **named)
def test_every_command_line_is_understood(page):
    for words in command_lines(page):
        check_command(words)


@pytest.mark.parametrize(
    "line",
    [
        "fti a.csv",
        "fit a.csv --goal y",
        "fit a.csv -o a.model",
        "fit a.csv -o a.model --target y --preset slow",
        "paper run figures",
    ],
)
def test_a_wrong_command_line_is_found(line):
    with pytest.raises(click.UsageError):
        check_command(line.split())


# Links


def headings(page):
    """The anchors of a page, as the site makes them."""
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def check_link(page, link):
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    assert target.exists(), f"{page.name}: {link} leads nowhere"
    if page.is_relative_to(DOCS):
        assert target.is_relative_to(DOCS), f"{page.name}: {link} is not a part of the site"
    if anchor:
        assert anchor in headings(target), f"{page.name}: {link} has no such heading"


@pytest.mark.parametrize("page", PAGES, **named)
def test_every_link_inside_the_project_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", page.read_text())):
        if not link.startswith("https://"):
            check_link(page, link)


@pytest.mark.parametrize("link", ["nowhere.md", "table.md#nothing", "../README.md"])
def test_a_dead_link_is_found(link):
    with pytest.raises(AssertionError):
        check_link(DOCS / "index.md", link)


# Generated pages


def test_the_tables_of_the_pages_are_generated():
    tables = script("tables")
    texts = [page.read_text() for page in tables.PAGES]
    found = {name for text in texts for _, name, _ in tables.BLOCK.findall(text)}
    assert found == set(tables.RENDER)
    for text in texts:
        assert tables.rendered(text) == text, "run `make docs`"


def test_the_reproduction_is_generated():
    assert script("reproduction").page() == (DOCS / "reproduction.md").read_text(), (
        "run `make docs`"
    )


def test_the_page_of_commands_is_generated():
    assert script("commands").page() == (DOCS / "commands.md").read_text(), "run `make docs`"


def put_record(folder, name, record):
    (folder / f"{name}.json").write_text(json.dumps(record))


def test_the_table_of_parts_is_made_from_its_record(tmp_path):
    row = {"part": "trees", "mae": 1.012, "rmse": 0.996, "crps": 1.0, "width": None, "seconds": 0.5}
    row["coverage"] = -0.002
    record = {"development": {"tables": 27, "rows": [row]}, "heldout": {"tables": 7, "rows": [row]}}
    put_record(tmp_path, "ablation", record)
    text = script("regressor_tables").ablation(tmp_path)
    assert "| without, 27 development tables | MAE | RMSE | CRPS |" in text
    assert "| without, 7 held-out tables |" in text
    assert text.count("| trees | +1.2% | −0.4% | +0.0% |  | −50.0% | −0.2 points |\n") == 2


def test_the_table_of_parts_says_who_makes_it(tmp_path):
    assert "`make bench-ablation`" in script("regressor_tables").ablation(tmp_path)


def accuracy_record():
    """Two methods on two tables; the second predicts no distributions."""
    score = {"tables": 2, "ratio": 1.0, "rank": 1.0}
    worse = {"tables": 2, "ratio": 1.25, "rank": 2.0}
    rows = [
        {"method": "softbins", "mae": score, "rmse": score, "crps": score},
        {"method": "trees", "mae": worse, "rmse": worse},
    ]
    return {"tables": 2, "best": {"mae": 2, "rmse": 1, "crps": 2}, "rows": rows}


def test_held_out_tables_stand_beside_the_others(tmp_path):
    put_record(tmp_path, "accuracy", accuracy_record())
    new = {"mae": 1.0, "rmse": 1.0, "crps": 1.0, "tables": 7}
    rows = [
        {"method": "softbins", **new},
        {"method": "trees", **new, "mae": 1.5, "crps": None},
        {"method": "new", **new, "rmse": 2.0, "tables": 5},
    ]
    best = {"mae": 6, "rmse": 5, "crps": 7}
    put_record(tmp_path, "heldout", {"tables": 7, "rows": rows, "ours_best": best})
    text = script("regressor_tables").heldout(tmp_path)
    assert "| held-out MAE | held-out RMSE | held-out CRPS | development MAE |" in text
    assert "| trees | 1.50 | 1.00 |  | 1.25 | 1.25 |  |\n" in text
    assert "| new (5 of 7 held-out tables) | 1.00 | 2.00 | 1.00 |  |  |  |\n" in text
    assert "| 6 of 7 | 5 of 7 | 7 of 7 | 2 of 2 | 1 of 2 | 2 of 2 |\n" in text


def test_without_held_out_tables_the_others_are_shown_and_it_is_said(tmp_path):
    put_record(tmp_path, "accuracy", accuracy_record())
    text = script("regressor_tables").heldout(tmp_path)
    assert "| trees | 1.25 | 1.25 |  |\n" in text
    assert "yet to be run" in text


# The site


def pages_of(nav):
    """The pages of a nav, which are the strings at its leaves."""
    return [page for line in nav for page in re.findall(r"(\S+\.md)\s*$", line)]


def test_every_page_is_in_the_nav_once():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = re.search(r"^nav:\n(.*?)^\S", text, re.MULTILINE | re.DOTALL)[1].splitlines()
    assert sorted(pages_of(nav)) == sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))


def documented():
    pages = (page.read_text() for page in (DOCS / "api").glob("*.md"))
    return [name for text in pages for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]


def public_names():
    modules = {name: importlib.import_module(f"softbins.{name}") for name in MODULES}
    own = [f"softbins.{name}" for name in softbins.__all__]
    return own + [
        f"softbins.{module}.{name}"
        for module, found in modules.items()
        for name in getattr(found, "__all__", [])
    ]


def test_the_reference_names_every_public_name_once():
    names = documented()
    assert len(names) == len(set(names))
    assert set(public_names()) <= set(names)


@pytest.mark.parametrize("name", documented())
def test_every_name_of_the_reference_exists_and_is_documented(name):
    module, _, last = name.rpartition(".")
    item = getattr(importlib.import_module(module), last)
    assert item.__doc__


@pytest.mark.parametrize("path", sorted((DOCS / "assets").iterdir()), ids=lambda p: p.name)
def test_the_site_fetches_nothing_from_elsewhere(path):
    assert "//" not in re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    assert "font: false" in (ROOT / "mkdocs.yml").read_text()


def test_the_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {softbins.__version__}\n" in text
    assert "Improving Regression Performance with Distributional Losses" in text
