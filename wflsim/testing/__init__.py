"""The contract of policies, shipped so that users can test their own: `from wflsim.testing import check_policy`.

`contract.py` holds the checks, one function each; `quadratics.py` the small problem on which they are run; `toy.py` a
complete policy with what its author must know, which `wflsim new --policy` copies. Our own tests use all
three. Import `check_policy` from here; open `toy.py` first.
"""

from wflsim.testing.contract import CHECKS, check_policy

__all__ = ["CHECKS", "check_policy"]
