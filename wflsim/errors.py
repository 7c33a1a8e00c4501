"""Everything wflsim raises on purpose.

WflsimError
├── ScenarioError      the scenario file or an option is wrong (exit code 2)
├── DataError          a data set, a weight file or a user's module cannot be used
├── PolicyError        a policy breaks the contract that all of them keep
├── ReplayRefused      the world could change the learning, so a trace cannot stand in for training
├── Diverged           the model left the finite numbers; the rows so far are kept
├── Exhausted          nobody can ever serve again: batteries dead, no window left
└── StoreError         a run folder, trace or checkpoint is missing, foreign, corrupt or cannot be written
"""


class WflsimError(Exception):
    """Root of all of them: catch this one, and print it without a traceback."""


class ScenarioError(WflsimError):
    """What the user wrote cannot be run. The message says where, what was given, and what is allowed."""


class DataError(WflsimError):
    """Data, weights or a user's module are missing or of the wrong shape."""


class PolicyError(WflsimError):
    """A policy does what none may, or fails while it runs. The message begins with its file and line."""


class ReplayRefused(WflsimError):
    """A replay would be wrong here. The message names the scenario key that forbids it."""


class Diverged(WflsimError):
    """A parameter became infinite or NaN."""


class Exhausted(WflsimError):
    """No client is available now or later; the run ends here, its rows are valid."""


class StoreError(WflsimError):
    """A file that wflsim keeps could not be read, trusted or written."""
