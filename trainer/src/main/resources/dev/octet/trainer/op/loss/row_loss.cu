// How far rows are from their targets. X_TYPE, T_TYPE and W_TYPE are types of the rows, the targets and the rows'
// weights. GROUP threads, a warp or a block, have a row, PACK elements at a time.
//
// variants: X_TYPE=bf16 T_TYPE=bf16 W_TYPE=i64 GROUP=32 PACK=8
// variants: X_TYPE=f32 T_TYPE=f32 W_TYPE=f32 GROUP=256 PACK=1
#include "octet.cuh"

#define THREADS 256
// Shortest length that a row is divided by.
#define SHORTEST 1e-8f

DEVICE float group_sum(float x, float* scratch) {
    return GROUP == WARP ? warp_fold(x, Sum()) : block_fold(x, Sum(), 0.0f, scratch);
}
DEVICE int member() { return thread_index() % GROUP; }
DEVICE i64 first_row() { return block_index() * (THREADS / GROUP) + thread_index() / GROUP; }
DEVICE float at_least(float x, float least) { return x < least ? least : x; }

// Sums over a row: of (x - t)², or of x t, x x and t t.
struct RowSums {
    float squares;
    float xt;
    float xx;
    float tt;
};
DEVICE RowSums row_sums(const X_TYPE* x, const T_TYPE* t, int n, bool cosine, float* scratch) {
    RowSums s = {0, 0, 0, 0};
#pragma unroll 4
    for (int k = member() * PACK; k < n; k += GROUP * PACK) {
        float xs[PACK];
        float ts[PACK];
        load(x + k, xs);
        load(t + k, ts);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            s.squares += (xs[i] - ts[i]) * (xs[i] - ts[i]);
            s.xt += xs[i] * ts[i];
            s.xx += xs[i] * xs[i];
            s.tt += ts[i] * ts[i];
        }
    }
    if (cosine) {
        s.xt = group_sum(s.xt, scratch);
        s.xx = group_sum(s.xx, scratch);
        s.tt = group_sum(s.tt, scratch);
    } else {
        s.squares = group_sum(s.squares, scratch);
    }
    return s;
}

KERNEL(row_loss_forward, THREADS,
       (const X_TYPE* x, const T_TYPE* t, const W_TYPE* weights, float* losses, float* used, i64 rows, i32 size, i32 cosine)) {
    SHARED float scratch[33];
    i64 row = first_row();
    bool here = row < rows;
    RowSums s = row_sums(x + row * size, t + row * size, here ? size : 0, cosine != 0, scratch);
    if (here && member() == 0) {
        float weight = weights ? widen(weights[row]) : 1;
        float loss = cosine ? 1 - s.xt / (at_least(sqrtf(s.xx), SHORTEST) * at_least(sqrtf(s.tt), SHORTEST)) : s.squares / size;
        used[row] = weight;
        losses[row] = weight == 0 ? 0 : weight * loss;
    }
}

// Of either side; dx and dt may be absent. A row without weight gets zeros.
KERNEL(row_loss_backward, THREADS,
       (const X_TYPE* x, const T_TYPE* t, const W_TYPE* weights, const float* divisor, const float* dloss, X_TYPE* dx, T_TYPE* dt,
        i64 rows, i32 size, i32 cosine)) {
    SHARED float scratch[33];
    i64 row = first_row();
    int n = row < rows ? size : 0;
    RowSums s = {0, 0, 0, 0};
    if (cosine) {
        s = row_sums(x + row * size, t + row * size, n, true, scratch);
    }
    float weight = n ? (weights ? widen(weights[row]) : 1) : 0;
    float up = weight == 0 ? 0 : weight * (dloss[0] / divisor[0]);
    float x_of_x = 2 * up / size;
    float x_of_t = -x_of_x;
    float t_of_t = x_of_x;
    float t_of_x = -x_of_x;
    if (cosine) {
        float lx = at_least(sqrtf(s.xx), SHORTEST);
        float lt = at_least(sqrtf(s.tt), SHORTEST);
        float c = s.xt / (lx * lt);
        x_of_x = lx > SHORTEST ? up * c / lx / lx : 0;
        t_of_t = lt > SHORTEST ? up * c / lt / lt : 0;
        x_of_t = -up / lt / lx;
        t_of_x = x_of_t;
    }
#pragma unroll 2
    for (int k = member() * PACK; k < n; k += GROUP * PACK) {
        float xs[PACK];
        float ts[PACK];
        float y[PACK];
        load(x + row * size + k, xs);
        load(t + row * size + k, ts);
        if (dx) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                y[i] = weight == 0 ? 0 : xs[i] * x_of_x + ts[i] * x_of_t;
            }
            store(dx + row * size + k, y);
        }
        if (dt) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                y[i] = weight == 0 ? 0 : ts[i] * t_of_t + xs[i] * t_of_x;
            }
            store(dt + row * size + k, y);
        }
    }
}
