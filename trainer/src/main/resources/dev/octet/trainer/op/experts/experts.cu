// Mixtures of experts: rows sorted by expert, products with a weight for each, weighted sums on the way back. Slot t * choices + j is choice j of
// token t; places[slot] is its row; rows offsets[e] .. offsets[e + 1] - 1 are those of expert e. Sums have an order of their own, so bits depend on
// nothing but the operands.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

#define THREADS 256
#define TILE 32

// The expert of a slot; one outside counts as the nearest, so that no row is written outside.
DEVICE int expert_of(int type, const void* chosen, i64 slot, int experts) {
    i64 e = (i64)read_number(type, chosen, slot);
    return e < 0 ? 0 : e >= experts ? experts - 1 : (int)e;
}

#if HAS_REST
// One block: a warp counts the slots of an expert, and later numbers them, 32 at a time in their order.
KERNEL(expert_places, 1024, (int type, const void* chosen, i64* places, i64* offsets, int slots, int experts)) {
    int warps = thread_count() / WARP;
    for (int e = warp(); e < experts; e += warps) {
        i64 count = 0;
        for (int slot = lane(); slot < slots; slot += WARP) {
            count += expert_of(type, chosen, slot, experts) == e ? 1 : 0;
        }
        int all = warp_fold((int)count, Sum());
        if (lane() == 0) {
            offsets[e + 1] = all;
        }
    }
    memory_fence();
    block_barrier();
    if (thread_index() == 0) {
        i64 sum = 0;
        offsets[0] = 0;
        for (int e = 1; e <= experts; e++) {
            sum += offsets[e];
            offsets[e] = sum;
        }
    }
    memory_fence();
    block_barrier();
    for (int e = warp(); e < experts; e += warps) {
        i64 next = offsets[e];
        for (int first = 0; first < slots; first += WARP) {
            int slot = first + lane();
            bool mine = slot < slots && expert_of(type, chosen, slot, experts) == e;
            u32 all = lane_bits(mine);
            u32 before = all & ((1u << lane()) - 1u);
            int rank = 0;
            int count = 0;
            for (u32 b = before; b; b &= b - 1) {
                rank++;
            }
            for (u32 b = all; b; b &= b - 1) {
                count++;
            }
            if (mine) {
                places[slot] = next + rank;
            }
            next += count;
        }
    }
}
#endif

// What a product of a tile adds up: c = a·b over inner terms, 32 at a time; a(i, p) and b(p, j) give elements of the operands, or 0 outside. A
// thread has column thread % 32 and rows thread / 32 + 8 i.
template <typename A, typename B> DEVICE void tile_product(i64 inner, float (*left)[TILE + 1], float (*right)[TILE + 1], float (&sum)[4], A a, B b) {
    int column = thread_index() % TILE;
    int line = thread_index() / TILE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum[i] = 0;
    }
    for (i64 first = 0; first < inner; first += TILE) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = line + 8 * i;
            left[row][column] = first + column < inner ? a(row, first + column) : 0.0f;
            right[row][column] = first + row < inner ? b(first + row, column) : 0.0f;
        }
        block_barrier();
        for (int p = 0; p < TILE; p++) {
            float r = right[p][column];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[i] += left[line + 8 * i][p] * r;
            }
        }
        block_barrier();
    }
}

#define OF_FLOATS(suffix, T)                                                                                                               \
    KERNEL(expert_rows_##suffix, THREADS, (const T* x, const i64* places, T* rows, i64 n, int size, int choices)) {                        \
        for_packs<1>(n, [&](i64 at, int) {                                                                                                 \
            i64 slot = quotient(at, size);                                                                                                 \
            i64 i = at - slot * size;                                                                                                      \
            rows[places[slot] * size + i] = x[slot / choices * size + i];                                                                  \
        });                                                                                                                                \
    }                                                                                                                                      \
    KERNEL(expert_rows_back_##suffix, THREADS, (const T* drows, const i64* places, T* dx, i64 n, int size, int choices)) {                 \
        for_packs<1>(n, [&](i64 at, int) {                                                                                                 \
            i64 token = quotient(at, size);                                                                                                \
            i64 i = at - token * size;                                                                                                     \
            float sum = 0;                                                                                                                 \
            for (int j = 0; j < choices; j++) {                                                                                            \
                sum += widen(drows[places[token * choices + j] * size + i]);                                                               \
            }                                                                                                                              \
            dx[at] = narrow<T>(sum);                                                                                                       \
        });                                                                                                                                \
    }                                                                                                                                      \
    KERNEL(expert_sums_##suffix, THREADS,                                                                                                  \
           (const T* rows, const i64* places, int type, const void* weights, T* y, i64 n, int size, int choices)) {                        \
        for_packs<1>(n, [&](i64 at, int) {                                                                                                 \
            i64 token = quotient(at, size);                                                                                                \
            i64 i = at - token * size;                                                                                                     \
            float sum = 0;                                                                                                                 \
            for (int j = 0; j < choices; j++) {                                                                                            \
                i64 slot = token * choices + j;                                                                                            \
                sum += (float)read_number(type, weights, slot) * widen(rows[places[slot] * size + i]);                                     \
            }                                                                                                                              \
            y[at] = narrow<T>(sum);                                                                                                        \
        });                                                                                                                                \
    }                                                                                                                                      \
    KERNEL(expert_sums_back_##suffix, THREADS,                                                                                             \
           (const T* dy, const i64* places, int type, const void* weights, T* drows, i64 n, int size, int choices)) {                      \
        for_packs<1>(n, [&](i64 at, int) {                                                                                                 \
            i64 slot = quotient(at, size);                                                                                                 \
            i64 i = at - slot * size;                                                                                                      \
            float up = widen(dy[slot / choices * size + i]);                                                                               \
            drows[places[slot] * size + i] = narrow<T>((float)read_number(type, weights, slot) * up);                                      \
        });                                                                                                                                \
    }                                                                                                                                      \
    KERNEL(expert_weights_##suffix, THREADS,                                                                                               \
           (const T* dy, const T* rows, const i64* places, int type, void* dweights, i64 slots, int size, int choices)) {                  \
        i64 warps = block_count() * (thread_count() / WARP);                                                                               \
        for (i64 slot = block_index() * (thread_count() / WARP) + warp(); slot < slots; slot += warps) {                                   \
            const T* up = dy + slot / choices * size;                                                                                      \
            const T* row = rows + places[slot] * size;                                                                                     \
            double sum = 0;                                                                                                                \
            for (int i = lane(); i < size; i += WARP) {                                                                                    \
                sum += (double)widen(up[i]) * (double)widen(row[i]);                                                                       \
            }                                                                                                                              \
            sum = warp_fold(sum, Sum());                                                                                                   \
            if (lane() == 0) {                                                                                                             \
                write_number(type, dweights, slot, sum);                                                                                   \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    KERNEL(expert_product_##suffix, THREADS,                                                                                               \
           (const T* a, const i64* weights, const i64* offsets, T* c, int experts, i64 inner, i64 columns, int trans,                      \
            const i64* biases)) {                                                                                                          \
        SHARED float left[TILE][TILE + 1];                                                                                                 \
        SHARED float right[TILE][TILE + 1];                                                                                                \
        i64 tile = block_index();                                                                                                          \
        int e = 0;                                                                                                                         \
        while (e < experts && tile >= (offsets[e + 1] - offsets[e] + TILE - 1) / TILE) {                                                   \
            tile -= (offsets[e + 1] - offsets[e] + TILE - 1) / TILE;                                                                       \
            e++;                                                                                                                           \
        }                                                                                                                                  \
        if (e == experts) {                                                                                                                \
            return;                                                                                                                        \
        }                                                                                                                                  \
        i64 first = offsets[e] + tile * TILE;                                                                                              \
        i64 end = offsets[e + 1];                                                                                                          \
        i64 start = block_index_y() * TILE;                                                                                                \
        const T* w = (const T*)weights[e];                                                                                                 \
        float sum[4];                                                                                                                      \
        tile_product(                                                                                                                      \
            inner, left, right, sum,                                                                                                       \
            [&](int i, i64 p) { return first + i < end ? widen(a[(first + i) * inner + p]) : 0.0f; },                                      \
            [&](i64 p, int j) {                                                                                                            \
                return start + j < columns ? widen(trans ? w[(start + j) * inner + p] : w[p * columns + start + j]) : 0.0f;                \
            });                                                                                                                            \
        int j = thread_index() % TILE;                                                                                                     \
        for (int i = 0; i < 4; i++) {                                                                                                      \
            i64 row = first + thread_index() / TILE + 8 * i;                                                                               \
            if (row < end && start + j < columns) {                                                                                        \
                float bias = biases ? widen(((const T*)biases[e])[start + j]) : 0.0f;                                                      \
                c[row * columns + start + j] = narrow<T>(sum[i] + bias);                                                                   \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    KERNEL(expert_gradient_##suffix, THREADS,                                                                                              \
           (const T* left, const T* right, const i64* offsets, T* dw, int expert, i64 m, i64 n, int add)) {                                \
        SHARED float a[TILE][TILE + 1];                                                                                                    \
        SHARED float b[TILE][TILE + 1];                                                                                                    \
        i64 first = offsets[expert];                                                                                                       \
        i64 rows = offsets[expert + 1] - first;                                                                                            \
        i64 top = block_index() * TILE;                                                                                                    \
        i64 start = block_index_y() * TILE;                                                                                                \
        float sum[4];                                                                                                                      \
        tile_product(                                                                                                                      \
            rows, a, b, sum, [&](int i, i64 p) { return top + i < m ? widen(left[(first + p) * m + top + i]) : 0.0f; },                    \
            [&](i64 p, int j) { return start + j < n ? widen(right[(first + p) * n + start + j]) : 0.0f; });                               \
        int j = thread_index() % TILE;                                                                                                     \
        for (int i = 0; i < 4; i++) {                                                                                                      \
            i64 row = top + thread_index() / TILE + 8 * i;                                                                                 \
            if (row < m && start + j < n) {                                                                                                \
                T* to = dw + row * n + start + j;                                                                                          \
                *to = narrow<T>(add ? widen(*to) + sum[i] : sum[i]);                                                                       \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    KERNEL(expert_bias_##suffix, THREADS, (const T* dy, const i64* offsets, T* db, int expert, int columns, int add)) {                    \
        i64 j = block_index() * THREADS + thread_index();                                                                                  \
        if (j < columns) {                                                                                                                 \
            float sum = add ? widen(db[j]) : 0.0f;                                                                                         \
            float group = 0;                                                                                                               \
            i64 first = offsets[expert];                                                                                                   \
            for (i64 row = first; row < offsets[expert + 1]; row++) {                                                                      \
                group += widen(dy[row * columns + j]);                                                                                     \
                if ((row - first) % 32 == 31) {                                                                                            \
                    sum += group;                                                                                                          \
                    group = 0;                                                                                                             \
                }                                                                                                                          \
            }                                                                                                                              \
            db[j] = narrow<T>(sum + group);                                                                                                \
        }                                                                                                                                  \
    }
FLOAT_TYPES(OF_FLOATS)
