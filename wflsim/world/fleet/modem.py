"""Modems: one law of the electric power of a radio by what it does, and the constants of named ones.

While it radiates p watts, a modem draws

    P(p) = P_c + (p_max/eta)(p/p_max)^gamma

and beta joules for every bit besides. gamma = 1 is a linear amplifier (as in ns-3), 0.5 one of class B, whose
efficiency falls with the square root of the power, 0 one of class A, which draws the same at any power. All figures are
of the radio alone: what the device draws is this plus what its processor draws.

Tags of the constants: [F] found in a source, [D] derived from found ones, [M] from memory and unverified, [A] assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from wflsim.spec import choices
from wflsim.units import db_to_ratio, dbm_to_w

TOLERANCE = db_to_ratio(0.05)
"""Factor by which a radiated power may exceed a modem's limit and still count as the limit: 23 dBm is called 0.2 W."""

ModemName = Annotated[
    Literal[
        "ideal", "wifi_nic", "wifi_phone", "lte", "lte_2012", "nr_low", "nr_mmwave", "nb_iot", "lora", "ble",
    ],
    choices(
        ideal="draws what it radiates, 100 mW receiving, 10 mW listening, nothing asleep: the source paper's radio",
        wifi_nic="a WiFi card, up to 20 dBm with a linear amplifier; listening costs nearly what receiving does",
        wifi_phone="a phone's WiFi, up to 20 dBm with a linear amplifier; listens at 0.14 W",
        lte="a phone's LTE modem, up to 23 dBm with a class-B amplifier; wakes in 0.26 s, tail of 10 s",
        lte_2012="Huang's LTE phone of 2012: 438 nJ per bit sent, whatever is radiated",
        nr_low="a phone's 5G modem below 6 GHz, up to 23 dBm; wakes in 2 s, tail of 10.6 s",
        nr_mmwave="a phone's millimetre-wave modem, up to 23 dBm; wakes in 2 s, tail of 10.6 s",
        nb_iot="an NB-IoT modem, up to 23 dBm; nearly nothing asleep, tail of 10 s",
        lora="a LoRa modem, up to 14 dBm with a linear amplifier",
        ble="a Bluetooth Low Energy radio, up to 8 dBm with a linear amplifier",
    ),
]  # fmt: skip

MODEMS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "wifi_nic": {  # Halperin 2010, as in ns-3: all [F] but the limit
        "circuit_power": 0.82, "max_power": dbm_to_w(20), "amplifier_efficiency": 0.10, "amplifier_exponent": 1.0,
        "receive_power": 0.94, "listen_power": 0.82, "sleep_power": 0.1,
    },
    "wifi_phone": {  # Pixel currents: circuit [D], receive, listen [F], wake, tail [M], wake power [A] as receiving
        "circuit_power": 0.74, "max_power": dbm_to_w(20), "amplifier_efficiency": 0.10, "amplifier_exponent": 1.0,
        "receive_power": 0.36, "listen_power": 0.14, "sleep_power": 0.0, "wake": 0.08, "wake_power": 0.36,
        "tail": 0.24, "tail_power": 0.12,
    },
    "lte": {  # Pixel modem currents: circuit, efficiency, J/bit [D], receive, listen, wake (ARO), tail [F], sleep [A]
        "circuit_power": 0.89, "max_power": 0.2, "amplifier_efficiency": 0.234, "amplifier_exponent": 0.5,
        "receive_power": 0.54, "receive_energy_per_bit": 12e-9, "listen_power": 0.58, "sleep_power": 0.0,
        "wake": 0.26, "wake_power": 1.21, "tail": 10.0, "tail_power": 0.58,
    },
    "lte_2012": {  # Huang et al.: 438/52 mW per Mbit/s and 1.288 W [M], which contain an amplifier under power control;
        # wake and tail are ARO's [F], sleep [A]. The law is that of class A: 1.288 W at any radiated power.
        "circuit_power": 1.088, "max_power": 0.2, "amplifier_efficiency": 1.0, "amplifier_exponent": 0.0,
        "transmit_energy_per_bit": 438e-9, "receive_power": 1.288, "receive_energy_per_bit": 52e-9,
        "listen_power": 1.06, "sleep_power": 0.0, "wake": 0.26, "wake_power": 1.21, "tail": 10.0, "tail_power": 1.06,
    },
    "nr_low": {  # differences to LTE on a Galaxy S20U: circuit, receive, J/bit [D], times [F], wake power [M]
        "circuit_power": 1.15, "max_power": 0.2, "amplifier_efficiency": 0.234, "amplifier_exponent": 0.5,
        "receive_power": 0.72, "receive_energy_per_bit": 14e-9, "listen_power": 0.58, "sleep_power": 0.0,
        "wake": 2.0, "wake_power": 0.8, "tail": 10.6, "tail_power": 0.58,
    },
    "nr_mmwave": {  # likewise; efficiency, listen, wake and tail power [M], sleep [A]
        "circuit_power": 3.59, "max_power": 0.2, "amplifier_efficiency": 0.08, "amplifier_exponent": 1.0,
        "transmit_energy_per_bit": 9e-9, "receive_power": 3.06, "receive_energy_per_bit": 1.7e-9,
        "listen_power": 1.1, "sleep_power": 0.0, "wake": 2.0, "wake_power": 1.5, "tail": 10.6, "tail_power": 1.1,
    },
    "nb_iot": {  # circuit and efficiency [M], the rest [F]
        "circuit_power": 0.21, "max_power": 0.2, "amplifier_efficiency": 0.344, "amplifier_exponent": 0.5,
        "receive_power": 0.152, "listen_power": 0.02, "sleep_power": 1e-5, "tail": 10.0, "tail_power": 0.02,
    },
    "lora": {  # FLoRa's 24 mA at 2 and 44 mA at 14 dBm and 3.3 V: circuit and efficiency [D], the rest [F]
        "circuit_power": 0.0748, "max_power": dbm_to_w(14), "amplifier_efficiency": 0.356, "amplifier_exponent": 1.0,
        "receive_power": 0.032, "listen_power": 0.0046, "sleep_power": 5e-6,
    },
    "ble": {  # circuit and efficiency [M], receive and sleep [F]; between connection events it sleeps, so it listens so
        "circuit_power": 0.0087, "max_power": dbm_to_w(8), "amplifier_efficiency": 0.177, "amplifier_exponent": 1.0,
        "receive_power": 0.0138, "listen_power": 4.5e-6, "sleep_power": 4.5e-6,
    },
}  # fmt: skip
"""Keys of the devices block by name of a modem: they hold where a scenario does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Modem:
    """One client's modem in plain SI numbers: the watts of each of its states, and the seconds of its transitions."""

    circuit_w: float
    max_w: float | None
    """Most watts that it can radiate; None: no limit."""
    amplifier_efficiency: float
    amplifier_exponent: float
    transmit_j_per_bit: float
    receive_w: float
    receive_j_per_bit: float
    listen_w: float
    sleep_w: float
    wake_s: float
    wake_w: float
    tail_s: float
    tail_w: float

    def sending_w(self, radiated_w: float) -> float:
        """Electric power in watts of the modem while its antenna radiates this many watts."""
        if self.max_w is None:
            return radiated_w / self.amplifier_efficiency + self.circuit_w
        share = min(1.0, radiated_w / self.max_w)
        return self.max_w / self.amplifier_efficiency * math.pow(share, self.amplifier_exponent) + self.circuit_w

    def can_radiate(self, radiated_w: float) -> bool:
        """Whether the antenna can radiate this many watts."""
        return self.max_w is None or radiated_w <= self.max_w * TOLERANCE
