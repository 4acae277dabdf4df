/* One panel of a BF16 product with quantised weights whose groups are stretches of inputs: cells hold code - zero (or
 * the E4M3 number), which BF16 holds exactly; a group's sum is scaled and added in F32. No weight is rounded, and
 * unpacking is a few integer instructions. One order for any number of rows, so exact mode holds. */

enum { GROUPED_INPUTS = 64 }; /* unpacked at a time: they stay in the L1 cache */

/* Codes of inputs [first, last) of one group as cells: words are read in the order they lie in. */
#define GROUPED_PAIR(name, c, n, bits)                                                                                 \
    vb_store(out + (n)*4 * BR_PANEL + 64 * (c), vb_cells_##name(vb_shift(codes##c, (n) * (bits)), zero##c));
#define GROUPED_PAIRS_4(name, c)                                                                                       \
    GROUPED_PAIR(name, c, 0, 4)                                                                                        \
    GROUPED_PAIR(name, c, 1, 4) GROUPED_PAIR(name, c, 2, 4) GROUPED_PAIR(name, c, 3, 4)
#define GROUPED_PAIRS_8(name, c) GROUPED_PAIR(name, c, 0, 8) GROUPED_PAIR(name, c, 1, 8)
#define GROUPED_COLUMNS(name, bits, c)                                                                                 \
    {                                                                                                                  \
        VB codes##c = vb_load(word + 64 * (c));                                                                        \
        v_prefetch(word + QUANT_PREFETCH_BYTES + 64 * (c));                                                            \
        GROUPED_PAIRS_##bits(name, c)                                                                                  \
    }
#define GROUPED_DEFINE(name, bits)                                                                                     \
    static void grouped_##name(const struct quant_view *v, const VZ zero[4], uint32_t first, uint32_t last, char *out) \
    {                                                                                                                  \
        const char *word = v->codes + (size_t)first / (32 / (bits)) * BR_PANEL * 4;                                    \
        const VZ zero0 = zero[0], zero1 = zero[1], zero2 = zero[2], zero3 = zero[3];                                   \
        for (uint32_t i = first; i < last; i += 32 / (bits)) {                                                         \
            GROUPED_COLUMNS(name, bits, 0)                                                                             \
            GROUPED_COLUMNS(name, bits, 1)                                                                             \
            GROUPED_COLUMNS(name, bits, 2)                                                                             \
            GROUPED_COLUMNS(name, bits, 3)                                                                             \
            word += 4 * BR_PANEL;                                                                                      \
            out += (size_t)(16 / (bits)) * 4 * BR_PANEL;                                                               \
        }                                                                                                              \
    }
GROUPED_DEFINE(u4, 4)
GROUPED_DEFINE(u8, 8)
GROUPED_DEFINE(e4m3, 8)
#undef GROUPED_DEFINE
#undef GROUPED_COLUMNS
#undef GROUPED_PAIRS_4
#undef GROUPED_PAIRS_8
#undef GROUPED_PAIR

static VZ grouped_zero(const struct quant_view *v, uint32_t group, uint32_t column)
{
    VF zero = v_set(v->format->zero);
    if (v->format->zeros)
        zero = v_add(zero, v_load_u8((const uint8_t *)v->zeros + (size_t)group * BR_PANEL + column));
    return vz_of(zero);
}

/* A stretch within a group. */
static void grouped_unpack(const struct quant_view *v, uint32_t group, uint32_t first, uint32_t last, char *cells)
{
    VZ zero[4];
    for (uint32_t c = 0; c < 4; c++)
        zero[c] = grouped_zero(v, group, 16 * c);
    if (v->format->code == BR_CODE_U4)
        grouped_u4(v, zero, first, last, cells);
    else if (v->format->code == BR_CODE_U8)
        grouped_u8(v, zero, first, last, cells);
    else
        grouped_e4m3(v, zero, first, last, cells);
}

/* y (+)= scale x part, rows of 64. */
static void grouped_add(const struct quant_view *v, uint32_t group, uint32_t rows, const float *part, float *y)
{
    for (uint32_t column = 0; column < BR_PANEL; column += 16) {
        VF scale = quant_scale(v, group, column);
        for (uint32_t at = column; at < rows * BR_PANEL; at += BR_PANEL)
            v_store(y + at, v_fma(scale, v_load(part + at), group ? v_load(y + at) : v_set(0)));
    }
}

static void linear_grouped(const struct br_linear_op *op, const struct quant_view *v, const char *act, uint32_t rows,
                           float *y, char *cells)
{
    uint32_t whole = op->k, group = v->format->group ? v->format->group : whole, configured = 0;
    size_t stride = br_act_stride(op->k, op->numeric);
    float *part = (float *)(void *)(cells + (size_t)GROUPED_INPUTS * BR_PANEL * sizeof(ELT));
    for (uint32_t begin = 0; begin < whole; begin += group) {
        uint32_t end = begin + group < whole ? begin + group : whole;
        for (uint32_t first = begin; first < end; first += GROUPED_INPUTS) {
            uint32_t last = first + GROUPED_INPUTS < end ? first + GROUPED_INPUTS : end;
            grouped_unpack(v, begin / group, first, last, cells);
            quant_product_bf16(act + (size_t)first * 2, stride, cells, (last - first + 1) / 2, rows, first > begin,
                               part, &configured);
        }
        grouped_add(v, begin / group, rows, part, y);
    }
    quant_product_end_bf16();
}
