"""Write docs/reproduction.md and its figures from the records in results/bike: `make docs`.

Nothing in them is typed: the text between the tables is here, the figures are the records'.
"""

from __future__ import annotations

from pathlib import Path

from softbins.paper.run.plan import ARTEFACTS, SCALES, plan_runs
from softbins.paper.run.store import Store
from softbins.paper.show.claims import judge_claims
from softbins.paper.show.figures import make_figure, save_figure
from softbins.paper.show.formats import render
from softbins.paper.show.paper_tables import (
    claims_table,
    main_table,
    overview_table,
    representation_table,
)

ROOT = Path(__file__).parent.parent
STORE = Store(ROOT / "results")
SCALE = SCALES["paper"]
PICTURES = {
    "bins": "Errors against the number of bins",
    "sigma": "Errors against sigma",
    "curves": "Gradient norm and errors against epochs",
    "targets": "Histogram of the targets",
}
HEAD = """# The paper on Bike Sharing, at full scale

Made by `make paper` from real data, all of it in the repository: 5 runs of up to 500 epochs for
every method and every value of its grid. Written by `make docs` from the records in `results/bike`;
[Where the paper is silent](deviations.md) says what it leaves open.
"""


def page() -> str:
    """The whole page as Markdown."""
    runs = plan_runs(ARTEFACTS, "bike", SCALE)
    records = [record for record in map(STORE.read, runs) if record is not None]
    hours = sum(record["seconds"] for record in records) / 3600
    machines = sorted({record["made_with"]["machine"] for record in records})
    spent = f"{len(records)} of {len(runs)} runs, {hours:.1f} core-hours on {'; '.join(machines)}."
    return "\n".join([HEAD, spent, "", *_claims(), *_tables(), *_pictures()]).rstrip("\n") + "\n"


def _claims() -> list[str]:
    lines = ["## What the paper claims, and what these runs say", ""]
    for claim in judge_claims("bike", SCALE, STORE):
        lines += [f"- {claim.sentence} **{claim.verdict.capitalize()}.** {claim.evidence}"]
    return [*lines, ""]


def _tables() -> list[str]:
    tables = [
        ("All methods, settings chosen on the test rows as in the paper", _main("paper")),
        ("All methods, settings chosen on validation rows", _main("honest")),
        ("Representations", render(representation_table("bike", SCALE, STORE), "markdown")),
        ("The text's extra claims", render(claims_table("bike", SCALE, STORE), "markdown")),
        ("The dataset", render(overview_table(["bike"]), "markdown")),
    ]
    return [line for title, text in tables for line in (f"## {title}", "", text, "")]


def _main(selection: str) -> str:
    return render(main_table("bike", SCALE, STORE, selection), "markdown")  # type: ignore[arg-type]


def _pictures() -> list[str]:
    return [
        line
        for name, title in PICTURES.items()
        for line in (f"## {title}", "", f"![{title}](figures/{name}-bike.svg)", "")
    ]


def draw(folder: Path) -> None:
    """All figures."""
    folder.mkdir(exist_ok=True)
    for name in PICTURES:
        figure = make_figure(name, "bike", SCALE, STORE)
        if figure is not None:
            save_figure(figure, folder / f"{name}-bike.svg")


if __name__ == "__main__":
    draw(ROOT / "docs" / "figures")
    (ROOT / "docs" / "reproduction.md").write_text(page())
    print("wrote docs/reproduction.md and its figures")
