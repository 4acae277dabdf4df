/* Request bodies of all endpoints: first byte chooses the endpoint and the chat template. What is taken must be a
 * request that every later part takes too: its specs survive packing and the checks of unpacking. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/request.h"
#include "text/bytelevel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* One token a byte, and ChatML's. */
static struct br_tokenizer *make_tokenizer(void)
{
    struct br_tokenizer *tokenizer = NULL;
    struct br_buf json = {0};
    struct br_err err;
    br_buf_puts(&json, "{\"added_tokens\":["
                       "{\"id\":256,\"content\":\"<|im_start|>\",\"special\":true,\"normalized\":false},"
                       "{\"id\":257,\"content\":\"<|im_end|>\",\"special\":true,\"normalized\":false}],"
                       "\"normalizer\":null,\"post_processor\":null,"
                       "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                       "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = {0};
        text[br_bytelevel_put((unsigned char)byte, text)] = 0;
        br_buf_puts(&json, byte ? "," : "");
        br_json_put(&json, text, strlen(text));
        br_buf_printf(&json, ":%d", byte);
    }
    br_buf_puts(&json, "}}}");
    check(br_tokenizer_parse(json.data, json.len, &tokenizer, &err) == 0);
    br_buf_free(&json);
    return tokenizer;
}

static void check_specs(const struct br_request *request)
{
    uint32_t n;
    struct br_seq_spec *specs = br_request_specs(request, &n);
    check(n >= 1 && n <= 8);
    for (uint32_t i = 0; i < n; i++) {
        struct br_seq_spec back;
        struct br_buf packed = {0};
        struct br_err err;
        br_seq_spec_pack(&specs[i], &packed);
        check(br_seq_spec_unpack(packed.data, packed.len, &back, &err) == 0);
        check(back.n_prompt + back.max_tokens <= 600);
        br_seq_spec_free(&back);
        br_buf_free(&packed);
    }
    free(specs);
}

static void check_local(const struct br_request *request, const struct br_gateway_model *model)
{
    struct br_buf out = {0};
    json_t *json;
    br_request_answer_local(request, model, &out);
    json = json_loadb(out.data, out.len, 0, NULL);
    check(json_is_object(json));
    json_decref(json);
    br_buf_free(&out);
}

/* Bit 0 as before there were more than two, bits 4 and 5 for the others. */
static enum br_request_kind kind_of(uint8_t byte)
{
    static const enum br_request_kind others[] = {BR_REQUEST_MESSAGES, BR_REQUEST_TOKENIZE, BR_REQUEST_DETOKENIZE};
    if (byte & 0x30)
        return others[(byte >> 4 & 3) - 1];
    return byte & 1 ? BR_REQUEST_CHAT : BR_REQUEST_COMPLETION;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct br_gateway_model model = {.name = "m", .has_chat = true, .max_context = 600, .vocab = 258};
    struct br_request request;
    struct br_problem problem;
    struct br_buf body = {0};
    if (!model.tokenizer)
        model.tokenizer = make_tokenizer();
    if (size < 1 || size > 1 << 16)
        return 0;
    model.ttft_s = 10;
    model.tbt_s = 0.1;
    model.chat = (struct br_chat_template){
        .format = data[0] & 2 ? BR_CHAT_LLAMA3 : BR_CHAT_CHATML, .tool_response = data[0] & 4, .think = data[0] & 8};
    model.defaults = (struct br_gateway_defaults){.given = 63, .top_p = 0.5f, .repetition_penalty = 1, .max_tokens = 9};
    if (br_request_parse(&request, kind_of(data[0]), (const char *)data + 1, size - 1, 8, &problem) == 0) {
        if (br_request_bind(&request, &model, &problem) < 0)
            br_problem_body(&problem, &body);
        else if (br_request_is_local(&request))
            check_local(&request, &model);
        else
            check_specs(&request);
        br_request_free(&request);
    } else {
        br_problem_body(&problem, &body);
    }
    check(body.len == 0 || problem.status == 400 || problem.status == 404);
    br_buf_free(&body);
    return 0;
}
