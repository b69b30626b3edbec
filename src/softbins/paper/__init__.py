"""The experiments of Imani and White (ICML 2018), repeated and set beside the printed results.

The command `softbins paper` (in `softbins.cli.commands.paper`) goes through three packages, each of
which imports only those before it:

- `data` loads the three datasets, or simulated stand-ins for two of them, and splits their rows.
- `run` plans the runs that a table or figure needs, leaves out those whose records are in the
  store, groups the others into stacks, and has workers train the stacks. Each finished run becomes
  one record, which is written whole or not at all, so that repeating a command resumes it.
- `show` turns the records into tables, figures, verdicts on the paper's claims, and one HTML page.
"""
