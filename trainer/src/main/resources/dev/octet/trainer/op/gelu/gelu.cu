// y = x Φ(x), or its approximation by tanh, forward and backward; the twin of GeluReference.
#include "octet.cuh"

template <typename T> DEVICE void forward(const T* x, T* y, i64 n, bool by_tanh) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = gelu<T>(v[i], by_tanh);
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
            g[i] *= gelu_derivative<T>(v[i], by_tanh);
        }
        store_some<8>(dx + at, g, m);
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(gelu_forward_##S, 256, (const T* x, T* y, i64 n, int by_tanh)) { forward(x, y, n, by_tanh); }                              \
    KERNEL(gelu_backward_##S, 256, (const T* x, const T* dy, T* dx, i64 n, int by_tanh)) { backward(x, dy, dx, n, by_tanh); }
FLOAT_TYPES(M)
