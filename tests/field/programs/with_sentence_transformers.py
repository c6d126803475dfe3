"""A model made of a tiny encoder: sentences become vectors, and pairs of them train it."""

import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizer

torch.manual_seed(0)
words = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", "road", "and"]
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    )
    BertTokenizer(str(Path(folder, "vocab.txt"))).save_pretrained(folder)
    BertModel(
        BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
    ).save_pretrained(folder)
    encoder = Transformer(folder, max_seq_length=16)
    pooling = Pooling(encoder.get_word_embedding_dimension())
    model = SentenceTransformer(modules=[encoder, pooling], device="cpu")
    sentences = [f"the {a} {b} on a {c}" for a in words for b in words[:4] for c in words[:3]]
    vectors = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    print(vectors.shape, model.similarity(vectors[:5], vectors[5:9]).sum().item())
