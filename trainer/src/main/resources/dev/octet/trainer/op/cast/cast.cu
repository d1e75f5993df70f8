// Elements in another type. X_TYPE and Y_TYPE are the types; INTEGERS says that neither is a float, TRUTH that the result is a truth value.
//
// variants: X_TYPE=f32 Y_TYPE=bf16 INTEGERS=0 TRUTH=0
// variants: X_TYPE=f16 Y_TYPE=f32 INTEGERS=0 TRUTH=0
// variants: X_TYPE=i64 Y_TYPE=f32 INTEGERS=0 TRUTH=0
// variants: X_TYPE=f32 Y_TYPE=i64 INTEGERS=0 TRUTH=0
// variants: X_TYPE=f32 Y_TYPE=boolean INTEGERS=0 TRUTH=1
// variants: X_TYPE=i64 Y_TYPE=i32 INTEGERS=1 TRUTH=0
#include "octet.cuh"

#define PACK (16 / (int)(sizeof(X_TYPE) > sizeof(Y_TYPE) ? sizeof(X_TYPE) : sizeof(Y_TYPE)))
#define PACKS 4
#define THREADS 256

// A float's whole part as 64 bits hold it, 0 for NaN.
DEVICE i64 cut(float x) {
    if (x != x) {
        return 0;
    }
    if (x >= 0x1p63f) {
        return 0x7fffffffffffffffLL;
    }
    return x <= -0x1p63f ? -0x7fffffffffffffffLL - 1 : (i64)x;
}

template <typename Y> struct Result {
    static DEVICE Y of(float x) { return narrow<Y>(x); }
};
template <> struct Result<i64> {
    static DEVICE i64 of(float x) { return cut(x); }
};
template <> struct Result<i32> {
    static DEVICE i32 of(float x) { return (i32)cut(x); }
};
template <> struct Result<i8> {
    static DEVICE i8 of(float x) { return (i8)cut(x); }
};
template <> struct Result<u8> {
    static DEVICE u8 of(float x) { return (u8)cut(x); }
};

DEVICE Y_TYPE cast(X_TYPE x) {
#if INTEGERS && TRUTH
    return x != 0 ? 1 : 0;
#elif INTEGERS
    return (Y_TYPE)x;
#elif TRUTH
    return widen(x) == 0 ? 0 : 1;
#else
    return Result<Y_TYPE>::of(widen(x));
#endif
}

// PACKS packs of each thread, those that begin before end.
DEVICE void cast_some(const X_TYPE* x, Y_TYPE* y, i64 first, i64 end) {
    i64 start = first + thread_index() * PACK;
    Pack<X_TYPE, PACK> from[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= end) {
            from[p] = *(const Pack<X_TYPE, PACK>*)(x + at);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= end) {
            Pack<Y_TYPE, PACK> to;
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                to.at[i] = cast(from[p].at[i]);
            }
            *(Pack<Y_TYPE, PACK>*)(y + at) = to;
        } else {
            for (; at < end; at++) {
                y[at] = cast(x[at]);
            }
        }
    }
}

KERNEL(cast_forward, THREADS, (const X_TYPE* x, Y_TYPE* y, i64 count)) {
    cast_some(x, y, block_index() * PACKS * THREADS * PACK, count);
}

// Many tensors, a block for each chunk of 16384 elements: the number of a row of the table, and the chunk's first element. Rows: x, y, count.
#define CHUNK 16384
KERNEL(casts_forward, THREADS, (const i64* table, const i64* chunks)) {
    const i64* row = table + 3 * chunks[2 * block_index()];
    i64 first = chunks[2 * block_index() + 1];
    i64 end = first + CHUNK < row[2] ? first + CHUNK : row[2];
#pragma unroll 1
    for (i64 at = first; at < end; at += PACKS * THREADS * PACK) {
        cast_some((const X_TYPE*)row[0], (Y_TYPE*)row[1], at, end);
    }
}

// dx = dy in x's type, or that added to dx.
KERNEL(cast_backward, THREADS, (const Y_TYPE* dy, X_TYPE* dx, i64 count, i32 add)) {
    i64 start = (block_index() * PACKS * THREADS + thread_index()) * PACK;
    float value[PACKS][PACK];
    float sum[PACKS][PACK];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
            load(dy + at, value[p]);
            if (add) {
                load(dx + at, sum[p]);
            }
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        i64 at = start + p * THREADS * PACK;
        if (at + PACK <= count) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                value[p][i] = add ? value[p][i] + sum[p][i] : value[p][i];
            }
            store(dx + at, value[p]);
        } else {
            for (; at < count; at++) {
                dx[at] = narrow<X_TYPE>(add ? widen(dy[at]) + widen(dx[at]) : widen(dy[at]));
            }
        }
    }
}
