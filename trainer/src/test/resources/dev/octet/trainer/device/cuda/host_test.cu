// Kernels that HostGpuTest knows the results of, and some that are wrong on purpose.
#include "octet.cuh"

KERNEL(line, 64, (const float* x, float* y, i64 n, float factor, int add, double plus)) {
    i64 i = block_index() * thread_count() + thread_index();
    if (i < n) {
        y[i] = x[i] * factor + add + (float)plus;
    }
}

// y[0] = the sum of all in one block; by the block's fold.
KERNEL(sum, 256, (const float* x, float* y, int n)) {
    SHARED float scratch[33];
    float s = 0;
    for (int i = thread_index(); i < n; i += thread_count()) {
        s += x[i];
    }
    s = block_fold(s, Sum(), 0.0f, scratch);
    if (thread_index() == 0) {
        *y = s;
    }
}

KERNEL(lanes, 32, (const float* x, float* y)) {
    float own = x[thread_index()];
    y[thread_index()] = shuffle_xor(own, 5);
    y[32 + thread_index()] = shuffle_up(own, 3);
    y[64 + thread_index()] = shuffle(own, (thread_index() * 7) % 32);
    y[96 + thread_index()] = (float)shuffle_xor((double)own, 16);
    y[128 + thread_index()] = (float)shuffle((int)own, 31 - lane());
}

// d [16, 8] = a [16, 16] b, b lying as [8, 16]; a by load_matrix_4, b's halves read as they lie.
#define PRODUCT(S, T)                                                                          \
    KERNEL(product_##S, 32, (const T* a, const T* b, float* d)) {                              \
        DYNAMIC_SHARED(bytes);                                                                 \
        T* tile = (T*)bytes;                                                                   \
        for (int i = 0; i < 256 / 8; i += 32) {                                                \
            copy_async_16(tile + 8 * (i + lane()), a + 8 * (i + lane()));                      \
        }                                                                                      \
        copy_async_commit();                                                                   \
        copy_async_wait<0>();                                                                  \
        warp_barrier();                                                                        \
        u32 left[4];                                                                           \
        u32 right[2];                                                                          \
        int l = lane();                                                                        \
        load_matrix_4(left, tile + (l % 16) * 16 + l / 16 * 8);                                \
        for (int i = 0; i < 2; i++) {                                                          \
            right[i] = *(const u32*)(b + l / 4 * 16 + l % 4 * 2 + 8 * i);                      \
        }                                                                                      \
        float sums[4] = {0, 0, 0, 0};                                                          \
        multiply_16816(sums, left, right, T());                                                \
        for (int i = 0; i < 4; i++) {                                                          \
            d[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = sums[i];                          \
        }                                                                                      \
    }
PRODUCT(bf16, bf16)
PRODUCT(f16, f16)

// y = x transposed, both 8 x 8 matrices of 16-bit words, four of them.
KERNEL(turned, 32, (const u16* x, u16* y)) {
    SHARED u16 tile[256];
    for (int i = lane(); i < 256; i += 32) {
        tile[i] = x[i];
    }
    warp_barrier();
    u32 r[4];
    load_matrix_4_transposed(r, tile + 8 * lane());
    for (int i = 0; i < 4; i++) {
        *(u32*)(y + 64 * i + 8 * (lane() / 4) + 2 * (lane() % 4)) = r[i];
    }
}

KERNEL(codes, 256, (const float* x, u8* e4m3_codes, u8* e5m2_codes, u16* bf, u16* hf, i64 n)) {
    i64 i = 2 * (block_index() * thread_count() + thread_index());
    if (i < n) {
        u16 four = encode_pair<e4m3>(x[i], x[i + 1]);
        u16 five = encode_pair<e5m2>(x[i], x[i + 1]);
        e4m3_codes[i] = (u8)four;
        e4m3_codes[i + 1] = (u8)(four >> 8);
        e5m2_codes[i] = (u8)five;
        e5m2_codes[i + 1] = (u8)(five >> 8);
        for (int k = 0; k < 2; k++) {
            bf[i + k] = bf16_bits(x[i + k]);
            hf[i + k] = f16_bits(x[i + k]);
        }
    }
}
KERNEL(values, 256, (float* four, float* five, float* halves)) {
    int i = (int)block_index() * thread_count() + thread_index();
    if (i < 256) {
        four[i] = decode_e4m3((u8)i);
        five[i] = decode_e5m2((u8)i);
    }
    halves[i] = f16_value((u16)i);
}

// Wrong on purpose.
KERNEL(half_a_barrier, 64, (float* y)) {
    if (thread_index() < 40) {
        block_barrier();
    }
    y[thread_index()] = 1;
}
KERNEL(half_a_shuffle, 64, (float* y)) {
    if (thread_index() != 37) {
        y[thread_index()] = shuffle_xor(1.0f, 1);
    }
}
KERNEL(two_shuffles, 32, (float* y)) {
    y[thread_index()] = thread_index() < 7 ? shuffle_xor(1.0f, 1) : shuffle_up(1.0f, 1);
}
KERNEL(far, 32, (float* y, i64 at)) { y[at] = 1; }
KERNEL(read_far, 32, (const float* x, float* y, i64 at)) { *y = x[at]; }
KERNEL(past_shared, 32, (float* y, int at)) {
    SHARED float tile[4][8];
    tile[0][at] = 1;
    *y = tile[1][0];
}
KERNEL(past_dynamic, 32, (int at)) {
    DYNAMIC_SHARED(bytes);
    bytes[at] = 1;
}
KERNEL(misaligned, 32, (const float* x, float* y, int by)) {
    float four[4];
    load(x + by, four);
    y[thread_index()] = four[thread_index() % 4];
}
KERNEL(overflowing, 32, (i64* y, int n)) { *y = n * 65536; }
KERNEL(garbage, 32, (u32* y)) {
    SHARED u32 fixed;
    DYNAMIC_SHARED(bytes);
    y[2 * block_index()] = fixed;
    y[2 * block_index() + 1] = *(u32*)bytes;
    warp_barrier();
    fixed = 5;
    *(u32*)bytes = 5;
}
template <typename T> DEVICE T first_of_template(T x) {
    SHARED T cell[4];
    T before = cell[0];
    warp_barrier();
    cell[0] = x;
    return before;
}
KERNEL(garbage_of_templates, 32, (u32* y)) { y[block_index()] = first_of_template<u32>(5); }
// Neighbours change without a barrier between.
KERNEL(race, 64, (float* y)) {
    SHARED float cell[64];
    cell[thread_index()] = 1;
    block_barrier();
    cell[thread_index()] += cell[(thread_index() + 1) % 64];
    block_barrier();
    y[thread_index()] = cell[thread_index()];
}
// Reads an asynchronous copy before it waits.
KERNEL(early, 32, (const float* x, float* y)) {
    SHARED float tile[32 * 4];
    copy_async_16(tile + 4 * lane(), x + 4 * lane());
    copy_async_commit();
    y[lane()] = tile[4 * lane()];
    copy_async_wait<0>();
}
// A wait covers committed copies only.
KERNEL(uncommitted, 32, (const float* x, float* y)) {
    SHARED float tile[32 * 4];
    copy_async_16(tile + 4 * lane(), x + 4 * lane());
    copy_async_wait<0>();
    warp_barrier();
    y[lane()] = tile[4 * lane()];
}
KERNEL(two_groups, 32, (const float* x, float* y)) {
    SHARED float tiles[2][32 * 4];
    copy_async_16(tiles[0] + 4 * lane(), x + 4 * lane());
    copy_async_commit();
    copy_async_16(tiles[1] + 4 * lane(), x + 4 * lane());
    copy_async_commit();
    copy_async_wait<1>();
    warp_barrier();
    y[lane()] = tiles[0][4 * lane()];
}
KERNEL(twenty_thousand_fixed, 32, (float* y)) {
    SHARED float tile[5000];
    tile[thread_index()] = 1;
    warp_barrier();
    *y = tile[31];
}
KERNEL(not_shared, 32, (const u16* x, u32* y)) {
    u32 r[4];
    load_matrix_4(r, x);
    *y = r[0];
}
