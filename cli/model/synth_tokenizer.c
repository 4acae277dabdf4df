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

int br_synth_tokenizer(const char *dir, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    br_byte_tokenizer_json(&text);
    rc = br_synth_text(dir, "tokenizer.json", text.data, text.len, err);
    br_buf_free(&text);
    return rc ? rc : br_synth_text(dir, "tokenizer_config.json", g_config, sizeof g_config - 1, err);
}
