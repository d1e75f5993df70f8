// A kernel that wants more registers than a block of 1024 threads leaves it: what a test must find.
#include "octet.cuh"

KERNEL(spills, 1024, (const float* x, float* y, int turns)) {
    SHARED float last[1024];
    float v[96];
#pragma unroll
    for (int i = 0; i < 96; i++) {
        v[i] = x[i * 1024 + thread_index()];
    }
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) { // all are needed in all turns
        last[thread_index()] = v[turn == 0 ? 0 : 1];
        block_barrier();
#pragma unroll
        for (int i = 0; i < 96; i++) {
            v[i] = v[i] * v[95 - i] + last[1023 - thread_index()];
        }
        block_barrier();
    }
#pragma unroll
    for (int i = 0; i < 96; i++) {
        y[i * 1024 + thread_index()] = v[i];
    }
}
