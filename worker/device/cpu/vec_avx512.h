/* 16 lanes of F32 in one register. Included with BR_HAVE_AVX512BF16 set or not. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define VF __m512

static inline VF v_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline VF v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, VF a)
{
    _mm512_storeu_ps(p, a);
}
static inline __mmask16 lanes(uint32_t n)
{
    return (__mmask16)((1u << n) - 1);
}
static inline VF v_load_n(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(lanes(n), p);
}
static inline void v_store_n(float *p, VF a, uint32_t n)
{
    _mm512_mask_storeu_ps(p, lanes(n), a);
}
static inline VF v_add(VF a, VF b)
{
    return _mm512_add_ps(a, b);
}
static inline VF v_sub(VF a, VF b)
{
    return _mm512_sub_ps(a, b);
}
static inline VF v_mul(VF a, VF b)
{
    return _mm512_mul_ps(a, b);
}
static inline VF v_div(VF a, VF b)
{
    return _mm512_div_ps(a, b);
}
static inline VF v_max(VF a, VF b)
{
    return _mm512_max_ps(a, b);
}
static inline VF v_min(VF a, VF b)
{
    return _mm512_min_ps(a, b);
}
static inline VF v_fma(VF a, VF b, VF c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline VF v_fma_once(VF a, VF b, VF c)
{
    return v_fma(a, b, c);
}
static inline VF v_select_n(VF a, VF b, uint32_t n)
{
    return _mm512_mask_mov_ps(b, lanes(n), a);
}
static inline VF v_round(VF a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline VF v_scale2(VF a, VF n)
{
    return _mm512_scalef_ps(a, n);
}
static inline float v_sum(VF a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline float v_hmax(VF a)
{
    return _mm512_reduce_max_ps(a);
}
static inline VF v_load_bf16(const uint16_t *p)
{
    __m256i bits = _mm256_loadu_si256((const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
static inline void v_store_bf16(uint16_t *p, VF a)
{
#ifdef BR_HAVE_AVX512BF16
    _mm256_storeu_si256((void *)p, (__m256i)_mm512_cvtneps_pbh(a));
#else
    __m512i bits = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    up = _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(up));
#endif
}

/* Cells. VB: 16 of them from memory, VA: one in all lanes. */
#define TILE_HEIGHT 6 /* rows that any tile has at most */
#define VB __m512i
#define VA __m512i

static inline VB vb_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline VB vb_load_n(const void *p, uint32_t n)
{
    return _mm512_maskz_loadu_epi32(lanes(n), p);
}
static inline VA va_load(const void *p)
{
    int32_t a;
    memcpy(&a, p, 4);
    return _mm512_set1_epi32(a);
}
static inline VF mac_f32(VF c, VB b, VA a)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(b), _mm512_castsi512_ps(a), c);
}
#ifdef BR_HAVE_AVX512BF16
#define TILE_GROUPS 4
enum { TILE_ROWS_F32 = 6, TILE_ROWS_BF16 = 6 };
static inline VF mac_bf16(VF c, VB b, VA a)
{
    return _mm512_dpbf16_ps(c, (__m512bh)b, (__m512bh)a);
}
#else
#define TILE_GROUPS 4
enum { TILE_ROWS_F32 = 6, TILE_ROWS_BF16 = 4 };
static inline VF high_half(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
static inline VF low_half(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
/* The odd input first, as VDPBF16PS does. */
static inline VF mac_bf16(VF c, VB b, VA a)
{
    c = _mm512_fmadd_ps(high_half(b), high_half(a), c);
    return _mm512_fmadd_ps(low_half(b), low_half(a), c);
}
#endif

/* Codes of quantised weights: 16 words, of which a part is wanted. */
static inline VB vb_shift(VB b, uint32_t bits)
{
    return __builtin_constant_p(bits) ? _mm512_srli_epi32(b, bits) : _mm512_srl_epi32(b, _mm_cvtsi32_si128((int)bits));
}
/* The low nibble, the low byte as numbers. The permutation looks at the low four bits alone. */
static inline VF v_of_nibble(VB b)
{
    const __m512 number = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(b, number);
}
static inline VF v_of_byte(VB b)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(b, _mm512_set1_epi32(255)));
}
/* The low byte as E4M3. Below the normals: with the implicit one, then without it; NaN is not known. */
static inline VF v_of_e4m3(VB b)
{
    __m512i rest = _mm512_and_si512(b, _mm512_set1_epi32(0x7f)), bits = _mm512_slli_epi32(rest, 20);
    __mmask16 low = _mm512_cmplt_epi32_mask(rest, _mm512_set1_epi32(8));
    bits = _mm512_add_epi32(bits, _mm512_set1_epi32(120 << 23));
    bits = _mm512_mask_add_epi32(bits, low, bits, _mm512_set1_epi32(1 << 23));
    VF x = _mm512_castsi512_ps(bits);
    x = _mm512_mask_sub_ps(x, low, x, _mm512_set1_ps(0x1p-6f));
    __m512i sign = _mm512_slli_epi32(_mm512_and_si512(b, _mm512_set1_epi32(0x80)), 24);
    return _mm512_xor_ps(x, _mm512_castsi512_ps(sign));
}
static inline VF v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
static inline VF v_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}
/* Cells of two BF16, rounded: low halves from even, high ones from odd. */
static inline void vb_store_pair(void *p, VF even, VF odd)
{
    uint16_t halves[32];
#ifdef BR_HAVE_AVX512BF16
    const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    (void)halves;
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(odd, even)));
#else
    v_store_bf16(halves, even);
    v_store_bf16(halves + 16, odd);
    __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)halves));
    __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(halves + 16)));
    _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#endif
}
static inline void vb_store(void *p, VB b)
{
    _mm512_storeu_si512(p, b);
}
/* Two neighbouring codes in the low ends of a word's halves, less a zero, as a cell of BF16, which holds them exactly.
 * VZ: the zero in both halves. */
#define VZ __m512i
static inline VZ vz_of(VF zero)
{
    __m512i z = _mm512_cvtps_epi32(zero);
    return _mm512_or_si512(z, _mm512_slli_epi32(z, 16));
}
/* From -16 (a zero of 16 under a code of 0) to 15: five bits, which is what the permutation looks at. */
static inline VB vb_cells_u4(VB codes, VZ zero)
{
    const __m512i number =
        _mm512_set_epi16((short)0xbf80, (short)0xc000, (short)0xc040, (short)0xc080, (short)0xc0a0, (short)0xc0c0,
                         (short)0xc0e0, (short)0xc100, (short)0xc110, (short)0xc120, (short)0xc130, (short)0xc140,
                         (short)0xc150, (short)0xc160, (short)0xc170, (short)0xc180, 0x4170, 0x4160, 0x4150, 0x4140,
                         0x4130, 0x4120, 0x4110, 0x4100, 0x40e0, 0x40c0, 0x40a0, 0x4080, 0x4040, 0x4000, 0x3f80, 0);
    __m512i code = _mm512_sub_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(15)), zero);
    return _mm512_permutexvar_epi16(code, number);
}
/* A byte below the bits of 2^23 is the number 2^23 + byte. */
static inline VB vb_cells_u8(VB codes, VZ zero)
{
    const __m512i byte = _mm512_set1_epi32(255), magic = _mm512_set1_epi32(0x4b000000);
    VF base = _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_and_si512(zero, _mm512_set1_epi32(0xffff))), v_set(0x1p23f));
    __m512i even = _mm512_ternarylogic_epi32(codes, byte, magic, 0xea); /* codes & byte | magic */
    __m512i odd = _mm512_ternarylogic_epi32(_mm512_srli_epi32(codes, 16), byte, magic, 0xea);
    even = _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(even), base));
    odd = _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(odd), base));
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(even, 16), odd);
}
/* Normals get another exponent, what is below them comes from a table. */
static inline VB vb_cells_e4m3(VB codes, VZ zero)
{
    const __m512i small = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                           0x3c60, 0x3c40, 0x3c20, 0x3c00, 0x3bc0, 0x3b80, 0x3b00, 0);
    __m512i rest = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
    __mmask32 below = _mm512_cmplt_epu16_mask(rest, _mm512_set1_epi16(8));
    __m512i number = _mm512_add_epi16(_mm512_slli_epi16(rest, 4), _mm512_set1_epi16(120 << 7));
    (void)zero;
    number = _mm512_mask_permutexvar_epi16(number, below, rest, small);
    /* sign | number */
    return _mm512_ternarylogic_epi32(number, _mm512_slli_epi16(codes, 8), _mm512_set1_epi16((short)0x8000), 0xf8);
}
#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
