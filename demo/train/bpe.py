"""Byte-level BPE: training, encoding, and the tokenizer.json that describes both, in the form Qwen2 uses."""
import collections
import json
import re

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# Qwen2's pre-tokenizer, which goes into tokenizer.json, and the same for ASCII text, which is all we train on
# (Python's re knows no \p{L}).
QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+")
ASCII_PATTERN = re.compile(QWEN2_PATTERN.replace(r"[^\s\p{L}\p{N}]", r"[^\sA-Za-z0-9]")
                           .replace(r"[^\r\n\p{L}\p{N}]", r"[^\r\nA-Za-z0-9]")
                           .replace(r"\p{L}", "[A-Za-z]").replace(r"\p{N}", "[0-9]"))


def byte_alphabet():
    """GPT-2's printable stand-in for each byte, in the order in which vocabularies list them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    order = printable + rest
    signs = [chr(b) for b in printable] + [chr(256 + i) for i in range(len(rest))]
    return dict(zip(order, signs))


ALPHABET = byte_alphabet()
BYTE_OF = {sign: byte for byte, sign in ALPHABET.items()}


def to_signs(word):
    return [ALPHABET[b] for b in word.encode("utf-8")]


def merge_pair(symbols, left, right):
    merged, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] == left and symbols[i + 1] == right:
            merged.append(left + right)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


class _Pairs:
    """Counts of neighbouring symbols over all words, kept up to date merge by merge."""

    def __init__(self, counted_words):
        self.words = [(to_signs(word), count) for word, count in counted_words.items()]
        self.count = collections.Counter()
        self.where = collections.defaultdict(set)
        for index in range(len(self.words)):
            self._add(index, +1)

    def _add(self, index, sign):
        symbols, count = self.words[index]
        for pair in zip(symbols, symbols[1:]):
            self.count[pair] += sign * count
            self.where[pair].add(index)

    def best(self):
        return max(self.count, key=lambda pair: (self.count[pair], pair))

    def apply(self, pair):
        for index in self.where.pop(pair):
            self._add(index, -1)
            symbols, count = self.words[index]
            self.words[index] = (merge_pair(symbols, *pair), count)
            self._add(index, +1)
        del self.count[pair]


def train(texts, vocab_size):
    """The merges that fill a vocabulary of vocab_size (bytes, merges, specials)."""
    counted = collections.Counter(word for text in texts for word in ASCII_PATTERN.findall(text))
    pairs, merges = _Pairs(counted), []
    while len(merges) < vocab_size - len(ALPHABET) - len(SPECIALS):
        pair = pairs.best()
        merges.append(pair)
        pairs.apply(pair)
    return Tokenizer(merges)


class Tokenizer:
    def __init__(self, merges):
        self.merges = merges
        self.rank = {pair: rank for rank, pair in enumerate(merges)}
        signs = list(ALPHABET.values()) + [left + right for left, right in merges]
        self.id_of = {sign: i for i, sign in enumerate(signs)}
        self.special = {name: len(signs) + i for i, name in enumerate(SPECIALS)}
        self.sign_of = signs
        self.size = len(signs) + len(SPECIALS)
        self._known = {}

    def _encode_word(self, word):
        symbols = to_signs(word)
        while len(symbols) > 1:
            pair = min(zip(symbols, symbols[1:]), key=lambda p: self.rank.get(p, len(self.merges)))
            if pair not in self.rank:
                break
            symbols = merge_pair(symbols, *pair)
        return [self.id_of[s] for s in symbols]

    def encode(self, text):
        """Ids of plain text: no special token is looked for in it."""
        ids = []
        for word in ASCII_PATTERN.findall(text):
            if word not in self._known:
                self._known[word] = self._encode_word(word)
            ids += self._known[word]
        return ids

    def decode(self, ids):
        out = b""
        for i in ids:
            out += (bytes(BYTE_OF[c] for c in self.sign_of[i]) if i < len(self.sign_of)
                    else SPECIALS[i - len(self.sign_of)].encode())
        return out.decode("utf-8", "replace")

    def to_json(self):
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
        return {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": name, **added_token_flags()} for name, i in self.special.items()],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": self.id_of, "merges": [" ".join(pair) for pair in self.merges]}}


def added_token_flags():
    return {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def load(path):
    merges = json.loads(path.read_text())["model"]["merges"]
    return Tokenizer([tuple(merge.split(" ")) for merge in merges])
