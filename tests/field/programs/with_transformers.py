"""A training of a tiny model with the Trainer, then generation."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

set_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, eos_token_id=0)
)
rows = [{"input_ids": (ids := torch.randint(1, 64, (16,))), "labels": ids} for _ in range(64)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=10, logging_steps=5, use_cpu=True, report_to=[], disable_tqdm=True
    )
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:16])
    trainer.remove_callback(PrinterCallback)  # it prints how long it took
    print(trainer.train().training_loss, trainer.evaluate()["eval_loss"])
tokens = model.generate(
    torch.ones(1, 4, dtype=torch.long), max_new_tokens=12, do_sample=False, pad_token_id=0
)
print(tokens.tolist())
