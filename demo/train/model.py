"""Qwen2 in PyTorch, small and plain: RMSNorm, rotary attention with grouped heads and QKV bias, SwiGLU, tied head."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Shape:
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    positions: int = 512
    rope_theta: float = 10000.0
    epsilon: float = 1e-6

    @property
    def head_dim(self):
        return self.hidden // self.heads


# The three differ on purpose: a server that mixes up their shapes shall fail loudly.
SHAPES = {
    "prophet": Shape(vocab=2048, hidden=192, layers=4, heads=3, kv_heads=1, intermediate=384),
    "hacker": Shape(vocab=2048, hidden=192, layers=3, heads=3, kv_heads=1, intermediate=512),
    "newton": Shape(vocab=1536, hidden=128, layers=5, heads=2, kv_heads=1, intermediate=384),
}


class Softmax(torch.autograd.Function):
    """Over the last dimension. PyTorch 1.13's own backward takes many times as long on a CPU."""

    @staticmethod
    def forward(ctx, scores):
        probability = torch.softmax(scores, -1)
        ctx.save_for_backward(probability)
        return probability

    @staticmethod
    def backward(ctx, gradient):
        probability, = ctx.saved_tensors
        gradient = gradient * probability
        return gradient.sub_(probability * gradient.sum(-1, keepdim=True))


class CrossEntropy(torch.autograd.Function):
    """Weighted mean of -log p(target), by the same reasoning without log_softmax."""

    @staticmethod
    def forward(ctx, logits, target, weight):
        probability = torch.softmax(logits, -1)
        chosen = probability.gather(1, target[:, None]).squeeze(1)
        ctx.save_for_backward(probability, target, weight)
        return -(chosen.clamp_min(1e-12).log() * weight).sum() / weight.sum()

    @staticmethod
    def backward(ctx, gradient):
        probability, target, weight = ctx.saved_tensors
        probability[torch.arange(len(target)), target] -= 1
        return probability.mul_((gradient * weight / weight.sum())[:, None]), None, None


class RMSNorm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(size)), epsilon

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotate(x, cosine, sine):
    """Rotary embedding, half-split: element i turns together with element i + head_dim / 2."""
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.hidden)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x, cosine, sine, mask):
        (batch, time, hidden), shape = x.shape, self.shape
        q = rotate(self.q_proj(x).view(batch, time, shape.heads, -1).transpose(1, 2), cosine, sine)
        k = rotate(self.k_proj(x).view(batch, time, shape.kv_heads, -1).transpose(1, 2), cosine, sine)
        v = self.v_proj(x).view(batch, time, shape.kv_heads, -1).transpose(1, 2)
        # Query heads that share a key head become more rows of one matrix product.
        q = q.reshape(batch, shape.kv_heads, -1, shape.head_dim)
        scores = (q @ k.transpose(2, 3)).view(batch, shape.heads, time, time) / math.sqrt(shape.head_dim)
        weights = Softmax.apply(scores + mask).view(batch, shape.kv_heads, -1, time)
        mixed = (weights @ v).view(batch, shape.heads, time, -1).transpose(1, 2)
        return self.o_proj(mixed.reshape(batch, time, hidden))


class MLP(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.mlp = MLP(shape)

    def forward(self, x, *rotary_and_mask):
        x = x + self.self_attn(self.input_layernorm(x), *rotary_and_mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen2(nn.Module):
    """Parameter names are those of the Hugging Face layout without the leading "model."."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.epsilon)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                to_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.03 / (math.sqrt(2 * shape.layers) if to_residual else 1))

    def forward(self, ids):
        time = ids.shape[1]
        frequency = self.shape.rope_theta ** (-torch.arange(0, self.shape.head_dim, 2) / self.shape.head_dim)
        angle = torch.outer(torch.arange(time), frequency).repeat(1, 2)
        mask = torch.full((time, time), -1e9).triu(1)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, angle.cos(), angle.sin(), mask)
        return self.norm(x) @ self.embed_tokens.weight.T

    def loss(self, ids, weights):
        logits = self(ids[:, :-1]).reshape(-1, self.shape.vocab)
        return CrossEntropy.apply(logits, ids[:, 1:].reshape(-1), weights[:, 1:].reshape(-1))
