// Where indices point, as numbers of rows of x, and updates put at rows; sums over equal rows are Gather's. An index outside of its axis
// gives a row behind the last one: elements are never seen where work is written, so it cannot be refused, but its results are NaN.
#include "octet.cuh"

// Type numbers are those of read_number; I64 and I32 occur.
DEVICE i64 index_at(int type, const void* indices, i64 i) { return type == 4 ? ((const i64*)indices)[i] : ((const i32*)indices)[i]; }

// From the end when negative; -1 for one outside.
DEVICE i64 position(i64 index, i64 size) {
    i64 at = index < 0 ? index + size : index;
    return at >= 0 && at < size ? at : -1;
}

// One index for each element, along an axis with a step of axis_step; along other axes the index's own place counts. axes: lengths of the
// indices' axes, and x's steps along them, 0 along the axis.
KERNEL(pick_elements, 256,
       (int type, const void* indices, i64* rows, i64 n, i64 count, i64 size, i64 axis_step, int rank, const i64* axes)) {
    for_packs<1>(n, [&](i64 i, int) {
        i64 at = position(index_at(type, indices, i), size);
        rows[i] = at < 0 ? count : place(i, rank, axes, axes + rank) + at * axis_step;
    });
}

// Tuples of indices into axes of these sizes; each batch has as many.
KERNEL(pick_tuples, 256,
       (int type, const void* indices, i64* rows, i64 n, i64 count, i64 per_batch, int tuple, const i64* sizes)) {
    for_packs<1>(n, [&](i64 i, int) {
        i64 row = quotient(i, per_batch);
        for (int k = 0; k < tuple && row >= 0; k++) {
            i64 at = position(index_at(type, indices, i * tuple + k), sizes[k]);
            row = at < 0 ? -1 : row * sizes[k] + at;
        }
        rows[i] = row < 0 ? count : row;
    });
}

// last[row] = one more than the number of the last update of each row; zero before.
KERNEL(pick_last, 256, (const i64* rows, i32* last, i64 n, i64 count)) {
    for_packs<1>(n, [&](i64 i, int) {
        if (rows[i] < count) {
            atomic_max(&last[rows[i]], (int)i + 1);
        }
    });
}

// Whether update i stays.
DEVICE bool stays(const i64* rows, const i32* last, i64 i, i64 count) { return rows[i] < count && last[rows[i]] == i + 1; }

// Rows of y are replaced by their last updates.
template <typename U> DEVICE void put(const U* updates, const i64* rows, const i32* last, U* y, i64 n, i64 count, i64 inner) {
    for_packs<1>(n, [&](i64 e, int) {
        i64 i = quotient(e, inner);
        if (stays(rows, last, i, count)) {
            y[rows[i] * inner + e - i * inner] = updates[e];
        }
    });
}
// Updates that point nowhere spoil the first row, with bytes of ones: NaN in every float type.
template <typename U> DEVICE void spoil(const i64* rows, U* y, i64 n, i64 count, i64 inner) {
    for_packs<1>(n, [&](i64 e, int) {
        i64 i = quotient(e, inner);
        if (rows[i] >= count) {
            y[e - i * inner] = (U)~(U)0;
        }
    });
}
// The gradient of x: what was not replaced.
template <typename U> DEVICE void keep(const U* dy, const i32* last, U* dx, i64 n, i64 inner) {
    for_packs<1>(n, [&](i64 e, int) { dx[e] = last[quotient(e, inner)] == 0 ? dy[e] : (U)0; });
}
// The gradient of updates: of those that stayed; NaN of those that point nowhere.
template <typename U> DEVICE void take(const U* dy, const i64* rows, const i32* last, U* du, i64 n, i64 count, i64 inner) {
    for_packs<1>(n, [&](i64 e, int) {
        i64 i = quotient(e, inner);
        du[e] = rows[i] >= count              ? (U)~(U)0
                : stays(rows, last, i, count) ? dy[rows[i] * inner + e - i * inner]
                                              : (U)0;
    });
}

#define M(BYTES, U)                                                                                                                   \
    KERNEL(pick_put_##BYTES, 256, (const U* updates, const i64* rows, const i32* last, U* y, i64 n, i64 count, i64 inner)) {          \
        put(updates, rows, last, y, n, count, inner);                                                                                 \
    }                                                                                                                                 \
    KERNEL(pick_spoil_##BYTES, 256, (const i64* rows, U* y, i64 n, i64 count, i64 inner)) { spoil(rows, y, n, count, inner); }        \
    KERNEL(pick_keep_##BYTES, 256, (const U* dy, const i32* last, U* dx, i64 n, i64 inner)) { keep(dy, last, dx, n, inner); }         \
    KERNEL(pick_take_##BYTES, 256, (const U* dy, const i64* rows, const i32* last, U* du, i64 n, i64 count, i64 inner)) {             \
        take(dy, rows, last, du, n, count, inner);                                                                                    \
    }
M(1, u8)
M(2, u16)
M(4, u32)
M(8, u64)

// Integers are added in the order of the indices, by a thread for each place in a row.
KERNEL(pick_add, 256, (int type, const void* updates, const i64* rows, void* y, i64 n, i64 count, i64 inner)) {
    for_packs<1>(inner, [&](i64 place_in_row, int) {
        for (i64 i = 0; i < n; i++) {
            if (rows[i] < count) {
                i64 to = rows[i] * inner + place_in_row;
                write_number(type, y, to, read_number(type, y, to) + read_number(type, updates, i * inner + place_in_row));
            }
        }
    });
}
