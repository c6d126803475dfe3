"""The libraries, and what is run of each: a part of its tests, or a program in ``programs``."""

from __future__ import annotations

from dataclasses import dataclass

BUILDING = "hatchling==1.33.0 pathspec==1.1.1 trove-classifiers==2026.9.21.13"
"""What source archives are made with, which pip asks for their names."""
BESIDE = (
    "scipy==1.17.1 scikit-learn==1.9.1 joblib==1.6.0 threadpoolctl==3.8.0 pillow==13.0.0 "
    "requests==2.34.2 urllib3==2.8.0 charset-normalizer==3.5.3 certifi==2026.10.19.post1 "
    "parameterized==0.9.0 opt-einsum==3.4.0"
)
"""What several of them need, and the environment of development lacks."""
_GPYTORCH = "gpytorch==1.15.2 linear-operator==0.6.1 jaxtyping==0.3.11 wadler-lindig==0.1.8"
_PLOTS = (
    "matplotlib==3.11.2 cycler==0.12.1 pyparsing==3.3.3 contourpy==1.3.3 kiwisolver==1.5.1 "
    "fonttools==4.68.0 python-dateutil==4.0.0 six==1.17.0"
)
_AIOHTTP = (
    "aiohttp==3.14.5 multidict==7.2.1 yarl==1.25.1 frozenlist==1.8.0 aiosignal==1.4.0 "
    "attrs==26.1.0 propcache==0.5.4 aiohappyeyeballs==2.7.1"
)


@dataclass(frozen=True)
class Library:
    """One library; without `tests`, ``programs/with_NAME.py`` is run."""

    name: str
    requirements: str
    """The library first, then what it needs and the environment of development lacks."""
    tests: str = ""
    """For pytest, in the folder of its source archive."""
    variables: tuple[tuple[str, str], ...] = ()
    profiles_itself: bool = False
    """It uses torch.profiler, so that it is also run with that left to itself."""


LIBRARIES = (
    Library(
        "einops",
        "einops==0.8.2",
        "einops/tests/test_ops.py einops/tests/test_layers.py "
        "--deselect=einops/tests/test_ops.py::test_torch_compile_with_dynamic_shape",
        (("EINOPS_TEST_BACKENDS", "numpy,torch"),),
    ),
    Library("torchmetrics", "torchmetrics==1.9.0"),
    Library("torchdiffeq", "torchdiffeq==0.2.5"),
    Library(
        "gpytorch",
        _GPYTORCH,
        "test/kernels/test_rbf_kernel.py test/constraints test/distributions test/optim",
    ),
    Library(
        "pyro",
        "pyro-ppl==1.9.2 pyro-api==0.1.2",
        "tests/test_primitives.py tests/test_util.py tests/test_settings.py",
    ),
    Library(
        "skorch",
        "skorch==1.4.0 tabulate==0.10.0",
        "skorch/tests/test_toy.py skorch/tests/callbacks/test_regularization.py",
    ),
    Library("ignite", "pytorch-ignite==0.5.5", "tests/ignite/engine/test_event_handlers.py"),
    Library("lightning", "lightning==2.6.6", profiles_itself=True),
    Library("accelerate", "accelerate==1.15.0", profiles_itself=True),
    Library("tensordict", "tensordict==0.15.3 pyvers==0.2.3 orjson==3.13.0"),
    Library("captum", f"captum==0.9.0 {_PLOTS}"),
    Library(
        "opacus",
        "opacus==1.6.0",
        "opacus/tests/grad_samples/linear_test.py opacus/tests/randomness_test.py",
    ),
    Library(
        "e3nn",
        "e3nn==0.6.0 opt-einsum-fx==0.1.4",
        "tests/o3/irreps_test.py",
    ),
    Library(
        "peft",
        "peft==0.21.2",
        "tests/test_osf.py tests/test_bufferdict.py",
    ),
    Library("transformers", "transformers==5.23.0"),
    Library(
        "stable_baselines3",
        "stable-baselines3==2.9.2 gymnasium==1.4.0 farama-notifications==0.0.6",
    ),
    Library("torch_geometric", f"torch-geometric==2.8.1 xxhash==4.1.0 {_AIOHTTP}"),
    Library("sentence_transformers", "sentence-transformers==6.2.0"),
    Library(
        "botorch",
        f"botorch==0.18.1 {_GPYTORCH} pyre-extensions==0.0.32 typing-inspect==0.9.0 "
        "multipledispatch==1.0.0",
    ),
    Library("kornia", "kornia==0.9.0 kornia-rs==0.2.0"),
    Library("diffusers", "diffusers==0.42.1"),
    Library("monai", "monai==1.6.1"),
    Library(
        "keras",
        "keras==3.15.1 absl-py==2.5.1 namex==0.1.0 h5py==3.16.0 optree==0.20.0 ml-dtypes==0.6.0",
        variables=(("KERAS_BACKEND", "torch"),),
    ),
    Library(
        "x_transformers",
        "x-transformers==2.31.10 torch-einops-utils==0.2.0 einx==0.4.3 frozendict==2.5.1 "
        "loguru==0.7.3",
    ),
    Library("pytorch_optimizer", "pytorch-optimizer==4.1.0"),
    Library("pytorch_metric_learning", "pytorch-metric-learning==2.9.0"),
    Library("torchsde", "torchsde==0.2.6 trampoline==0.1.2 boltons==26.2.0"),
    Library("torchcde", "torchcde==0.2.5 torchdiffeq==0.2.5"),
    Library("zuko", "zuko==1.6.0"),
    Library("geoopt", "geoopt==0.5.1"),
    Library("higher", "higher==0.2.1"),
    Library("ema_pytorch", "ema-pytorch==0.8.3"),
    Library("tensorly", "tensorly==0.10.0", variables=(("TENSORLY_BACKEND", "pytorch"),)),
    Library("torchinfo", "torchinfo==1.8.0"),
)
