// y = f(x) and dx = dy f'(.), element by element; the twin of UnaryReference.
#include "octet.cuh"

template <typename R> DEVICE R sign(R x) { return x > 0 ? (R)1 : x < 0 ? (R)-1 : x; }
template <typename R> DEVICE R within(R x, R low, R high) {
    R bounded = x < low ? low : x;
    return bounded > high ? high : bounded;
}

// value(function, x, a, b) and gradient(function, g, saved, a, b): the rows of UnaryFunction by their number. a and b: the operator's
// attributes; saved: x or y, as the row says.
#include "functions.cuh"

template <typename T> DEVICE void forward(int function, const T* x, T* y, i64 n, float a, float b) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = value(function, v[i], a, b);
        }
        store_some<8>(y + at, v, m);
    });
}

template <typename T> DEVICE void backward(int function, const T* dy, const T* saved, T* dx, i64 n, float a, float b) {
    for_packs<8>(n, [&](i64 at, int m) {
        float g[8], v[8];
        load_some<8>(dy + at, g, m);
        if (saved) {
            load_some<8>(saved + at, v, m);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            g[i] = gradient(function, g[i], saved ? v[i] : 0, a, b);
        }
        store_some<8>(dx + at, g, m);
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(unary_forward_##S, 256, (int function, const T* x, T* y, i64 n, float a, float b)) { forward(function, x, y, n, a, b); }    \
    KERNEL(unary_backward_##S, 256, (int function, const T* dy, const T* saved, T* dx, i64 n, float a, float b)) {                      \
        backward(function, dy, saved, dx, n, a, b);                                                                                    \
    }
FLOAT_TYPES(M)

// Types that F32 does not hold, and results of another type.
KERNEL(unary_forward_any, 256, (int function, int type, const void* x, int result, void* y, i64 n, double a, double b)) {
    for_packs<1>(n, [&](i64 at, int) { write_number(result, y, at, value(function, read_number(type, x, at), a, b)); });
}
KERNEL(unary_backward_any, 256, (int function, int type, const void* dy, const void* saved, void* dx, i64 n, float a, float b)) {
    for_packs<1>(n, [&](i64 at, int) {
        float v = saved ? (float)read_number(type, saved, at) : 0;
        write_number(type, dx, at, gradient(function, (float)read_number(type, dy, at), v, a, b));
    });
}
