// The k best elements of each line, in order, and their indices; the twin of TopKReference. A line is what lies along the axis: size elements,
// inner apart.
#include "octet.cuh"

// NaN is larger than any number.
DEVICE bool greater(double a, double b) { return a > b || (a != a && b == b); }

// Whether an element comes before another; of equal ones that with the lower index.
DEVICE bool before(double a, int index_a, double b, int index_b, bool largest) {
    bool better = largest ? greater(a, b) : greater(b, a);
    bool worse = largest ? greater(b, a) : greater(a, b);
    return better || (!worse && index_a < index_b);
}

// A warp for each line: for each place, the first of the elements that come behind the one in the place before.
KERNEL(topk_forward, 256, (int type, const void* x, void* y, i64* indices, i64 lines, int size, i64 inner, int k, int largest)) {
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 line = block_index() * (thread_count() / WARP) + warp(); line < lines; line += warps) {
        i64 outer = line / inner;
        i64 from = outer * size * inner + (line - outer * inner);
        i64 to = outer * k * inner + (line - outer * inner);
        double last = 0;
        int last_index = -1;
        for (int place = 0; place < k; place++) {
            double best = 0;
            int best_index = size; // none
            for (int i = lane(); i < size; i += WARP) {
                double value = read_number(type, x, from + i * inner);
                bool left = last_index < 0 || before(last, last_index, value, i, largest != 0);
                if (left && (best_index == size || before(value, i, best, best_index, largest != 0))) {
                    best = value;
                    best_index = i;
                }
            }
            for (int mask = WARP / 2; mask > 0; mask /= 2) {
                double other = shuffle_xor(best, mask);
                int other_index = shuffle_xor(best_index, mask);
                if (other_index < size && (best_index == size || before(other, other_index, best, best_index, largest != 0))) {
                    best = other;
                    best_index = other_index;
                }
            }
            if (lane() == 0) {
                write_number(type, y, to + place * inner, best);
                indices[to + place * inner] = best_index;
            }
            last = best;
            last_index = best_index;
        }
    }
}

// A thread for each chosen element; the other gradients are zero already.
KERNEL(topk_backward, 256, (int type, const void* dy, const i64* indices, void* dx, i64 n, int size, i64 inner, int k)) {
    for_packs<1>(n, [&](i64 at, int) {
        i64 outer = at / (k * inner);
        i64 index = indices[at];
        write_number(type, dx, (outer * size + index) * inner + at % inner, read_number(type, dy, at));
    });
}
