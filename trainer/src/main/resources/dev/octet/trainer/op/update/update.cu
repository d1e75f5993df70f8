// What an optimizer step does, for many tensors in one launch; the twins of SquareSumReference, GradientCheckReference, AdamStepReference
// and SgdStepReference.
//
// Tensors are rows of a table of 64-bit words, whose meaning stands with each kernel. They are cut into chunks of CHUNK elements; each block
// takes one, of the tensor and from the element that `chunks` says.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

#define CHUNK 16384

struct Chunk {
    i64 row, from;
};

DEVICE Chunk chunk(const i64* chunks) { return Chunk{chunks[2 * block_index()], chunks[2 * block_index() + 1]}; }

// --- norms ---------------------------------------------------------------------------------------------------------------------

// Rows: address, elements, first chunk, chunks, address of the sum. parts: a sum for each chunk.
template <typename T> DEVICE void square_sum_parts(const i64* table, const i64* chunks, double* parts) {
    SHARED double scratch[33];
    Chunk c = chunk(chunks);
    const i64* row = table + 5 * c.row;
    const T* g = (const T*)row[0];
    i64 end = c.from + CHUNK < row[1] ? c.from + CHUNK : row[1];
    double sum = 0;
    for (i64 at = c.from + thread_index() * 8; at < end; at += thread_count() * 8) {
        float v[8];
        load_some<8>(g + at, v, end - at < 8 ? (int)(end - at) : 8);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sum += (double)v[i] * v[i];
        }
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
    }
}

// A warp for each row.
#if HAS_REST
KERNEL(square_sum_join, 256, (const i64* table, i64 rows, const double* parts)) {
    i64 r = block_index() * (thread_count() / WARP) + warp();
    if (r < rows) {
        const i64* row = table + 5 * r;
        double sum = 0;
        for (i64 i = lane(); i < row[3]; i += WARP) {
            sum += parts[row[2] + i];
        }
        sum = warp_fold(sum, Sum());
        if (lane() == 0) {
            *(double*)row[4] = sum;
        }
    }
}
#endif

// One block. squares: addresses of the sums.
#if HAS_REST
KERNEL(gradient_check, 256,
       (const i64* squares, int count, const float* unscale, const float* step, const float* bad_loss, double max_norm, float* norm, float* factor,
        float* non_finite, float* next_step)) {
    SHARED double scratch[33];
    double sum = 0;
    for (int i = thread_index(); i < count; i += thread_count()) {
        sum += *(const double*)squares[i];
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        double scale = *unscale;
        double all = *bad_loss != 0 ? (double)bits_float(0x7fc00000u) : sqrt(sum) * scale;
        bool finite = all - all == 0;
        double clip = max_norm / (all + 1e-6);
        *norm = (float)all;
        *factor = finite ? (float)(scale * (clip < 1 ? clip : 1)) : 0.0f;
        *non_finite = finite ? 0.0f : 1.0f;
        *next_step = finite ? *step + 1 : *step;
    }
}
#endif

// One thread. seen: 1 when a loss of this step before it was not finite.
#if HAS_REST
KERNEL(loss_check, 32, (int type, const void* loss, const float* seen, float* now_seen)) {
    if (thread_index() == 0) {
        double x = read_number(type, loss, 0);
        *now_seen = x - x == 0 ? *seen : 1.0f;
    }
}
#endif

// --- Adam ----------------------------------------------------------------------------------------------------------------------

struct AdamNumbers {
    float factor, decay, kept, weight1, beta2, weight2, root, eps, size;
};

// Rows: p, gradient, m, v, new p, new m, new v, elements, weight decay as the bits of an F64, address of the rms of StableAdamW, of the
// multiplier of a scaled step, or 0. how: bit 0 decoupled decay, bit 1 a multiplier, bit 2 no bias correction. Learning rate, step, factor and whether
// the step is left out lie in memory, and a beta1 that moves does, so that a graph of this launch is the same at every step.
template <typename T>
DEVICE void adam(const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out,
                 double given1, double beta2, double eps, int how, const float* moved) {
    SHARED AdamNumbers numbers;
    Chunk c = chunk(chunks);
    const i64* row = table + 10 * c.row;
    if (thread_index() == 0) {
        double decay = *(const double*)(row + 8);
        double t = *step;
        double beta1 = moved ? (double)*moved : given1;
        const float* measured = (const float*)row[9];
        bool decoupled = how & 1;
        double rate = how & 2 ? *lr * (double)*measured : measured && *measured > 1 ? *lr / (double)*measured : *lr;
        numbers.factor = *factor;
        numbers.decay = decoupled ? 0.0f : (float)decay;
        numbers.kept = decoupled ? (float)(1 - rate * decay) : 1.0f;
        numbers.weight1 = (float)(1 - beta1);
        numbers.beta2 = (float)beta2;
        numbers.weight2 = (float)(1 - beta2);
        numbers.root = how & 4 ? 1.0f : (float)sqrt(1 - pow(beta2, t));
        numbers.eps = (float)eps;
        numbers.size = how & 4 ? (float)-rate : (float)(-rate / (1 - pow(beta1, t)));
    }
    block_barrier();
    bool skip = *left_out != 0;
    if (skip && row[0] == row[4]) {
        return;
    }
    AdamNumbers n = numbers;
    i64 end = c.from + CHUNK < row[7] ? c.from + CHUNK : row[7];
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int m = end - at < 4 ? (int)(end - at) : 4;
        float p[4], g[4], first[4], second[4];
        load_some<4>((const T*)row[0] + at, p, m);
        load_some<4>((const T*)row[1] + at, g, m);
        load_some<4>((const float*)row[2] + at, first, m);
        load_some<4>((const float*)row[3] + at, second, m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!skip) {
                float dx = g[i] * n.factor + n.decay * p[i];
                first[i] = first[i] + n.weight1 * (dx - first[i]);
                second[i] = second[i] * n.beta2 + n.weight2 * dx * dx;
                float divisor = sqrtf(second[i]) / n.root + n.eps;
                p[i] = p[i] * n.kept + n.size * first[i] / divisor;
            }
        }
        store_some<4>((T*)row[4] + at, p, m);
        store_some<4>((float*)row[5] + at, first, m);
        store_some<4>((float*)row[6] + at, second, m);
    }
}

// --- the size of updates ------------------------------------------------------------------------------------------------------------

// Rows: gradient, v, elements, first chunk, chunks, address of the rms. parts: for each chunk the sum of g^2 / max(u, eps^2).
template <typename T>
DEVICE void update_rms_parts(const i64* table, const i64* chunks, const float* step, const float* factor, double beta2, double eps,
                             double* parts) {
    SHARED double scratch[33];
    Chunk c = chunk(chunks);
    const i64* row = table + 6 * c.row;
    float f = *factor;
    float correction = (float)(1 - pow(beta2, (double)*step));
    float keep = (float)beta2;
    float weight = (float)(1 - beta2);
    float least = (float)(eps * eps);
    i64 end = c.from + CHUNK < row[2] ? c.from + CHUNK : row[2];
    double sum = 0;
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int m = end - at < 4 ? (int)(end - at) : 4;
        float g[4], v[4];
        load_some<4>((const T*)row[0] + at, g, m);
        load_some<4>((const float*)row[1] + at, v, m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = g[i] * f;
            float u = (keep * v[i] + weight * x * x) / correction;
            float expected = u > least ? u : least;
            sum += i < m && expected > 0 ? x * x / expected : 0.0f;
        }
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
    }
}

// A warp for each row.
KERNEL(update_rms_join, 256, (const i64* table, i64 rows, const double* parts)) {
    i64 r = block_index() * (thread_count() / WARP) + warp();
    if (r < rows) {
        const i64* row = table + 6 * r;
        double sum = 0;
        for (i64 i = lane(); i < row[4]; i += WARP) {
            sum += parts[row[3] + i];
        }
        sum = warp_fold(sum, Sum());
        if (lane() == 0) {
            *(float*)row[5] = row[2] ? (float)sqrt(sum / (double)row[2]) : 0.0f;
        }
    }
}

// --- trust ratios -------------------------------------------------------------------------------------------------------------------

// Rows: p, gradient, m, v, elements, first chunk, chunks, weight decay as the bits of an F64, address of the ratio. parts: for each chunk the sums of the
// squares of p and of the update. how: bit 0 bias correction, bit 1 DeepSpeed's order.
template <typename T>
DEVICE void trust_parts(const i64* table, const i64* chunks, const float* step, const float* factor, double beta1, double beta2, double eps,
                        int how, double* parts) {
    SHARED double scratch[33];
    Chunk c = chunk(chunks);
    const i64* row = table + 9 * c.row;
    float decay = (float)*(const double*)(row + 7);
    float f = *factor;
    bool corrects = how == 1;
    float correction1 = corrects ? (float)(1 - pow(beta1, (double)*step)) : 1.0f;
    float root = corrects ? (float)sqrt(1 - pow(beta2, (double)*step)) : 1.0f;
    i64 end = c.from + CHUNK < row[4] ? c.from + CHUNK : row[4];
    double of_p = 0;
    double of_u = 0;
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int n = end - at < 4 ? (int)(end - at) : 4;
        float p[4], g[4], m[4], v[4];
        load_some<4>((const T*)row[0] + at, p, n);
        load_some<4>((const T*)row[1] + at, g, n);
        load_some<4>((const float*)row[2] + at, m, n);
        load_some<4>((const float*)row[3] + at, v, n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = g[i] * f;
            float first = m[i] + (float)(1 - beta1) * (x - m[i]);
            float second = v[i] * (float)beta2 + (float)(1 - beta2) * x * x;
            float u = first / correction1 / (sqrtf(second) / root + (float)eps) + decay * p[i];
            of_p += i < n ? (double)p[i] * p[i] : 0.0;
            of_u += i < n ? (double)u * u : 0.0;
        }
    }
    of_p = block_fold(of_p, Sum(), 0.0, scratch);
    block_barrier();
    of_u = block_fold(of_u, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        parts[2 * block_index()] = of_p;
        parts[2 * block_index() + 1] = of_u;
    }
}

// A warp for each row.
#if HAS_REST
KERNEL(trust_join, 256,
       (const i64* table, i64 rows, const double* parts, const float* step, double beta1, double beta2, double least, double most, int always,
        int how)) {
    i64 r = block_index() * (thread_count() / WARP) + warp();
    if (r < rows) {
        const i64* row = table + 9 * r;
        double of_p = 0;
        double of_u = 0;
        for (i64 i = lane(); i < row[6]; i += WARP) {
            of_p += parts[2 * (row[5] + i)];
            of_u += parts[2 * (row[5] + i) + 1];
        }
        of_p = warp_fold(of_p, Sum());
        of_u = warp_fold(of_u, Sum());
        if (lane() == 0) {
            double ratio = 1;
            if ((always || *(const double*)(row + 7) != 0) && of_p > 0 && of_u > 0) {
                ratio = sqrt(of_p) / sqrt(of_u);
                ratio = ratio > most ? most : ratio < least ? least : ratio;
            }
            double t = *step;
            *(float*)row[8] = (float)(how == 3 ? ratio * (sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t))) : ratio);
        }
    }
}
#endif

// --- Lion ---------------------------------------------------------------------------------------------------------------------------

// Rows: p, gradient, m, new p, new m, elements, weight decay as the bits of an F64.
template <typename T>
DEVICE void lion(const i64* table, const i64* chunks, const float* lr, const float* factor, const float* left_out, double beta1,
                 double beta2) {
    Chunk c = chunk(chunks);
    const i64* row = table + 7 * c.row;
    bool skip = *left_out != 0;
    if (skip && row[0] == row[3]) {
        return;
    }
    float rate = *lr;
    float kept = (float)(1 - (double)*lr * *(const double*)(row + 6));
    float f = *factor;
    i64 end = c.from + CHUNK < row[5] ? c.from + CHUNK : row[5];
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int n = end - at < 4 ? (int)(end - at) : 4;
        float p[4], g[4], m[4];
        load_some<4>((const T*)row[0] + at, p, n);
        load_some<4>((const T*)row[1] + at, g, n);
        load_some<4>((const float*)row[2] + at, m, n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!skip) {
                float x = g[i] * f;
                float direction = m[i] * (float)beta1 + x * (float)(1 - beta1);
                p[i] = p[i] * kept - (direction > 0 ? rate : direction < 0 ? -rate : 0.0f);
                m[i] = m[i] * (float)beta2 + x * (float)(1 - beta2);
            }
        }
        store_some<4>((T*)row[3] + at, p, n);
        store_some<4>((float*)row[4] + at, m, n);
    }
}

// --- averages of weights --------------------------------------------------------------------------------------------------------------

// Rows: average, p, new average, elements.
template <typename T>
DEVICE void weight_average(const i64* table, const i64* chunks, const float* step, const float* left_out, double decay, double start,
                           double every) {
    Chunk c = chunk(chunks);
    const i64* row = table + 4 * c.row;
    double after = (double)*step - start;
    double n = after / every;
    bool enters = *left_out == 0 && after > 0 && n == floor(n);
    if (!enters && row[0] == row[2]) {
        return;
    }
    float weight = !enters ? 0.0f : n == 1 ? 1.0f : (float)(decay > 0 ? 1 - decay : 1 / n);
    i64 end = c.from + CHUNK < row[3] ? c.from + CHUNK : row[3];
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int m = end - at < 4 ? (int)(end - at) : 4;
        float average[4], p[4];
        load_some<4>((const float*)row[0] + at, average, m);
        load_some<4>((const T*)row[1] + at, p, m);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            average[i] = weight == 1 ? p[i] : average[i] + weight * (p[i] - average[i]);
        }
        store_some<4>((float*)row[2] + at, average, m);
    }
}

// --- SGD -----------------------------------------------------------------------------------------------------------------------

// Rows: p, gradient, buffer or 0, new p, new buffer, elements, weight decay as the bits of an F64.
template <typename T>
DEVICE void sgd(const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out,
                float momentum, float dampening, int nesterov) {
    Chunk c = chunk(chunks);
    const i64* row = table + 7 * c.row;
    bool skip = *left_out != 0;
    if (skip && row[0] == row[3]) {
        return;
    }
    float decay = (float)*(const double*)(row + 6);
    float f = *factor;
    float rate = *lr;
    bool begins = *step == 1;
    const float* buffer = (const float*)row[2];
    i64 end = c.from + CHUNK < row[5] ? c.from + CHUNK : row[5];
    for (i64 at = c.from + thread_index() * 4; at < end; at += thread_count() * 4) {
        int m = end - at < 4 ? (int)(end - at) : 4;
        float p[4], g[4], b[4];
        load_some<4>((const T*)row[0] + at, p, m);
        load_some<4>((const T*)row[1] + at, g, m);
        if (buffer) {
            load_some<4>(buffer + at, b, m);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!skip) {
                float d = g[i] * f + decay * p[i];
                if (buffer) {
                    b[i] = begins ? d : momentum * b[i] + (1 - dampening) * d;
                    d = nesterov ? d + momentum * b[i] : b[i];
                }
                p[i] = p[i] - rate * d;
            }
        }
        store_some<4>((T*)row[3] + at, p, m);
        if (buffer) {
            store_some<4>((float*)row[4] + at, b, m);
        }
    }
}

#define M(S, T)                                                                                                                     \
    KERNEL(square_sum_parts_##S, 256, (const i64* table, const i64* chunks, double* parts)) {                                           \
        square_sum_parts<T>(table, chunks, parts);                                                                                    \
    }                                                                                                                                 \
    KERNEL(adam_##S, 256,                                                                                                             \
           (const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out,        \
            double beta1, double beta2, double eps, int how, const float* moved)) {                                                     \
        adam<T>(table, chunks, lr, step, factor, left_out, beta1, beta2, eps, how, moved);                                            \
    }                                                                                                                                 \
    KERNEL(update_rms_parts_##S, 256,                                                                                                 \
           (const i64* table, const i64* chunks, const float* step, const float* factor, double beta2, double eps, double* parts)) {     \
        update_rms_parts<T>(table, chunks, step, factor, beta2, eps, parts);                                                          \
    }                                                                                                                                 \
    KERNEL(trust_parts_##S, 256,                                                                                                      \
           (const i64* table, const i64* chunks, const float* step, const float* factor, double beta1, double beta2, double eps,      \
            int how, double* parts)) {                                                                                                \
        trust_parts<T>(table, chunks, step, factor, beta1, beta2, eps, how, parts);                                                   \
    }                                                                                                                                 \
    KERNEL(lion_##S, 256,                                                                                                             \
           (const i64* table, const i64* chunks, const float* lr, const float* factor, const float* left_out, double beta1,           \
            double beta2)) {                                                                                                          \
        lion<T>(table, chunks, lr, factor, left_out, beta1, beta2);                                                                   \
    }                                                                                                                                 \
    KERNEL(weight_average_##S, 256,                                                                                                   \
           (const i64* table, const i64* chunks, const float* step, const float* left_out, double decay, double start, double every)) { \
        weight_average<T>(table, chunks, step, left_out, decay, start, every);                                                        \
    }                                                                                                                                 \
    KERNEL(sgd_##S, 256,                                                                                                              \
           (const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out,        \
            float momentum, float dampening, int nesterov)) {                                                                           \
        sgd<T>(table, chunks, lr, step, factor, left_out, momentum, dampening, nesterov);                                             \
    }
FLOAT_TYPES(M)
