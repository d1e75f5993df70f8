// A triangle of matrices, zero elsewhere; the twin of TriluReference. Bytes as they are.
#include "octet.cuh"

template <typename U> DEVICE void keep(const U* x, U* y, i64 n, i64 rows, i64 columns, i64 diagonal, bool upper) {
    const int N = 16 / sizeof(U);
    for_packs<N>(n, [&](i64 at, int m) {
        i64 line = quotient(at, columns);
        i64 column = at - line * columns;
        i64 row = line - quotient(line, rows) * rows;
        Pack<U, N> p;
        if (m == N) {
            p = *(const Pack<U, N>*)(x + at);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i < m) {
                if (column == columns) {
                    column = 0;
                    row = row + 1 == rows ? 0 : row + 1;
                }
                bool kept = upper ? column - row >= diagonal : column - row <= diagonal;
                U value = m == N ? p.at[i] : x[at + i];
                p.at[i] = kept ? value : (U)0;
                if (m < N) {
                    y[at + i] = p.at[i];
                }
                column++;
            }
        }
        if (m == N) {
            *(Pack<U, N>*)(y + at) = p;
        }
    });
}

#define M(BYTES, U)                                                                                                                   \
    KERNEL(trilu_##BYTES, 256, (const U* x, U* y, i64 n, i64 rows, i64 columns, i64 diagonal, int upper)) {                           \
        keep(x, y, n, rows, columns, diagonal, upper != 0);                                                                           \
    }
M(1, u8)
M(2, u16)
M(4, u32)
M(8, u64)
