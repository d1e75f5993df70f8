// What Muon does to a matrix around its products; the twins of MuonReference. Types of temporaries are F32 or BF16 and given by their code.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

template <typename T>
DEVICE void momentum_of(const T* gradient, const float* old, const float* factor, const float* left_out, int type, void* update,
                        float* m, i64 count, double momentum, int nesterov) {
    bool skip = *left_out != 0;
    float f = *factor;
    for (i64 i = block_index() * thread_count() + thread_index(); i < count; i += block_count() * thread_count()) {
        float g = widen(gradient[i]) * f;
        float first = skip ? old[i] : old[i] + (float)(1 - momentum) * (g - old[i]);
        float u = skip ? 0.0f : nesterov ? g + (float)momentum * (first - g) : first;
        m[i] = first;
        write_number(type, update, i, u);
    }
}

template <typename T> DEVICE void scale_of(const T* x, const double* squares, T* y, i64 count, double eps) {
    double norm = sqrt(*squares);
    float factor = (float)(1 / (norm > eps ? norm : eps));
    for (i64 i = block_index() * thread_count() + thread_index(); i < count; i += block_count() * thread_count()) {
        y[i] = narrow<T>(widen(x[i]) * factor);
    }
}

template <typename T>
DEVICE void step_of(const T* p, int type, const void* update, const float* lr, const float* left_out, T* new_p, i64 count, double decay,
                    double adjustment) {
    bool skip = *left_out != 0;
    float kept = (float)(1 - (double)*lr * decay);
    float size = (float)((double)*lr * adjustment);
    for (i64 i = block_index() * thread_count() + thread_index(); i < count; i += block_count() * thread_count()) {
        float x = widen(p[i]);
        new_p[i] = narrow<T>(skip ? x : x * kept - size * (float)read_number(type, update, i));
    }
}

#define M(S, T)                                                                                                                       \
    KERNEL(muon_momentum_##S, 256,                                                                                                    \
           (const T* gradient, const float* old, const float* factor, const float* left_out, int type, void* update, float* m,        \
            i64 count, double momentum, int nesterov)) {                                                                              \
        momentum_of<T>(gradient, old, factor, left_out, type, update, m, count, momentum, nesterov);                                  \
    }                                                                                                                                 \
    KERNEL(muon_scale_##S, 256, (const T* x, const double* squares, T* y, i64 count, double eps)) {                                   \
        scale_of<T>(x, squares, y, count, eps);                                                                                       \
    }                                                                                                                                 \
    KERNEL(muon_##S, 256,                                                                                                             \
           (const T* p, int type, const void* update, const float* lr, const float* left_out, T* new_p, i64 count, double decay,      \
            double adjustment)) {                                                                                                     \
        step_of<T>(p, type, update, lr, left_out, new_p, count, decay, adjustment);                                                   \
    }
FLOAT_TYPES(M)
