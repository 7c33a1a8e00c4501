"""The convergence study of reports/policies/minimax.md, reduced: which policies reach the minimax point, and which ERM."""

from __future__ import annotations

import numpy as np
import pytest

from studies.policies.minimax import AT_ERM, ROBUST, erm, minimax, study, the_problem, worst


def test_scipys_point_is_a_minimax_point():
    """No direction improves the worst loss, and it lies well below ERM's."""
    p = the_problem()
    w, value = minimax(p)
    draw = np.random.default_rng(0)
    assert worst(p, w) == pytest.approx(value, rel=1e-9)
    assert all(worst(p, w + 1e-3 * draw.normal(size=p.P)) >= value - 1e-12 for _ in range(500))
    assert worst(p, erm(p)) > 1.5 * value


@pytest.mark.slow
def test_robust_policies_close_the_gap_and_drdm_stays_at_erm():
    rows, facts = study(1200, names=(*ROBUST, *AT_ERM))
    found = {row["policy"]: row for row in rows}
    for name in ROBUST:
        assert found[name]["closed"] >= 0.9, name
    for name in AT_ERM:
        assert found[name]["worst"] == pytest.approx(facts["ERM"], rel=0.01), name
    assert found["DRDM"]["lambda max"] > 0.5, "although its lambda knows whom it should care for"
