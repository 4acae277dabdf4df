"""Public-domain texts out of Debian packages: fetch, unpack, clean, cut into sentences.

The texts are never stored in the repository; this file is what brings them back. A corpus is a Corpus object:
passages (lists of sentences that follow each other in the source) and entries (headword -> sentences, for a
dictionary; empty otherwise). Everything is folded to ASCII, so that 2,000 tokens go as far as they can.
"""
import dataclasses
import gzip
import pathlib
import re
import subprocess
import unicodedata


@dataclasses.dataclass
class Corpus:
    passages: list
    entries: dict = dataclasses.field(default_factory=dict)


def fetch(package, folder):
    """Unpack a Debian package below `folder` without installing it; returns where its files are."""
    root = pathlib.Path(folder) / package
    if not root.exists():
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
        archive = next(folder.glob(package + "_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
    return root


FOLDED = str.maketrans({
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u00b4": "'", "\u2014": " -- ", "\u2013": "-",
    "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe", "\u0152": "Oe", "\u00d8": "O", "\u00f8": "o", "\u00d7": "x"})


def to_ascii(text):
    """Curly quotes and ligatures become plain ones, accents fall off, the rest is dropped."""
    text = unicodedata.normalize("NFKD", text.translate(FOLDED))
    return text.encode("ascii", "ignore").decode()


# A full stop after these does not end a sentence.
ABBREVIATION = re.compile(
    r"\b(?:[Ff]ig|FIG|[Ee]xper|[Pp]rop|[Oo]bs|[Oo]bserv|[Dd]efin|[Aa]x|[Pp]ar|[Pp]art|[Ll]ib|[Qq]u|[Ss]ect|[Pp]|[Vv]ol"
    r"|Mt|Mr|Mrs|Dr|St|[Ss]yn|[Ee]sp|[Uu]su|[Pp]oss|[Pp]rob|vs|etc|i\.e|e\.g|[Ee]d|[Oo]rig|[Pp]ron|[Aa]lt|[Cc]f|[A-Z]"
    r"|\d+)\.$")


def split_sentences(text):
    sentences, start = [], 0
    for end in re.finditer(r"""[.?!]["')]*\s+(?=["'(]?[A-Z0-9])""", text):
        head = text[start:end.end()].strip()
        if ABBREVIATION.search(head):
            continue
        sentences.append(head)
        start = end.end()
    rest = text[start:].strip()
    return sentences + [rest] if rest else sentences


def bible(folder):
    """The King James Version: one chapter a passage, one verse a 'sentence'."""
    program = fetch("bible-kjv", folder) / "usr/bin/bible"
    text = fetch("bible-kjv-text", folder) / "usr/lib"
    printed = subprocess.run([program, "-p", text, "-f", "gen1:1-rev22:21"], check=True, text=True,
                             capture_output=True).stdout
    chapters = {}
    for line in printed.splitlines():
        verse = re.fullmatch(r"(\S+?):\d+ (.*)", line.strip())
        if verse:
            chapters.setdefault(verse[1], []).append(re.sub(r"\s+", " ", verse[2]).strip())
    return Corpus(list(chapters.values()))


def opticks(folder):
    """Newton's Opticks (1730), test data of Go's compression packages: one paragraph a passage."""
    root = fetch("golang-1.19-src", folder)
    text = next(root.rglob("testdata/Isaac.Newton-Opticks.txt")).read_text(encoding="utf-8")
    text = text[text.index("THE FIRST BOOK OF OPTICKS"):]
    text = re.sub(r"\[Illustration[^]]*\]|\[[A-Z]\]", " ", text)
    text = re.sub(r"\[(?:Greek|Sidenote|Footnote)[:\s]*([^]]*)\]", r"\1", text)
    text = re.sub(r"\[in Fig[^]]*\]", " ", text.replace("_", ""), flags=re.IGNORECASE)
    passages = []
    for block in re.split(r"\n\s*\n", to_ascii(text)):
        paragraph = re.sub(r"\s+", " ", block).strip()
        letters = sum(c.isalpha() or c == " " for c in paragraph)
        if len(paragraph) > 80 and letters > 0.9 * len(paragraph):  # leaves tables and headings out
            passages.append(split_sentences(paragraph))
    return Corpus(passages)


# The lexicon is frank; a demo that anyone may open at work is not the place for that.
CRUDE = re.compile(
    r"fuck|shit|\bpiss|cunt|bitch|bastard|nigg|\brap(?:e|ing)|sex|\bporn|orgasm|penis|vagina|\bass(?:hole)?\b|bugger"
    r"|slut|whore|wank|\bdamn|masturbat|\bcrap|\bturd|\bfart|suck|\bjap|nazi|\bgay\b|queer", re.IGNORECASE)


def clean_definition(body):
    """Cross references and etymologies say little to a model this small; the braces are only mark-up."""
    body = re.sub(r"\{\s*([^}]*)\}", r"\1", re.sub(r"\s+", " ", body)).strip()
    body = re.sub(r"(\w&) (\w)", r"\1\2", re.sub(r" ([).,;:])", r"\1", body))
    body = re.sub(r"\s*/[^/ ]*[@'`][^/]*/", "", body)          # pronunciations
    body = re.sub(r"^\s*(?:\[[^]]*\]\s*)+", "", body)
    body = re.sub(r"(?:^|(?<=[.;)\"] ))\d+\. ", "", body)      # numbers of senses
    body = re.sub(r"(?:^|(?<=[.)\"] ))(?:n|v|vt|vi|adj|adv|interj|pl|obs|techspeak)\. (?=[A-Z])", "", body)
    body = re.sub(r"(^|(?<=[.)\"] ))\[[^]]*\] ?", "", body)
    body = re.sub(r"^\([^)]*\) (?=[A-Z])", "", body)           # other spellings
    body = body.replace("--", "-")
    keep = [s for s in split_sentences(body.strip())
            if not re.match(r"(?:See|Compare|Oppose|Antonym|Synonym|Contrast)\b", s) and re.search(r"[.?!]", s)
            and len(s) > 8 and not CRUDE.search(s)]
    return keep


def jargon(folder):
    """The Jargon File 4.4.7 in dictd form: headword at the margin, grammar by one space, text by four."""
    raw = gzip.open(fetch("dict-jargon", folder) / "usr/share/dictd/jargon.dict.dz").read().decode("utf-8")
    entries, headword, body, above = {}, None, [], ""
    for line in to_ascii(raw[raw.index("(TM)"):]).splitlines() + ["", "end"]:
        if line and not line.startswith(" ") and not above:
            sentences = clean_definition("\n".join(body))
            if headword and sentences and not CRUDE.search(headword):
                entries[headword] = sentences
            headword, body = line.strip(), []
        elif line.startswith("    "):
            body.append(line)
        above = line
    return Corpus(list(entries.values()), entries)


CORPORA = {"prophet": bible, "hacker": jargon, "newton": opticks}
