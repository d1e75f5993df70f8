// What convolutions need besides products; the twin of ConvReference. A tap is an input that an output reads: taps of a sample are a
// matrix of K = channels x kernel rows x kernel columns by P outputs. Convolutions in groups are computed tap by tap.
#include "octet.cuh"

// How a kernel moves along one axis: output o reads inputs o stride - before + t dilation.
struct Axis {
    int in, out, kernel, stride, dilation, before;
    DEVICE int at(int o, int t) const { return o * stride - before + t * dilation; }
    // The output that reads input i at kernel element t; -1 where none does.
    DEVICE int output(int i, int t) const {
        int by = i + before - t * dilation;
        return by >= 0 && by % stride == 0 && by / stride < out ? by / stride : -1;
    }
};
DEVICE Axis axis(const i64* t) { return {(int)t[0], (int)t[1], (int)t[2], (int)t[3], (int)t[4], (int)t[5]}; }

// The matrices of taps of some samples: [K, P], or with by_outputs [P, K]. Elements are moved as they are.
template <typename U> DEVICE void lay_out(const U* x, U* taps, i64 n, int channels, int by_outputs, const i64* axes) {
    Axis rows = axis(axes), columns = axis(axes + 6);
    int area = rows.kernel * columns.kernel;
    i64 k_count = (i64)channels * area;
    i64 p_count = (i64)rows.out * columns.out;
    const int N = 16 / sizeof(U);
    for_packs<N>(n, [&](i64 at, int m) {
        i64 inner = by_outputs ? k_count : p_count;
        i64 outer = by_outputs ? p_count : k_count;
        i64 line = quotient(at, inner);
        int fast = (int)(at - line * inner);
        i64 sample = quotient(line, outer);
        int slow = (int)(line - sample * outer);
        int k = by_outputs ? fast : slow;
        int p = by_outputs ? slow : fast;
        int channel = k / area, i = k % area / columns.kernel, j = k % columns.kernel;
        int r = p / columns.out, c = p % columns.out;
        Pack<U, N> pack;
#pragma unroll
        for (int e = 0; e < N; e++) {
            if (e < m) {
                int row = rows.at(r, i), column = columns.at(c, j);
                bool inside = row >= 0 && row < rows.in && column >= 0 && column < columns.in;
                pack.at[e] = inside ? x[((sample * channels + channel) * rows.in + row) * columns.in + column] : (U)0;
                if (m < N) {
                    taps[at + e] = pack.at[e];
                }
                // the next element: kernel columns, kernel rows and channels, and output columns and rows, one inside the other
                bool next_k = by_outputs;
                bool next_p = !by_outputs;
                for (int turn = 0; turn < 2; turn++) {
                    if (next_k) {
                        next_k = false;
                        if (++j == columns.kernel) {
                            j = 0;
                            if (++i == rows.kernel) {
                                i = 0;
                                if (++channel == channels) {
                                    channel = 0;
                                    sample += by_outputs ? 0 : 1;
                                    next_p = by_outputs != 0;
                                }
                            }
                        }
                    } else if (next_p) {
                        next_p = false;
                        if (++c == columns.out) {
                            c = 0;
                            if (++r == rows.out) {
                                r = 0;
                                sample += by_outputs ? 1 : 0;
                                next_k = !by_outputs;
                            }
                        }
                    }
                }
            }
        }
        if (m == N) {
            *(Pack<U, N>*)(taps + at) = pack;
        }
    });
}

// y[z] = x[z] transposed, x being [rows, columns]; tiles of 32 by 32.
template <typename U> DEVICE void turn(const U* x, U* y, i64 rows, i64 columns) {
    SHARED U tile[32][33];
    i64 across = (columns + 31) / 32;
    i64 down = (rows + 31) / 32;
    i64 t = quotient(block_index(), across);
    i64 column = (block_index() - t * across) * 32;
    i64 z = quotient(t, down);
    i64 row = (t - z * down) * 32;
    const U* from = x + z * rows * columns;
    U* to = y + z * rows * columns;
    for (int i = warp(); i < 32; i += 8) {
        if (row + i < rows && column + lane() < columns) {
            tile[i][lane()] = from[(row + i) * columns + column + lane()];
        }
    }
    block_barrier();
    for (int i = warp(); i < 32; i += 8) {
        if (column + i < columns && row + lane() < rows) {
            to[(column + i) * rows + row + lane()] = tile[lane()][i];
        }
    }
}

#define M(BYTES, U)                                                                                                                   \
    KERNEL(conv_taps_##BYTES, 256, (const U* x, U* taps, i64 n, int channels, int by_outputs, const i64* axes)) {                     \
        lay_out(x, taps, n, channels, by_outputs, axes);                                                                              \
    }                                                                                                                                 \
    KERNEL(conv_turn_##BYTES, 256, (const U* x, U* y, i64 rows, i64 columns)) { turn(x, y, rows, columns); }
M(2, u16)
M(4, u32)

// y = the bias of each filter.
template <typename T> DEVICE void fill(int type, const void* bias, T* y, i64 n, i64 filters, i64 plane) {
    for_packs<8>(n, [&](i64 at, int m) {
        i64 line = quotient(at, plane);
        i64 within = at - line * plane;
        i64 f = line - quotient(line, filters) * filters;
        float value = (float)read_number(type, bias, f);
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (within == plane) {
                within = 0;
                f = f + 1 == filters ? 0 : f + 1;
                value = (float)read_number(type, bias, f);
            }
            v[i] = value;
            within++;
        }
        store_some<8>(y + at, v, m);
    });
}

// dx from the gradients of taps [sample][K][P]: each input collects from the outputs that read it, in the order of the kernel's elements.
template <typename T> DEVICE void collect(const float* dtaps, T* dx, i64 n, int channels, const i64* axes) {
    Axis rows = axis(axes), columns = axis(axes + 6);
    i64 p_count = (i64)rows.out * columns.out;
    for_packs<1>(n, [&](i64 e, int) {
        i64 line = quotient(e, columns.in);
        int column = (int)(e - line * columns.in);
        i64 plane = quotient(line, rows.in);
        int row = (int)(line - plane * rows.in);
        float sum = 0;
        for (int i = 0; i < rows.kernel; i++) {
            int r = rows.output(row, i);
            if (r < 0) {
                continue;
            }
            for (int j = 0; j < columns.kernel; j++) {
                int c = columns.output(column, j);
                if (c >= 0) {
                    sum += dtaps[((plane * rows.kernel + i) * columns.kernel + j) * p_count + (i64)r * columns.out + c];
                }
            }
        }
        dx[e] = narrow<T>(sum);
    });
}

// --- in groups ---------------------------------------------------------------------------------------------------------------------

struct Groups {
    int channels, filters, group_channels, group_filters;
};

// y [batch, filters, P]: a thread for each output.
template <typename T>
DEVICE void group_forward(const T* x, const T* w, int type, const void* bias, T* y, i64 n, Groups g, const i64* axes) {
    Axis rows = axis(axes), columns = axis(axes + 6);
    for_packs<1>(n, [&](i64 e, int) {
        i64 line = quotient(e, columns.out);
        int c = (int)(e - line * columns.out);
        i64 plane = quotient(line, rows.out);
        int r = (int)(line - plane * rows.out);
        i64 sample = quotient(plane, g.filters);
        int f = (int)(plane - sample * g.filters);
        const T* filter = w + (i64)f * g.group_channels * rows.kernel * columns.kernel;
        i64 first = sample * g.channels + f / g.group_filters * g.group_channels;
        float sum = bias ? (float)read_number(type, bias, f) : 0;
        for (int channel = 0; channel < g.group_channels; channel++) {
            for (int i = 0; i < rows.kernel; i++) {
                int row = rows.at(r, i);
                if (row < 0 || row >= rows.in) {
                    continue;
                }
                for (int j = 0; j < columns.kernel; j++) {
                    int column = columns.at(c, j);
                    if (column >= 0 && column < columns.in) {
                        sum = fmaf(widen(x[((first + channel) * rows.in + row) * columns.in + column]),
                                   widen(filter[(channel * rows.kernel + i) * columns.kernel + j]), sum);
                    }
                }
            }
        }
        y[e] = narrow<T>(sum);
    });
}

// dx [batch, channels, ..]: a thread for each input.
template <typename T> DEVICE void group_input(const T* dy, const T* w, T* dx, i64 n, Groups g, const i64* axes) {
    Axis rows = axis(axes), columns = axis(axes + 6);
    for_packs<1>(n, [&](i64 e, int) {
        i64 line = quotient(e, columns.in);
        int column = (int)(e - line * columns.in);
        i64 plane = quotient(line, rows.in);
        int row = (int)(line - plane * rows.in);
        i64 sample = quotient(plane, g.channels);
        int channel = (int)(plane - sample * g.channels);
        int group = channel / g.group_channels;
        float sum = 0;
        for (int f = group * g.group_filters; f < (group + 1) * g.group_filters; f++) {
            const T* filter = w + ((i64)f * g.group_channels + channel % g.group_channels) * rows.kernel * columns.kernel;
            const T* up = dy + (sample * g.filters + f) * rows.out * columns.out;
            for (int i = 0; i < rows.kernel; i++) {
                int r = rows.output(row, i);
                for (int j = 0; r >= 0 && j < columns.kernel; j++) {
                    int c = columns.output(column, j);
                    if (c >= 0) {
                        sum = fmaf(widen(up[(i64)r * columns.out + c]), widen(filter[i * columns.kernel + j]), sum);
                    }
                }
            }
        }
        dx[e] = narrow<T>(sum);
    });
}

// dw [filters, group channels, kernel]: a block for each element, its threads over the outputs of all samples.
template <typename T> DEVICE void group_weight(const T* dy, const T* x, T* dw, int batch, Groups g, const i64* axes) {
    SHARED float scratch[33];
    Axis rows = axis(axes), columns = axis(axes + 6);
    int area = rows.kernel * columns.kernel;
    i64 filter = quotient(block_index(), area);
    int tap = (int)(block_index() - filter * area);
    int i = tap / columns.kernel, j = tap % columns.kernel;
    int f = (int)quotient(filter, g.group_channels);
    int channel = f / g.group_filters * g.group_channels + (int)(filter - (i64)f * g.group_channels);
    i64 p_count = (i64)rows.out * columns.out;
    float sum = 0;
    for (i64 e = thread_index(); e < batch * p_count; e += thread_count()) {
        i64 sample = quotient(e, p_count);
        int p = (int)(e - sample * p_count);
        int row = rows.at(p / columns.out, i), column = columns.at(p % columns.out, j);
        if (row >= 0 && row < rows.in && column >= 0 && column < columns.in) {
            sum = fmaf(widen(dy[(sample * g.filters + f) * p_count + p]),
                       widen(x[((sample * g.channels + channel) * rows.in + row) * columns.in + column]), sum);
        }
    }
    sum = block_fold(sum, Sum(), 0.0f, scratch);
    if (thread_index() == 0) {
        dw[block_index()] = narrow<T>(sum);
    }
}

#define GROUPS int channels, int filters, int group_channels, int group_filters
#define OF_GROUPS                                                                                                                     \
    Groups { channels, filters, group_channels, group_filters }
#define N(S, T)                                                                                                                       \
    KERNEL(conv_fill_##S, 256, (int type, const void* bias, T* y, i64 n, i64 filters, i64 plane)) {                                   \
        fill(type, bias, y, n, filters, plane);                                                                                       \
    }                                                                                                                                 \
    KERNEL(conv_collect_##S, 256, (const float* dtaps, T* dx, i64 n, int channels, const i64* axes)) {                                \
        collect(dtaps, dx, n, channels, axes);                                                                                        \
    }                                                                                                                                 \
    KERNEL(conv_round_##S, 256, (const float* x, T* y, i64 n)) {                                                                      \
        for_packs<8>(n, [&](i64 at, int m) {                                                                                          \
            float v[8];                                                                                                               \
            load_some<8>(x + at, v, m);                                                                                               \
            store_some<8>(y + at, v, m);                                                                                              \
        });                                                                                                                           \
    }                                                                                                                                 \
    KERNEL(conv_group_forward_##S, 256,                                                                                               \
           (const T* x, const T* w, int type, const void* bias, T* y, i64 n, GROUPS, const i64* axes)) {                              \
        group_forward(x, w, type, bias, y, n, OF_GROUPS, axes);                                                                       \
    }                                                                                                                                 \
    KERNEL(conv_group_input_##S, 256, (const T* dy, const T* w, T* dx, i64 n, GROUPS, const i64* axes)) {                             \
        group_input(dy, w, dx, n, OF_GROUPS, axes);                                                                                   \
    }                                                                                                                                 \
    KERNEL(conv_group_weight_##S, 256, (const T* dy, const T* x, T* dw, int batch, GROUPS, const i64* axes)) {                        \
        group_weight(dy, x, dw, batch, OF_GROUPS, axes);                                                                              \
    }
FLOAT_TYPES(N)
