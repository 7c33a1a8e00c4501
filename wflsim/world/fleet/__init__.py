"""The clients' devices: the scenario's `devices` block, availability, batteries, and how a device carries out an order.

`compute.py` and `modem.py` hold the two laws of power and the named processors and modems, `spec.py` the block,
`traits.py` turns it into plain numbers per client (`Traits`), `draw.py` decides who gets which device, `roster.py` puts
both together, `device.py` lives through an order with them, and `meter.py` writes its legs (`harvest_meter.py` where a
battery fills). Import `Device` from `device.py`, `Meter` from `meter.py`, `DeviceSpec` from `spec.py` and `call_roster`
from `roster.py`. Open `device.py` first.
"""
