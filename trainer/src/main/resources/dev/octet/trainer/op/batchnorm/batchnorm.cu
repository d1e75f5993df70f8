// y = (x - mean) / sqrt(variance + epsilon) scale + bias by channel, the statistics given; the twin of BatchNormalizationReference. x is
// [samples, channels, inner]; vectors by channel come with their types' numbers.
#include "octet.cuh"

DEVICE float deviation(int type, const void* variance, i64 c, float epsilon) {
    return 1.0f / sqrtf((float)read_number(type, variance, c) + epsilon);
}

// Calls body(i, c) for each of eight neighbours, c its channel; next(c) before the first of each channel.
template <typename Next, typename Body> DEVICE void by_channel(i64 at, int m, i64 channels, i64 inner, Next next, Body body) {
    i64 plane = quotient(at, inner);
    i64 within = at - plane * inner;
    i64 c = plane - quotient(plane, channels) * channels;
    next(c);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i < m) {
            if (within == inner) {
                within = 0;
                c = c + 1 == channels ? 0 : c + 1;
                next(c);
            }
            body(i, c);
            within++;
        }
    }
}

template <typename T>
DEVICE void forward(
    const T* x, int type_s, const void* scale, int type_b, const void* bias, int type_m, const void* mean, int type_v, const void* variance,
    T* y, i64 n, i64 channels, i64 inner, float epsilon) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
        float factor, centre, shift;
        by_channel(
            at, m, channels, inner,
            [&](i64 c) {
                factor = (float)read_number(type_s, scale, c) * deviation(type_v, variance, c, epsilon);
                centre = (float)read_number(type_m, mean, c);
                shift = (float)read_number(type_b, bias, c);
            },
            [&](int i, i64) { v[i] = (v[i] - centre) * factor + shift; });
        store_some<8>(y + at, v, m);
    });
}

template <typename T>
DEVICE void backward(
    const T* dy, int type_s, const void* scale, int type_v, const void* variance, T* dx, i64 n, i64 channels, i64 inner, float epsilon) {
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(dy + at, v, m);
        float factor;
        by_channel(
            at, m, channels, inner,
            [&](i64 c) { factor = (float)read_number(type_s, scale, c) * deviation(type_v, variance, c, epsilon); },
            [&](int i, i64) { v[i] *= factor; });
        store_some<8>(dx + at, v, m);
    });
}

// A block for each channel and split: the sums of dy (x - mean) and of dy over a chunk of the channel's elements, parts[2][split][channel].
template <typename T>
DEVICE void sums(
    const T* dy, const T* x, int type_m, const void* mean, float* parts, i64 samples, i64 channels, i64 inner, i64 splits, i64 chunk) {
    SHARED float scratch[33];
    i64 split = quotient(block_index(), channels);
    i64 c = block_index() - split * channels;
    float centre = (float)read_number(type_m, mean, c);
    i64 end = (split + 1) * chunk < samples * inner ? (split + 1) * chunk : samples * inner;
    float by_x = 0, alone = 0;
    for (i64 e = split * chunk + thread_index(); e < end; e += thread_count()) {
        i64 sample = quotient(e, inner);
        i64 at = (sample * channels + c) * inner + e - sample * inner;
        float g = widen(dy[at]);
        by_x = fmaf(g, widen(x[at]) - centre, by_x);
        alone += g;
    }
    by_x = block_fold(by_x, Sum(), 0.0f, scratch);
    alone = block_fold(alone, Sum(), 0.0f, scratch);
    if (thread_index() == 0) {
        parts[split * channels + c] = by_x;
        parts[(splits + split) * channels + c] = alone;
    }
}

#define M(S, T)                                                                                                                       \
    KERNEL(batchnorm_forward_##S, 256,                                                                                                \
           (const T* x, int type_s, const void* scale, int type_b, const void* bias, int type_m, const void* mean, int type_v,        \
            const void* variance, T* y, i64 n, i64 channels, i64 inner, float epsilon)) {                                             \
        forward(x, type_s, scale, type_b, bias, type_m, mean, type_v, variance, y, n, channels, inner, epsilon);                      \
    }                                                                                                                                 \
    KERNEL(batchnorm_backward_##S, 256,                                                                                               \
           (const T* dy, int type_s, const void* scale, int type_v, const void* variance, T* dx, i64 n, i64 channels, i64 inner,      \
            float epsilon)) {                                                                                                         \
        backward(dy, type_s, scale, type_v, variance, dx, n, channels, inner, epsilon);                                               \
    }                                                                                                                                 \
    KERNEL(batchnorm_sums_##S, 256,                                                                                                   \
           (const T* dy, const T* x, int type_m, const void* mean, float* parts, i64 samples, i64 channels, i64 inner, i64 splits,    \
            i64 chunk)) {                                                                                                             \
        sums(dy, x, type_m, mean, parts, samples, channels, inner, splits, chunk);                                                    \
    }
FLOAT_TYPES(M)
M(f64, f64)

// dscale and dbias from the parts, added in the order of the splits; either may be absent.
KERNEL(batchnorm_join, 256,
       (const float* parts, int type_v, const void* variance, int type_ds, void* dscale, int type_db, void* dbias, i64 channels, i64 splits,
        float epsilon)) {
    for_packs<1>(channels, [&](i64 c, int) {
        float by_x = 0, alone = 0;
        for (i64 split = 0; split < splits; split++) {
            by_x += parts[split * channels + c];
            alone += parts[(splits + split) * channels + c];
        }
        if (dscale) {
            write_number(type_ds, dscale, c, by_x * deviation(type_v, variance, c, epsilon));
        }
        if (dbias) {
            write_number(type_db, dbias, c, alone);
        }
    });
}
