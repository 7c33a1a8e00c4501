"""The clients' devices: the scenario's `devices` block, availability, batteries, and how a device carries out an order.

`compute.py` and `modem.py` hold the two laws of power and the named processors and modems, `spec.py` the block,
`traits.py` turns it into plain numbers per client (`Traits`), `device.py` lives through an order with them, and
`meter.py` writes its legs. Import `Device` from `device.py`, `Meter` from `meter.py`, `DeviceSpec` from `spec.py` and
`build_fleet` from `traits.py`. Open `device.py` first.
"""
