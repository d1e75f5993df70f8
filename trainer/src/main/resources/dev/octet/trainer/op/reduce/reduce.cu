// One number for all elements along some axes, and the gradients; the twin of ReduceReference. Sums are made in two stages, in an order
// that depends on shapes alone: parts[split][element], then over the splits.
//
// A result's elements lie along the kept axes of x, what becomes one of them along its folded axes. Both are given as lengths and then
// steps in x, outermost first.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

// As ReduceCuda's enums of the same names.
enum Term { ITSELF, MAGNITUDE, SQUARE, EXPONENTIAL, EQUAL };
enum Join { SUM, LARGEST, SMALLEST };
enum Finish { NOTHING, ROOT, LOGARITHM, LOGARITHM_MORE, MEAN };
// As ReduceCuda.KINDS.
enum Kind { L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, AVERAGE, MIN, TOTAL, SUM_SQUARE };

template <typename R> DEVICE R term_of(int term, R x, R other) {
    switch (term) {
    case MAGNITUDE: return fabs(x);
    case SQUARE: return x * x;
    case EXPONENTIAL: return exp(x - other);
    case EQUAL: return x == other ? (R)1 : (R)0;
    default: return x;
    }
}

// NaN where one is.
struct Joined {
    int join;
    template <typename R> DEVICE R operator()(R a, R b) const {
        switch (join) {
        case LARGEST: return a != a || a > b ? a : b;
        case SMALLEST: return a != a || a < b ? a : b;
        default: return a + b;
        }
    }
};
DEVICE float neutral(int join) { return join == SUM ? 0 : join == LARGEST ? -INFINITE : INFINITE; }

template <typename R> DEVICE R finished(int finish, R x, R other, R terms) {
    switch (finish) {
    case ROOT: return sqrt(x);
    case LOGARITHM: return log(x);
    case LOGARITHM_MORE: return other + log(x);
    case MEAN: return x / terms;
    default: return x;
    }
}

// x as numbers to compute with: F32, or F64 for types that F32 does not hold.
template <typename T> struct Typed {
    typedef float Number;
    const T* x;
    DEVICE float operator()(i64 i) const { return widen(x[i]); }
    DEVICE void load_8(i64 i, float (&to)[8]) const { load<8>(x + i, to); }
};
struct Any {
    typedef double Number;
    int type;
    const void* x;
    DEVICE double operator()(i64 i) const { return read_number(type, x, i); }
    DEVICE void load_8(i64 i, double (&to)[8]) const {
        for (int k = 0; k < 8; k++) {
            to[k] = read_number(type, x, i + k);
        }
    }
};

// How terms are made and joined, and where they go: to y when there is one split, otherwise to parts. other: a number for each element that
// its terms are made with, or null.
template <typename R> struct Way {
    int term, join, finish, type_other;
    const void* other;
    R* parts;
    int type_y;
    void* y;
    i64 elements, repetitions, splits, chunk, terms;

    DEVICE R of(i64 element) const { return other ? (R)read_number(type_other, other, element) : 0; }
    DEVICE void put(i64 at, i64 element, R x) const {
        if (splits == 1) {
            write_number(type_y, y, element, finished(finish, x, of(element), (R)terms));
        } else {
            parts[at] = x;
        }
    }
};

// A warp for each element and split, its lanes along the folded axes; packed where eight neighbours are loaded at once.
template <typename Read, typename R>
DEVICE void fold_by_warps(
    Read x, Way<R> way, bool packed, int kept_rank, const i64* kept, int folded_rank, const i64* folded) {
    Joined join = {way.join};
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 at = block_index() * (thread_count() / WARP) + warp(); at < way.elements * way.splits; at += warps) {
        i64 split = at / way.elements;
        i64 element = at - split * way.elements;
        i64 start = place(element, kept_rank, kept, kept + kept_rank);
        i64 from = split * way.chunk;
        i64 end = from + way.chunk < way.repetitions ? from + way.chunk : way.repetitions;
        R other = way.of(element);
        R sum = neutral(way.join);
        if (packed) {
            for (i64 r = from + 8 * lane(); r < end; r += 8 * WARP) {
                R some[8];
                x.load_8(start + r, some);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    sum = join(sum, term_of(way.term, some[i], other));
                }
            }
        } else {
            for (i64 r = from + lane(); r < end; r += WARP) {
                sum = join(sum, term_of(way.term, x(start + place(r, folded_rank, folded, folded + folded_rank)), other));
            }
        }
        sum = warp_fold(sum, join);
        if (lane() == 0) {
            way.put(at, element, sum);
        }
    }
}

// A thread for each element and split.
template <typename Read, typename R>
DEVICE void fold_by_threads(Read x, Way<R> way, int kept_rank, const i64* kept, int folded_rank, const i64* folded) {
    Joined join = {way.join};
    for_packs<1>(way.elements * way.splits, [&](i64 at, int) {
        i64 split = at / way.elements;
        i64 element = at - split * way.elements;
        i64 start = place(element, kept_rank, kept, kept + kept_rank);
        i64 from = split * way.chunk;
        i64 end = from + way.chunk < way.repetitions ? from + way.chunk : way.repetitions;
        R other = way.of(element);
        R sum = neutral(way.join);
        for (i64 r = from; r < end; r++) {
            sum = join(sum, term_of(way.term, x(start + place(r, folded_rank, folded, folded + folded_rank)), other));
        }
        way.put(at, element, sum);
    });
}

// The second stage: a warp for each element, its lanes over the splits.
template <typename R> DEVICE void fold_splits(Way<R> way) {
    Joined join = {way.join};
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 element = block_index() * (thread_count() / WARP) + warp(); element < way.elements; element += warps) {
        R sum = neutral(way.join);
        for (i64 split = lane(); split < way.splits; split += WARP) {
            sum = join(sum, way.parts[split * way.elements + element]);
        }
        sum = warp_fold(sum, join);
        if (lane() == 0) {
            write_number(way.type_y, way.y, element, finished(way.finish, sum, way.of(element), (R)way.terms));
        }
    }
}

#define WAY_OF(R)                                                                                                                     \
    int term, int join, int finish, int type_other, const void *other, R *parts, int type_y, void *y, i64 elements, i64 repetitions,  \
        i64 splits, i64 chunk, i64 terms
#define WAY(R)                                                                                                                        \
    Way<R> { term, join, finish, type_other, other, parts, type_y, y, elements, repetitions, splits, chunk, terms }

#define FOLD(S, T, R, X)                                                                                                              \
    KERNEL(reduce_warps_##S, 256,                                                                                                     \
           (int type, const T* x, WAY_OF(R), int packed, int kept_rank, const i64* kept, int folded_rank, const i64* folded)) {       \
        fold_by_warps(X, WAY(R), packed != 0, kept_rank, kept, folded_rank, folded);                                                  \
    }                                                                                                                                 \
    KERNEL(reduce_threads_##S, 256,                                                                                                   \
           (int type, const T* x, WAY_OF(R), int packed, int kept_rank, const i64* kept, int folded_rank, const i64* folded)) {       \
        fold_by_threads(X, WAY(R), kept_rank, kept, folded_rank, folded);                                                             \
    }
#define FOLD_TYPED(S, T) FOLD(S, T, float, Typed<T>{x})
FLOAT_TYPES(FOLD_TYPED)
#if HAS_REST
FOLD(any, void, double, (Any{type, x}))

KERNEL(reduce_splits_single, 256, (WAY_OF(float))) { fold_splits(WAY(float)); }
KERNEL(reduce_splits_double, 256, (WAY_OF(double))) { fold_splits(WAY(double)); }
#endif

// --- gradients -------------------------------------------------------------------------------------------------------------------

template <typename R> DEVICE R gradient(int kind, R g, R x, R y, R equal, R terms) {
    switch (kind) {
    case L1: return g * (x > 0 ? (R)1 : x < 0 ? (R)-1 : x);
    case L2: return y == 0 ? 0 : g * x / y;
    case LOG_SUM: return g / exp(y);
    case LOG_SUM_EXP: return g * exp(x - y);
    case MAX:
    case MIN: return x == y ? g / equal : 0;
    case AVERAGE: return g / terms;
    case SUM_SQUARE: return g * 2 * x;
    default: return g;
    }
}

// axes: lengths of x's axes, then the result's steps along them, 0 along folded ones. x, y and equal (how many elements equal y) are
// null where the gradient does not need them.
template <typename T>
DEVICE void backward(
    int kind, const T* g, const T* x, const T* y, const float* equal, T* dx, i64 n, i64 terms, int rank, const i64* lengths,
    const i64* steps) {
    i64 length = lengths[rank - 1];
    i64 step = steps[rank - 1];
    for_packs<8>(n, [&](i64 at, int m) {
        i64 row = at / length;
        i64 column = at - row * length;
        i64 start = place(row, rank - 1, lengths, steps);
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = 0;
        }
        if (x) {
            load_some<8>(x + at, v, m);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < m) {
                if (column == length) {
                    column = 0;
                    row++;
                    start = place(row, rank - 1, lengths, steps);
                }
                i64 result = start + column * step;
                v[i] = gradient<float>(kind, widen(g[result]), v[i], y ? widen(y[result]) : 0, equal ? equal[result] : 0, (float)terms);
                column++;
            }
        }
        store_some<8>(dx + at, v, m);
    });
}
#define M(S, T)                                                                                                                       \
    KERNEL(reduce_backward_##S, 256,                                                                                                  \
           (int kind, int type, const T* g, const T* x, const T* y, const float* equal, T* dx, i64 n, i64 terms, int rank,            \
            const i64* axes)) {                                                                                                       \
        backward(kind, g, x, y, equal, dx, n, terms, rank, axes, axes + rank);                                                        \
    }
FLOAT_TYPES(M)

#if HAS_REST
KERNEL(reduce_backward_any, 256,
       (int kind, int type, const void* g, const void* x, const void* y, const double* equal, void* dx, i64 n, i64 terms, int rank,
        const i64* axes)) {
    for_packs<1>(n, [&](i64 at, int) {
        i64 result = place(at, rank, axes, axes + rank);
        double v = gradient<double>(
            kind, read_number(type, g, result), x ? read_number(type, x, at) : 0, y ? read_number(type, y, result) : 0,
            equal ? equal[result] : 0, (double)terms);
        write_number(type, dx, at, v);
    });
}
#endif
