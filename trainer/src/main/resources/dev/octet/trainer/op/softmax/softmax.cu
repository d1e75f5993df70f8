// Softmax and its logarithm. X_TYPE is the type of all elements. Where what is normalised together lies together, GROUP threads (a warp or a
// block) have a row in registers: ELEMENTS of each, loaded PACK at a time.
//
// variants: X_TYPE=bf16 GROUP=32 PACK=8 ELEMENTS=32
// variants: X_TYPE=f32 GROUP=256 PACK=4 ELEMENTS=32
// variants: X_TYPE=f16 GROUP=32 PACK=1 ELEMENTS=32
#include "octet.cuh"

#define THREADS 256
#define CHUNKS (ELEMENTS / PACK)

template <typename F> DEVICE float group_fold(float x, F fold, float neutral, float* scratch) {
    return GROUP == WARP ? warp_fold(x, fold) : block_fold(x, fold, neutral, scratch);
}

// Element of its row that a thread's chunk begins with.
DEVICE int start_of(int chunk) { return (chunk * GROUP + thread_index() % GROUP) * PACK; }

RESIDENT_KERNEL(softmax_forward, THREADS, THREADS, (const X_TYPE* x, X_TYPE* y, i64 rows, i32 size, i32 logarithm)) {
    SHARED float scratch[33];
    i64 row = block_index() * (THREADS / GROUP) + thread_index() / GROUP;
    int n = row < rows ? size : 0;
    float v[CHUNKS][PACK];
    float largest = -INFINITE;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            load(x + row * size + start_of(c), v[c]);
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                largest = Max()(largest, v[c][i]);
            }
        }
    }
    largest = group_fold(largest, Max(), -INFINITE, scratch);
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                float e = expf(v[c][i] - largest);
                sum += e;
                v[c][i] = logarithm ? v[c][i] - largest : e;
            }
        }
    }
    sum = group_fold(sum, Sum(), 0.0f, scratch);
    float log = logf(sum);
    float factor = 1 / sum;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                v[c][i] = logarithm ? v[c][i] - log : v[c][i] * factor;
            }
            store(y + row * size + start_of(c), v[c]);
        }
    }
}

// dx = y (dy - sum(dy y)); of the logarithm: dy - exp(y) sum(dy).
RESIDENT_KERNEL(softmax_backward, THREADS, THREADS, (const X_TYPE* y, const X_TYPE* dy, X_TYPE* dx, i64 rows, i32 size, i32 logarithm)) {
    SHARED float scratch[33];
    i64 row = block_index() * (THREADS / GROUP) + thread_index() / GROUP;
    int n = row < rows ? size : 0;
    float v[CHUNKS][PACK];
    float up[CHUNKS][PACK];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            load(y + row * size + start_of(c), v[c]);
            load(dy + row * size + start_of(c), up[c]);
        }
    }
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                sum = logarithm ? sum + up[c][i] : fmaf(up[c][i], v[c][i], sum);
            }
        }
    }
    sum = group_fold(sum, Sum(), 0.0f, scratch);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                v[c][i] = logarithm ? up[c][i] - expf(v[c][i]) * sum : v[c][i] * (up[c][i] - sum);
            }
            store(dx + row * size + start_of(c), v[c]);
        }
    }
}

// Rows too long for registers: a block reads each twice.
KERNEL(softmax_forward_long, THREADS, (const X_TYPE* x, X_TYPE* y, i64 rows, i32 size, i32 logarithm)) {
    SHARED float scratch[33];
    const X_TYPE* from = x + block_index() * size;
    X_TYPE* to = y + block_index() * size;
    float mine = -INFINITE;
    float sum = 0;
    for (int k = thread_index(); k < size; k += THREADS) {
        float v = widen(from[k]);
        if (v > mine) {
            sum *= expf(mine - v);
            mine = v;
        }
        sum += mine == -INFINITE && v == -INFINITE ? 0 : expf(v - mine);
    }
    float largest = block_fold(mine, Max(), -INFINITE, scratch);
    sum = block_fold(mine == -INFINITE && sum == 0 ? 0 : sum * expf(mine - largest), Sum(), 0.0f, scratch);
    float log = logf(sum);
    float factor = 1 / sum;
    for (int k = thread_index(); k < size; k += THREADS) {
        float v = widen(from[k]) - largest;
        to[k] = narrow<X_TYPE>(logarithm ? v - log : expf(v) * factor);
    }
}

KERNEL(softmax_backward_long, THREADS, (const X_TYPE* y, const X_TYPE* dy, X_TYPE* dx, i64 rows, i32 size, i32 logarithm)) {
    SHARED float scratch[33];
    i64 start = block_index() * size;
    float sum = 0;
    for (int k = thread_index(); k < size; k += THREADS) {
        float up = widen(dy[start + k]);
        sum = logarithm ? sum + up : fmaf(up, widen(y[start + k]), sum);
    }
    sum = block_fold(sum, Sum(), 0.0f, scratch);
    for (int k = thread_index(); k < size; k += THREADS) {
        float v = widen(y[start + k]);
        float up = widen(dy[start + k]);
        dx[start + k] = narrow<X_TYPE>(logarithm ? up - expf(v) * sum : v * (up - sum));
    }
}

// Along an axis that others lie behind: a thread for each column, neighbours side by side in memory.
KERNEL(softmax_forward_columns, THREADS, (const X_TYPE* x, X_TYPE* y, i64 columns, i32 size, i64 inner, i32 logarithm)) {
    i64 column = block_index() * THREADS + thread_index();
    if (column < columns) {
        i64 start = column / inner * size * inner + column % inner;
        float largest = -INFINITE;
        for (int k = 0; k < size; k++) {
            largest = Max()(largest, widen(x[start + k * inner]));
        }
        float sum = 0;
        for (int k = 0; k < size; k++) {
            sum += expf(widen(x[start + k * inner]) - largest);
        }
        float log = logf(sum);
        float factor = 1 / sum;
        for (int k = 0; k < size; k++) {
            float v = widen(x[start + k * inner]) - largest;
            y[start + k * inner] = narrow<X_TYPE>(logarithm ? v - log : expf(v) * factor);
        }
    }
}

KERNEL(softmax_backward_columns, THREADS,
       (const X_TYPE* y, const X_TYPE* dy, X_TYPE* dx, i64 columns, i32 size, i64 inner, i32 logarithm)) {
    i64 column = block_index() * THREADS + thread_index();
    if (column < columns) {
        i64 start = column / inner * size * inner + column % inner;
        float sum = 0;
        for (int k = 0; k < size; k++) {
            float up = widen(dy[start + k * inner]);
            sum = logarithm ? sum + up : fmaf(up, widen(y[start + k * inner]), sum);
        }
        for (int k = 0; k < size; k++) {
            float v = widen(y[start + k * inner]);
            float up = widen(dy[start + k * inner]);
            dx[start + k * inner] = narrow<X_TYPE>(logarithm ? up - expf(v) * sum : v * (up - sum));
        }
    }
}
