"""The world in which orders are carried out: simulated time (SimPy), radio, devices, energy. It knows no torch.

Rooms: `channel/` (SNR and rates), `access/` (sharing the band), `fleet/` (devices). `world.py` joins them behind four
calls (gather, send, receive, end_round); `spec.py` holds the world's blocks of a scenario and tells by which keys the
world can change the learning. Import `World` and `WorldSpec` from `world.py`, and `influences` and `remarks` from
`spec.py`. Open `world.py` first.
"""
