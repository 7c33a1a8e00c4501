"""Profiles: keys of named devices. A profile fills in what a scenario does not say; power is whole-device unless noted.

[V]: read in the source named; [M]: from memory; [A]: assumed, because nobody measured it: measure yours.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from wflsim.spec import choices

ProfileName = Annotated[
    Literal["generic", "raspberry_pi_4", "jetson_nano", "lte_phone", "wifi_station"],
    choices(
        generic="the defaults of every key, which are round figures",
        raspberry_pi_4="Raspberry Pi 4 training on its processor, with its own WiFi",
        jetson_nano="Jetson Nano training on its GPU, with a WiFi card",
        lte_phone="a phone's LTE radio with promotion and tail; the processor is the generic one",
        wifi_station="a WiFi card alone, without the computer that it sits in",
    ),
]

PROFILES: dict[ProfileName, dict[str, Any]] = {
    "generic": {},
    "raspberry_pi_4": {
        "speed": "9.69 GFLOP/s",  # peak [V]
        "utilisation": 0.25,  # of the peak, in training [A]
        "compute_power": "6.5 W",  # training; 6.4 W fully loaded [V, public measurement]
        "transmit_power": "3.94 W",  # [V, ns3-fl]
        "receive_power": "3.94 W",  # as transmitting [A]
        "idle_power": "2.7 W",  # [V]
    },
    "jetson_nano": {
        "speed": "472 GFLOP/s",  # the GPU's peak [V]
        "utilisation": 0.25,  # [A]
        "compute_power": "10 W",  # [V]
        "transmit_power": "3.14 W",  # idle board + WiFi NIC sending [A]
        "receive_power": "2.94 W",  # idle board + WiFi NIC receiving [A]
        "idle_power": "2 W",  # [M]
    },
    "lte_phone": {  # radio: ARO's LTE profile [V]
        "transmit_power": "1.2 W",
        "transmit_energy_per_bit": 438.39e-9,  # 438.39 mW per Mbit/s
        "receive_power": "1.2 W",
        "receive_energy_per_bit": 51.97e-9,
        "promotion": "0.26 s",
        "promotion_power": "1.21 W",
        "tail": "10 s",
        "tail_power": "1.06 W",
        "idle_power": "30 mW",  # radio asleep, screen off [M]
    },
    "wifi_station": {  # the NIC alone: Halperin 2010, as in ns-3 [V]
        "transmit_power": "1.14 W",
        "receive_power": "0.94 W",
        "idle_power": "0.82 W",
    },
}
