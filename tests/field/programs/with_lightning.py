"""Lightning's own profiler around a training."""

import logging
import tempfile
import warnings
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.profilers import PyTorchProfiler

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
with tempfile.TemporaryDirectory() as folder:
    for profiler in (
        "pytorch",
        PyTorchProfiler(dirpath=folder, filename="profile", export_to_chrome=True),
    ):
        pl.seed_everything(0, verbose=False)
        model = BoringModel()
        pl.Trainer(
            max_steps=8,
            accelerator="cpu",
            enable_model_summary=False,
            default_root_dir=folder,
            profiler=profiler,
            **quiet,
        ).fit(model)
        print(model.layer.weight.sum().item())
    print(sorted(path.suffix for path in Path(folder).iterdir()))
