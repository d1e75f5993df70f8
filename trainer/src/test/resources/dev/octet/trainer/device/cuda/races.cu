// Kernels whose threads meet in memory, with what orders them and without.
#include "octet.cuh"

DEVICE int next_thread() { return (thread_index() + 1) % thread_count(); }

KERNEL(ordered_by_block, 64, (float* y)) {
    SHARED float x[64];
    x[thread_index()] = thread_index();
    block_barrier();
    y[thread_index()] = x[next_thread()];
    block_barrier();
    x[next_thread()] = 0;
}

KERNEL(no_barrier, 64, (float* y)) {
    SHARED float x[64];
    x[thread_index()] = thread_index();
    if (thread_index() % 32 != 31) { // within a warp
        y[thread_index()] = x[next_thread()];
    }
}

KERNEL(read_then_written, 64, (float* y)) {
    SHARED float x[64];
    x[thread_index()] = thread_index();
    block_barrier();
    y[thread_index()] = x[next_thread()];
    x[thread_index()] = 0;
}

KERNEL(ordered_by_warp, 64, (float* y)) {
    SHARED float x[64];
    int lane = thread_index() % 32;
    int first = thread_index() - lane;
    x[thread_index()] = thread_index();
    warp_barrier();
    y[thread_index()] = x[first + (lane + 1) % 32];
}

KERNEL(warp_barrier_between_warps, 64, (float* y)) {
    SHARED float x[64];
    x[thread_index()] = thread_index();
    warp_barrier();
    y[thread_index()] = x[next_thread()];
}

KERNEL(shuffle_is_no_barrier, 32, (float* y)) {
    SHARED float x[32];
    x[thread_index()] = thread_index();
    float sum = shuffle_xor(1.0f, 1);
    y[thread_index()] = x[next_thread()] + sum;
}

KERNEL(blocks_write_one_number, 32, (float* y)) {
    if (thread_index() == 0) {
        y[0] = block_index();
    }
}

KERNEL(blocks_write_their_own, 32, (float* y)) {
    if (thread_index() == 0) {
        y[block_index()] = block_index();
    }
}

KERNEL(blocks_count, 32, (int* y)) { atomic_add(y, 1); }

KERNEL(counted_and_read, 32, (int* y, int* z)) {
    atomic_add(y, 1);
    if (block_index() == 1) {
        z[thread_index()] = *y;
    }
}

KERNEL(copies_without_barrier, 32, (const float* x, float* y)) {
    DYNAMIC_SHARED(shared);
    float* tile = (float*)shared;
    copy_async_16(tile + 4 * thread_index(), x + 4 * thread_index());
    copy_async_commit();
    copy_async_wait<0>();
    y[thread_index()] = tile[4 * next_thread()];
}

KERNEL(copies_with_barrier, 32, (const float* x, float* y)) {
    DYNAMIC_SHARED(shared);
    float* tile = (float*)shared;
    copy_async_16(tile + 4 * thread_index(), x + 4 * thread_index());
    copy_async_commit();
    copy_async_wait<0>();
    block_barrier();
    y[thread_index()] = tile[4 * next_thread()];
}
