#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/model/synth.h"

static const char g_config[] =
    "{\n"
    " \"bos_token\": \"<|endoftext|>\",\n"
    " \"eos_token\": \"<|im_end|>\",\n"
    " \"add_bos_token\": false,\n"
    " \"chat_template\": \"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + "
    "message['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\\\n' }}{% endif %}\"\n"
    "}\n";

static const char *const g_special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

/* GPT-2's byte alphabet: printable Latin-1 as itself, the others from U+0100 on, in order. */
static unsigned byte_code(unsigned byte, unsigned *others)
{
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return printable ? byte : 256 + (*others)++;
}

static void add_vocab(struct br_buf *out)
{
    unsigned others = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned code = byte_code(byte, &others);
        br_buf_puts(out, byte ? ", \"" : "\"");
        if (code == '"' || code == '\\')
            br_buf_puts(out, "\\");
        if (code < 128)
            br_buf_printf(out, "%c", (char)code);
        else
            br_buf_printf(out, "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)));
        br_buf_printf(out, "\": %u", byte);
    }
}

int br_synth_tokenizer(const char *dir, struct br_err *err)
{
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
                                     "\"use_regex\": false}";
    struct br_buf text = {0};
    int rc;
    br_buf_puts(&text, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [");
    for (int i = 0; i < 3; i++)
        br_buf_printf(&text,
                      "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                      "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                      i ? ", " : "", BR_SYNTH_BOS + i, g_special[i]);
    br_buf_printf(&text, "], \"normalizer\": null, \"pre_tokenizer\": %s, \"post_processor\": null, \"decoder\": %s, ",
                  byte_level, byte_level);
    br_buf_puts(&text, "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                       "\"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": \"\", \"fuse_unk\": false, "
                       "\"byte_fallback\": false, \"vocab\": {");
    add_vocab(&text);
    br_buf_puts(&text, "}, \"merges\": []}}\n");
    rc = br_synth_text(dir, "tokenizer.json", text.data, text.len, err);
    br_buf_free(&text);
    return rc ? rc : br_synth_text(dir, "tokenizer_config.json", g_config, sizeof g_config - 1, err);
}
