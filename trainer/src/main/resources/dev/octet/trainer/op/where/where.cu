// y = condition ? a : b with broadcasting, bytes as they are; the twin of WhereReference. An absent side is zero: so gradients are made.
#include "octet.cuh"

// Eight neighbours of an operand along the innermost axis, where it has them all or repeats one.
template <typename U> DEVICE Pack<U, 8> eight(const U* p, i64 step) {
    if (p == 0 || step == 0) {
        Pack<U, 8> all;
        U one = p == 0 ? (U)0 : *p;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            all.at[i] = one;
        }
        return all;
    }
    return *(const Pack<U, 8>*)p;
}

// axes: lengths, outermost first, then the steps of the condition, of a and of b; packed where no eight neighbours of the result cross the
// end of the innermost axis, and operands have theirs aligned.
template <typename U>
DEVICE void select(const u8* condition, const U* a, const U* b, U* y, i64 n, int packed, int rank, const i64* axes) {
    const i64* of_c = axes + rank;
    const i64* of_a = axes + 2 * rank;
    const i64* of_b = axes + 3 * rank;
    if (packed) {
        i64 length = axes[rank - 1] / 8;
        for_packs<8>(n, [&](i64 at, int) {
            i64 row = quotient(at / 8, length);
            i64 column = at - row * length * 8;
            i64 step_c = of_c[rank - 1], step_a = of_a[rank - 1], step_b = of_b[rank - 1];
            Pack<u8, 8> c = eight(condition + place(row, rank - 1, axes, of_c) + column * step_c, step_c);
            Pack<U, 8> u = eight(a ? a + place(row, rank - 1, axes, of_a) + column * step_a : a, step_a);
            Pack<U, 8> v = eight(b ? b + place(row, rank - 1, axes, of_b) + column * step_b : b, step_b);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                u.at[i] = c.at[i] ? u.at[i] : v.at[i];
            }
            *(Pack<U, 8>*)(y + at) = u;
        });
        return;
    }
    for_packs<1>(n, [&](i64 at, int) {
        bool taken = condition[place(at, rank, axes, of_c)] != 0;
        const U* side = taken ? a : b;
        y[at] = side ? side[place(at, rank, axes, taken ? of_a : of_b)] : (U)0;
    });
}

#define M(BYTES, U)                                                                                                                   \
    KERNEL(where_##BYTES, 256, (const u8* condition, const U* a, const U* b, U* y, i64 n, int packed, int rank, const i64* axes)) {    \
        select(condition, a, b, y, n, packed, rank, axes);                                                                            \
    }
M(1, u8)
M(2, u16)
M(4, u32)
M(8, u64)
