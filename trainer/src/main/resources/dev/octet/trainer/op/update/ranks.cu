// Gradients of ranks averaged, one tensor in a launch; the twins of RankAverageReference. gradients: an address for each rank.
#include "octet.cuh"

KERNEL(rank_average, 256, (const i64* gradients, int ranks, float factor, i64 n, int type, void* y)) {
    for (i64 i = block_index() * thread_count() + thread_index(); i < n; i += block_count() * thread_count()) {
        float sum = 0;
        for (int r = 0; r < ranks; r++) {
            float g = exact_multiply(((const float*)gradients[r])[i], factor);
            sum = r == 0 ? g : exact_add(sum, g);
        }
        write_number(type, y, i, sum);
    }
}

// A block for each rank. An amax of NaN or infinity becomes infinity.
KERNEL(rank_amax, 256, (const i64* gradients, i64 n, float* amax)) {
    SHARED float scratch[33];
    const float* g = (const float*)gradients[block_index()];
    float largest = 0;
    for (i64 i = thread_index(); i < n; i += thread_count()) {
        float a = fabsf(g[i]);
        a = is_nan(a) ? bits_float(0x7f800000u) : a;
        largest = a > largest ? a : largest;
    }
    largest = block_fold(largest, Max(), 0.0f, scratch);
    if (thread_index() == 0) {
        amax[block_index()] = largest;
    }
}

// One thread. numbers: amaxes of the ranks, which become their own scales with the pre-scale; then the shared one with it, the multiplier of
// the sum, the largest amax, and the count of saturated codes as an integer.
KERNEL(rank_agree, 32, (int ranks, int shares_scales, int quirks, const float* before, const float* pre_scale, float* numbers, float* kept)) {
    if (thread_index() == 0) {
        float inf = bits_float(0x7f800000u);
        float shared = shares_scales ? inf : 0.0f;
        float largest = 0;
        for (int r = 0; r < ranks; r++) {
            float amax = numbers[r];
            largest = amax > largest ? amax : largest;
            float said = amax;
            if (shares_scales) {
                bool speaks = quirks || (amax > 0 && amax < inf);
                said = speaks ? msamp_scale(amax, *before, 448.0f, quirks) : inf;
                numbers[r] = said;
            }
            shared = shares_scales ? (said < shared ? said : shared) : (said > shared ? said : shared);
        }
        float agreed = !shares_scales                 ? msamp_scale(shared, *before, 448.0f, quirks)
                       : shared == inf && !quirks ? *before
                                                  : shared;
        float scale = exact_multiply(agreed, *pre_scale);
        for (int r = 0; r < ranks; r++) {
            float own = !shares_scales || (numbers[r] == inf && !quirks) ? agreed : numbers[r];
            numbers[r] = exact_multiply(own, *pre_scale);
        }
        float inverse = exact_divide(1.0f, scale);
        numbers[ranks] = scale;
        numbers[ranks + 1] = shares_scales ? exact_multiply(inverse, (float)(1.0 / ranks)) : exact_divide(inverse, (float)ranks);
        numbers[ranks + 2] = largest;
        ((int*)numbers)[ranks + 3] = 0;
        *kept = quirks && !shares_scales ? scale : agreed;
    }
}

// type: of y. Half has more than twice the digits of E4M3, so that rounding to it before does not show.
KERNEL(rank_sum, 256, (const i64* gradients, int ranks, int quirks, i64 n, float* numbers, int type, void* y)) {
    SHARED int scratch[33];
    float scale = numbers[ranks];
    int saturated = 0;
    for (i64 i = block_index() * thread_count() + thread_index(); i < n; i += block_count() * thread_count()) {
        e4m3 sum = e4m3{0};
        for (int r = 0; r < ranks; r++) {
            float g = ((const float*)gradients[r])[i];
            g = quirks || is_finite(g) ? g : bits_float(0x7fc00000u);
            float own = numbers[r];
            e4m3 code = narrow<e4m3>(exact_multiply(g, own));
            if (own != scale) {
                code = narrow<e4m3>(exact_multiply(exact_multiply(widen(code), exact_divide(1.0f, own)), scale));
            }
            sum = r == 0 ? code : narrow<e4m3>(exact_add(widen(sum), widen(code)));
        }
        saturated += (sum.bits & 0x7f) == 0x7e ? 1 : 0;
        write_number(type, y, i, exact_multiply(widen(sum), numbers[ranks + 1]));
    }
    saturated = block_fold(saturated, Sum(), 0, scratch);
    if (thread_index() == 0) {
        atomic_add((int*)numbers + ranks + 3, saturated);
    }
}

// One thread. ratio below 0: the pre-scale stays.
KERNEL(rank_end, 32, (int ranks, i64 n, double ratio, float growth, const float* numbers, const float* pre_scale, float* next, float* saturated)) {
    if (thread_index() == 0) {
        int count = ((const int*)numbers)[ranks + 3];
        float amax = numbers[ranks + 2];
        float mu = *pre_scale;
        bool moves = ratio >= 0 && amax > 0 && is_finite(amax);
        *next = !moves ? mu : (double)count / (double)n > ratio ? exact_divide(mu, 2.0f) : exact_multiply(mu, growth);
        *saturated = (float)count;
    }
}
