"""Writes a model folder in Hugging Face layout from a checkpoint: `export.py NAME --work DIR --models DIR`."""
import argparse
import json
import pathlib

import numpy
import torch

import bpe
import card
import model
import reference

CHAT_TEMPLATE = ("{%- for message in messages %}"
                 "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
                 "{%- endfor %}"
                 "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
GOLDEN_STEPS, GOLDEN_SHOWN, GOLDEN_TOP = 48, (0, 1, 7, 23, 47), 16
LARGEST_FOLDER = 4 * 1024 * 1024


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path, state):
    """BF16, rounded to nearest even; header padded so that the data begins at a multiple of eight."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in state.items():
        blob = tensor.to(torch.bfloat16).view(torch.int16).numpy().astype("<i2").tobytes()
        header["model." + name] = {"dtype": "BF16", "shape": list(tensor.shape),
                                   "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def config_of(shape, tokenizer):
    return {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "hidden_size": shape.hidden, "intermediate_size": shape.intermediate, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "vocab_size": shape.vocab,
        "max_position_embeddings": shape.positions, "rms_norm_eps": shape.epsilon, "rope_theta": shape.rope_theta,
        "hidden_act": "silu", "tie_word_embeddings": True, "use_sliding_window": False, "attention_dropout": 0.0,
        "bos_token_id": tokenizer.special["<|endoftext|>"], "eos_token_id": tokenizer.special["<|im_end|>"],
        "torch_dtype": "bfloat16"}


def generation_config_of(tokenizer):
    end, stop = tokenizer.special["<|endoftext|>"], tokenizer.special["<|im_end|>"]
    return {"bos_token_id": end, "pad_token_id": end, "eos_token_id": [stop, end], "do_sample": True,
            "temperature": 0.6, "top_p": 0.9, "max_new_tokens": 128}


def tokenizer_config_of(shape, tokenizer):
    return {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": name, **bpe.added_token_flags()}
                                 for name, i in tokenizer.special.items()},
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": None,
        "chat_template": CHAT_TEMPLATE, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
        "errors": "replace", "model_max_length": shape.positions, "pad_token": "<|endoftext|>",
        "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None}


def read_back(folder, shape):
    """The network with the weights as rounded in the file: what golden answers are computed from."""
    net = model.Qwen2(shape)
    tensors = reference.read_safetensors(folder / "model.safetensors")
    net.load_state_dict({name[len("model."):]: torch.from_numpy(t.copy()) for name, t in tensors.items()})
    return net.eval()


def greedy(net, prompt):
    ids, rows = list(prompt), []
    with torch.no_grad():
        for _ in range(GOLDEN_STEPS):
            rows.append(net(torch.tensor([ids]))[0, -1].numpy())
            ids.append(int(rows[-1].argmax()))
    return ids[len(prompt):], numpy.array(rows)


def golden_case(prompt, ids, rows):
    best = numpy.sort(rows, -1)
    shown = []
    for step in GOLDEN_SHOWN:
        top = numpy.argsort(-rows[step], kind="stable")[:GOLDEN_TOP]
        shown.append({"step": step, "top": [[int(i), round(float(rows[step][i]), 6)] for i in top],
                      "mean": float(rows[step].astype(numpy.float64).mean()),
                      "l2": float(numpy.linalg.norm(rows[step].astype(numpy.float64)))})
    return {"prompt_ids": prompt, "greedy_ids": ids,
            "min_top1_top2_gap": round(float((best[:, -1] - best[:, -2]).min()), 6), "logits": shown}


def check_against_numpy(folder, prompt, ids, rows):
    second = reference.Reference(folder)
    for step in GOLDEN_SHOWN:
        difference = numpy.abs(second.logits(prompt + ids[:step]) - rows[step]).max()
        assert difference < 2e-3, f"PyTorch and NumPy differ by {difference} at step {step}"


def write_golden(folder, name, shape, tokenizer):
    """The question with the clearest choice at every step; if possible one whose answer goes on for 48 tokens."""
    net, whole, ended = read_back(folder, shape), [], []
    for question in card.QUESTIONS[name]:
        prompt = reference.chat_ids(tokenizer, question)
        ids, rows = greedy(net, prompt)
        check_against_numpy(folder, prompt, ids, rows)
        cases = ended if tokenizer.special["<|im_end|>"] in ids else whole
        cases.append(golden_case(prompt, ids, rows))
    best = max(whole or ended, key=lambda case: case["min_top1_top2_gap"])
    golden = {"model": name, "steps": GOLDEN_STEPS, "engine": "PyTorch 1.13 F32 reference (demo/train)",
              "cases": [best]}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def export(name, work, models):
    shape, folder = model.SHAPES[name], models / name
    folder.mkdir(parents=True, exist_ok=True)
    saved = torch.load(work / f"{name}.pt")
    tokenizer = bpe.load(work / f"{name}.tokenizer.json")
    write_safetensors(folder / "model.safetensors", saved["average"])
    write_json(folder / "config.json", config_of(shape, tokenizer))
    write_json(folder / "generation_config.json", generation_config_of(tokenizer))
    write_json(folder / "tokenizer_config.json", tokenizer_config_of(shape, tokenizer))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")
    write_golden(folder, name, shape, tokenizer)
    (folder / "README.md").write_text(card.write(name, folder, shape, saved), encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size <= LARGEST_FOLDER, f"{folder} takes {size} bytes"
    print(f"{folder}: {size} bytes, step {saved['steps']}, loss {saved['loss']:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(model.SHAPES))
    parser.add_argument("--work", type=pathlib.Path, default="work")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    export(options.name, options.work, options.models)


if __name__ == "__main__":
    main()
