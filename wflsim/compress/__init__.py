"""What a payload becomes on the wire: compressors, and the payload of one order or reply that passes through one.

`compressors.py` has one class for each compressor, which is also its block of a scenario (`train.compress`, and the
`compress` key of policies that compress as part of their algorithm); importing it does not import torch. `payload.py`
applies a compressor to the items of a message, so that both sides compute with the values that were exchanged. Policies
and learners import the compressors and `Payload`. Open `compressors.py` first.
"""
