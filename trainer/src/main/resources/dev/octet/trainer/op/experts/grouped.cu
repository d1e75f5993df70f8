// Products of the rows of experts, sorted by expert, with a weight for each: rows offsets[e] .. offsets[e + 1] - 1 are those of expert e, known on the
// device alone. An operand is numbers or codes of FP8, which become numbers of the type that is multiplied on their way to shared memory: what they stand
// for, or the codes alone where one scale holds for each sum, which is then scaled. Numbers of 16 bits are multiplied by tensor cores. Sums have an
// order of their own, so bits depend on nothing but the operands.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

#define THREADS 128
// Rows and columns of a tile of the result, and how much of the sums is in shared memory at a time.
#define LINES 64
#define DEPTH 32
// Types of operands that are codes; others as read_number has them.
#define TYPE_E4M3 8
#define TYPE_E5M2 9

// A matrix in memory. Its scales, where they belong to elements, are one for each block of so many rows and columns.
struct Side {
    int type;
    const u8* elements;
    i64 columns;
    const float* scales; // or 0
    i64 block_rows;
    i64 block_columns;
    DEVICE i64 grid_columns() const { return quotient(columns + block_columns - 1, block_columns); }
};
DEVICE int width(int type) { return type >= TYPE_E4M3 ? 1 : type == 0 ? 4 : 2; }
// The row of scales that an expert's first rows have: experts' blocks lie one behind the other, with a row between where the last one is not full.
DEVICE i64 first_block(i64 first, int expert, i64 block_rows) { return quotient(first, block_rows) + expert; }

template <typename T> DEVICE void take_8(const T* from, int m, float (&v)[8]) {
    constexpr int N = sizeof(T) == 4 ? 4 : 8;
    if (m == 8 && is_aligned(from, N * (int)sizeof(T))) {
#pragma unroll
        for (int i = 0; i < 8; i += N) {
            float some[N];
            load<N>(from + i, some);
#pragma unroll
            for (int j = 0; j < N; j++) {
                v[i + j] = some[j];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = i < m ? widen(from[i]) : 0.0f;
        }
    }
}
// m of a row's numbers, zeros behind them.
DEVICE void read_8(const Side& s, i64 row, i64 column, int m, float (&v)[8]) {
    i64 at = row * s.columns + column;
    switch (s.type) {
    case 0: take_8((const float*)s.elements + at, m, v); break;
    case 1: take_8((const bf16*)s.elements + at, m, v); break;
    case 2: take_8((const f16*)s.elements + at, m, v); break;
    case TYPE_E4M3: take_8((const e4m3*)s.elements + at, m, v); break;
    default: take_8((const e5m2*)s.elements + at, m, v); break;
    }
    if (s.scales && m > 0) {
        const float* scales = s.scales + quotient(row, s.block_rows) * s.grid_columns();
        float scale = scales[quotient(column, s.block_columns)];
        bool one = s.block_columns % 8 == 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < m) { // a scale of infinity makes NaN of zeros
                scale = one || i == 0 ? scale : scales[quotient(column + i, s.block_columns)];
                v[i] = exact_multiply(v[i], scale);
            }
        }
    }
}

// 64 lines of an operand, 32 terms of each: padded so that neighbouring lines are in other banks.
template <typename M> struct Lines {
    alignas(16) M at[LINES][DEPTH + 16 / sizeof(M)];
};
// Fills them from line `first` of so many and term `depth` of `all`; along: a line is a row in memory, otherwise a column.
template <typename M> DEVICE void fill(Lines<M>& tile, const Side& s, i64 first, i64 lines, i64 depth, i64 all, bool along) {
#pragma unroll
    for (int k = 0; k < LINES * DEPTH / 8 / THREADS; k++) {
        int piece = thread_index() + k * THREADS;
        float v[8];
        int i = along ? piece / (DEPTH / 8) : piece % (LINES / 8) * 8;
        int p = along ? piece % (DEPTH / 8) * 8 : piece / (LINES / 8);
        i64 left = along ? (first + i < lines ? all - depth - p : 0) : (depth + p < all ? lines - first - i : 0);
        int m = left < 0 ? 0 : left < 8 ? (int)left : 8;
        read_8(s, along ? first + i : depth + p, along ? depth + p : first + i, m, v);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            tile.at[along ? i : i + j][along ? p + j : p] = narrow<M>(v[j]);
        }
    }
}

DEVICE float read_float(int type, const void* p, i64 at) {
    return type == 0 ? ((const float*)p)[at] : type == 1 ? widen(((const bf16*)p)[at]) : widen(((const f16*)p)[at]);
}
DEVICE void write_float(int type, void* p, i64 at, float x, bool add) {
    x = add ? x + read_float(type, p, at) : x;
    if (type == 0) {
        ((float*)p)[at] = x;
    } else if (type == 1) {
        ((bf16*)p)[at] = narrow<bf16>(x);
    } else {
        ((f16*)p)[at] = narrow<f16>(x);
    }
}

// What a thread has of a tile: of its warp's 32 by 32 the rows 16 t + 8 h + lane / 4 and the columns 8 n + 2 (lane % 4) + j as at[t][n][2 h + j], as
// instructions of matrices leave it.
struct Quarter {
    float at[2][4][4];
    DEVICE Quarter() {
#pragma unroll
        for (int t = 0; t < 2; t++) {
#pragma unroll
            for (int n = 0; n < 4; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    at[t][n][i] = 0;
                }
            }
        }
    }
    DEVICE static int row() { return warp() / 2 * 32 + lane() / 4; }
    DEVICE static int column() { return warp() % 2 * 32 + lane() % 4 * 2; }
    template <typename M> DEVICE void add(const Lines<M>& left, const Lines<M>& right) {
        if constexpr (sizeof(M) == 2) {
            int top = warp() / 2 * 32;
            int start = warp() % 2 * 32;
#pragma unroll
            for (int p = 0; p < DEPTH; p += 16) {
                u32 a[2][4], b[2][4];
#pragma unroll
                for (int t = 0; t < 2; t++) {
                    load_matrix_4(a[t], &left.at[top + 16 * t + lane() % 16][p + lane() / 16 * 8]);
                    load_matrix_4(b[t], &right.at[start + 16 * t + lane() % 8 + lane() / 16 * 8][p + lane() / 8 % 2 * 8]);
                }
#pragma unroll
                for (int t = 0; t < 2; t++) {
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        const u32 two[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
                        multiply_16816(at[t][n], a[t], two, M());
                    }
                }
            }
        } else {
            for (int p = 0; p < DEPTH; p++) {
                float a[4], b[8];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    a[i] = left.at[row() + 8 * i][p];
                }
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    b[j] = right.at[column() + j / 2 * 8 + j % 2][p];
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        float& sum = at[i / 2][j / 2][i % 2 * 2 + j % 2];
                        sum = fmaf(a[i], b[j], sum);
                    }
                }
            }
        }
    }
    // Puts the sums of a tile that begins at row top and column start where they belong in c, [rows, columns] with rows of `pitch`: times the factors of their row and
    // column, plus a term of their column, rounded to a type, or that added to what is there.
    template <typename RowFactor, typename ColumnFactor, typename Term>
    DEVICE void put(i64 top, i64 rows, i64 start, i64 columns, int type, u8* c, bool add, RowFactor of_row, ColumnFactor of_column, Term term) const {
        float factors[8], terms[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            i64 at = start + column() + j / 2 * 8 + j % 2;
            factors[j] = at < columns ? of_column(at) : 0;
            terms[j] = at < columns ? term(at) : 0;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            i64 row_at = top + row() + 8 * i;
            if (row_at < rows) {
                float factor = of_row(row_at);
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    i64 column_at = start + column() + j / 2 * 8 + j % 2;
                    if (column_at < columns) {
                        float sum = at[i / 2][j / 2][i % 2 * 2 + j % 2] * (factor * factors[j]);
                        write_float(type, c, row_at * columns + column_at, sum + terms[j], add);
                    }
                }
            }
        }
    }
};

// Results of rows. Rows of weights: address, scales or 0; trans: an expert's weight lies as [columns, inner]. Biases are of type_bias, and rounded to type_rounded
// before they are added; their table may be absent. scales_sums: one scale of each operand holds for each sum. Which tile of the result belongs to which
// expert is found here: the grid has a tile more for each expert than all rows fill.
#define OF_FLOATS(suffix, M)                                                                                                               \
    RESIDENT_KERNEL(expert_product_##suffix, THREADS, 512,                                                                                 \
           (const i64* offsets, int experts, int type_a, const u8* a, const float* scales_a, i64 block_rows_a, i64 block_columns_a,        \
            int type_w, const i64* weights, i64 block_rows_w, i64 block_columns_w, i64 inner, i64 columns, int trans, int scales_sums,     \
            int type_bias, const i64* biases, int type_rounded, int type, u8* c, int add)) {                                               \
        SHARED Lines<M> left;                                                                                                              \
        SHARED Lines<M> right;                                                                                                             \
        i64 tile = block_index();                                                                                                          \
        int e = 0;                                                                                                                         \
        while (e < experts && tile >= quotient(offsets[e + 1] - offsets[e] + LINES - 1, LINES)) {                                          \
            tile -= quotient(offsets[e + 1] - offsets[e] + LINES - 1, LINES);                                                              \
            e++;                                                                                                                           \
        }                                                                                                                                  \
        if (e < experts) { /* the same for all threads */                                                                                  \
            i64 first = offsets[e];                                                                                                        \
            i64 rows = offsets[e + 1] - first;                                                                                             \
            i64 top = tile * LINES;                                                                                                        \
            i64 start = block_index_y() * LINES;                                                                                           \
            Side of_a = {type_a, a + first * inner * width(type_a), inner, scales_a, block_rows_a, block_columns_a};                       \
            of_a.scales = scales_a ? scales_a + first_block(first, e, block_rows_a) * of_a.grid_columns() : 0;                             \
            Side of_w = {type_w, (const u8*)weights[2 * e], trans ? inner : columns, (const float*)weights[2 * e + 1], block_rows_w,       \
                         block_columns_w};                                                                                                 \
            bool single = block_rows_w * block_columns_w >= inner * columns;                                                               \
            const float* row_scales = of_a.scales;                                                                                         \
            const float* column_scales = of_w.scales;                                                                                      \
            of_a.scales = scales_sums ? 0 : of_a.scales;                                                                                   \
            of_w.scales = scales_sums ? 0 : of_w.scales;                                                                                   \
            Quarter sums;                                                                                                                  \
            for (i64 depth = 0; depth < inner; depth += DEPTH) {                                                                           \
                fill(left, of_a, top, rows, depth, inner, true);                                                                           \
                fill(right, of_w, start, columns, depth, inner, trans);                                                                    \
                block_barrier();                                                                                                           \
                sums.add(left, right);                                                                                                     \
                block_barrier();                                                                                                           \
            }                                                                                                                              \
            sums.put(                                                                                                                      \
                top, rows, start, columns, type, c + first * columns * width(type), add != 0,                                              \
                [&](i64 row) { return scales_sums ? row_scales[quotient(row, block_rows_a)] : 1.0f; },                                     \
                [&](i64 column) { return scales_sums ? column_scales[single ? 0 : column] : 1.0f; },                                       \
                [&](i64 column) {                                                                                                          \
                    return biases ? rounded(read_float(type_bias, (const void*)biases[e], column), type_rounded) : 0.0f;                   \
                });                                                                                                                        \
        }                                                                                                                          \
    }                                                                                                                                      \
    /* Gradients of weights, [m, n], the sums over an expert's rows; rows of results: address or 0, whether it is added to. */             \
    RESIDENT_KERNEL(expert_gradient_##suffix, THREADS, 384,                                                                                \
           (const i64* offsets, int type_a, const u8* a, const float* scales_a, i64 block_rows_a, i64 block_columns_a, int type_b,         \
            const u8* b, const float* scales_b, i64 block_rows_b, i64 block_columns_b, i64 m, i64 n, int scales_sums, int type,            \
            const i64* results)) {                                                                                                         \
        SHARED Lines<M> left;                                                                                                              \
        SHARED Lines<M> right;                                                                                                             \
        int e = (int)block_index_z();                                                                                                      \
        u8* dw = (u8*)results[2 * e];                                                                                                      \
        if (dw) { /* the same for all threads */                                                                                           \
            i64 first = offsets[e];                                                                                                        \
            i64 rows = offsets[e + 1] - first;                                                                                             \
            i64 top = block_index() * LINES;                                                                                               \
            i64 start = block_index_y() * LINES;                                                                                           \
            Side of_a = {type_a, a + first * m * width(type_a), m, scales_a, block_rows_a, block_columns_a};                               \
            Side of_b = {type_b, b + first * n * width(type_b), n, scales_b, block_rows_b, block_columns_b};                               \
            i64 grid_a = of_a.grid_columns();                                                                                              \
            i64 grid_b = of_b.grid_columns();                                                                                              \
            const float* left_scales = scales_a ? scales_a + first_block(first, e, block_rows_a) * grid_a : 0;                             \
            const float* right_scales = scales_b ? scales_b + first_block(first, e, block_rows_b) * grid_b : 0;                            \
            of_a.scales = scales_sums ? 0 : left_scales;                                                                                   \
            of_b.scales = scales_sums ? 0 : right_scales;                                                                                  \
            Quarter sums;                                                                                                                  \
            for (i64 depth = 0; depth < rows; depth += DEPTH) {                                                                            \
                fill(left, of_a, top, m, depth, rows, false);                                                                              \
                fill(right, of_b, start, n, depth, rows, false);                                                                           \
                block_barrier();                                                                                                           \
                sums.add(left, right);                                                                                                     \
                block_barrier();                                                                                                           \
            }                                                                                                                              \
            bool scaled = scales_sums && rows > 0; /* without rows there are no scales */                                                  \
            sums.put(                                                                                                                      \
                top, m, start, n, type, dw, results[2 * e + 1] != 0,                                                                       \
                [&](i64 row) { return scaled ? left_scales[grid_a == 1 ? 0 : row] : 1.0f; },                                               \
                [&](i64 column) { return scaled ? right_scales[grid_b == 1 ? 0 : column] : 1.0f; },                                        \
                [&](i64) { return 0.0f; });                                                                                                \
        }                                                                                                                                  \
    }
FLOAT_TYPES(OF_FLOATS)

#if HAS_REST
// Sums of rows, a thread for each column of an expert. Rows of results: address or 0, whether it is added to.
KERNEL(expert_bias, THREADS, (int type_dy, const void* dy, const i64* offsets, int type, const i64* results, i64 columns)) {
    i64 j = block_index() * THREADS + thread_index();
    i64 e = block_index_y();
    void* db = (void*)results[2 * e];
    if (db && j < columns) {
        float sum = 0;
        float group = 0;
        i64 first = offsets[e];
        for (i64 row = first; row < offsets[e + 1]; row++) {
            group += read_float(type_dy, dy, row * columns + j);
            if ((row - first) % 32 == 31) {
                sum += group;
                group = 0;
            }
        }
        write_float(type, db, j, sum + group, results[2 * e + 1] != 0);
    }
}
#endif
