// y = f(x) and dx = dy f'(.), element by element; the twin of UnaryReference. The numbers of the functions are UnaryCuda.FUNCTIONS'.
#include "octet.cuh"

enum Function {
    ABS, CEIL, CLIP, COS, ERF, EXP, FLOOR, HARD_SIGMOID, HARD_SWISH, IS_INF, IS_NAN, LEAKY_RELU, LOG, NEG, NOT, RECIPROCAL, RELU, ROUND,
    SIGMOID, SIGN, SIN, SOFTPLUS, SQRT, SWISH, TANH
};

template <typename R> DEVICE R sign(R x) { return x > 0 ? (R)1 : x < 0 ? (R)-1 : x; }
template <typename R> DEVICE R sigmoid(R x) { return 1 / (1 + exp(-x)); }
template <typename R> DEVICE R within(R x, R low, R high) {
    R bounded = x < low ? low : x;
    return bounded > high ? high : bounded;
}

// a and b: the operator's attributes.
template <typename R> DEVICE R value(int function, R x, R a, R b) {
    switch (function) {
    case ABS: return fabs(x);
    case CEIL: return ceil(x);
    case CLIP: return within(x, a, b);
    case COS: return cos(x);
    case ERF: return erf(x);
    case EXP: return exp(x);
    case FLOOR: return floor(x);
    case HARD_SIGMOID: return within(a * x + b, (R)0, (R)1);
    case HARD_SWISH: return x * within(x / 6 + (R)0.5, (R)0, (R)1);
    case IS_INF: return x - x != 0 && x == x ? (R)1 : (R)0;
    case IS_NAN: return x != x ? (R)1 : (R)0;
    case LEAKY_RELU: return x > 0 ? x : a * x;
    case LOG: return log(x);
    case NEG: return -x;
    case NOT: return x == 0 ? (R)1 : (R)0;
    case RECIPROCAL: return 1 / x;
    case RELU: return x <= 0 ? (R)0 : x;
    case ROUND: return rint(x);
    case SIGMOID: return sigmoid(x);
    case SIGN: return sign(x);
    case SIN: return sin(x);
    case SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case SQRT: return sqrt(x);
    case SWISH: return x * sigmoid(a * x);
    default: return tanh(x);
    }
}

// kept: x or y, as the operator says.
DEVICE float gradient(int function, float g, float kept, float a, float b) {
    switch (function) {
    case ABS: return g * sign(kept);
    case CLIP: return kept >= a && kept <= b ? g : 0;
    case COS: return -g * sinf(kept);
    case ERF: return 1.1283791670955126f * expf(-kept * kept) * g;
    case EXP: return g * kept;
    case HARD_SIGMOID: {
        float line = a * kept + b;
        return line > 0 && line < 1 ? a * g : 0;
    }
    case HARD_SWISH: return kept <= -3 ? 0 : kept >= 3 ? g : g * (kept / 3 + 0.5f);
    case LEAKY_RELU: return kept > 0 ? g : a * g;
    case LOG: return g / kept;
    case NEG: return -g;
    case RECIPROCAL: return -g * kept * kept;
    case RELU: return kept <= 0 ? 0 : g;
    case SIGMOID: return g * kept * (1 - kept);
    case SIN: return g * cosf(kept);
    case SOFTPLUS: return g * sigmoid(kept);
    case SQRT: return g / (2 * kept);
    case SWISH: {
        float s = sigmoid(a * kept);
        return g * s * (1 + a * kept * (1 - s));
    }
    default: return g * (1 - kept * kept);
    }
}

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

template <typename T> DEVICE void backward(int function, const T* dy, const T* kept, T* dx, i64 n, float a, float b) {
    for_packs<8>(n, [&](i64 at, int m) {
        float g[8], v[8];
        load_some<8>(dy + at, g, m);
        if (kept) {
            load_some<8>(kept + at, v, m);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            g[i] = gradient(function, g[i], kept ? v[i] : 0, a, b);
        }
        store_some<8>(dx + at, g, m);
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(unary_forward_##S, 256, (int function, const T* x, T* y, i64 n, float a, float b)) { forward(function, x, y, n, a, b); }    \
    KERNEL(unary_backward_##S, 256, (int function, const T* dy, const T* kept, T* dx, i64 n, float a, float b)) {                      \
        backward(function, dy, kept, dx, n, a, b);                                                                                    \
    }
FLOAT_TYPES(M)

// Types that F32 does not hold, and results of another type.
KERNEL(unary_forward_any, 256, (int function, int type, const void* x, int result, void* y, i64 n, double a, double b)) {
    for_packs<1>(n, [&](i64 at, int) { write_number(result, y, at, value(function, read_number(type, x, at), a, b)); });
}
KERNEL(unary_backward_any, 256, (int function, int type, const void* dy, const void* kept, void* dx, i64 n, float a, float b)) {
    for_packs<1>(n, [&](i64 at, int) {
        float v = kept ? (float)read_number(type, kept, at) : 0;
        write_number(type, dx, at, gradient(function, (float)read_number(type, dy, at), v, a, b));
    });
}
