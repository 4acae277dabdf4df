/* 16 lanes of F32 in plain C. Every vec_*.h defines the same names; v_fma may round twice here. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "worker/weights/convert.h"

struct vf {
    float lane[16];
};
#define VF struct vf
#define V_EACH for (int i = 0; i < 16; i++)

static inline VF v_set(float x)
{
    VF r;
    V_EACH r.lane[i] = x;
    return r;
}
static inline VF v_load(const float *p)
{
    VF r;
    memcpy(&r, p, sizeof r);
    return r;
}
static inline void v_store(float *p, VF a)
{
    memcpy(p, &a, sizeof a);
}
/* The first n lanes; the others 0. */
static inline VF v_load_n(const float *p, uint32_t n)
{
    VF r = v_set(0);
    memcpy(&r, p, 4 * n);
    return r;
}
static inline void v_store_n(float *p, VF a, uint32_t n)
{
    memcpy(p, &a, 4 * n);
}
static inline VF v_add(VF a, VF b)
{
    V_EACH a.lane[i] += b.lane[i];
    return a;
}
static inline VF v_sub(VF a, VF b)
{
    V_EACH a.lane[i] -= b.lane[i];
    return a;
}
static inline VF v_mul(VF a, VF b)
{
    V_EACH a.lane[i] *= b.lane[i];
    return a;
}
static inline VF v_div(VF a, VF b)
{
    V_EACH a.lane[i] /= b.lane[i];
    return a;
}
/* b where either is not a number. */
static inline VF v_max(VF a, VF b)
{
    V_EACH a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
static inline VF v_min(VF a, VF b)
{
    V_EACH a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
/* a b + c */
static inline VF v_fma(VF a, VF b, VF c)
{
    V_EACH c.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];
    return c;
}
/* Rounded once where the exact result has no more than 53 bits. */
static inline VF v_fma_once(VF a, VF b, VF c)
{
    V_EACH c.lane[i] = (float)((double)a.lane[i] * b.lane[i] + c.lane[i]);
    return c;
}
/* The first n lanes of a, of b beyond. */
static inline VF v_select_n(VF a, VF b, uint32_t n)
{
    V_EACH a.lane[i] = (uint32_t)i < n ? a.lane[i] : b.lane[i];
    return a;
}
/* Nearest integer, ties to even: adding and taking off 1.5 x 2^23. For |a| < 2^22. */
static inline VF v_round(VF a)
{
    V_EACH
    {
        volatile float big = a.lane[i] + 12582912.0f;
        a.lane[i] = big - 12582912.0f;
    }
    return a;
}
/* a 2^n for integral n in -126 .. 127 */
static inline VF v_scale2(VF a, VF n)
{
    V_EACH
    {
        uint32_t bits = (uint32_t)((int32_t)n.lane[i] + 127) << 23;
        float power;
        memcpy(&power, &bits, 4);
        a.lane[i] *= power;
    }
    return a;
}
static inline float v_sum(VF a)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            a.lane[i] += a.lane[i + half];
    return a.lane[0];
}
static inline float v_hmax(VF a)
{
    float m = a.lane[0];
    for (int i = 1; i < 16; i++)
        m = a.lane[i] > m ? a.lane[i] : m;
    return m;
}
static inline uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
static inline void v_store_bf16(uint16_t *p, VF a)
{
    V_EACH p[i] = to_bf16(a.lane[i]);
}
static inline VF v_load_bf16(const uint16_t *p)
{
    VF r;
    V_EACH
    {
        uint32_t bits = (uint32_t)p[i] << 16;
        memcpy(&r.lane[i], &bits, 4);
    }
    return r;
}

/* Cells. VB: 16 of them from memory, VA: one in all lanes. */
#define TILE_HEIGHT 2 /* rows that any tile has at most */
#define TILE_GROUPS 2
enum { TILE_ROWS_F32 = 2, TILE_ROWS_BF16 = 2 };

struct vb {
    uint32_t bits[16];
};
#define VB struct vb
#define VA uint32_t

static inline VB vb_load(const void *p)
{
    VB b;
    memcpy(&b, p, sizeof b);
    return b;
}
static inline VB vb_load_n(const void *p, uint32_t n)
{
    VB b = {{0}};
    memcpy(&b, p, 4 * n);
    return b;
}
static inline VA va_load(const void *p)
{
    uint32_t a;
    memcpy(&a, p, 4);
    return a;
}
static inline float cell_f32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline VF mac_f32(VF c, VB b, VA a)
{
    V_EACH c.lane[i] = cell_f32(b.bits[i]) * cell_f32(a) + c.lane[i];
    return c;
}
/* The odd input first, as VDPBF16PS does. */
static inline VF mac_bf16(VF c, VB b, VA a)
{
    float odd = cell_f32(a & 0xffff0000u), even = cell_f32(a << 16);
    V_EACH
    {
        float sum = cell_f32(b.bits[i] & 0xffff0000u) * odd + c.lane[i];
        c.lane[i] = cell_f32(b.bits[i] << 16) * even + sum;
    }
    return c;
}

/* Codes of quantised weights: 16 words, of which a part is wanted. */
static inline VB vb_shift(VB b, uint32_t bits)
{
    V_EACH b.bits[i] >>= bits;
    return b;
}
/* The low nibble, the low byte as numbers. */
static inline VF v_of_nibble(VB b)
{
    VF r;
    V_EACH r.lane[i] = (float)(b.bits[i] & 15);
    return r;
}
static inline VF v_of_byte(VB b)
{
    VF r;
    V_EACH r.lane[i] = (float)(b.bits[i] & 255);
    return r;
}
/* The low byte as E4M3. Below the normals: with the implicit one, then without it; NaN is not known. */
static inline VF v_of_e4m3(VB b)
{
    VF r;
    V_EACH
    {
        uint32_t rest = b.bits[i] & 0x7f;
        float x = cell_f32((rest << 20) + ((rest < 8 ? 121u : 120u) << 23)) - (rest < 8 ? 0x1p-6f : 0);
        r.lane[i] = b.bits[i] & 0x80 ? -x : x;
    }
    return r;
}
static inline VF v_load_f16(const uint16_t *p)
{
    VF r;
    V_EACH r.lane[i] = cell_f32(br_f16_to_f32_bits(p[i]));
    return r;
}
static inline VF v_load_u8(const uint8_t *p)
{
    VF r;
    V_EACH r.lane[i] = p[i];
    return r;
}
/* Cells of two BF16, rounded: low halves from even, high ones from odd. */
static inline void vb_store_pair(void *p, VF even, VF odd)
{
    VB b;
    V_EACH b.bits[i] = to_bf16(even.lane[i]) | (uint32_t)to_bf16(odd.lane[i]) << 16;
    memcpy(p, &b, sizeof b);
}
static inline void vb_store(void *p, VB b)
{
    memcpy(p, &b, sizeof b);
}
/* Two neighbouring codes in the low ends of a word's halves, less a zero, as a cell of BF16, which holds them exactly.
 */
#define VZ VF
static inline VZ vz_of(VF zero)
{
    return zero;
}
static inline VB vb_exact_pair(VF even, VF odd)
{
    VB b;
    memcpy(&b, &even, sizeof b);
    V_EACH
    {
        uint32_t high;
        memcpy(&high, &odd.lane[i], 4);
        b.bits[i] = b.bits[i] >> 16 | (high & 0xffff0000u);
    }
    return b;
}
static inline VB vb_cells_u4(VB codes, VZ zero)
{
    return vb_exact_pair(v_sub(v_of_nibble(codes), zero), v_sub(v_of_nibble(vb_shift(codes, 16)), zero));
}
static inline VB vb_cells_u8(VB codes, VZ zero)
{
    return vb_exact_pair(v_sub(v_of_byte(codes), zero), v_sub(v_of_byte(vb_shift(codes, 16)), zero));
}
static inline VB vb_cells_e4m3(VB codes, VZ zero)
{
    (void)zero;
    return vb_exact_pair(v_of_e4m3(codes), v_of_e4m3(vb_shift(codes, 16)));
}
#define v_prefetch(p) __builtin_prefetch(p)
