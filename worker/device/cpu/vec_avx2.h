/* 16 lanes of F32 in two registers. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

struct vf {
    __m256 lo, hi;
};
#define VF struct vf

static inline VF v_set(float x)
{
    return (VF){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline VF v_load(const float *p)
{
    return (VF){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void v_store(float *p, VF a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
/* Lanes from .. from + 7 that are below n. */
static inline __m256i lanes(uint32_t n, int from)
{
    __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}
static inline VF v_load_n(const float *p, uint32_t n)
{
    return (VF){_mm256_maskload_ps(p, lanes(n, 0)), _mm256_maskload_ps(p + 8, lanes(n, 8))};
}
static inline void v_store_n(float *p, VF a, uint32_t n)
{
    _mm256_maskstore_ps(p, lanes(n, 0), a.lo);
    _mm256_maskstore_ps(p + 8, lanes(n, 8), a.hi);
}
static inline VF v_add(VF a, VF b)
{
    return (VF){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
static inline VF v_sub(VF a, VF b)
{
    return (VF){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
static inline VF v_mul(VF a, VF b)
{
    return (VF){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
static inline VF v_div(VF a, VF b)
{
    return (VF){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
static inline VF v_max(VF a, VF b)
{
    return (VF){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
static inline VF v_min(VF a, VF b)
{
    return (VF){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
static inline VF v_fma(VF a, VF b, VF c)
{
    return (VF){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
static inline VF v_fma_once(VF a, VF b, VF c)
{
    return v_fma(a, b, c);
}
static inline VF v_select_n(VF a, VF b, uint32_t n)
{
    return (VF){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(lanes(n, 0))),
                _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(lanes(n, 8)))};
}
static inline VF v_round(VF a)
{
    return (VF){_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline __m256 power2(__m256 n)
{
    __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
static inline VF v_scale2(VF a, VF n)
{
    return (VF){_mm256_mul_ps(a.lo, power2(n.lo)), _mm256_mul_ps(a.hi, power2(n.hi))};
}
static inline float v_sum(VF a)
{
    __m256 b = _mm256_add_ps(a.lo, a.hi);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline float v_hmax(VF a)
{
    __m256 b = _mm256_max_ps(a.lo, a.hi);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
static inline __m256 widen8(const uint16_t *p)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}
static inline VF v_load_bf16(const uint16_t *p)
{
    return (VF){widen8(p), widen8(p + 8)};
}
static inline __m256i narrow8(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), _mm256_set1_epi32(0x7fc0), nan);
}
static inline void v_store_bf16(uint16_t *p, VF a)
{
    __m256i packed = _mm256_packus_epi32(narrow8(a.lo), narrow8(a.hi));
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}

/* Cells. VB: 16 of them from memory, VA: one in all lanes. */
#define TILE_HEIGHT 2 /* rows that any tile has at most */
#define TILE_GROUPS 2
enum { TILE_ROWS_F32 = 2, TILE_ROWS_BF16 = 2 };

struct vb {
    __m256i lo, hi;
};
#define VB struct vb
#define VA __m256i

static inline VB vb_load(const void *p)
{
    return (VB){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
static inline VB vb_load_n(const void *p, uint32_t n)
{
    const int *q = p;
    return (VB){_mm256_maskload_epi32(q, lanes(n, 0)), _mm256_maskload_epi32(q + 8, lanes(n, 8))};
}
static inline VA va_load(const void *p)
{
    int32_t a;
    memcpy(&a, p, 4);
    return _mm256_set1_epi32(a);
}
static inline VF mac_f32(VF c, VB b, VA a)
{
    return (VF){_mm256_fmadd_ps(_mm256_castsi256_ps(b.lo), _mm256_castsi256_ps(a), c.lo),
                _mm256_fmadd_ps(_mm256_castsi256_ps(b.hi), _mm256_castsi256_ps(a), c.hi)};
}
static inline __m256 high_half(__m256i x)
{
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)));
}
static inline __m256 low_half(__m256i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
/* The odd input first, as VDPBF16PS does. */
static inline VF mac_bf16(VF c, VB b, VA a)
{
    __m256 odd = high_half(a), even = low_half(a);
    c.lo = _mm256_fmadd_ps(low_half(b.lo), even, _mm256_fmadd_ps(high_half(b.lo), odd, c.lo));
    c.hi = _mm256_fmadd_ps(low_half(b.hi), even, _mm256_fmadd_ps(high_half(b.hi), odd, c.hi));
    return c;
}

/* Codes of quantised weights: 16 words, of which a part is wanted. */
static inline VB vb_shift(VB b, uint32_t bits)
{
    return (VB){_mm256_srli_epi32(b.lo, (int)bits), _mm256_srli_epi32(b.hi, (int)bits)};
}
/* The low nibble, the low byte as numbers. */
static inline VF vb_masked(VB b, int mask)
{
    __m256i m = _mm256_set1_epi32(mask);
    return (VF){_mm256_cvtepi32_ps(_mm256_and_si256(b.lo, m)), _mm256_cvtepi32_ps(_mm256_and_si256(b.hi, m))};
}
static inline VF v_of_nibble(VB b)
{
    return vb_masked(b, 15);
}
static inline VF v_of_byte(VB b)
{
    return vb_masked(b, 255);
}
/* The low byte as E4M3. Below the normals: with the implicit one, then without it; NaN is not known. */
static inline __m256 e4m3_8(__m256i b)
{
    __m256i rest = _mm256_and_si256(b, _mm256_set1_epi32(0x7f));
    __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), rest), bits = _mm256_slli_epi32(rest, 20);
    bits = _mm256_add_epi32(bits, _mm256_set1_epi32(120 << 23));
    bits = _mm256_add_epi32(bits, _mm256_and_si256(low, _mm256_set1_epi32(1 << 23)));
    __m256 one = _mm256_and_ps(_mm256_castsi256_ps(low), _mm256_set1_ps(0x1p-6f));
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(b, _mm256_set1_epi32(0x80)), 24);
    return _mm256_xor_ps(_mm256_sub_ps(_mm256_castsi256_ps(bits), one), _mm256_castsi256_ps(sign));
}
static inline VF v_of_e4m3(VB b)
{
    return (VF){e4m3_8(b.lo), e4m3_8(b.hi)};
}
static inline VF v_load_f16(const uint16_t *p)
{
    return (VF){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}
static inline VF v_load_u8(const uint8_t *p)
{
    __m128i b = _mm_loadu_si128((const void *)p);
    return (VF){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(b, b)))};
}
/* Cells of two BF16, rounded: low halves from even, high ones from odd. */
static inline void vb_store_pair(void *p, VF even, VF odd)
{
    __m256i lo = _mm256_or_si256(narrow8(even.lo), _mm256_slli_epi32(narrow8(odd.lo), 16));
    __m256i hi = _mm256_or_si256(narrow8(even.hi), _mm256_slli_epi32(narrow8(odd.hi), 16));
    _mm256_storeu_si256(p, lo);
    _mm256_storeu_si256((__m256i *)p + 1, hi);
}
static inline void vb_store(void *p, VB b)
{
    _mm256_storeu_si256(p, b.lo);
    _mm256_storeu_si256((__m256i *)p + 1, b.hi);
}
/* Two neighbouring codes in the low ends of a word's halves, less a zero, as a cell of BF16, which holds them exactly.
 */
#define VZ VF
static inline VZ vz_of(VF zero)
{
    return zero;
}
static inline __m256i exact_pair8(__m256 even, __m256 odd)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd), 0xaa);
}
static inline VB vb_exact_pair(VF even, VF odd)
{
    return (VB){exact_pair8(even.lo, odd.lo), exact_pair8(even.hi, odd.hi)};
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
#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
