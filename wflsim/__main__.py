"""`python -m wflsim`."""

from wflsim.cli import main

main()
