"""Libraries that call torch.profiler themselves, each training something tiny.

    python profiler_clients.py CLIENT FOLDER

runs one of them on torch's profiler and on opscope's, and prints what each got as JSON. A first run
that is not compared takes what happens only once out of the comparison.
"""

import collections
import json
import logging
import sys
import warnings
from pathlib import Path

import torch

import opscope.drop_in

CPU = torch.profiler.ProfilerActivity.CPU
STEPS = 3


def contents(folder):
    """What the Chrome traces in a folder hold."""
    names, steps = collections.Counter(), 0
    files = sorted(Path(folder).rglob("*.json"))
    for path in files:
        for event in json.loads(path.read_text())["traceEvents"]:
            if event.get("cat") in ("cpu_op", "user_annotation"):
                steps += event["name"].startswith("ProfilerStep#")
                names[event["name"]] += 1
    return {"files": len(files), "steps": steps, "names": names}


def rows(table):
    """The first column of a printed table: what it has a row for."""
    found = set()
    for line in table.splitlines():
        cells = line.split()
        if len(cells) > 5 and cells[0].startswith("aten::"):
            found.add(cells[0])
    return sorted(found)


def lightning(folder):
    import pytorch_lightning
    from pytorch_lightning.profilers import PyTorchProfiler

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, batch_index):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    profiler = PyTorchProfiler(
        dirpath=str(folder),
        filename="fit",
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        activities=[CPU],
        record_shapes=True,
        row_limit=-1,
    )
    trainer = pytorch_lightning.Trainer(
        max_steps=STEPS + 1,
        profiler=profiler,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(torch.ones(16, 4), batch_size=2)
    trainer.fit(Module(), loader)
    return {"table": rows(profiler.summary())}


def transformers(folder):
    import transformers

    class Stepper(transformers.TrainerCallback):
        def __init__(self, prof):
            self.prof = prof

        def on_step_end(self, *_, **__):
            self.prof.step()

    config = transformers.GPT2Config(
        vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    item = {"input_ids": torch.arange(8), "labels": torch.arange(8)}
    settings = transformers.TrainingArguments(
        output_dir=str(folder / "model"),
        max_steps=STEPS + 1,
        per_device_train_batch_size=2,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    with torch.profiler.profile(
        activities=[CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(str(folder / "traces")),
        profile_memory=True,
    ) as prof:
        trainer = transformers.Trainer(
            model=transformers.GPT2LMHeadModel(config),
            args=settings,
            train_dataset=[item] * 16,
            callbacks=[Stepper(prof)],
        )
        trainer.train()
    return {"table": rows(prof.key_averages().table(sort_by="cpu_time_total", row_limit=-1))}


def accelerate(folder):
    import accelerate

    model = torch.nn.Linear(4, 1)
    kwargs = accelerate.ProfileKwargs(
        activities=["cpu"], record_shapes=True, with_flops=True, output_trace_dir=str(folder)
    )
    accelerator = accelerate.Accelerator(cpu=True, kwargs_handlers=[kwargs])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    with accelerator.profile() as prof:
        for _ in range(STEPS):
            accelerator.backward(model(torch.ones(2, 4)).sum())
            optimizer.step()
            optimizer.zero_grad()
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="flops", row_limit=-1)
    flops = {e.key: e.flops for e in prof.key_averages() if e.flops}
    return {"table": rows(table), "flops": flops}


def main():
    name, folder = sys.argv[1], Path(sys.argv[2])
    run = {f.__name__: f for f in (lightning, transformers, accelerate)}[name]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

    def result(case):
        into = folder / case
        into.mkdir()
        return {**run(into), **contents(into)}

    result("once")
    theirs = result("torch")
    with opscope.drop_in.install():
        ours = result("opscope")
    print("\n" + json.dumps({"torch": theirs, "opscope": ours}))


main()
