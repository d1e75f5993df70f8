// Rows of a matrix in the bytes it is stored in, decoded. T_TYPE is what elements become.
//
// variants: T_TYPE=f32
// variants: T_TYPE=bf16
// variants: T_TYPE=f16
#include "octet.cuh"

// How the bytes are read; one for each matrix. Where there is no table of codes, they are floats: 0 F32, 1 BF16, 2 F16.
struct Form {
    const u8* codes;
    const float* code_table;
    const void* scales;
    const float* scale_table;
    const u8* zero_points;
    i64 cols, row_bytes, block_rows, block_cols, grid_cols;
    int float_type, half_bytes, divides, second_divides, zero_rows, bits;
    float second;
};

DEVICE float scale_of(const Form& f, i64 at) {
    float s = f.scale_table ? f.scale_table[((const u8*)f.scales)[at]] : (float)read_number(f.float_type, f.scales, at);
    s = f.divides ? exact_divide(1.0f, s) : s;
    return f.second_divides == 2 ? s : f.second_divides ? exact_divide(s, f.second) : exact_multiply(s, f.second);
}

DEVICE float zero_point_of(const Form& f, i64 row, i64 group, i64 scale) {
    if (f.zero_rows == 0) {
        return 0;
    }
    if (f.zero_rows == 1) {
        return (float)((const i8*)f.zero_points)[scale];
    }
    i64 bit = row % f.zero_rows * f.bits;
    u8 b = f.zero_points[(row / f.zero_rows * f.grid_cols + group) * 4 + bit / 8];
    return (float)((int)(b >> (bit % 8) & ((1 << f.bits) - 1)) - (1 << (f.bits - 1)));
}

CALLED float element(const Form& f, i64 row, i64 col) {
    if (!f.code_table) {
        return (float)read_number(f.float_type, f.codes, row * f.cols + col);
    }
    u8 b = f.codes[row * f.row_bytes + (f.half_bytes ? col / 2 : col)];
    int code = f.half_bytes ? b >> (col % 2 * 4) & 15 : b;
    i64 group = quotient(col, f.block_cols);
    i64 scale = quotient(row, f.block_rows) * f.grid_cols + group;
    return exact_multiply(f.code_table[code] - zero_point_of(f, row, group, scale), scale_of(f, scale));
}

#define FORM                                                                                                                        \
    Form {                                                                                                                            \
        codes, code_table, scales, scale_table, zero_points, cols, row_bytes, block_rows, block_cols, grid_cols, float_type,          \
            half_bytes, divides, second_divides, zero_rows, bits, second                                                              \
    }

// y [rows, cols] = the rows from first on.
KERNEL(stored_tile, 256,
       (const u8* codes, const float* code_table, const void* scales, const float* scale_table, const u8* zero_points, i64 cols,
        i64 row_bytes, i64 block_rows, i64 block_cols, i64 grid_cols, int float_type, int half_bytes, int divides,
        int second_divides, int zero_rows, int bits, float second, i64 first, i64 rows, T_TYPE* y)) {
    Form f = FORM;
    for_packs<4>(rows * cols, [&](i64 at, int m) {
        i64 row = quotient(at, cols);
        i64 col = at - row * cols;
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = 0;
            if (i < m) {
                v[i] = element(f, first + row, col);
                if (++col == cols) {
                    col = 0;
                    row++;
                }
            }
        }
        store_some<4>(y + at, v, m);
    });
}

// y [count, cols] = rows that are looked up; an index outside of the table gives NaN.
KERNEL(stored_rows, 256,
       (const u8* codes, const float* code_table, const void* scales, const float* scale_table, const u8* zero_points, i64 cols,
        i64 row_bytes, i64 block_rows, i64 block_cols, i64 grid_cols, int float_type, int half_bytes, int divides,
        int second_divides, int zero_rows, int bits, float second, const void* indices, int index_type, i64 count, i64 size, T_TYPE* y)) {
    Form f = FORM;
    for_packs<1>(count * cols, [&](i64 at, int) {
        i64 i = quotient(at, cols);
        i64 row = (i64)read_number(index_type, indices, i);
        row = row < 0 ? row + size : row;
        bool inside = row >= 0 && row < size;
        y[at] = narrow<T_TYPE>(inside ? element(f, row, at - i * cols) : bits_float(0x7fc00000u));
    });
}

// y = sums, or that added to y.
KERNEL(stored_round, 256, (const float* sums, i64 count, int add, T_TYPE* y)) {
    for_packs<1>(count, [&](i64 at, int) { y[at] = narrow<T_TYPE>(add ? exact_add(sums[at], widen(y[at])) : sums[at]); });
}
