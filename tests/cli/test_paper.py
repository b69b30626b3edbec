"""`softbins paper` as its users meet it, and what it shows while it works."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from softbins.cli import program as cli
from softbins.cli.commands import paper as commands
from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import SCALES, Scale, artefact_runs, method_runs, plan_runs
from softbins.paper.run.stacks import make_stacks, stack_name
from softbins.paper.run.store import Store
from softbins.paper.run.workers import run_all

COMMANDS = sorted(commands.paper.commands)
DEMO = Scale("demo", epoch_share=0.004, n_seeds=2, max_rows=1200, full_grids=False)
METRICS = ("train_objective", "train_mae", "train_rmse", "test_objective", "test_mae", "test_rmse")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with everything of a very small demo."""
    store = Store(tmp_path_factory.mktemp("made") / "store")
    runs = [r for name in ("table", "curves", "bins") for r in artefact_runs(name, "bike", DEMO)]
    run_all(runs, store)
    return store


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SCALES, "demo", DEMO)


def run(*arguments):
    return CliRunner().invoke(cli.main, ["paper", *map(str, arguments)])


def succeeds(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_that_parses(command):
    shown = succeeds(command, "--help").stdout
    examples = re.findall(r"^\s+softbins paper (\S+) ?(.*)$", shown, re.MULTILINE)
    assert examples
    for name, rest in examples:
        context = commands.paper.commands[name].make_context(name, rest.split())
        assert context.params


def test_help_does_not_wait_for_torch():
    code = "import sys, softbins.cli.commands.paper; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_run_then_table_then_page(tmp_path):
    first = succeeds("run", "table", "--scale", "demo", "--workers", 1, "--store", "here")
    assert "20 runs are finished at scale demo, 10 stacks were trained" in first.stdout
    lines = first.stderr.splitlines()
    assert len(lines) == 10
    assert re.match(r"\[1/10\] bike .*, 2 runs, test MAE [\d.]+", lines[0])
    again = succeeds("run", "table", "--scale", "demo", "--store", "here")
    assert "0 stacks were trained" in again.stdout
    assert "HL-Gaussian" in succeeds("table", "bike", "--store", "here").stdout
    page = succeeds("report", "--store", "here").stdout.strip()
    assert page == str(tmp_path / "report-bike-demo.html")
    assert "HL-Gaussian" in (tmp_path / "report-bike-demo.html").read_text()


def test_json_has_a_row_for_every_method_and_metric(made):
    rows = json.loads(succeeds("table", "bike", "--json", "--store", made.folder).stdout)
    assert {(row["method"], row["metric"]) for row in rows} == {
        (method, metric) for method in METHODS for metric in METRICS
    }
    keys = [
        "dataset",
        "method",
        "metric",
        "mean",
        "stderr",
        "runs",
        "published_mean",
        "published_stderr",
    ]
    for row in rows:
        assert set(keys) <= set(row)
        assert (row["dataset"], row["runs"]) == ("bike", 2)
        assert row["mean"] is not None
    best = next(r for r in rows if (r["method"], r["metric"]) == ("hl-gaussian", "test_mae"))
    assert (best["published_mean"], best["published_stderr"]) == (24.9521, 0.1328)
    assert best["scale"] == "demo"


@pytest.mark.parametrize("how", commands.FORMATS)
@pytest.mark.parametrize("name", ["bike", "representations", "claims", "overview"])
def test_every_table_has_every_format(name, how, made, tmp_path):
    printed = succeeds("table", name, "--format", how, "--store", made.folder).stdout
    assert len(printed.splitlines()) > 3
    succeeds("table", name, "--format", how, "--store", made.folder, "-o", "table.out")
    assert (tmp_path / "table.out").read_text() == printed


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
@pytest.mark.parametrize("name", ["bins", "curves", "targets"])
def test_figures_are_drawn_as_svg_and_pdf(name, suffix, made, tmp_path):
    path = tmp_path / f"drawn.{suffix}"
    succeeds("figure", name, "--store", made.folder, "-o", path)
    assert path.read_bytes().startswith(b"%PDF" if suffix == "pdf" else b"<?xml")


def test_a_figure_is_named_after_what_it_shows(made, tmp_path):
    assert succeeds("figure", "bins", "--store", made.folder).stdout.strip() == "bins-bike-demo.svg"
    assert (tmp_path / "bins-bike-demo.svg").exists()


def test_status_counts_runs(made):
    text = succeeds("status", "--store", made.folder).stdout
    assert "Bike Sharing, scale demo" in text
    assert re.search(r"table +20 +20", text)
    assert re.search(r"sigma +4 +14", text)
    summary = json.loads(succeeds("status", "--store", made.folder, "--json").stdout)
    assert summary["running"] == []
    assert summary["artefacts"][0] == {"artefact": "table", "finished": 20, "planned": 20}


def test_status_shows_what_is_running_and_not_who_was_killed(store):
    said = {"runs": 2, "title": "bike l2", "epoch": 3, "epochs": 4, "seconds": 1.0, "mae": 31.25}
    for name in ("alive", "killed"):
        store.write_progress(said | {"stack": name, "title": f"bike {name}"})
    with store.lock("alive", wait=False):
        shown = succeeds("status", "--store", store.folder).stdout
    assert "running: bike alive, epoch 3 of 4" in shown
    assert "killed" not in shown


def test_damaged_records_are_left_out_and_named(made, tmp_path):
    store = Store(shutil.copytree(made.folder, tmp_path / "store"))
    hurt = store.record_path(method_runs("bike", "l2", DEMO)[0])
    hurt.write_text("garbage")
    status = succeeds("status", "--store", store.folder).stdout
    assert re.search(r"table +19 +20", status)
    assert f"damaged: {hurt}: it is not JSON; `softbins paper run` sets it aside" in status
    for command in (["table", "bike"], ["figure", "bins"], ["report"]):
        result = succeeds(*command, "--store", store.folder)
        assert f"a damaged record is left out: {hurt}: it is not JSON" in result.stderr
        assert result.stderr.count("\n") == 1


def test_the_scale_is_that_of_other_artefacts_or_of_what_is_running(made, store):
    assert "scale demo" in succeeds("table", "claims", "--store", made.folder).stdout
    only = Store(store.folder / "only")
    shutil.copytree(made.folder, only.folder)
    for each in plan_runs(["sigma"], "bike", DEMO):
        only.record_path(each).unlink(missing_ok=True)
    result = run("figure", "sigma", "--store", only.folder)
    assert "softbins paper run sigma --scale demo" in result.stderr
    begun = make_stacks(method_runs("bike", "l2", DEMO))[0]
    said = {"runs": 2, "title": "bike l2", "epoch": 1, "epochs": 2, "seconds": 1.0, "mae": 31.25}
    store.write_progress(said | {"stack": stack_name(begun)})
    assert "scale demo" in succeeds("status", "--store", store.folder).stdout


def test_where_nothing_was_run_the_way_to_begin_is_said():
    for command in (["status"], ["table", "bike"], ["report"]):
        said = succeeds(*command, "--store", "nothing").stderr
        assert said.startswith("softbins: no run for it is finished; make some: softbins paper run")
        assert said.count("\n") == 1


def test_the_overview_has_all_datasets_and_says_what_is_not_there(tmp_path):
    shown = succeeds("table", "overview", "--data", tmp_path).stdout
    for words in ("Bike Sharing", "CT Position", "Song Year", "softbins paper fetch ct"):
        assert words in shown


def test_without_records_tables_say_so_and_show_the_published_figures():
    text = succeeds("table", "bike", "--store", "nothing").stdout
    assert "no run is finished" in text
    assert "24.95" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "picture"], "'picture' is not one of"),
        (["run", "--dataset", "boston"], "'boston' is not one of"),
        (["run", "--workers", "0"], "0 is not in the range"),
        (["run", "table", "--dataset", "ct", "--data", "."], "softbins paper fetch ct"),
        (["table", "bike", "--split", "fixed"], "--split: bike has random; got fixed"),
        (["table", "bike", "-o", "none/table.md"], "none"),
        (["figure", "sigma"], "no run for it is finished: softbins paper run sigma"),
        (["figure", "targets", "-o", "a.png"], r"expected a name that ends in .svg or .pdf"),
        (["fetch"], "Missing argument"),
        (["fetch", "ct", "song", "--from", "x.zip"], "--from: one file is one dataset"),
        (["fetch", "ct", "--from", "x.zip", "--data", "."], "x.zip: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    line = result.stderr.strip()
    assert "\n" not in line
    assert line.startswith("softbins: ")
    assert message in line


def test_a_missing_file_is_found_before_anything_runs():
    result = run("run", "table", "--dataset", "song", "--data", "empty", "--store", "here")
    assert result.exit_code == 2
    assert "softbins paper fetch song" in result.stderr
