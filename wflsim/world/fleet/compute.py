"""Processors: one law of time and power for CPUs, GPUs and microcontrollers, and the constants of named ones.

A step of b samples, of F training FLOPs each, at the clock f = phi f_max:

    t = t0 + (b F/S)(mu + (1 - mu)/phi)         P = P_idle + (P_active - P_idle) phi^n         E = P t

S is the speed that training attains at full clock, t0 the overhead of a step, mu the share of its time that waits for
memory and does not follow the clock, n the exponent by which the power does. Given in cycles, S = (F/C) f_max.

Tags of the constants: [F] found in a source, [D] derived from found ones, [M] from memory and unverified. S varies
30-fold with the layers of a model (a Raspberry Pi 5: 2.4 to 69 GFLOP/s [F]): measure yours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from wflsim.exchange import Order
from wflsim.spec import choices

TRAINING_FLOPS = 3
"""FLOPs of training on a sample, in those of its forward pass: once forward, twice as much backward."""
REFERENCE_FLOPS = 3.61e6
"""Forward FLOPs of one sample of the paper's CNN, for a world that is built without a model."""

ComputeName = Annotated[
    Literal[
        "generic", "mcu_m4", "mcu_m7", "raspberry_pi_3", "raspberry_pi_4", "raspberry_pi_5", "phone_midrange",
        "phone_flagship", "laptop_cpu", "jetson_nano", "jetson_tx2", "jetson_xavier_nx", "jetson_agx_xavier",
        "jetson_orin_nano", "jetson_agx_orin", "desktop_gpu",
    ],
    choices(
        generic="cycles and kappa at 1 GHz, without overhead and idling for nothing: the source paper's processor",
        mcu_m4="Cortex-M4F microcontroller at 64 MHz (Arduino Nano 33 BLE), 6.4 MFLOP/s at 11 mW",
        mcu_m7="Cortex-M7 microcontroller at 216 MHz (STM32F7), 60 MFLOP/s at 0.35 W, from memory",
        raspberry_pi_3="Raspberry Pi 3 B+, 7 GFLOP/s at 5.1 W",
        raspberry_pi_4="Raspberry Pi 4, 15 GFLOP/s at 6.4 W",
        raspberry_pi_5="Raspberry Pi 5, 30 GFLOP/s at 9 W",
        phone_midrange="a phone of the middle class on its CPU, 6 GFLOP/s at 2.5 W, power from memory",
        phone_flagship="a flagship phone of 2019 on its CPU, 20 GFLOP/s at 3.7 W",
        laptop_cpu="a laptop's CPU, 100 GFLOP/s at 35 W, from memory",
        jetson_nano="Jetson Nano's GPU, 110 GFLOP/s at 10 W",
        jetson_tx2="Jetson TX2's GPU, 300 GFLOP/s at 15 W",
        jetson_xavier_nx="Jetson Xavier NX's GPU, 380 GFLOP/s at 15 W",
        jetson_agx_xavier="Jetson AGX Xavier's GPU, 640 GFLOP/s at 30 W",
        jetson_orin_nano="Jetson Orin Nano's GPU, 580 GFLOP/s at 15 W",
        jetson_agx_orin="Jetson AGX Orin's GPU, 2.4 TFLOP/s at 50 W",
        desktop_gpu="RTX 2080 Ti with its host, 8 TFLOP/s at 330 W",
    ),
]  # fmt: skip


def _named(gflops: float, step_ms: float, idle_w: float, active_w: float, ghz: float) -> dict[str, Any]:
    """The keys of a named CPU: no share of its time waits for memory, and its power follows f^2.

    Core currents in the power profiles of Pixel phones grow with f^1.8 to f^2.0 [F]; f^3 holds above 1.8 GHz only.
    """
    return {
        "speed": gflops * 1e9, "step_overhead": step_ms * 1e-3, "compute_idle_power": idle_w,
        "compute_active_power": active_w, "max_frequency": ghz * 1e9, "clock_exponent": 2.0,
    }  # fmt: skip


def _gpu(gflops: float, step_ms: float, idle_w: float, active_w: float, ghz: float) -> dict[str, Any]:
    """The keys of a named GPU: a fifth of its time waits for memory, and its power follows f^2.5 [M]."""
    return {**_named(gflops, step_ms, idle_w, active_w, ghz), "memory_share": 0.2, "clock_exponent": 2.5}


COMPUTE: dict[str, dict[str, Any]] = {
    "generic": {"frequency": 1e9, "kappa": 1e-28},  # kappa: Tran et al.'s code [F]
    "mcu_m4": _named(0.0064, 0, 5e-6, 0.011, 0.064),  # all [F], poet
    "mcu_m7": _named(0.06, 0, 0.1, 0.35, 0.216),  # [M]
    "raspberry_pi_3": _named(7, 20, 1.9, 5.1, 1.4),  # speed [D], overhead [M], power [F]
    "raspberry_pi_4": _named(15, 10, 2.7, 6.4, 1.5),  # speed [D], overhead [M], power [F]
    "raspberry_pi_5": _named(30, 6, 3.0, 9, 2.4),  # speed and active power [D], overhead [M], idle power [F]
    "phone_midrange": _named(6, 15, 0.15, 2.5, 2.0),  # speed [D], the rest [M]
    "phone_flagship": _named(20, 8, 0.15, 3.7, 2.8),  # speed, overhead, active power [D], idle power awake [F]
    "laptop_cpu": _named(100, 3, 8, 35, 3.5),  # [M]
    "jetson_nano": _gpu(110, 20, 2, 10, 0.92),  # speed [D], active power [F], overhead and idle power [M]
    "jetson_tx2": _gpu(300, 15, 4, 15, 1.3),  # speed [D], active power [F], overhead and idle power [M]
    "jetson_xavier_nx": _gpu(380, 12, 5, 15, 1.1),  # speed [D], the rest [M]
    "jetson_agx_xavier": _gpu(640, 10, 9, 30, 1.38),  # speed [D], the rest [M]
    "jetson_orin_nano": _gpu(580, 10, 4, 15, 0.625),  # speed [D], the rest [M]
    "jetson_agx_orin": _gpu(2400, 8, 10, 50, 1.3),  # speed [D], the rest [M]
    "desktop_gpu": _gpu(8000, 5, 60, 330, 1.5),  # speed and overhead [D], 250 W card [F], 80 W host and idle power [M]
}
"""Keys of the devices block by name of a processor: they hold where a scenario does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Processor:
    """One client's processor at its clock, in plain SI numbers, or those of many orders as arrays."""

    idle_w: float
    """Watts while it does not compute."""
    active_w: float
    """Watts while it computes."""
    s_per_call: float
    """Seconds of overhead of an order, whatever is computed."""
    s_per_step: float
    """Seconds of overhead of a local step, whatever its batch."""
    s_per_sample: float
    """Seconds to train on one sample, beside the overhead."""
    memory_share: float = 0.0
    """Share of `s_per_sample` that waits for memory and does not follow the clock."""
    clock_exponent: float = 3.0
    """Exponent by which the power beyond idling follows the clock."""
    least_clock: float = 1.0
    """Lowest clock that just_in_time may choose, in shares of this one; 1: the clock is fixed."""

    def slowed(self, clock: float) -> Processor:
        """This processor at a lower clock, a share of its own."""
        return replace(
            self,
            active_w=self.idle_w + (self.active_w - self.idle_w) * math.pow(clock, self.clock_exponent),
            s_per_sample=self.s_per_sample * (self.memory_share + (1 - self.memory_share) / clock),
        )

    def clock_for(self, order: Order, seconds: float) -> float:
        """The clock, a share of this one, at which the computation of an order takes so many seconds; at least the
        lowest, at most 1."""
        work_s = training_samples(order) * self.s_per_sample
        overhead_s = self.order_s(order) - work_s
        follows_s = seconds - overhead_s - self.memory_share * work_s
        clock = (1 - self.memory_share) * work_s / follows_s if follows_s > 0 else 1.0
        return min(1.0, max(self.least_clock, clock))

    def step_s(self, samples: float) -> float:
        """Seconds that one local step on so many training samples takes."""
        return self.s_per_step + samples * self.s_per_sample

    def order_s(self, order: Order) -> float:
        """Seconds that the computation of an order takes; none where nothing is computed."""
        overhead_s = self.s_per_call + order.forward_steps * self.s_per_step
        return (order.forward_samples > 0) * (overhead_s + training_samples(order) * self.s_per_sample)

    def order_j(self, order: Order) -> float:
        """Joules that it takes for the computation of an order."""
        return self.active_w * self.order_s(order)


def training_samples(order: Order) -> float:
    """Work of an order in training samples: a loss costs a forward pass, a training sample three times that."""
    return (order.forward_samples + 2 * order.backward_samples) / TRAINING_FLOPS
