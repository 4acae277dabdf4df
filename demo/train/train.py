"""Trains one demo model for a given time: `train.py NAME --minutes 25 --work DIR`.

DIR keeps the unpacked Debian packages, the tokenizer and NAME.pt, a checkpoint from which a later call goes on and
from which export.py writes the model folder at any time.
"""
import argparse
import copy
import json
import math
import pathlib
import time

import torch

import bpe
import chats
import data
import model

PEAK_RATE, WARMUP_STEPS, LONG_ROWS_FROM = 3e-3, 150, 0.75
SHORT_ROW, LONG_ROW, TOKENS_PER_STEP = 128, 256, 2048
CHECKPOINT_SECONDS = 120


def split_corpus(corpus):
    """Every fiftieth passage is kept for validation; definitions are to be learnt by heart, so all of them train."""
    train = data.Corpus([p for i, p in enumerate(corpus.passages) if i % 50], corpus.entries)
    held = data.Corpus([p for i, p in enumerate(corpus.passages) if i % 50 == 0])
    return (corpus if corpus.entries else train), held


def get_tokenizer(name, corpus, work):
    path = work / f"{name}.tokenizer.json"
    if not path.exists():
        tokenizer = bpe.train(chats.tokenizer_texts(name, corpus), model.SHAPES[name].vocab)
        path.write_text(json.dumps(tokenizer.to_json(), ensure_ascii=False))
    return bpe.load(path)


class Run:
    """Everything that a checkpoint holds. The averaged copy of the weights is what gets exported."""

    def __init__(self, shape, path):
        self.path, self.steps, self.seconds, self.loss, self.held_loss = path, 0, 0.0, math.nan, math.nan
        torch.manual_seed(1)
        self.net = model.Qwen2(shape)
        self.average = copy.deepcopy(self.net)
        matrices = [p for p in self.net.parameters() if p.dim() == 2]
        vectors = [p for p in self.net.parameters() if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98))
        if path.exists():
            self._load(torch.load(path))

    def _load(self, saved):
        self.net.load_state_dict(saved["net"])
        self.average.load_state_dict(saved["average"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for key in ("steps", "seconds", "loss", "held_loss"):
            setattr(self, key, saved[key])

    def save(self):
        saved = {"net": self.net.state_dict(), "average": self.average.state_dict(),
                 "optimizer": self.optimizer.state_dict()}
        saved.update({key: getattr(self, key) for key in ("steps", "seconds", "loss", "held_loss")})
        torch.save(saved, self.path.with_suffix(".new"))
        self.path.with_suffix(".new").replace(self.path)

    def step(self, ids, weights, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.net.loss(torch.from_numpy(ids), torch.from_numpy(weights))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        self._update_average()
        value = loss.item()
        self.loss = value if math.isnan(self.loss) else 0.98 * self.loss + 0.02 * value

    def _update_average(self):
        keep = min(0.99, self.steps / (self.steps + 10))
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters()):
                mean.lerp_(now, 1 - keep)


def learning_rate(steps, progress):
    warm = min(1.0, (steps + 1) / WARMUP_STEPS)
    return PEAK_RATE * warm * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def held_loss(net, source, batches=8):
    with torch.no_grad():
        drawn = [source.batch(16, SHORT_ROW + 1) for _ in range(batches)]
        return sum(net.loss(torch.from_numpy(i), torch.from_numpy(w)).item() for i, w in drawn) / batches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(model.SHAPES))
    parser.add_argument("--minutes", type=float, default=25, help="training time in all, earlier calls included")
    parser.add_argument("--work", type=pathlib.Path, default="work")
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = data.CORPORA[options.name](options.work)
    tokenizer = get_tokenizer(options.name, corpus, options.work)
    run = Run(model.SHAPES[options.name], options.work / f"{options.name}.pt")
    trained, held = split_corpus(corpus)
    others = [extract(options.work) for name, extract in data.CORPORA.items() if name != options.name]
    source = chats.Chats(options.name, trained, tokenizer, run.steps, chats.foreign_words(corpus, others))
    budget, saved_at, last = options.minutes * 60, run.seconds, time.monotonic()
    while run.seconds < budget:
        progress = run.seconds / budget
        length = LONG_ROW if progress > LONG_ROWS_FROM else SHORT_ROW
        run.step(*source.batch(TOKENS_PER_STEP // length, length + 1), learning_rate(run.steps, progress))
        now = time.monotonic()
        run.seconds, last = run.seconds + now - last, now
        if run.seconds - saved_at > CHECKPOINT_SECONDS or run.seconds >= budget:
            saved_at = run.seconds
            run.held_loss = held_loss(run.average, chats.Chats(options.name, held, tokenizer, seed=7))
            run.save()
            print(f"{options.name} step {run.steps} {run.seconds:.0f} s: loss {run.loss:.3f}, "
                  f"held out {run.held_loss:.3f}, {run.steps * TOKENS_PER_STEP / run.seconds:.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
