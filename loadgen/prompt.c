#include "loadgen/prompt.h"

#include <string.h>

#include "base/rng.h"

enum { DRAW_PROMPT = 0x7072, DRAW_BLOCK = 0x626c, PER_DRAW = 4, CHECKS = 3, CHECK_WORDS = 150 };

/* Short and frequent: one token behind a space in any large vocabulary, and single letters for small ones. */
static const char *const g_words[] = {
    "time",   "people", "way",   "water",  "day",   "man",  "world", "life",   "hand",   "part",    "place",  "case",
    "week",   "work",   "point", "home",   "night", "room", "book",  "word",   "side",   "kind",    "head",   "house",
    "friend", "hour",   "game",  "line",   "end",   "city", "name",  "team",   "idea",   "body",    "back",   "face",
    "level",  "office", "door",  "health", "art",   "war",  "party", "result", "change", "morning", "reason", "girl",
    "moment", "air",    "food",  "he",     "she",   "they", "one",   "two",    "was",    "had",     "is",     "in",
    "on",     "to",     "of",    "it",     "and",   "the",  "a",     "b",      "c",      "d",       "e",      "f",
    "g",      "h",      "l",     "m",      "n",     "o",    "p",     "r",      "s",      "t",       "w",      "y"};
enum { N_WORDS = sizeof g_words / sizeof *g_words };
_Static_assert((int)N_WORDS <= (int)LOAD_WORDS, "all words fit");
static const char OPENING[] = "I";

struct asker {
    load_count_fn count;
    void *ctx;
    struct br_buf text;
};

static void put_word(struct br_buf *text, const char *word)
{
    br_buf_add(text, " ", 1);
    br_buf_puts(text, word);
}

/* Tokens of the opening and these words. */
static int ask(struct asker *a, const char *const *words, uint32_t n, uint32_t *tokens, struct br_err *err)
{
    br_buf_clear(&a->text);
    br_buf_puts(&a->text, OPENING);
    for (uint32_t i = 0; i < n; i++)
        put_word(&a->text, words[i]);
    return a->count(a->ctx, a->text.data, a->text.len, tokens, err);
}

/* Tries them all at once, else halves: a large vocabulary is asked once. */
static int keep_single(struct asker *a, struct load_lexicon *out, const char *const *words, uint32_t n,
                       struct br_err *err)
{
    uint32_t tokens;
    if (ask(a, words, n, &tokens, err))
        return err->code;
    if (tokens == out->opening + n) {
        for (uint32_t i = 0; i < n; i++)
            out->words[out->n_words++] = words[i];
        return 0;
    }
    if (n == 1)
        return 0;
    return keep_single(a, out, words, n / 2, err) ? err->code : keep_single(a, out, words + n / 2, n - n / 2, err);
}

static int check(struct asker *a, const struct load_lexicon *lexicon, struct br_err *err)
{
    const char *words[CHECK_WORDS];
    for (uint32_t k = 0; k < CHECKS; k++) {
        uint32_t tokens;
        for (uint32_t i = 0; i < CHECK_WORDS; i++)
            words[i] = lexicon->words[br_rng_u64(k, DRAW_PROMPT, i, 9) % lexicon->n_words];
        if (ask(a, words, CHECK_WORDS, &tokens, err))
            return err->code;
        if (tokens != lexicon->opening + CHECK_WORDS)
            return br_err_set(err, BR_ENOTSUP,
                              "the tokenizer makes %u tokens of %u words that are one each: lengths "
                              "do not add up",
                              tokens - lexicon->opening, CHECK_WORDS);
    }
    return 0;
}

int load_lexicon_find(struct load_lexicon *out, load_count_fn count, void *ctx, struct br_err *err)
{
    struct asker a = {.count = count, .ctx = ctx};
    int rc;
    out->n_words = 0;
    rc = ask(&a, NULL, 0, &out->opening, err);
    if (rc == 0)
        rc = keep_single(&a, out, g_words, N_WORDS, err);
    if (rc == 0 && out->n_words == 0)
        rc = br_err_set(err, BR_ENOTSUP, "the tokenizer has no single token for any of the known words");
    if (rc == 0)
        rc = check(&a, out, err);
    out->exact = rc == 0;
    br_buf_free(&a.text);
    return rc;
}

void load_lexicon_assume(struct load_lexicon *out)
{
    out->opening = 1;
    out->n_words = 65; /* without the letters */
    memcpy(out->words, g_words, 65 * sizeof *g_words);
    out->exact = false;
}

/* Numbers for token after token: from the block that the token lies in, else from the request's own stream. */
struct tokens {
    const struct br_workload *workload;
    const struct br_request *request;
    uint64_t seed, key, bits;
    uint32_t left, place; /* of the bits; within the block or the own part */
};

static void tokens_enter(struct tokens *t, uint32_t at)
{
    const struct br_request *r = t->request;
    uint32_t size = t->workload->block_tokens, block = r->n_blocks ? at / size : 0;
    t->left = 0;
    if (block < r->n_blocks) {
        t->key = br_rng_u64(t->seed, DRAW_BLOCK, t->workload->blocks[r->first_block + block], r->model);
        t->place = at % size;
    } else {
        t->key = br_rng_u64(t->seed, DRAW_PROMPT, r->number, r->model);
        t->place = at - r->n_blocks * size;
    }
}

static uint32_t tokens_next(struct tokens *t, uint32_t at)
{
    const struct br_request *r = t->request;
    uint32_t value;
    if (!t->key || (r->n_blocks && at % t->workload->block_tokens == 0))
        tokens_enter(t, at);
    if (t->left == 0) {
        t->bits = br_rng_u64(t->key, DRAW_PROMPT, t->place, 0);
        t->left = PER_DRAW;
    }
    value = (uint32_t)(t->bits & 0xffff);
    t->bits >>= 16;
    t->left--;
    t->place++;
    return value;
}

void load_prompt_text(const struct load_lexicon *lexicon, const struct br_workload *workload,
                      const struct br_request *request, uint64_t seed, struct br_buf *out)
{
    struct tokens t = {.workload = workload, .request = request, .seed = seed};
    br_buf_puts(out, OPENING);
    for (uint32_t at = lexicon->opening; at < request->prompt; at++)
        put_word(out, lexicon->words[tokens_next(&t, at) % lexicon->n_words]);
}

void load_prompt_ids(const struct load_lexicon *lexicon, const struct br_workload *workload,
                     const struct br_request *request, uint64_t seed, struct br_buf *out)
{
    struct tokens t = {.workload = workload, .request = request, .seed = seed};
    for (uint32_t at = 0; at < request->prompt; at++) {
        uint32_t bits = tokens_next(&t, at);
        br_buf_printf(out, "%s%d", at ? "," : "[", lexicon->first_id + (int32_t)(bits % (uint32_t)lexicon->n_ids));
    }
    br_buf_puts(out, "]");
}
