// What goes with matrix products: rows filled with a bias before one is added to them, scaled copies, and sums of rows.
#include "octet.cuh"

// y[i][j] = factor c[i][j], c repeated along the axes it has one element of.
KERNEL(fill_rows, 256, (int type_y, void* y, int type_c, const void* c, i64 rows, i64 n, i64 rows_of_c, i64 columns_of_c, float factor)) {
    for_packs<1>(rows * n, [&](i64 at, int) {
        i64 row = at / n;
        i64 column = at - row * n;
        i64 from = (rows_of_c == 1 ? 0 : row * columns_of_c) + (columns_of_c == 1 ? 0 : column);
        write_number(type_y, y, at, (float)read_number(type_c, c, from) * factor);
    });
}

KERNEL(scaled_copy, 256, (int type, const void* x, void* y, i64 n, float factor)) {
    for_packs<1>(n, [&](i64 at, int) { write_number(type, y, at, (float)read_number(type, x, at) * factor); });
}

// parts[split][column]: the sum of the rows from split * group on, group of them, in order. A block takes 256 columns, its 8 warps
// every 8th row, and adds their sums in the order of the warps.
template <typename T> DEVICE void column_sums(const T* x, i64 rows, i64 n, i64 group, float* parts) {
    SHARED float sums[8][256];
    i64 first = block_index() * 256 + lane() * 8;
    i64 from = block_index_y() * group;
    i64 end = from + group < rows ? from + group : rows;
    int m = n - first < 8 ? (int)(n - first) : 8;
    bool whole = n % 8 == 0 && is_aligned(x, 16);
    float sum[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sum[i] = 0;
    }
    if (m > 0) {
        for (i64 r = from + warp(); r < end; r += 8) {
            float v[8];
            if (whole) {
                load<8>(x + r * n + first, v);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    v[i] = i < m ? widen(x[r * n + first + i]) : 0;
                }
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                sum[i] += v[i];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sums[warp()][lane() * 8 + i] = sum[i];
    }
    block_barrier();
    i64 column = block_index() * 256 + thread_index();
    float all = 0;
    for (int w = 0; w < 8; w++) {
        all += sums[w][thread_index()];
    }
    if (column < n) {
        parts[block_index_y() * n + column] = all;
    }
}
#define M(S, T)                                                                                                                     \
    KERNEL(column_sums_##S, 256, (const T* x, i64 rows, i64 n, i64 group, float* parts)) { column_sums(x, rows, n, group, parts); }
FLOAT_TYPES(M)

// d = factor times the sum of the parts, in their order, or that added to d.
KERNEL(column_join, 256, (const float* parts, i64 splits, i64 n, int type, void* d, int accumulate, float factor)) {
    for_packs<1>(n, [&](i64 at, int) {
        float sum = 0;
        for (i64 s = 0; s < splits; s++) {
            sum += parts[s * n + at];
        }
        sum *= factor;
        write_number(type, d, at, accumulate ? (float)read_number(type, d, at) + sum : sum);
    });
}

// A warp for each element of d [rows_of_d, columns_of_d], which sums over the axes that d has one element of.
KERNEL(repeated_sum, 256,
       (int type, const void* x, i64 rows, i64 n, i64 rows_of_d, i64 columns_of_d, int type_d, void* d, int accumulate, float factor)) {
    i64 element = block_index() * (thread_count() / WARP) + warp();
    if (element < rows_of_d * columns_of_d) {
        i64 row = element / columns_of_d;
        i64 column = element - row * columns_of_d;
        i64 many_rows = rows_of_d == 1 ? rows : 1;
        i64 many_columns = columns_of_d == 1 ? n : 1;
        float sum = 0;
        for (i64 k = lane(); k < many_rows * many_columns; k += WARP) {
            i64 r = k / many_columns;
            i64 c = k - r * many_columns;
            sum += (float)read_number(type, x, (row + r) * n + column + c);
        }
        sum = warp_fold(sum, Sum()) * factor;
        if (lane() == 0) {
            write_number(type_d, d, element, accumulate ? (float)read_number(type_d, d, element) + sum : sum);
        }
    }
}
