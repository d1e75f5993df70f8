// The largest, or the mean, of each window of each plane; the twin of PoolReference. Windows move along three axes, given as seven numbers
// each: in, out, kernel, stride, padding before, padding behind, dilation.
#include "octet.cuh"

struct Windows {
    int in, out, kernel, stride, before, behind, dilation;
    DEVICE int start(int o) const { return o * stride - before; }
    // How many places of window o are inputs, or inputs and padding.
    DEVICE int places(int o, bool padding) const {
        int first = start(o);
        int end = padding ? in + behind : in;
        int from = padding || first >= 0 ? 0 : (-first + dilation - 1) / dilation;
        int to = end > first ? (end - first + dilation - 1) / dilation : 0;
        to = to < kernel ? to : kernel;
        return to > from ? to - from : 0;
    }
    // The first and the last window that may look at an input.
    DEVICE int first_at(int i) const {
        int t = i + before - (kernel - 1) * dilation;
        return t <= 0 ? 0 : (t + stride - 1) / stride;
    }
    DEVICE int last_at(int i) const {
        int t = (i + before) / stride;
        return t < out ? t : out - 1;
    }
    DEVICE bool looks(int o, int i) const {
        int t = i - start(o);
        return t >= 0 && t % dilation == 0 && t / dilation < kernel;
    }
};

DEVICE Windows windows(const i64* t) { return {(int)t[0], (int)t[1], (int)t[2], (int)t[3], (int)t[4], (int)t[5], (int)t[6]}; }

DEVICE float share(const Windows& a, const Windows& b, const Windows& c, int o, bool padding) {
    int r = o / c.out;
    return (float)(a.places(r / b.out, padding) * b.places(r % b.out, padding) * c.places(o % c.out, padding));
}

// Whether a number is taken for the largest instead of another, each with its place; of equal ones the first, of NaNs the last.
DEVICE bool takes(float x, int at, float y, int other) {
    if (at < 0 || other < 0) {
        return at >= 0;
    }
    if (is_nan(x) || is_nan(y)) {
        return is_nan(x) && (!is_nan(y) || at > other);
    }
    return x > y || (x == y && at < other);
}

// LANES threads for each window: 1 or a warp.
template <int LANES, typename T>
DEVICE void forward(const T* x, T* y, i32* where, i64 n, int largest, int padding, const i64* t) {
    Windows a = windows(t), b = windows(t + 7), c = windows(t + 14);
    i64 plane_out = (i64)a.out * b.out * c.out;
    i64 plane_in = (i64)a.in * b.in * c.in;
    int volume = a.kernel * b.kernel * c.kernel;
    int first = LANES == 1 ? 0 : lane();
    i64 step = block_count() * (thread_count() / LANES);
    for (i64 w = (block_index() * thread_count() + thread_index()) / LANES; w < n; w += step) {
        i64 plane = quotient(w, plane_out);
        int o = (int)(w - plane * plane_out);
        int start_a = a.start(o / c.out / b.out), start_b = b.start(o / c.out % b.out), start_c = c.start(o % c.out);
        const T* p = x + plane * plane_in;
        float best = 0;
        int at = -1;
        for (int k = first; k < volume; k += LANES) {
            int i = start_a + k / c.kernel / b.kernel * a.dilation;
            int j = start_b + k / c.kernel % b.kernel * b.dilation;
            int l = start_c + k % c.kernel * c.dilation;
            if (i >= 0 && i < a.in && j >= 0 && j < b.in && l >= 0 && l < c.in) {
                int here = (i * b.in + j) * c.in + l;
                float v = widen(p[here]);
                if (!largest) {
                    best += v;
                } else if (takes(v, here, best, at)) {
                    best = v;
                    at = here;
                }
            }
        }
        if (LANES > 1) {
#pragma unroll
            for (int mask = LANES / 2; mask > 0; mask /= 2) {
                float other = shuffle_xor(best, mask);
                int place = shuffle_xor(at, mask);
                if (!largest) {
                    best += other;
                } else if (takes(other, place, best, at)) {
                    best = other;
                    at = place;
                }
            }
        }
        if (first == 0) {
            y[w] = narrow<T>(largest ? (at < 0 ? -INFINITE : best) : best / share(a, b, c, o, padding != 0));
            if (largest) {
                where[w] = at;
            }
        }
    }
}

// A thread for each input: what the windows that look at it give, in their order.
template <typename T>
DEVICE void backward(const T* dy, const i32* where, T* dx, i64 n, int largest, int padding, const i64* t) {
    Windows a = windows(t), b = windows(t + 7), c = windows(t + 14);
    i64 plane_out = (i64)a.out * b.out * c.out;
    i64 plane_in = (i64)a.in * b.in * c.in;
    for_packs<1>(n, [&](i64 e, int) {
        i64 plane = quotient(e, plane_in);
        int here = (int)(e - plane * plane_in);
        int i = here / c.in / b.in, j = here / c.in % b.in, l = here % c.in;
        float sum = 0;
        for (int oa = a.first_at(i); oa <= a.last_at(i); oa++) {
            for (int ob = b.first_at(j); ob <= b.last_at(j); ob++) {
                for (int oc = c.first_at(l); oc <= c.last_at(l); oc++) {
                    int o = (oa * b.out + ob) * c.out + oc;
                    i64 w = plane * plane_out + o;
                    if (largest) {
                        sum += where[w] == here ? widen(dy[w]) : 0;
                    } else if (a.looks(oa, i) && b.looks(ob, j) && c.looks(oc, l)) {
                        sum += widen(dy[w]) / share(a, b, c, o, padding != 0);
                    }
                }
            }
        }
        dx[e] = narrow<T>(sum);
    });
}

#define M(S, T)                                                                                                                       \
    KERNEL(pool_threads_##S, 256, (const T* x, T* y, i32* where, i64 n, int largest, int padding, const i64* windows)) {              \
        forward<1>(x, y, where, n, largest, padding, windows);                                                                        \
    }                                                                                                                                 \
    KERNEL(pool_warps_##S, 256, (const T* x, T* y, i32* where, i64 n, int largest, int padding, const i64* windows)) {                \
        forward<WARP>(x, y, where, n, largest, padding, windows);                                                                     \
    }
FLOAT_TYPES(M)
M(f64, f64)
M(i8, i8)
M(u8, u8)
#define N(S, T)                                                                                                                       \
    KERNEL(pool_backward_##S, 256, (const T* dy, const i32* where, T* dx, i64 n, int largest, int padding, const i64* windows)) {     \
        backward(dy, where, dx, n, largest, padding, windows);                                                                        \
    }
FLOAT_TYPES(N)
N(f64, f64)
