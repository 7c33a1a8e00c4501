"""Specs of models and of training. They stand apart from the classes they configure, because those import torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from wflsim.compress.compressors import CompressSpec
from wflsim.imports import Place, file_below, place_of
from wflsim.spec import BASE, Means, Spec

Count = Annotated[int, Field(gt=0, le=1_000_000_000)]


class LinearSpec(Spec):
    """Softmax regression on the flattened input (the paper's MNIST model: 7,850 parameters)."""

    name: Literal["linear"]
    """Chooses softmax regression."""


class MlpSpec(Spec):
    """Fully connected layers with ReLU in between."""

    name: Literal["mlp"]
    """Chooses fully connected layers."""
    hidden: Annotated[tuple[Count, ...], Field(max_length=1000)] = (64,)
    """Number of units of each hidden layer."""


class CnnSpec(Spec):
    """The paper's Kuzushiji-MNIST network: two 3x3 convolutions (16, 32) with max-pooling, 500 hidden units.

    794,310 parameters for 28 x 28 images.
    """

    name: Literal["cnn"]
    """Chooses the paper's convolutional network."""


class ResNet18LastSpec(Spec):
    """The paper's Fashion-MNIST model: ImageNet's ResNet18, only a last 512 x classes layer of which is trained."""

    name: Literal["resnet18_last"]
    """Chooses the last layer of a pretrained ResNet18."""
    size: Annotated[int, Field(ge=1, le=512)] | None = None
    """Side in pixels to which images are resized for the backbone; null: their own."""


class ModuleSpec(Spec):
    """A torch module of the user's own: takes samples [b, ...], returns logits [b, classes]."""

    name: Literal["module"]
    """Chooses a torch module of your own."""
    module: Annotated[str, Field(pattern=r"^\w+(\.\w+)*:\w+$"), Means("package.file:Class, such as my_models:Net")]
    """Class of the module as `package.file:Class`, in a file beside the scenario, in the working directory, or of an
    installed package."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the module's constructor."""
    folder: str | None = None
    """Folder in which the module is looked for first; null: the scenario's or the working directory if it is there,
    otherwise it must be installed."""

    @model_validator(mode="before")
    @classmethod
    def _settle_the_folder(cls, given: Any) -> Any:
        """Look for the folder while the scenario is read: other processes and a resumed run must find the same file."""
        if not isinstance(given, dict) or not isinstance(given.get("module"), str):
            return given
        asked, dotted = given.get("folder"), given["module"].split(":")[0]
        if asked is None:
            place = next((place for place in (BASE.get(), Path()) if file_below(place, dotted)), None)
        elif isinstance(asked, str) and "\0" not in asked:
            place = BASE.get() / asked
        elif isinstance(asked, str):
            raise ValueError("folder: must be the name of a folder; remove the NUL character from it")
        else:
            return given  # what is no text is refused at its own key
        return {**given, "folder": None if place is None else str(place.resolve())}

    def place(self) -> Place | None:
        """Where the module will be imported from; None if it cannot be found."""
        dotted = self.module.split(":")[0]
        if self.folder is not None and (beside := file_below(Path(self.folder), dotted)):
            return Place(beside, Path(self.folder), dotted)
        try:
            found = find_spec(dotted)
        except (ImportError, ValueError):
            return None
        origin = Path(found.origin) if found is not None and found.origin else None
        return place_of(origin) if origin is not None and origin.is_file() else None

    def file(self) -> Path | None:
        """The source file that will be imported; None if it cannot be found."""
        place = self.place()
        return None if place is None else place.file


ModelSpec = Annotated[
    LinearSpec | MlpSpec | CnnSpec | ResNet18LastSpec | ModuleSpec, Field(discriminator="name")
]


class TrainSpec(Spec):
    """How clients compute; the algorithm itself (steps, learning rates) belongs to the policy."""

    batch: Count = 32
    """Samples per minibatch; a client with fewer uses all it has."""
    dtype: Literal["float32", "float64"] = "float32"
    """Number format of models and samples; what is sent costs 32 bits per value with either."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that trains; auto: cuda where there is one."""
    replacement: bool = False
    """How minibatches are drawn. False: successive slices of a shuffled pass over the client's samples; True:
    independent draws."""
    compress: CompressSpec = CompressSpec()
    """Compression of what is sent, up and down."""
    gradients: Literal["auto", "threads", "vmap"] = "auto"
    """How gradients are computed. threads: one client at a time in each thread; vmap: the whole cohort at once; auto:
    the fastest for the model."""
