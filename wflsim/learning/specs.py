"""Which model is trained, and how. Apart from the classes they configure only because those import torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from wflsim.units import Means, Spec

Count = Annotated[int, Field(gt=0)]


class LinearSpec(Spec):
    """Softmax regression on the flattened input (the paper's MNIST model: 7,850 parameters)."""

    name: Literal["linear"]


class MlpSpec(Spec):
    """Fully connected layers with ReLU in between."""

    name: Literal["mlp"]
    hidden: tuple[Count, ...] = (64,)
    """Width of each hidden layer."""


class CnnSpec(Spec):
    """The paper's Kuzushiji-MNIST network: two 3x3 convolutions (16, 32) with max-pooling, 500 hidden units.

    794,310 parameters for 28 x 28 images.
    """

    name: Literal["cnn"]


class ResNet18LastSpec(Spec):
    """The paper's Fashion-MNIST model: ImageNet's ResNet18, only a last 512 x classes layer of which is trained."""

    name: Literal["resnet18_last"]
    size: Annotated[int, Field(ge=1, le=512)] | None = None
    """Side of the backbone's input in pixels; None: the images' own, without resizing."""


class ModuleSpec(Spec):
    """A torch module of the user's own: takes samples [b, ...], returns logits [b, classes]."""

    name: Literal["module"]
    module: Annotated[
        str, Field(pattern=r"^\w+(\.\w+)*:\w+$"), Means("package.file:Class, such as my_models:Net")
    ]
    """`package.file:Class`, found as Python finds it from the working directory."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of its constructor."""


ModelSpec = Annotated[
    LinearSpec | MlpSpec | CnnSpec | ResNet18LastSpec | ModuleSpec, Field(discriminator="name")
]


class TrainSpec(Spec):
    """How clients compute; the algorithm itself (steps, learning rates) belongs to the policy."""

    batch: Count = 32
    """Samples per minibatch; a client with fewer uses all it has."""
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    replacement: bool = False
    """False: batches are successive slices of a shuffled pass over the client's data; True: independent draws."""
    quantise: Literal[4, 8, 16] | None = None
    """Bits per value of every vector sent, up and down, by stochastic rounding; None: 32, as computed."""
    engine: Literal["auto", "threads", "vmap"] = "auto"
    """threads: one client at a time in each thread; vmap: the whole cohort at once; auto: the faster for the model."""
