/* The first eight bytes of MD5 (RFC 1321), for fingerprints of rows: two for each row of a verify dump, mostly of a block or two,
 * for which a call into a library of hashes costs more than the hash. Nothing is protected by it.
 */
#ifndef DBLOG_FAST_MD5_H
#define DBLOG_FAST_MD5_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of step i the integer part of 2^32 * abs(sin(i + 1)), RFC 1321 section 3.4. */
static const uint32_t dblog_md5_sines[64] = {
    0xD76AA478u, 0xE8C7B756u, 0x242070DBu, 0xC1BDCEEEu,
    0xF57C0FAFu, 0x4787C62Au, 0xA8304613u, 0xFD469501u,
    0x698098D8u, 0x8B44F7AFu, 0xFFFF5BB1u, 0x895CD7BEu,
    0x6B901122u, 0xFD987193u, 0xA679438Eu, 0x49B40821u,
    0xF61E2562u, 0xC040B340u, 0x265E5A51u, 0xE9B6C7AAu,
    0xD62F105Du, 0x02441453u, 0xD8A1E681u, 0xE7D3FBC8u,
    0x21E1CDE6u, 0xC33707D6u, 0xF4D50D87u, 0x455A14EDu,
    0xA9E3E905u, 0xFCEFA3F8u, 0x676F02D9u, 0x8D2A4C8Au,
    0xFFFA3942u, 0x8771F681u, 0x6D9D6122u, 0xFDE5380Cu,
    0xA4BEEA44u, 0x4BDECFA9u, 0xF6BB4B60u, 0xBEBFBC70u,
    0x289B7EC6u, 0xEAA127FAu, 0xD4EF3085u, 0x04881D05u,
    0xD9D4D039u, 0xE6DB99E5u, 0x1FA27CF8u, 0xC4AC5665u,
    0xF4292244u, 0x432AFF97u, 0xAB9423A7u, 0xFC93A039u,
    0x655B59C3u, 0x8F0CCC92u, 0xFFEFF47Du, 0x85845DD1u,
    0x6FA87E4Fu, 0xFE2CE6E0u, 0xA3014314u, 0x4E0811A1u,
    0xF7537E82u, 0xBD3AF235u, 0x2AD7D2BBu, 0xEB86D391u,
};

static const uint8_t dblog_md5_turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

/* One step: the four words move on by one, and the first of them is made new. */
#define DBLOG_MD5_STEP(mixed, word, i, round)                                                                         \
    do {                                                                                                              \
        uint32_t sum = a + (mixed) + m[word] + dblog_md5_sines[i];                                                    \
        int turn = dblog_md5_turns[round][(i) & 3];                                                                   \
        a = d;                                                                                                        \
        d = c;                                                                                                        \
        c = b;                                                                                                        \
        b += sum << turn | sum >> (32 - turn);                                                                        \
    } while (0)

static void dblog_md5_block(uint32_t state[4], const uint8_t *p)
{
    uint32_t m[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++)
        m[i] = p[4 * i] | (uint32_t)p[4 * i + 1] << 8 | (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        DBLOG_MD5_STEP((b & c) | (~b & d), i, i, 0);
#pragma GCC unroll 16
    for (int i = 16; i < 32; i++)
        DBLOG_MD5_STEP((b & d) | (c & ~d), (5 * i + 1) & 15, i, 1);
#pragma GCC unroll 16
    for (int i = 32; i < 48; i++)
        DBLOG_MD5_STEP(b ^ c ^ d, (3 * i + 5) & 15, i, 2);
#pragma GCC unroll 16
    for (int i = 48; i < 64; i++)
        DBLOG_MD5_STEP(c ^ (b | ~d), (7 * i) & 15, i, 3);
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* Write the eight bytes to out. */
static void dblog_md5_head(const uint8_t *p, size_t n, uint8_t *out)
{
    uint32_t state[4] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u};
    uint8_t tail[128];
    uint64_t bits = (uint64_t)n << 3;
    size_t left = n, size;
    for (; left >= 64; left -= 64, p += 64)
        dblog_md5_block(state, p);
    size = left < 56 ? 64 : 128;
    memset(tail, 0, size);
    if (left)
        memcpy(tail, p, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[size - 8 + i] = (uint8_t)(bits >> 8 * i);
    dblog_md5_block(state, tail);
    if (size == 128)
        dblog_md5_block(state, tail + 64);
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(state[i >> 2] >> 8 * (i & 3));
}

#endif
