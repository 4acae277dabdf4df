#include "text/byte_tokenizer.h"

#include <stdbool.h>

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

void br_byte_tokenizer_json(struct br_buf *out)
{
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
                                     "\"use_regex\": false}";
    br_buf_puts(out, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [");
    for (int i = 0; i < 3; i++)
        br_buf_printf(out,
                      "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                      "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                      i ? ", " : "", BR_BYTE_ENDOFTEXT + i, g_special[i]);
    br_buf_printf(out, "], \"normalizer\": null, \"pre_tokenizer\": %s, \"post_processor\": null, \"decoder\": %s, ",
                  byte_level, byte_level);
    br_buf_puts(out, "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                     "\"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": \"\", \"fuse_unk\": false, "
                     "\"byte_fallback\": false, \"vocab\": {");
    add_vocab(out);
    br_buf_puts(out, "}, \"merges\": []}}\n");
}

int br_byte_tokenizer_create(struct br_tokenizer **out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    br_byte_tokenizer_json(&text);
    rc = br_tokenizer_parse(text.data, text.len, out, err);
    br_buf_free(&text);
    return rc;
}
