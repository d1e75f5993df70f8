// Mixtures of experts: rows sorted by expert, and weighted sums on the way back; the products between are in grouped.cu. Slot t * choices + j is choice j
// of token t; places[slot] is its row; rows offsets[e] .. offsets[e + 1] - 1 are those of expert e. Sums have an order of their own, so bits depend on
// nothing but the operands.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

#define THREADS 256

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
    }
FLOAT_TYPES(OF_FLOATS)
