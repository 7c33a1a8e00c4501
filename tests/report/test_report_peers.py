"""Charts of peers and selectors: every number of them is derived again from the rows of real runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from small_scenarios import small

import wflsim
from wflsim.report.charts import peers
from wflsim.report.compose import compose, gather
from wflsim.report.figures.clients import peer_figures


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    lossy = ("radio.loss.probability=0.3", "stop.rounds=6")
    worlds = {
        "alone": small("policies=[{name: dsgd}, {name: drdsgd}]", "d2d.snr=[3 dB, 9 dB]", "d2d.edge_loss=one_way", *lossy),
        "fedcs": small("server.selector=fedcs", "server.fedcs.deadline=1 s", "cell.access=tdma", *lossy),
        "served": small(),
    }
    for name, scenario in worlds.items():
        wflsim.run(scenario, out=folder / name, workers=1)
    return folder


def test_links_are_the_mean_snr_and_the_share_that_was_lost(ran):
    material = gather([ran / "alone"])
    chart = peers.links(material.series)
    legs = pd.read_csv(ran / "alone/dsgd/seed-0/legs.csv")
    heard = legs[(legs["activity"] == "receive") & legs["peer"].notna()]
    assert len(chart.views) == 2
    texts = chart.views["0"]["data"][1]["text"]
    assert len(texts) == 6
    own = heard[((heard["client"] == 0) & (heard["peer"] == 1)) | ((heard["client"] == 1) & (heard["peer"] == 0))]
    assert texts[0] == f"0 – 1: 3.0 dB, {100 * (own['outcome'] != 'ok').mean():.1f} % lost"
    assert "sending: broadcast, duplex: half, edge_loss: one_way" in chart.note
    assert "not doubly stochastic" in chart.note
    assert {section.title for section in compose(material).sections} >= {"Peers", "Clients"}


def test_consensus_is_the_distance_of_the_nodes_over_what_it_cost(ran):
    chart = peers.consensus(gather([ran / "alone"]).series)
    rows, rounds = (pd.read_csv(ran / f"alone/dsgd/seed-0/{name}.csv") for name in ("clients", "rounds"))
    line = chart.views["apart|energy_j"]["data"][0]
    expected = [np.sqrt((part["apart"] ** 2).mean()) for _, part in rows.groupby("round")]
    np.testing.assert_allclose(line["y"], expected)
    energy = rounds["energy_j"].cumsum()
    np.testing.assert_allclose(line["x"] / line["x"][-1], energy / energy.iloc[-1])
    worst = chart.views["worst|rounds"]["data"][0]["y"]
    np.testing.assert_allclose(worst, rounds["worst"])


def test_selection_shows_who_and_the_plan(ran):
    chart = peers.selection(gather([ran / "fedcs"]).stories)
    legs, rounds = (pd.read_csv(ran / f"fedcs/fedavg/seed-0/{name}.csv") for name in ("legs", "rounds"))
    bars = chart.views["who"]["data"][0]["y"]
    asked = legs[legs["activity"].isin(["receive", "compute", "transmit"])].groupby("client")["round"].nunique()
    np.testing.assert_allclose(bars, asked.reindex(range(6), fill_value=0) / 6)
    jain = bars.sum() ** 2 / (6 * (bars**2).sum())
    assert f"fedavg: fairness by Jain {jain:.2f}" in chart.note
    planned, real = chart.views["plan"]["data"][:2]
    np.testing.assert_allclose(np.nanmax(real["y"]) / np.nanmax(planned["y"]), (rounds["end_s"] - rounds["start_s"]).max() / rounds["planned_s"].max())


def test_a_run_with_a_server_and_the_policys_own_draw_shows_none_of_it(ran):
    material = gather([ran / "served"])
    assert peers.links(material.series) is None
    assert peers.consensus(material.series) is None
    assert peers.selection(material.stories) is None
    assert "Peers" not in {section.title for section in compose(material).sections}


def test_figures_for_papers_are_drawn_for_peers_alone(ran):
    assert [name for name, _ in peer_figures(gather([ran / "alone"]))] == ["links", "nodes_against_energy", "nodes_against_time"]
    assert list(peer_figures(gather([ran / "served"]))) == []
