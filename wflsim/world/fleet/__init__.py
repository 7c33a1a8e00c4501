"""The clients' devices: the scenario's `devices` block, availability, batteries, and how a device carries out an order.

`spec.py` turns the block into plain numbers per client (`Traits`), `device.py` lives through an order with them, and
`meter.py` writes its legs. Import `Device` from `device.py`, `Meter` from `meter.py`, `DeviceSpec` and `build_fleet`
from `spec.py`. Open `device.py` first.
"""
