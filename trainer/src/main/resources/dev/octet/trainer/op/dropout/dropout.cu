// Inverted dropout; the twin of DropoutReference. TYPE is the type of the elements.
//
// variants: TYPE=f32
// variants: TYPE=bf16
// variants: TYPE=f16
#include "octet.cuh"

#define PACK (16 / (int)sizeof(TYPE))

KERNEL(dropout, 256, (const TYPE* x, TYPE* y, i64 n, const i64* draw, i64 seed, int threshold, float factor)) {
    u64 key = random_key(random_key((u64)seed, draw[0]), draw[1]);
    i64 at = (block_index() * 256 + thread_index()) * PACK;
    float value[PACK];
    if (at + PACK <= n) {
        load(x + at, value);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            int bits = random_bits(key, at + i, 24);
            value[i] = bits >= threshold ? value[i] * factor : 0;
        }
        store(y + at, value);
    } else {
        for (; at < n; at++) {
            int bits = random_bits(key, at, 24);
            y[at] = narrow<TYPE>(bits >= threshold ? widen(x[at]) * factor : 0);
        }
    }
}
