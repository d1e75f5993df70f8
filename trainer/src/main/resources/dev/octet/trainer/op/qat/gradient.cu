// Gradients of few bits; the twin of GradientQuantizeReference. TYPE is the type of the elements. A block of threads has a sample.
//
// variants: TYPE=f32
// variants: TYPE=bf16
// variants: TYPE=f16
#include "octet.cuh"

// As Math.max: NaN when one is.
struct LargestOrNan {
    DEVICE float operator()(float a, float b) const { return b > a || is_nan(b) ? b : a; }
};

DEVICE float code_of(float dy, float m, float noise, float n) {
    if (!(m > 0 && is_finite(m))) {
        return dy;
    }
    float z = exact_add(exact_add(exact_multiply(exact_divide(dy, m), 0.5f), 0.5f), exact_divide(noise, n));
    z = z < 0 ? 0.0f : z > 1 ? 1.0f : z;
    float q = exact_divide(rintf(exact_multiply(z, n)), n);
    return exact_multiply(exact_multiply(exact_add(q, -0.5f), m), 2.0f);
}

KERNEL(gradient_codes, 256, (const TYPE* dy, TYPE* dx, i64 size, const i64* draw, i64 seed, float largest)) {
    SHARED float scratch[33];
    u64 key = random_key(random_key((u64)seed, draw[0]), draw[1]);
    i64 from = block_index() * size;
    float m = 0;
    for (i64 i = thread_index(); i < size; i += thread_count()) {
        m = LargestOrNan()(m, fabsf(widen(dy[from + i])));
    }
    m = block_fold(m, LargestOrNan(), 0.0f, scratch);
    for (i64 i = thread_index(); i < size; i += thread_count()) {
        float noise = exact_add(exact_multiply((float)random_bits(key, from + i, 24), 0x1p-24f), -0.5f);
        dx[from + i] = narrow<TYPE>(code_of(widen(dy[from + i]), m, noise, largest));
    }
}
