/* CRC-32 of zlib (IEEE 802.3, reflected), sixteen bytes a step; binlog events and chunk digests are checked with it.
 *
 * "Slicing-by-16": sixteen tables let sixteen bytes be folded with independent look-ups, three to five times as fast as byte by byte
 * (Kounavis and Berry, "A Systematic Approach to Building High Performance Software-based CRC Generators", 2005). On x86 with PCLMULQDQ
 * long runs are folded by carry-less multiplication instead (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction", Intel 2009), asked for at run time.
 */
#ifndef DBLOG_FAST_CRC32_H
#define DBLOG_FAST_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t dblog_crc_table[16][256];
static int dblog_crc_folding = 0;

static void dblog_crc32_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        dblog_crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 16; t++)
            dblog_crc_table[t][i] = (dblog_crc_table[t - 1][i] >> 8) ^ dblog_crc_table[0][dblog_crc_table[t - 1][i] & 0xFF];
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    dblog_crc_folding = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <emmintrin.h>
#include <smmintrin.h>
#include <wmmintrin.h>

/* n is a multiple of 16 and at least 64; crc is the inverted running value. */
__attribute__((target("pclmul,sse4.1")))
static uint32_t dblog_crc32_fold(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m128i k1k2 = _mm_set_epi64x(0x01c6e41596LL, 0x0154442bd4LL);
    const __m128i k3k4 = _mm_set_epi64x(0x00ccaa009eLL, 0x01751997d0LL);
    const __m128i k5k0 = _mm_set_epi64x(0x0000000000LL, 0x0163cd6124LL);
    const __m128i poly = _mm_set_epi64x(0x01f7011641LL, 0x01db710641LL);
    const __m128i mask = _mm_setr_epi32(~0, 0, ~0, 0);
    __m128i x1 = _mm_loadu_si128((const __m128i *)(p + 0));
    __m128i x2 = _mm_loadu_si128((const __m128i *)(p + 16));
    __m128i x3 = _mm_loadu_si128((const __m128i *)(p + 32));
    __m128i x4 = _mm_loadu_si128((const __m128i *)(p + 48));
    __m128i x5, x6, x7, x8;
    x1 = _mm_xor_si128(x1, _mm_cvtsi32_si128((int)crc));
    p += 64;
    n -= 64;
    while (n >= 64) {
        x5 = _mm_clmulepi64_si128(x1, k1k2, 0x00);
        x6 = _mm_clmulepi64_si128(x2, k1k2, 0x00);
        x7 = _mm_clmulepi64_si128(x3, k1k2, 0x00);
        x8 = _mm_clmulepi64_si128(x4, k1k2, 0x00);
        x1 = _mm_clmulepi64_si128(x1, k1k2, 0x11);
        x2 = _mm_clmulepi64_si128(x2, k1k2, 0x11);
        x3 = _mm_clmulepi64_si128(x3, k1k2, 0x11);
        x4 = _mm_clmulepi64_si128(x4, k1k2, 0x11);
        x1 = _mm_xor_si128(_mm_xor_si128(x1, x5), _mm_loadu_si128((const __m128i *)(p + 0)));
        x2 = _mm_xor_si128(_mm_xor_si128(x2, x6), _mm_loadu_si128((const __m128i *)(p + 16)));
        x3 = _mm_xor_si128(_mm_xor_si128(x3, x7), _mm_loadu_si128((const __m128i *)(p + 32)));
        x4 = _mm_xor_si128(_mm_xor_si128(x4, x8), _mm_loadu_si128((const __m128i *)(p + 48)));
        p += 64;
        n -= 64;
    }
    x5 = _mm_clmulepi64_si128(x1, k3k4, 0x00);
    x1 = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x1, k3k4, 0x11), x2), x5);
    x5 = _mm_clmulepi64_si128(x1, k3k4, 0x00);
    x1 = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x1, k3k4, 0x11), x3), x5);
    x5 = _mm_clmulepi64_si128(x1, k3k4, 0x00);
    x1 = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x1, k3k4, 0x11), x4), x5);
    while (n >= 16) {
        x2 = _mm_loadu_si128((const __m128i *)p);
        x5 = _mm_clmulepi64_si128(x1, k3k4, 0x00);
        x1 = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x1, k3k4, 0x11), x2), x5);
        p += 16;
        n -= 16;
    }
    /* 128 bits to 64, then Barrett's reduction to 32 */
    x2 = _mm_clmulepi64_si128(x1, k3k4, 0x10);
    x1 = _mm_xor_si128(_mm_srli_si128(x1, 8), x2);
    x2 = _mm_srli_si128(x1, 4);
    x1 = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x1, mask), k5k0, 0x00), x2);
    x2 = _mm_and_si128(x1, mask);
    x2 = _mm_clmulepi64_si128(x2, poly, 0x10);
    x2 = _mm_and_si128(x2, mask);
    x2 = _mm_clmulepi64_si128(x2, poly, 0x00);
    x1 = _mm_xor_si128(x1, x2);
    return (uint32_t)_mm_extract_epi32(x1, 1);
}
#endif

/* crc32(seed, bytes) as zlib's; little-endian loads are put together from bytes, so any byte order works. */
static uint32_t dblog_crc32(uint32_t seed, const uint8_t *p, size_t n)
{
    uint32_t crc = ~seed;
#if defined(__x86_64__) && defined(__GNUC__)
    if (dblog_crc_folding && n >= 64) {
        size_t whole = n & ~(size_t)15;
        crc = dblog_crc32_fold(crc, p, whole);
        p += whole;
        n -= whole;
    }
#endif
#define DBLOG_T dblog_crc_table
    while (n >= 16) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = DBLOG_T[15][a & 0xFF] ^ DBLOG_T[14][a >> 8 & 0xFF] ^ DBLOG_T[13][a >> 16 & 0xFF] ^ DBLOG_T[12][a >> 24]
            ^ DBLOG_T[11][p[4]] ^ DBLOG_T[10][p[5]] ^ DBLOG_T[9][p[6]] ^ DBLOG_T[8][p[7]]
            ^ DBLOG_T[7][p[8]] ^ DBLOG_T[6][p[9]] ^ DBLOG_T[5][p[10]] ^ DBLOG_T[4][p[11]]
            ^ DBLOG_T[3][p[12]] ^ DBLOG_T[2][p[13]] ^ DBLOG_T[1][p[14]] ^ DBLOG_T[0][p[15]];
        p += 16;
        n -= 16;
    }
    if (n >= 8) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = DBLOG_T[7][a & 0xFF] ^ DBLOG_T[6][a >> 8 & 0xFF] ^ DBLOG_T[5][a >> 16 & 0xFF] ^ DBLOG_T[4][a >> 24]
            ^ DBLOG_T[3][p[4]] ^ DBLOG_T[2][p[5]] ^ DBLOG_T[1][p[6]] ^ DBLOG_T[0][p[7]];
        p += 8;
        n -= 8;
    }
    if (n >= 4) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = DBLOG_T[3][a & 0xFF] ^ DBLOG_T[2][a >> 8 & 0xFF] ^ DBLOG_T[1][a >> 16 & 0xFF] ^ DBLOG_T[0][a >> 24];
        p += 4;
        n -= 4;
    }
    while (n--)
        crc = (crc >> 8) ^ DBLOG_T[0][(crc ^ *p++) & 0xFF];
#undef DBLOG_T
    return ~crc;
}

#endif
