"""Models as functions of flat parameter vectors, and the ways to compute their gradients for many clients at once.

`builtin.py` has the class `Model`, the built-in models and `make_model`; `gradients.py` the class `Gradients` and its
variants, `by_hand.py` the fastest one for the paper's CNN. `backbone.py` is ResNet18 as a fixed feature extractor and
`module.py` a user's own torch module. Import `make_model`.
Open `builtin.py` first.
"""
