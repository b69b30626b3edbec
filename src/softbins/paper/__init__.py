"""The paper's experiments, reproduced: data, runs, tables, figures and one page.

`softbins paper run` does it all; README.md shows how.
"""
