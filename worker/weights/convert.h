/* Float formats of checkpoints. All rounding is to nearest, ties to even (IEEE 754). */
#ifndef BRIAREUS_WORKER_WEIGHTS_CONVERT_H
#define BRIAREUS_WORKER_WEIGHTS_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t br_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float br_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t br_bf16_to_f32_bits(uint16_t half)
{
    return (uint32_t)half << 16;
}

/* Subnormals by arithmetic: (mantissa + 2^-14's implicit one) - that one is exact. */
static inline uint32_t br_f16_to_f32_bits(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u)
        return sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    if (rest >= 0x0400u)
        return sign | ((rest << 13) + (112u << 23));
    return sign | br_f32_bits(br_f32_from_bits((rest << 13) + (113u << 23)) - br_f32_from_bits(113u << 23));
}

/* NaN stays NaN; what is too large becomes infinity. */
static inline uint16_t br_f32_bits_to_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif
