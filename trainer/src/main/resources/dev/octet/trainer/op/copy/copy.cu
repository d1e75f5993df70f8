// Elements that go from one place to another, and constants; the twin of BoxReference. Bytes are moved as they are, in units of 1 to 16.
#include "octet.cuh"

// axes: lengths of the box's axes, outermost first, then the steps in x, then those in y; all in units.
template <typename U> DEVICE void copy(const U* x, U* y, i64 n, int rank, const i64* axes) {
    for_packs<1>(n, [&](i64 i, int) { y[place(i, rank, axes, axes + 2 * rank)] = x[place(i, rank, axes, axes + rank)]; });
}

#define M(BYTES, U)                                                                                                                   \
    KERNEL(box_copy_##BYTES, 256, (const U* x, U* y, i64 n, int rank, const i64* axes)) { copy(x, y, n, rank, axes); }
typedef Pack<u64, 2> u128;
M(1, u8)
M(2, u16)
M(4, u32)
M(8, u64)
M(16, u128)

// Every element the lowest bytes of bits.
#define N(BYTES, U)                                                                                                                   \
    KERNEL(box_fill_##BYTES, 256, (U* y, i64 n, i64 bits)) {                                                                          \
        for_packs<1>(n, [&](i64 i, int) { y[i] = (U)bits; });                                                                         \
    }
N(1, u8)
N(2, u16)
N(4, u32)
N(8, u64)
