"""What a scenario may say about learning."""

import subprocess
import sys


def test_the_specs_import_no_torch():
    code = "import sys, wflsim.learning, wflsim.learning.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
