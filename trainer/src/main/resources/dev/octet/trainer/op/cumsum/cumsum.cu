// Running sums along an axis, in F64: exact for the counts and positions they mostly are; the twin of CumSumReference. A line is what lies
// along the axis: size elements, inner apart.
#include "octet.cuh"

// The step-th element of a line in the direction of the sum.
DEVICE i64 element(i64 line, i64 step, i64 size, i64 inner, int reverse) {
    i64 outer = quotient(line, inner);
    i64 start = outer * size * inner + (line - outer * inner);
    return start + (reverse ? size - 1 - step : step) * inner;
}

// A thread for each line: neighbours in memory are neighbouring lines.
KERNEL(cumsum_threads, 256, (int type, const void* x, void* y, i64 lines, i64 size, i64 inner, int exclusive, int reverse)) {
    for_packs<1>(lines, [&](i64 line, int) {
        double sum = 0;
        for (i64 step = 0; step < size; step++) {
            i64 at = element(line, step, size, inner, reverse);
            double value = read_number(type, x, at);
            write_number(type, y, at, exclusive ? sum : sum + value);
            sum += value;
        }
    });
}

// A warp for each line, its lanes along it.
KERNEL(cumsum_warps, 256, (int type, const void* x, void* y, i64 lines, i64 size, i64 inner, int exclusive, int reverse)) {
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 line = block_index() * (thread_count() / WARP) + warp(); line < lines; line += warps) {
        double before = 0;
        for (i64 first = 0; first < size; first += WARP) {
            i64 step = first + lane();
            i64 at = element(line, step < size ? step : size - 1, size, inner, reverse);
            double value = step < size ? read_number(type, x, at) : 0;
            double sum = value;
            for (int by = 1; by < WARP; by *= 2) {
                double other = shuffle_up(sum, by);
                sum += lane() >= by ? other : 0;
            }
            double previous = shuffle_up(sum, 1); // not sum - value: an infinity would become NaN
            if (step < size) {
                write_number(type, y, at, before + (exclusive ? (lane() == 0 ? 0 : previous) : sum));
            }
            before += shuffle(sum, WARP - 1);
        }
    }
}
