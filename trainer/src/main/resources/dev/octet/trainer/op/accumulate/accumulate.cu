// Sums of two tensors, element by element. A_TYPE and X_TYPE are the types of the addends; the sum has that of the first.
//
// variants: A_TYPE=f32 X_TYPE=bf16
// variants: A_TYPE=bf16 X_TYPE=bf16
// variants: A_TYPE=f16 X_TYPE=f32
#include "octet.cuh"

// Elements of a pack: 16 bytes of the wider type.
#define PACK (16 / (int)(sizeof(A_TYPE) > sizeof(X_TYPE) ? sizeof(A_TYPE) : sizeof(X_TYPE)))
// Packs of a thread: all are under way before the first is used.
#define PACKS 4
#define THREADS 256

// y may be a.
RESIDENT_KERNEL(accumulate_forward, THREADS, 512, (const A_TYPE* a, const X_TYPE* x, A_TYPE* y, i64 count)) {
    i64 start = (block_index() * PACKS * THREADS + thread_index()) * PACK;
    float sum[PACKS][PACK];
    float more[PACKS][PACK];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
            load(a + at, sum[p]);
            load(x + at, more[p]);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                sum[p][i] += more[p][i];
            }
            store(y + at, sum[p]);
        } else {
            for (; at < count; at++) {
                y[at] = narrow<A_TYPE>(widen(a[at]) + widen(x[at]));
            }
        }
    }
}

// x = a: what a gradient is that passes through the sum.
KERNEL(accumulate_backward, THREADS, (const A_TYPE* a, X_TYPE* x, i64 count)) {
    i64 start = (block_index() * PACKS * THREADS + thread_index()) * PACK;
    float value[PACKS][PACK];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
            load(a + at, value[p]);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
            store(x + at, value[p]);
        } else {
            for (; at < count; at++) {
                x[at] = narrow<X_TYPE>(widen(a[at]));
            }
        }
    }
}
