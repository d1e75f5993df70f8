// y = act(x) u, as gated MLPs have it, and its gradients, element by element: what the steps give that these stand for, to the bit.
#include "octet.cuh"

template <typename T> DEVICE void forward(const T* x, const T* u, T* y, int activation, i64 n) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8], w[8], s[8], a[8];
        load_some<8>(x + at, v, m);
        load_some<8>(u + at, w, m);
        activate<T>(activation, v, s, a);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            a[i] *= w[i];
        }
        store_some<8>(y + at, a, m);
    });
}

template <typename T> DEVICE void backward(const T* x, const T* u, const T* dy, T* dx, T* du, int activation, i64 n) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8], w[8], g[8];
        load_some<8>(x + at, v, m);
        load_some<8>(u + at, w, m);
        load_some<8>(dy + at, g, m);
        gated_gradient<T>(activation, v, w, g);
        store_some<8>(dx + at, v, m);
        store_some<8>(du + at, w, m);
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(gated_forward_##S, 256, (const T* x, const T* u, T* y, int activation, i64 n)) { forward(x, u, y, activation, n); }         \
    RESIDENT_KERNEL(gated_backward_##S, 256, 512, (const T* x, const T* u, const T* dy, T* dx, T* du, int activation, i64 n)) {       \
        backward(x, u, dy, dx, du, activation, n);                                                                                    \
    }
FLOAT_TYPES(M)
