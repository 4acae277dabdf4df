#include "text/added.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "text/utf8.h"

enum { ADDED_MAX_NODES = 4 << 20 };

struct added_node {
    int32_t child, sibling; /* node indexes; 0: none */
    int32_t token;          /* index into tokens; -1: no token ends here */
    unsigned char byte;
};

static int32_t node_new(struct br_added_set *set, unsigned char byte)
{
    if (set->n_nodes == set->cap_nodes) {
        set->cap_nodes = set->cap_nodes ? 2 * set->cap_nodes : 256;
        set->nodes = br_realloc(set->nodes, (size_t)set->cap_nodes * sizeof *set->nodes);
    }
    set->nodes[set->n_nodes] = (struct added_node){.token = -1, .byte = byte};
    return set->n_nodes++;
}

static int32_t node_child(const struct br_added_set *set, int32_t node, unsigned char byte)
{
    int32_t child = node ? set->nodes[node].child : set->first[byte];
    while (child && set->nodes[child].byte != byte)
        child = set->nodes[child].sibling;
    return child;
}

static int32_t node_add_child(struct br_added_set *set, int32_t node, unsigned char byte)
{
    int32_t child = node_child(set, node, byte);
    if (child)
        return child;
    child = node_new(set, byte);
    if (node == 0) {
        set->first[byte] = child;
    } else {
        set->nodes[child].sibling = set->nodes[node].child;
        set->nodes[node].child = child;
    }
    return child;
}

int br_added_put(struct br_added_set *set, const char *text, size_t len, const struct br_added_token *token,
                 struct br_err *err)
{
    int32_t node = 0;
    if ((size_t)set->n_nodes + len > ADDED_MAX_NODES)
        return br_err_set(err, BR_EINVAL, "added_tokens: their texts take more than %d bytes", ADDED_MAX_NODES);
    if (set->n_nodes == 0)
        (void)node_new(set, 0);
    for (size_t i = 0; i < len; i++)
        node = node_add_child(set, node, (unsigned char)text[i]);
    if (set->nodes[node].token >= 0)
        return 0;
    if (set->n_tokens == set->cap_tokens) {
        set->cap_tokens = set->cap_tokens ? 2 * set->cap_tokens : 64;
        set->tokens = br_realloc(set->tokens, set->cap_tokens * sizeof *set->tokens);
    }
    set->nodes[node].token = (int32_t)set->n_tokens;
    set->tokens[set->n_tokens++] = *token;
    return 0;
}

void br_added_free(struct br_added_set *set)
{
    free(set->tokens);
    free(set->nodes);
    *set = (struct br_added_set){0};
}

/* The longest token that begins at `at`; its end goes to *end. */
static const struct br_added_token *longest_at(const struct br_added_iter *iter, size_t at, size_t *end)
{
    const struct br_added_set *set = iter->set;
    const struct br_added_token *best = NULL;
    int32_t node = 0;
    while (at < iter->len && (node = node_child(set, node, (unsigned char)iter->text[at])) != 0) {
        at++;
        if (set->nodes[node].token >= 0) {
            best = &set->tokens[set->nodes[node].token];
            *end = at;
        }
    }
    return best;
}

/* \w of Unicode's regular expressions (UTS #18 annex C). */
static bool is_word(int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
           c == 0x200C || c == 0x200D;
}

/* The character that ends at `at`; its start goes to *start. */
static int32_t char_before(const char *text, size_t at, size_t *start)
{
    int len;
    do
        at--;
    while (at > 0 && !br_utf8_is_start(text[at]));
    *start = at;
    return br_utf8_decode(text + at, &len);
}

static bool stands_alone(const struct br_added_iter *iter, size_t from, size_t to)
{
    size_t start;
    int len;
    if (from > 0 && is_word(char_before(iter->text, from, &start)))
        return false;
    return to == iter->len || !is_word(br_utf8_decode(iter->text + to, &len));
}

static void take_spaces(const struct br_added_iter *iter, struct br_added_piece *piece)
{
    size_t start;
    int len;
    while (piece->token->lstrip && piece->from > iter->done &&
           br_char_is_space(char_before(iter->text, piece->from, &start)))
        piece->from = start;
    while (piece->token->rstrip && piece->to < iter->len &&
           br_char_is_space(br_utf8_decode(iter->text + piece->to, &len)))
        piece->to += (size_t)len;
}

/* Where plain text that from..to touches ends; from if it touches none. Forgets ranges that lie behind. */
static size_t plain_end(struct br_added_iter *iter, size_t from, size_t to)
{
    while (iter->n_plain > 0 && iter->plain->to <= from) {
        iter->plain++;
        iter->n_plain--;
    }
    return iter->n_plain > 0 && iter->plain->from < to ? iter->plain->to : from;
}

/* Whether a match counts. If not, *next is where to look on: after the match, as the reference does, but not past the
 * end of the plain text that forbids it. */
static bool match_counts(struct br_added_iter *iter, const struct br_added_token *token, size_t from, size_t to,
                         size_t *next)
{
    size_t plain_to;
    *next = to;
    if (token->special) {
        if (!iter->specials)
            return false;
        plain_to = plain_end(iter, from, to);
        if (plain_to > from) {
            *next = plain_to < to ? plain_to : to;
            return false;
        }
    }
    return !token->single_word || stands_alone(iter, from, to);
}

static bool find_token(struct br_added_iter *iter, struct br_added_piece *piece)
{
    if (iter->set->n_tokens == 0)
        return false;
    while (iter->at < iter->len) {
        size_t end = 0;
        const struct br_added_token *token;
        if (!iter->set->first[(unsigned char)iter->text[iter->at]] || !(token = longest_at(iter, iter->at, &end))) {
            iter->at++;
            continue;
        }
        *piece = (struct br_added_piece){iter->at, end, token};
        if (match_counts(iter, token, piece->from, piece->to, &iter->at)) {
            take_spaces(iter, piece);
            iter->at = piece->to;
            return true;
        }
    }
    return false;
}

bool br_added_next(struct br_added_iter *iter, struct br_added_piece *piece)
{
    if (iter->held.token) {
        *piece = iter->held;
        iter->held.token = NULL;
    } else if (find_token(iter, piece)) {
        if (piece->from > iter->done) {
            iter->held = *piece;
            *piece = (struct br_added_piece){iter->done, iter->held.from, NULL};
        }
    } else if (iter->done < iter->len) {
        *piece = (struct br_added_piece){iter->done, iter->len, NULL};
        iter->at = iter->len;
    } else {
        return false;
    }
    iter->done = piece->to;
    return true;
}
