/* MD5 (RFC 1321) of up to eight streams in one pass: each is a lane of one vector register.

   A step of MD5 waits for the one before it, so one stream leaves most of a processor idle; eight
   take little longer than one. Knows whole blocks only: padding and digests are the caller's.
   Every function here is pure but for the states it is given. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define BLOCK_BYTES 64
#define WORDS 16

typedef uint32_t lanes_t __attribute__((vector_size(4 * LANES)));

#define ROTATED(x, by) (((x) << (by)) | ((x) >> (32 - (by))))
#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))

#define STEP(f, a, b, c, d, word, by, sine) \
    a = b + ROTATED(a + f(b, c, d) + (w[word] + (uint32_t)(sine)), by)

#define FOUR(f, w0, w1, w2, w3, by0, by1, by2, by3, t0, t1, t2, t3) \
    STEP(f, a, b, c, d, w0, by0, t0); \
    STEP(f, d, a, b, c, w1, by1, t1); \
    STEP(f, c, d, a, b, w2, by2, t2); \
    STEP(f, b, c, d, a, w3, by3, t3);

/* The sixty-four steps of a block, on words or on lanes of words alike. */
#define ROUNDS \
    FOUR(F, 0, 1, 2, 3, 7, 12, 17, 22, 0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee) \
    FOUR(F, 4, 5, 6, 7, 7, 12, 17, 22, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501) \
    FOUR(F, 8, 9, 10, 11, 7, 12, 17, 22, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be) \
    FOUR(F, 12, 13, 14, 15, 7, 12, 17, 22, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821) \
    FOUR(G, 1, 6, 11, 0, 5, 9, 14, 20, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa) \
    FOUR(G, 5, 10, 15, 4, 5, 9, 14, 20, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8) \
    FOUR(G, 9, 14, 3, 8, 5, 9, 14, 20, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed) \
    FOUR(G, 13, 2, 7, 12, 5, 9, 14, 20, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a) \
    FOUR(H, 5, 8, 11, 14, 4, 11, 16, 23, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c) \
    FOUR(H, 1, 4, 7, 10, 4, 11, 16, 23, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70) \
    FOUR(H, 13, 0, 3, 6, 4, 11, 16, 23, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05) \
    FOUR(H, 9, 12, 15, 2, 4, 11, 16, 23, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665) \
    FOUR(I, 0, 7, 14, 5, 6, 10, 15, 21, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039) \
    FOUR(I, 12, 3, 10, 1, 6, 10, 15, 21, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1) \
    FOUR(I, 8, 15, 6, 13, 6, 10, 15, 21, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1) \
    FOUR(I, 4, 11, 2, 9, 6, 10, 15, 21, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391)

#ifdef __clang__
#define PICKED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define PICKED(x, y, ...) __builtin_shuffle(x, y, (lanes_t){__VA_ARGS__})
#endif

/* Eight words of eight streams: words of one stream lie beside each other, lanes of one word have
   to. Pairs, then fours, then eights are put together. */
static inline void read_across(lanes_t *words, const uint8_t *const *data, size_t at) {
    lanes_t rows[LANES], pairs[LANES], fours[LANES];
    for (int lane = 0; lane < LANES; lane++)
        memcpy(&rows[lane], data[lane] + at, sizeof(lanes_t));
    for (int lane = 0; lane < LANES; lane += 2) {
        pairs[lane] = PICKED(rows[lane], rows[lane + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[lane + 1] = PICKED(rows[lane], rows[lane + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int half = 0; half < LANES; half += 4) {
        for (int of = 0; of < 2; of++) {
            const lanes_t first = pairs[half + of], second = pairs[half + of + 2];
            fours[half + 2 * of] = PICKED(first, second, 0, 1, 8, 9, 4, 5, 12, 13);
            fours[half + 2 * of + 1] = PICKED(first, second, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int word = 0; word < 4; word++) {
        words[word] = PICKED(fours[word], fours[word + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        words[word + 4] = PICKED(fours[word], fours[word + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* The loader picks the widest form that the processor has. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read as they lie in memory"
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#elif defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

FOR_EACH_PROCESSOR
static void together(uint32_t *const *states, const uint8_t *const *data, size_t blocks) {
    lanes_t a, b, c, d, w[WORDS];
    for (int lane = 0; lane < LANES; lane++) {
        a[lane] = states[lane][0];
        b[lane] = states[lane][1];
        c[lane] = states[lane][2];
        d[lane] = states[lane][3];
    }
    for (size_t at = 0; at < blocks * BLOCK_BYTES; at += BLOCK_BYTES) {
        read_across(w, data, at);
        read_across(w + LANES, data, at + sizeof(lanes_t));
        const lanes_t a0 = a, b0 = b, c0 = c, d0 = d;
        ROUNDS
        a += a0, b += b0, c += c0, d += d0;
    }
    for (int lane = 0; lane < LANES; lane++) {
        states[lane][0] = a[lane];
        states[lane][1] = b[lane];
        states[lane][2] = c[lane];
        states[lane][3] = d[lane];
    }
}

static void alone(uint32_t *state, const uint8_t *data, size_t blocks) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], w[WORDS];
    for (size_t at = 0; at < blocks * BLOCK_BYTES; at += BLOCK_BYTES) {
        memcpy(w, data + at, BLOCK_BYTES);
        const uint32_t a0 = a, b0 = b, c0 = c, d0 = d;
        ROUNDS
        a += a0, b += b0, c += c0, d += d0;
    }
    state[0] = a, state[1] = b, state[2] = c, state[3] = d;
}

/* Take so many blocks of each stream into its state; `streams` is at most LANES. */
void perago_md5(uint32_t *const *states, const uint8_t *const *data, size_t streams, size_t blocks) {
    if (streams < 3) { /* two in turn are as fast as eight together */
        for (size_t stream = 0; stream < streams; stream++)
            alone(states[stream], data[stream], blocks);
        return;
    }
    uint32_t nobody[LANES][4] = {{0}};
    uint32_t *all_states[LANES];
    const uint8_t *all_data[LANES];
    for (size_t lane = 0; lane < LANES; lane++) {
        all_states[lane] = lane < streams ? states[lane] : nobody[lane];
        all_data[lane] = data[lane < streams ? lane : 0];
    }
    together(all_states, all_data, blocks);
}
