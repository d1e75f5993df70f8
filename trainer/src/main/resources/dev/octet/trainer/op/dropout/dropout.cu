// Inverted dropout; the twin of DropoutReference. TYPE is the type of the elements.
//
// variants: TYPE=f32
// variants: TYPE=bf16
// variants: TYPE=f16
#include "octet.cuh"

#define GOLDEN 0x9E3779B97F4A7C15ull
#define PACK (16 / (int)sizeof(TYPE))

// Dropout.mix.
DEVICE u64 mix(u64 z) {
    u64 a = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    u64 b = (a ^ (a >> 27)) * 0x94D049BB133111EBull;
    return b ^ (b >> 31);
}

KERNEL(dropout, 256, (const TYPE* x, TYPE* y, i64 n, const i64* draw, i64 seed, int threshold, float factor)) {
    u64 key = mix(mix((u64)seed + GOLDEN * (u64)(draw[0] + 1)) + GOLDEN * (u64)(draw[1] + 1));
    i64 at = (block_index() * 256 + thread_index()) * PACK;
    float value[PACK];
    if (at + PACK <= n) {
        load(x + at, value);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            int bits = (int)(mix(key + GOLDEN * (u64)(at + i + 1)) >> 40);
            value[i] = bits >= threshold ? value[i] * factor : 0;
        }
        store(y + at, value);
    } else {
        for (; at < n; at++) {
            int bits = (int)(mix(key + GOLDEN * (u64)(at + 1)) >> 40);
            y[at] = narrow<TYPE>(bits >= threshold ? widen(x[at]) * factor : 0);
        }
    }
}
