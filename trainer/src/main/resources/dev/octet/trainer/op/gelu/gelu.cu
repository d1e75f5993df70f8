// y = x Φ(x), or its approximation by tanh, forward and backward; the twin of GeluReference.
#include "octet.cuh"

#define SLOPE 0.7978845608028654f // √(2/π)
#define CUBE 0.044715f

// y / x.
DEVICE float share(float x, bool by_tanh) {
    if (by_tanh) {
        return 0.5f * (1 + tanhf(SLOPE * (x + CUBE * x * x * x)));
    }
    return 0.5f * (1 + erff(x * 0.7071067811865476f));
}

DEVICE float derivative(float x, bool by_tanh) {
    if (by_tanh) {
        float t = tanhf(SLOPE * (x + CUBE * x * x * x));
        return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SLOPE * (1 + 3 * CUBE * x * x);
    }
    return 0.5f * (1 + erff(x * 0.7071067811865476f)) + x * expf(-0.5f * x * x) * 0.3989422804014327f;
}

template <typename T> DEVICE void forward(const T* x, T* y, i64 n, bool by_tanh) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] *= share(v[i], by_tanh);
        }
        store_some<8>(y + at, v, m);
    });
}

template <typename T> DEVICE void backward(const T* x, const T* dy, T* dx, i64 n, bool by_tanh) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8], g[8];
        load_some<8>(x + at, v, m);
        load_some<8>(dy + at, g, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            g[i] *= derivative(v[i], by_tanh);
        }
        store_some<8>(dx + at, g, m);
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(gelu_forward_##S, 256, (const T* x, T* y, i64 n, int by_tanh)) { forward(x, y, n, by_tanh); }                              \
    KERNEL(gelu_backward_##S, 256, (const T* x, const T* dy, T* dx, i64 n, int by_tanh)) { backward(x, dy, dx, n, by_tanh); }
FLOAT_TYPES(M)
