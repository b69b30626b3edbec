"""`python -m softbins` is the command `softbins`."""

from softbins.cli import main

main()
