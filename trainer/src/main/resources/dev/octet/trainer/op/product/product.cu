// What goes with matrix products: rows filled with a bias before one is added to them, scaled copies, sums of rows, copies whose rows are
// padded, and what is done to sums behind a product.
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

// d = the sum of the parts [splits, n], or that added to it, for many tensors. Rows: parts, n, type of d, d, whether it is added, type that the sum is rounded
// to before. A block takes 32 columns: the
// number of a row, and the first of them. Of each, eight groups of threads have some parts in their order, and the groups' sums are added in order.
KERNEL(column_joins, 256, (const i64* table, const i64* chunks, i64 splits)) {
    SHARED float sums[8][33];
    const i64* row = table + 6 * chunks[2 * block_index()];
    const float* parts = (const float*)row[0];
    i64 n = row[1];
    i64 column = chunks[2 * block_index() + 1] + thread_index() % 32;
    int group = thread_index() / 32;
    i64 each = (splits + 7) / 8;
    i64 end = (group + 1) * each < splits ? (group + 1) * each : splits;
    float sum = 0;
    if (column < n) {
#pragma unroll 8
        for (i64 s = group * each; s < end; s++) {
            sum += parts[s * n + column];
        }
    }
    sums[group][thread_index() % 32] = sum;
    block_barrier();
    if (group == 0 && column < n) {
        for (int g = 1; g < 8; g++) {
            sum += sums[g][thread_index() % 32];
        }
        sum = rounded(sum, (int)row[5]);
        int type = (int)row[2];
        void* d = (void*)row[3];
        write_number(type, d, column, row[4] ? (float)read_number(type, d, column) + sum : sum);
    }
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

// y [to_rows, to_columns] = x [rows, columns], zeros behind what is there. Elements of two bytes (longer ones count as several); rows of
// both begin at any element, strides lead to the next matrix. A warp takes 1024 elements of a row, a lane 8 at a time, those of 16
// aligned bytes of y.
KERNEL(copy_rows, 256,
       (const u16* x, i64 rows, i64 columns, i64 x_leading, i64 x_stride, u16* y, i64 to_rows, i64 to_columns, i64 y_leading,
        i64 y_stride)) {
    i64 row = block_index() * 8 + warp();
    if (row < to_rows) {
        i64 from = (i64)x + 2 * (block_index_z() * x_stride + row * x_leading);
        u16* to = y + block_index_z() * y_stride + row * y_leading;
        i64 end = row < rows ? from + 2 * columns : 0;
        i64 there = row < rows ? columns : 0;
        i64 first = block_index_y() * 1024 + lane() * 8 - (i64)((u64)to / 2 % 8);
        Bytes16 eight[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            eight[k] = bytes_16(from + 2 * (first + 256 * k), from, end);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            i64 at = first + 256 * k;
            bool inside = at >= 0 && at + 8 <= there;
            if (at >= 0 && at + 8 <= to_columns) {
                Pack<u16, 8> pack;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    pack.at[i] = inside || at + i < there ? (u16)(eight[k].at[i / 4] >> (i % 4 * 16)) : (u16)0;
                }
                *(Pack<u16, 8>*)(to + at) = pack;
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    if (at + i >= 0 && at + i < to_columns) {
                        to[at + i] = at + i < there ? (u16)(eight[k].at[i / 4] >> (i % 4 * 16)) : (u16)0;
                    }
                }
            }
        }
    }
}

// d = sums times the scales of row and column, plus bias, plus d where it is added to. One scale for all, or one for each row (column). A warp
// takes a row's elements of 256 words of 4 bytes, then those step elements further; a lane one word at a time.
template <typename T>
DEVICE void finish_sums(const float* sums, i64 leading, i64 stride, i64 rows, i64 n, const float* row_scales, i64 count_of_rows,
                        const float* column_scales, i64 count_of_columns, const float* bias, int bias_type, T* d, i64 d_leading,
                        i64 d_stride, int accumulate, i64 step) {
    const int EACH = 4 / sizeof(T); // elements of a word
    i64 row = block_index() * 8 + warp();
    if (row < rows) {
        const float* from = sums + block_index_z() * stride + row * leading;
        T* to = d + block_index_z() * d_stride + row * d_leading;
        float left = row_scales ? row_scales[count_of_rows == 1 ? 0 : row] : 1;
        float factor = exact_multiply(left, column_scales ? column_scales[0] : 1);
        bool varies = column_scales && count_of_columns != 1;
        i64 before = (i64)((u64)to / sizeof(T) % EACH); // elements of the first word that are another row's
        for (i64 start = block_index_y() * 256 * EACH - before; start < n; start += step) {
            if (start >= 0 && start + 256 * EACH <= n && !varies && !bias && !accumulate) { // the inside of long rows
                const float* mine = from + start + lane() * EACH;
                T* result = to + start + lane() * EACH;
                float x[8][EACH];
#pragma unroll
                for (int k = 0; k < 8; k++) {
#pragma unroll
                    for (int i = 0; i < EACH; i++) {
                        x[k][i] = mine[k * WARP * EACH + i];
                    }
                }
#pragma unroll
                for (int k = 0; k < 8; k++) {
#pragma unroll
                    for (int i = 0; i < EACH; i++) {
                        x[k][i] = exact_multiply(x[k][i], factor);
                    }
                    store<EACH>(result + k * WARP * EACH, x[k]);
                }
                continue;
            }
#pragma unroll 1
            for (int part = 0; part < 8; part += 4) {
                i64 mine = start + (part * WARP + lane()) * EACH;
                float x[4][EACH];
#pragma unroll
                for (int k = 0; k < 4; k++) {
#pragma unroll
                    for (int i = 0; i < EACH; i++) {
                        i64 column = mine + k * WARP * EACH + i;
                        x[k][i] = column >= 0 && column < n ? from[column] : 0;
                    }
                }
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    i64 first = mine + k * WARP * EACH;
#pragma unroll
                    for (int i = 0; i < EACH; i++) {
                        i64 column = first + i;
                        if (column >= 0 && column < n) {
                            float f = varies ? exact_multiply(left, column_scales[column]) : factor;
                            x[k][i] = exact_multiply(x[k][i], f);
                            if (bias) {
                                x[k][i] = exact_add(x[k][i], rounded(bias[column], bias_type));
                            }
                            if (accumulate) {
                                x[k][i] = exact_add(x[k][i], widen(to[column]));
                            }
                        }
                    }
                    if (first >= 0 && first + EACH <= n) {
                        store<EACH>(to + first, x[k]);
                    } else if (EACH > 1) {
#pragma unroll
                        for (int i = 0; i < EACH; i++) {
                            if (first + i >= 0 && first + i < n) {
                                to[first + i] = narrow<T>(x[k][i]);
                            }
                        }
                    }
                }
            }
        }
    }
}
#define M1(S, T)                                                                                                                    \
    KERNEL(finish_sums_##S, 256,                                                                                                      \
           (const float* sums, i64 leading, i64 stride, i64 rows, i64 n, const float* row_scales, i64 count_of_rows,                  \
            const float* column_scales, i64 count_of_columns, const float* bias, int bias_type, T* d, i64 d_leading, i64 d_stride,      \
            int accumulate, i64 step)) {                                                                                              \
        finish_sums(sums, leading, stride, rows, n, row_scales, count_of_rows, column_scales, count_of_columns, bias, bias_type, d,   \
                    d_leading, d_stride, accumulate, step);                                                                           \
    }
FLOAT_TYPES(M1)
