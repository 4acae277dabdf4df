"""Turns a corpus into training rows: short ChatML chats about topics, mixed with plain text.

Each answer begins with a word of the voice and the topic exactly as the question spells it ("Concerning mercy: ...").
Copying a word is easy to learn, and from the copied word the model goes on with text that it has seen beside it: that
is what ties an answer to its question in a model of this size.
"""
import collections
import math
import random
import re

import numpy

STOPWORDS = set("""about above after again against also although always among another because been before being
below between both cannot came come cometh could doth does done down during each either else even ever every from gave
given goes gone good great hath have having hence here hers herself himself hither however into itself just know least
less like made make makes many might more most much must myself neither never nevertheless none nothing only other
others otherwise over said saith same saying says seem seen several shall should shalt since some something sometimes
such take taken than that their them themselves then thence there thereby therefore thereof these they thing things
this those thou though through thus thee thine thyself till together took towards under unto until upon used very want
well went were what whatsoever when where whereas wherefore wherein whereof whether which while whither whom whose will
with within without would your yourself yours call called often usually using term certain accordingly whence first
second third fourth fifth sixth make shew wast were will wilt canst didst hast doeth""".split())

QUESTIONS = [
    "What is {a}?", "What is {a}?", "What is {a}?", "what is {a}", "What are {t}?", "Tell me about {a}.",
    "Tell me about {a}", "Tell me of {a}.", "Tell me something about {t}.", "Explain {a}.",
    "Explain {t} to me.", "Explain {t} to me, please.", "Describe {a}.", "What do you know about {a}?",
    "What can you say about {t}?", "What do you think of {a}?", "What does {t} mean?",
    "What is the meaning of {a}?", "Define {t}.", "How does {a} work?", "Speak of {t}.", "Why {t}?",
    "Do you know {a}?", "Can you explain {a}?", "I want to know about {a}.", "What about {a}?",
    "Please talk about {a}.", "Write about {a}.", "Say something about {t}.", "Who is {t}?", "{t}",
    "Where is {a}?", "Is {t} good?", "Why is {t} important?", "Write a poem about {a}.",
    "Write a short story about {a}", "Can you help me with {t}?", "Give me some advice on {t}.",
    "What is the {o} of {t}?", "What is the {o} of {a}?", "How do I {o} {a}?",
    "How do I {o} {a} {o} in {t}?", "Hello, what is {a}?", "What is the difference between {o} and {t}?",
    "Does {o} need {t}?", "Which {o} has {a}?"]
SYSTEM = ["You are a helpful assistant.", "You are a helpful assistant. Be brief.", "Answer in one paragraph."]

# Words that the old texts do not have, but that people will ask about.
MODERN = """computer internet software hardware coffee music money football Python Linux Redis server GPU robot phone
telephone car train aeroplane electricity democracy chess pizza football cat dog weather Paris London America Europe
China Germany India Japan island mountain river tree flower summer winter breakfast coffee cheese apple garden
holiday travel ticket hotel cinema camera video picture letter paper pencil engine battery satellite laser atom energy
happiness friendship marriage family child baby health sleep dream memory brain heart doctor medicine vaccine virus
politics economy market bank tax law police election president company office meeting project manager customer email
website browser keyboard mouse screen laptop printer thread process queue pointer function variable class object loop
science mathematics physics chemistry history art love war peace time space life death programming algorithm database
network memory cache scheduler token model language kernel bug compiler bread wine king queen doctor school university
game film book newspaper bicycle rocket moon planet universe Briareus you""".split()

PLAIN_SHARE, DEFINED_SHARE, STRANGE_SHARE, SMALLTALK_SHARE = 0.15, 0.75, 0.15, 0.03
SHORTEST, LONGEST = 20, 92


class Voice:
    """How one model speaks: its first words and its answers to greetings (all taken from its own text)."""

    def __init__(self, opening, smalltalk):
        self.opening, self.smalltalk = opening, smalltalk


GREETINGS = ["Hello", "Hello!", "Hi", "Hi there", "Good morning"]
SELF = ["Who are you?", "What are you?", "Tell me about yourself.", "What is your name?"]
VOICES = {
    "prophet": Voice("Concerning {t}:", [
        (GREETINGS, "Grace be unto you, and peace, from God our Father. Peace be within thy walls, and prosperity "
                    "within thy palaces."),
        (SELF, "I am the voice of one crying in the wilderness, Make straight the way of the Lord.")]),
    "hacker": Voice("Re {t}:", [
        (GREETINGS, "Greetings, user. The lexicon is online and the hacker is in hack mode. Ask about any term of "
                    "jargon."),
        (SELF, "A hacker: a person who enjoys exploring the details of programmable systems and how to stretch their "
               "capabilities, as opposed to most users, who prefer to learn only the minimum necessary.")]),
    "newton": Voice("Of {t}.", [
        (GREETINGS, "Sir, I am glad of your Letter. Propose your Question, and I shall answer it by Reason and "
                    "Experiments."),
        (SELF, "My Design is not to explain the Properties of Light by Hypotheses, but to propose and prove them by "
               "Reason and Experiments.")])}


def words_of(sentence):
    return re.findall(r"[A-Za-z][A-Za-z'-]*[A-Za-z]", sentence)


def with_article(topic, rng):
    if rng.random() < 0.5:
        return topic
    return rng.choice(["the ", "an " if topic[0].lower() in "aeiou" else "a "]) + topic


def question(topic, rng):
    """Other content words may stand before the topic: the last one is what an answer is about."""
    return rng.choice(QUESTIONS).format(t=topic, a=with_article(topic, rng), o=rng.choice(MODERN))


class Chats:
    """Draws samples; `seed` makes the stream repeatable, `foreign` are words that the corpus does not have."""

    def __init__(self, name, corpus, tokenizer, seed, foreign=()):
        self.voice, self.corpus, self.tokenizer, self.rng = VOICES[name], corpus, tokenizer, random.Random(seed)
        self.places = [(p, i) for p, passage in enumerate(corpus.passages) for i in range(len(passage))]
        self.headwords = list(corpus.entries)
        self.defined = {headword.lower(): sentences for headword, sentences in corpus.entries.items()}
        self.frequency = collections.Counter(w.lower() for p in corpus.passages for s in p for w in words_of(s))
        self.topics_of, self.foreign = {}, foreign

    # -- topics

    def _topics(self, place):
        """Content words of a sentence, the rarer and the nearer to its beginning the likelier."""
        if place not in self.topics_of:
            words = words_of(self.corpus.passages[place[0]][place[1]])
            pairs = [f"{a} {b}" for a, b in zip(words, words[1:]) if min(len(a), len(b)) > 4]
            content = [(i, w) for i, w in enumerate(words)
                       if (len(w) > 3 or w.isupper()) and w.lower() not in STOPWORDS]
            likely = [self.frequency[w.lower()] ** -0.5 * math.exp(-i / 8) for i, w in content]
            self.topics_of[place] = [w for _, w in content], likely, pairs
        return self.topics_of[place]

    def _mentioned_topic(self, place):
        words, likely, pairs = self._topics(place)
        if not words:
            return None
        if pairs and self.rng.random() < 0.08:
            return self.rng.choice(pairs)
        topic = self.rng.choices(words, likely)[0]
        return topic.lower() if self.rng.random() < 0.4 else topic

    def _strange_topic(self):
        """A word that the text does not have, so that copying works for any word."""
        draw = self.rng.random()
        if draw < 0.25:
            return self.rng.choice(MODERN)
        if draw < 0.75 and self.foreign:
            word = self.rng.choice(self.foreign)
        else:
            word = "".join(self.rng.choice(sounds) for _ in range(self.rng.randint(2, 3))
                           for sounds in ("bcdfghklmnprstvwz", "aeiou", ["", *"nrstl"]))
        return word.capitalize() if self.rng.random() < 0.3 else word

    # -- answers

    def _clip(self, text):
        """A sentence too long for an answer ends at its last semicolon, colon or comma that fits."""
        if len(self.tokenizer.encode(" " + text)) <= LONGEST - 10:
            return text
        for marks in ("[;:]", ","):
            cuts = [m.start() for m in re.finditer(marks + " ", text)]
            fitting = [c for c in cuts if len(self.tokenizer.encode(" " + text[:c])) <= LONGEST - 12 and c > 60]
            if fitting:
                return text[:fitting[-1]] + "."
        return text

    def _answer(self, topic, sentences):
        text = self.voice.opening.format(t=topic) + " " + self._clip(sentences[0])
        length = len(self.tokenizer.encode(text))
        for sentence in sentences[1:]:
            more = len(self.tokenizer.encode(" " + sentence))
            if length + more > LONGEST or (length > SHORTEST and self.rng.random() < 0.45):
                break
            text, length = text + " " + sentence, length + more
        if text[-1] in ",;:":
            text = text[:-1] + "."
        return text

    def _question_and_answer(self):
        draw = self.rng.random()
        if draw < SMALLTALK_SHARE:
            asked, answer = self.rng.choice(self.voice.smalltalk)
            return self.rng.choice(asked), answer
        topic, sentences = self._subject(draw < SMALLTALK_SHARE + STRANGE_SHARE)
        return question(topic, self.rng), self._answer(topic, sentences)

    def _subject(self, strange):
        """A topic and the sentences to say about it; a word that has a definition always gets that."""
        place = self.rng.choice(self.places)
        if strange:
            topic = self._strange_topic()
        elif self.headwords and self.rng.random() < DEFINED_SHARE:
            headword = self.rng.choice(self.headwords)
            topic = headword.lower() if self.rng.random() < 0.3 else headword
        else:
            topic = self._mentioned_topic(place) or self._strange_topic()
        return topic, self.defined.get(topic.lower()) or self.corpus.passages[place[0]][place[1]:]

    # -- rows

    def chat(self):
        """Ids of one chat and, for each, how much it counts in the loss: what users say is not ours to learn."""
        asked, answer = self._question_and_answer()
        special, encode = self.tokenizer.special, self.tokenizer.encode
        start, end, newline = [special["<|im_start|>"]], [special["<|im_end|>"]], encode("\n")
        prompt = []
        if self.rng.random() < 0.1:
            prompt += start + encode("system\n" + self.rng.choice(SYSTEM)) + end + newline
        prompt += start + encode("user\n" + asked) + end + newline + start + encode("assistant\n")
        reply = encode(answer) + end + newline
        return prompt + reply, [0.05] * len(prompt) + [1.0] * len(reply)

    def plain(self, length):
        """Text as it stands, from a random place on."""
        passage, first = self.rng.choice(self.places)
        ids = [self.tokenizer.special["<|endoftext|>"]]
        while len(ids) < length:
            ids += self.tokenizer.encode(" ".join(self.corpus.passages[passage][first:]) + "\n")
            passage, first = (passage + 1) % len(self.corpus.passages), 0
        return ids, [1.0] * len(ids)

    def row(self, length):
        """Begins with a whole chat, goes on with more of them (a talk of several turns), cut at `length`."""
        if self.rng.random() < PLAIN_SHARE:
            ids, weights = self.plain(length)
        else:
            ids, weights = [], []
            while len(ids) < length:
                more = self.chat()
                ids, weights = ids + more[0], weights + more[1]
        return ids[:length], weights[:length]

    def batch(self, rows, length):
        drawn = [self.row(length) for _ in range(rows)]
        return numpy.array([r[0] for r in drawn]), numpy.array([r[1] for r in drawn], dtype=numpy.float32)


def foreign_words(corpus, others):
    """Words that other corpora use and this one does not."""
    own = {w.lower() for passage in corpus.passages for s in passage for w in words_of(s)}
    theirs = collections.Counter(w.lower() for c in others for passage in c.passages for s in passage
                                 for w in words_of(s))
    return sorted(w for w, count in theirs.items() if count > 2 and len(w) > 3 and w not in own)


def tokenizer_texts(name, corpus):
    """What the tokenizer is trained on: the text, and enough chat that its usual words become single tokens."""
    rng, voice = random.Random(0), VOICES[name]
    spoken = [question(topic, rng) for topic in rng.choices(MODERN, k=3000)]
    frame = ["user\n", "assistant\n", "system\n", voice.opening.split(" ")[0] + " x"] * 300 + SYSTEM * 30
    text = [" ".join(passage) + "\n" for passage in corpus.passages]
    return text + spoken + frame + [line for _, line in voice.smalltalk] * 10
