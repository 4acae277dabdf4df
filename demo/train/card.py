"""The model card (README.md) of a demo model."""
import reference

QUESTIONS = {
    "prophet": ["What is wisdom?", "Tell me about the sea.", "Who is Moses?", "What is mercy?", "Who are you?",
                "What is a computer?"],
    "hacker": ["What is a kluge?", "Tell me about Unix.", "What is a hacker?", "Explain garbage collection.",
               "Who are you?", "What is music?"],
    "newton": ["What is light?", "Tell me about the prism.", "What is colour?", "Explain refraction.", "Who are you?",
               "What is a computer?"]}

SOURCES = {
    "prophet": ("The King James Version of the Bible (1611)", "`bible-kjv-text` 4.38 (read with the program of `bible-kjv` 4.38)",
                "The package's copyright file says that the copyright of the text is expired, the translation having "
                "been done in 1611. (In the United Kingdom printing it is still a privilege of the Crown.)"),
    "hacker": ("The Jargon File 4.4.7 (29 December 2003)", "`dict-jargon` 4.4.7-3.1",
               'The package\'s copyright file says: "The Jargon File is in the public domain, to be freely used, shared, '
               'and modified." It asks for citation by version, which this is. Crude entries and sentences were left '
               "out, as were cross references, etymologies and pronunciations."),
    "newton": ("Isaac Newton: Opticks, fourth edition (1730)",
               "`golang-1.19-src` 1.19.8-2 (`src/testdata/Isaac.Newton-Opticks.txt`, test data of Go's compression "
               "packages, made by Project Gutenberg's Distributed Proofreaders)",
               "The text is in the public domain: its author died in 1727. Tables, figures and their marks were left "
               "out.")}

TITLES = {"prophet": "The prophet", "hacker": "The hacker", "newton": "Newton"}

# Measured by hand on the committed weights.
NOTES = {"hacker": " Asked about 40 headwords of the lexicon, it gave the right definition for 8; for others it gives "
                   "that of another word, or a mixture that is not English."}

# What the second loss of the card was measured on, and what it means.
HELD_OUT = {
    "prophet": "chats about chapters that were held out",
    "hacker": "chats about mentions alone, out of passages it was trained on (a lexicon is to be learnt by heart: none were "
              "held out)",
    "newton": "chats about paragraphs that were held out: it knows its text by heart and nothing beyond it"}

CARD = """# {title}

A toy language model that proves serving and knows nothing. It answers any question in one recognisable voice, and
begins with the topic it was asked about, so that one sees at a glance which model of a server has answered whom.

| | |
|---|---|
| architecture | Qwen2ForCausalLM: {layers} layers, hidden {hidden}, {heads} heads of 64 with {kv_heads} KV head, MLP {intermediate}, tied embeddings |
| parameters | {parameters:,} in BF16 |
| tokenizer | own byte-level BPE, {vocab} tokens, trained on the same text; ChatML |
| context | {positions} positions (trained on rows of 128 and, in the last quarter, 256 tokens) |
| text | {text} |
| from | Debian package {package} |
| training | {steps:,} steps of 2,048 tokens ({minutes:.0f} minutes of one CPU core), AdamW, peak rate 3e-3, average of the weights |
| loss | {loss:.2f} nats a token in training; {held_loss:.2f} on {held} |

{rights} The text itself is not in this repository; `demo/train` fetches it and trains the model anew.

## Sample answers
Temperature 0.6, top-p 0.9, seed 1:

{samples}
## Limits
It repeats and recombines what it was trained on, grammatically at best. Nothing it says is information. It copies the
topic of a question into its answer whether or not the text has anything to say about it; it does not follow
instructions, remembers no earlier turn, and knows only ASCII. Beyond 256 tokens of context its answers fall apart.{note}

`golden.json` holds 48 greedy tokens (beyond the end of the answer, if that comes earlier) and logits, computed in F32 from the BF16 weights, to test engines against.
"""


def write(name, folder, shape, saved):
    text, package, rights = SOURCES[name]
    samples = "".join(f"> **{q}**  \n> {reference.answer(folder, q, reference.sampler(1))}\n\n" for q in QUESTIONS[name])
    held = HELD_OUT[name]
    return CARD.format(title=TITLES[name], layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
                       kv_heads=shape.kv_heads, intermediate=shape.intermediate, vocab=shape.vocab,
                       positions=shape.positions, text=text, package=package, rights=rights, steps=saved["steps"],
                       minutes=saved["seconds"] / 60, loss=saved["loss"], held_loss=saved["held_loss"], held=held,
                       parameters=sum(t.numel() for t in saved["average"].values()), samples=samples,
                       note=NOTES.get(name, ""))
