"""A second opinion on an exported folder: Qwen2 in NumPy, F32, straight from config.json and model.safetensors.

It shares no code with model.py. `reference.py FOLDER [question]` prints a greedy answer.
"""
import json
import math
import pathlib
import sys

import numpy

import bpe


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        bits = numpy.frombuffer(raw[8 + size + first:8 + size + last], dtype="<u2").astype(numpy.uint32)
        tensors[name] = (bits << 16).view(numpy.float32).reshape(entry["shape"])
    return tensors


class Reference:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = read_safetensors(folder / "model.safetensors")

    def _linear(self, x, name):
        out = x @ self.weights[name + ".weight"].T
        return out + self.weights[name + ".bias"] if name + ".bias" in self.weights else out

    def _norm(self, x, name):
        scale = numpy.sqrt((x * x).mean(-1, keepdims=True) + numpy.float32(self.config["rms_norm_eps"]))
        return x / scale * self.weights[name + ".weight"]

    def _attention(self, x, name):
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        width = self.config["hidden_size"] // heads
        q, k, v = (self._linear(x, f"{name}.{part}_proj").reshape(len(x), -1, width) for part in "qkv")
        q, k, out = self._rotate(q), self._rotate(k), []
        for head in range(heads):
            shared = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, shared].T / numpy.float32(math.sqrt(width))
            scores[numpy.triu_indices(len(x), 1)] = -numpy.inf
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            out.append(scores / scores.sum(-1, keepdims=True) @ v[:, shared])
        return self._linear(numpy.concatenate(out, -1), name + ".o_proj")

    def _rotate(self, x):
        half = x.shape[-1] // 2
        angle = numpy.outer(numpy.arange(len(x)), self.config["rope_theta"] ** (-numpy.arange(half) / half))
        cosine, sine = (f(angle).astype(numpy.float32)[:, None] for f in (numpy.cos, numpy.sin))
        low, high = x[..., :half], x[..., half:]
        return numpy.concatenate((low * cosine - high * sine, high * cosine + low * sine), -1)

    def _mlp(self, x, name):
        gate = self._linear(x, name + ".gate_proj")
        return self._linear(gate / (1 + numpy.exp(-gate)) * self._linear(x, name + ".up_proj"), name + ".down_proj")

    def logits(self, ids):
        """Of the token after the last."""
        x = self.weights["model.embed_tokens.weight"][ids]
        for i in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            x = x + self._attention(self._norm(x, layer + "input_layernorm"), layer + "self_attn")
            x = x + self._mlp(self._norm(x, layer + "post_attention_layernorm"), layer + "mlp")
        return self._norm(x[-1:], "model.norm")[0] @ self.weights["model.embed_tokens.weight"].T

    def generate(self, ids, steps, choose):
        """`choose(logits)` -> id; ends at <|im_end|>."""
        ids, first = list(ids), len(ids)
        while len(ids) - first < steps:
            ids.append(int(choose(self.logits(ids))))
            if ids[-1] == self.config["eos_token_id"]:
                break
        return ids[first:]


def chat_ids(tokenizer, question):
    start, end = tokenizer.special["<|im_start|>"], tokenizer.special["<|im_end|>"]
    return ([start] + tokenizer.encode("user\n" + question) + [end] + tokenizer.encode("\n")
            + [start] + tokenizer.encode("assistant\n"))


def sampler(seed, temperature=0.6, top_p=0.9):
    rng = numpy.random.default_rng(seed)

    def choose(logits):
        order = numpy.argsort(-logits)
        p = numpy.exp((logits[order] - logits.max()) / temperature)
        p /= p.sum()
        kept = int(numpy.searchsorted(p.cumsum(), top_p)) + 1
        return order[rng.choice(kept, p=p[:kept] / p[:kept].sum())]
    return choose


def answer(folder, question, choose=numpy.argmax, steps=120):
    tokenizer = bpe.load(folder / "tokenizer.json")
    ids = Reference(folder).generate(chat_ids(tokenizer, question), steps, choose)
    return tokenizer.decode(ids).replace("<|im_end|>", "")


if __name__ == "__main__":
    print(answer(pathlib.Path(sys.argv[1]), " ".join(sys.argv[2:]) or "What is light?"))
