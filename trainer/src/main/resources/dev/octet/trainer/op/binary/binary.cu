// y = f(a, b) element by element with broadcasting, and its gradients; the twin of BinaryReference.
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

// The exponent of Pow where that is a constant, otherwise b.
DEVICE float constant_or(float constant, float b) { return is_nan(constant) ? b : constant; }

// value(function, a, b), gradient_a(function, g, a, b, constant), gradient_b(function, g, a, b): the rows of BinaryFunction by their number.
// constant: b where it is a constant, otherwise NaN.
#include "functions.cuh"

DEVICE float gradient(int function, int of, float g, float a, float b, float exponent) {
    return of == 0 ? gradient_a(function, g, a, b, exponent) : gradient_b(function, g, a, b);
}

// --- operands of one type and shape --------------------------------------------------------------------------------------------

template <typename T> DEVICE void forward(int function, const T* a, const T* b, T* y, i64 n) {
    for_packs<8>(n, [&](i64 at, int m) {
        float u[8], v[8];
        load_some<8>(a + at, u, m);
        load_some<8>(b + at, v, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u[i] = value(function, u[i], v[i]);
        }
        store_some<8>(y + at, u, m);
    });
}

// Absent operands are not read, absent gradients not wanted.
template <typename T>
DEVICE void backward(int function, const T* g, const T* a, const T* b, T* da, T* db, i64 n, float exponent) {
    for_packs<8>(n, [&](i64 at, int m) {
        float up[8], u[8], v[8], d[8];
        load_some<8>(g + at, up, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u[i] = v[i] = 0;
        }
        if (a) {
            load_some<8>(a + at, u, m);
        }
        if (b) {
            load_some<8>(b + at, v, m);
        }
        if (da) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d[i] = gradient_a(function, up[i], u[i], v[i], exponent);
            }
            store_some<8>(da + at, d, m);
        }
        if (db) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d[i] = gradient_b(function, up[i], u[i], v[i]);
            }
            store_some<8>(db + at, d, m);
        }
    });
}

#define M(S, T)                                                                                                                     \
    KERNEL(binary_forward_##S, 256, (int function, const T* a, const T* b, T* y, i64 n)) { forward(function, a, b, y, n); }            \
    KERNEL(binary_backward_##S, 256, (int function, const T* g, const T* a, const T* b, T* da, T* db, i64 n, float exponent)) {        \
        backward(function, g, a, b, da, db, n, exponent);                                                                             \
    }
FLOAT_TYPES(M)

// --- broadcasting --------------------------------------------------------------------------------------------------------------

// One type, broadcast: walks along the innermost axis within a pack.
template <typename T>
DEVICE void spread(int function, const T* a, const T* b, T* y, i64 n, int rank, const i64* lengths, const i64* of_a, const i64* of_b) {
    i64 length = lengths[rank - 1];
    i64 step_a = of_a[rank - 1];
    i64 step_b = of_b[rank - 1];
    for_packs<8>(n, [&](i64 at, int m) {
        i64 row = at / length;
        i64 column = at - row * length;
        i64 start_a = place(row, rank - 1, lengths, of_a);
        i64 start_b = place(row, rank - 1, lengths, of_b);
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = 0;
            if (i < m) {
                if (column == length) {
                    column = 0;
                    row++;
                    start_a = place(row, rank - 1, lengths, of_a);
                    start_b = place(row, rank - 1, lengths, of_b);
                }
                v[i] = value(function, widen(a[start_a + column * step_a]), widen(b[start_b + column * step_b]));
                column++;
            }
        }
        store_some<8>(y + at, v, m);
    });
}

// axes: lengths, steps of a, steps of b.
#define N(S, T)                                                                                                                     \
    KERNEL(binary_spread_##S, 256, (int function, const T* a, const T* b, T* y, i64 n, int rank, const i64* axes)) {                   \
        spread(function, a, b, y, n, rank, axes, axes + rank, axes + 2 * rank);                                                       \
    }
FLOAT_TYPES(N)

#if HAS_REST
KERNEL(binary_forward_any, 256,
       (int function, int type_a, const void* a, int type_b, const void* b, int type_y, void* y, i64 n, int rank, const i64* axes)) {
    for_packs<1>(n, [&](i64 at, int) {
        double u = read_number(type_a, a, place(at, rank, axes, axes + rank));
        double v = read_number(type_b, b, place(at, rank, axes, axes + 2 * rank));
        write_number(type_y, y, at, value(function, u, v));
    });
}
#endif

// The gradient of an operand that is not repeated.
#if HAS_REST
KERNEL(binary_backward_any, 256,
       (int function, int of, int type_g, const void* g, int type_a, const void* a, int type_b, const void* b, int type_d, void* d, i64 n,
        int rank, const i64* axes, float exponent)) {
    for_packs<1>(n, [&](i64 at, int) {
        float up = (float)read_number(type_g, g, at);
        float u = a ? (float)read_number(type_a, a, place(at, rank, axes, axes + rank)) : 0;
        float v = b ? (float)read_number(type_b, b, place(at, rank, axes, axes + 2 * rank)) : 0;
        write_number(type_d, d, at, gradient(function, of, up, u, v, exponent));
    });
}
#endif

// The gradient of an operand that is repeated, summed over its repetitions in two stages: parts[split][element] here, each the sum of every
// splits-th repetition, in order. kept: the axes along which it is whole, and repeated: those along which it is not; each as
// lengths, steps of the result, of a and of b.
#if HAS_REST
KERNEL(binary_fold, 256,
       (int function, int of, int type_g, const void* g, int type_a, const void* a, int type_b, const void* b, float* parts, i64 elements,
        i64 repetitions, i64 splits, int kept_rank, const i64* kept, int repeated_rank, const i64* repeated, float exponent)) {
    for_packs<1>(elements * splits, [&](i64 at, int) {
        i64 split = at / elements;
        i64 element = at - split * elements;
        i64 start_y = place(element, kept_rank, kept, kept + kept_rank);
        i64 start_a = place(element, kept_rank, kept, kept + 2 * kept_rank);
        i64 start_b = place(element, kept_rank, kept, kept + 3 * kept_rank);
        float sum = 0;
        for (i64 r = split; r < repetitions; r += splits) {
            i64 y = start_y + place(r, repeated_rank, repeated, repeated + repeated_rank);
            float up = (float)read_number(type_g, g, y);
            float u = a ? (float)read_number(type_a, a, start_a + place(r, repeated_rank, repeated, repeated + 2 * repeated_rank)) : 0;
            float v = b ? (float)read_number(type_b, b, start_b + place(r, repeated_rank, repeated, repeated + 3 * repeated_rank)) : 0;
            sum += gradient(function, of, up, u, v, exponent);
        }
        parts[at] = sum;
    });
}
#endif

// The second stage: one warp an element, its lanes over the splits.
#if HAS_REST
KERNEL(binary_join, 256, (const float* parts, i64 elements, i64 splits, int type_d, void* d)) {
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 element = block_index() * (thread_count() / WARP) + warp(); element < elements; element += warps) {
        float sum = 0;
        for (i64 split = lane(); split < splits; split += WARP) {
            sum += parts[split * elements + element];
        }
        sum = warp_fold(sum, Sum());
        if (lane() == 0) {
            write_number(type_d, d, element, sum);
        }
    }
}
#endif
