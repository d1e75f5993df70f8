// Quantisation, and what products of codes need besides the product; the twins of QuantizeFp8Reference, QuantizeFp8DelayedReference,
// AmaxUpdateReference and the parts of Fp8LinearReference. Everything that decides the bits of codes, scales and amaxes is F32 arithmetic in the
// recipe's order, never contracted.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
// variants: PART_FLOAT=f32 PART_CODE=e4m3; PART_FLOAT=f32 PART_CODE=e5m2
// variants: PART_FLOAT=bf16 PART_CODE=e4m3; PART_FLOAT=bf16 PART_CODE=e5m2
// variants: PART_FLOAT=f16 PART_CODE=e4m3; PART_FLOAT=f16 PART_CODE=e5m2
#include "octet.cuh"

// --- one scale, known before ---------------------------------------------------------------------------------------------------

// Which of a matrix's tiles of 64 rows and 128 columns, or of other pieces of it, a block has.
struct Tile {
    i64 column;
    i64 row;
};
DEVICE Tile tile_of_block() { return Tile{block_index(), block_index_y()}; }

// The scale that belongs to the codes. Written by one thread.
DEVICE void put_scale(Tile place, const float* quant_scale, float* scale) {
    if (scale && place.column == 0 && place.row == 0 && thread_index() == 0) {
        *scale = exact_divide(1.0f, *quant_scale);
    }
}

DEVICE float raised(float amax, float x) {
    float magnitude = fabsf(x);
    return magnitude > amax ? magnitude : amax; // NaN is left out
}

// What is cast: a tensor, or what an operator makes of one or two. An operator's values are rounded to its result's type before they are cast, as
// they are where it runs by itself; and are written where another step reads them. What is aligned can also be fetched first and made of later, so that
// fetches of several rows are under way at a time.
template <typename T> struct Plain {
    const T* x;
    template <int N> struct Raw {
        Pack<T, N> x;
    };
    template <int N> DEVICE Raw<N> fetch(i64 at) const { return Raw<N>{*(const Pack<T, N>*)(x + at)}; }
    template <int N> DEVICE void make(const Raw<N>& raw, i64, float (&v)[N]) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = widen(raw.x.at[i]);
        }
    }
    template <int N> DEVICE void take(i64 at, float (&v)[N], int m, bool whole) const {
        if (whole) {
            load_some<N>(x + at, v, m);
            return;
        }
        if constexpr (sizeof(T) == 2 && N == 8) {
            i64 begin = (i64)(x + at);
            Bytes16 eight = bytes_16(begin, begin, m > 0 ? begin + 2 * m : 0);
#pragma unroll
            for (int i = 0; i < N; i++) {
                v[i] = i < m ? widen(T{(u16)(eight.at[i / 4] >> (i % 4 * 16))}) : 0;
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                v[i] = i < m ? widen(x[at + i]) : 0;
            }
        }
    }
    DEVICE bool is_aligned16() const { return is_aligned(x, 16); }
};
template <typename T, int N> DEVICE void put(T* y, i64 at, float (&v)[N], int m, bool whole) {
    round_all<T>(v);
    if (y && whole) {
        store_some<N>(y + at, v, m);
    } else if (y) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i < m) {
                y[at + i] = narrow<T>(v[i]);
            }
        }
    }
}
template <typename T> struct GeluOf {
    Plain<T> x;
    T* y; // or 0
    int by_tanh;
    template <int N> using Raw = typename Plain<T>::template Raw<N>;
    template <int N> DEVICE Raw<N> fetch(i64 at) const { return x.template fetch<N>(at); }
    template <int N> DEVICE void make(const Raw<N>& raw, i64 at, float (&v)[N]) const {
        x.make(raw, at, v);
        finish(at, v, N, true);
    }
    template <int N> DEVICE void take(i64 at, float (&v)[N], int m, bool whole) const {
        x.take(at, v, m, whole);
        finish(at, v, m, whole);
    }
    template <int N> DEVICE void finish(i64 at, float (&v)[N], int m, bool whole) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = gelu<T>(v[i], by_tanh);
        }
        put(y, at, v, m, whole);
    }
    DEVICE bool is_aligned16() const { return x.is_aligned16(); }
};
// What Self makes of the elements of two tensors at a time: v becomes the result, w is the second's.
template <typename T, typename Self> struct PairOf {
    Plain<T> a, b;
    template <int N> struct Raw {
        Pack<T, N> a, b;
    };
    template <int N> DEVICE Raw<N> fetch(i64 at) const {
        return Raw<N>{a.template fetch<N>(at).x, b.template fetch<N>(at).x};
    }
    template <int N> DEVICE void make(const Raw<N>& raw, i64 at, float (&v)[N]) const {
        float w[N];
        a.make(typename Plain<T>::template Raw<N>{raw.a}, at, v);
        b.make(typename Plain<T>::template Raw<N>{raw.b}, at, w);
        static_cast<const Self*>(this)->finish(at, v, w, N, true);
    }
    template <int N> DEVICE void take(i64 at, float (&v)[N], int m, bool whole) const {
        float w[N];
        a.take(at, v, m, whole);
        b.take(at, w, m, whole);
        static_cast<const Self*>(this)->finish(at, v, w, m, whole);
    }
    DEVICE bool is_aligned16() const { return a.is_aligned16() && b.is_aligned16(); }
};
// The gradient that flows through Gelu: of x and dy.
template <typename T> struct GeluGradientOf : PairOf<T, GeluGradientOf<T>> {
    T* dx; // or 0
    int by_tanh;
    DEVICE GeluGradientOf(const T* x, const T* dy, T* to, int tanh) : PairOf<T, GeluGradientOf>{{x}, {dy}}, dx(to), by_tanh(tanh) {}
    template <int N> DEVICE void finish(i64 at, float (&v)[N], const float (&g)[N], int m, bool whole) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = g[i] * gelu_derivative<T>(v[i], by_tanh);
        }
        put(dx, at, v, m, whole);
    }
};
template <typename T> struct ProductOf : PairOf<T, ProductOf<T>> {
    T* y; // or 0
    DEVICE ProductOf(const T* a, const T* b, T* to) : PairOf<T, ProductOf>{{a}, {b}}, y(to) {}
    template <int N> DEVICE void finish(i64 at, float (&v)[N], const float (&w)[N], int m, bool whole) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] *= w[i];
        }
        put(y, at, v, m, whole);
    }
};
// The result of a gated MLP's activation: act(x) u.
template <typename T> struct GatedOf : PairOf<T, GatedOf<T>> {
    T* y; // or 0
    int activation;
    DEVICE GatedOf(const T* x, const T* u, T* to, int act) : PairOf<T, GatedOf>{{x}, {u}}, y(to), activation(act) {}
    template <int N> DEVICE void finish(i64 at, float (&v)[N], const float (&w)[N], int m, bool whole) const {
        const int some = N % 4 == 0 ? 4 : 1; // as many as registers hold besides v and w
#pragma unroll
        for (int from = 0; from < N; from += some) {
            float x[some], s[some], a[some];
#pragma unroll
            for (int i = 0; i < some; i++) {
                x[i] = v[from + i];
            }
            activate<T>(activation, x, s, a);
#pragma unroll
            for (int i = 0; i < some; i++) {
                v[from + i] = a[i] * w[from + i];
            }
        }
        put(y, at, v, m, whole);
    }
};
// The gradient of a cross entropy with respect to its scores x, whose rows are pitch long: dl (p - target), as cross_entropy_backward has it. Of each row: log Σ exp x,
// dl, the label.
template <typename T> struct ScoreGradientOf {
    Plain<T> x;
    T* dx; // or 0
    i64 pitch;
    const float* log_sums;
    const float* slopes;
    const i32* targets;
    i32 classes;
    float smoothing;
    template <int N> using Raw = typename Plain<T>::template Raw<N>;
    DEVICE i64 place(i64 at) const { return pitch == classes ? at : at + quotient(at, classes) * (pitch - classes); }
    template <int N> DEVICE Raw<N> fetch(i64 at) const { return x.template fetch<N>(place(at)); }
    template <int N> DEVICE void make(const Raw<N>& raw, i64 at, float (&v)[N]) const {
        x.make(raw, at, v);
        finish(at, v, N, true);
    }
    template <int N> DEVICE void take(i64 at, float (&v)[N], int m, bool whole) const {
        x.take(place(at), v, m, whole);
        if (m > 0) { // else there may be no such row
            finish(at, v, m, whole);
        }
    }
    template <int N> DEVICE void finish(i64 at, float (&v)[N], int m, bool whole) const {
        i64 row = quotient(at, classes);
        int label = targets[row] - (int)(at - row * classes);
        float log_sum = log_sums[row];
        float dl = slopes[row];
        float at_label = dl * (1 - smoothing);
        float even = dl * (smoothing / classes);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float y = expf(v[i] - log_sum) * dl;
            if (i == label) {
                y -= at_label;
            }
            y -= even;
            v[i] = dl == 0 || i >= m ? 0 : y; // scores of rows that do not count may be anything
        }
        put(dx, at, v, m, whole);
    }
    DEVICE bool is_aligned16() const { return x.is_aligned16(); }
};

// codes = cast(x quant_scale); *amax, where it is wanted, raised to the largest |x|.
template <typename X, typename C> DEVICE void cast_amax(X x, C* codes, i64 n, const float* quant_scale, float* scale, float* amax) {
    SHARED float scratch[33];
    float q = *quant_scale;
    float largest = 0;
    for_packs<16>(n, [&](i64 at, int m) {
        float v[16];
        x.take(at, v, m, true);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            largest = Max()(largest, fabsf(v[i])); // NaN is left out
            v[i] = exact_multiply(v[i], q);
        }
        store_some<16>(codes + at, v, m);
    });
    if (amax) {
        raise_amax(amax, largest, scratch);
    }
    put_scale(tile_of_block(), quant_scale, scale);
}

// Eight codes at any address, those of 16 neighbouring lanes one behind the other: a lane writes 8 aligned bytes, with the last codes of the
// lane before; the first lane writes fewer, the last its own last ones, too.
DEVICE void put_codes(i64 at, Pack<u16, 4> pack, int group, bool there) {
    u32 low = pack.at[0] | (u32)pack.at[1] << 16;
    u32 high = pack.at[2] | (u32)pack.at[3] << 16;
    u32 low_before = (u32)shuffle((int)low, lane() - 1);
    u32 high_before = (u32)shuffle((int)high, lane() - 1);
    if (there) {
        int behind = (int)(at & 7);
        u64 mine = low | (u64)high << 32;
        if (behind == 0) {
            *(u64*)at = mine;
        } else {
            if (group > 0) {
                *(u64*)(at - behind) = (low_before | (u64)high_before << 32) >> (64 - 8 * behind) | mine << (8 * behind);
            }
#pragma unroll 1
            for (int i = group == 0 ? 0 : 8 - behind; i < (group == 15 ? 8 : group == 0 ? 8 - behind : 0); i++) {
                *(u8*)(at + i) = (u8)(mine >> (8 * i));
            }
        }
    }
}

// Writes a block's part of a transpose: words of four rows of each of 128 columns.
DEVICE void put_transposed(Tile place, const u32 (&tile)[128][17], i64 cols, u8* transposed, i64 leading) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int piece = thread_index() + k * 256;
        int c = piece / 4;
        int part = piece % 4;
        i64 to_column = place.column * 128 + c;
        i64 to_row = place.row * 64 + part * 16;
        if (to_column < cols && to_row < leading) { // leading is a multiple of 16
            Pack<u32, 4> pack;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                pack.at[i] = tile[c][part * 4 + i];
            }
            *(Pack<u32, 4>*)(transposed + to_column * leading + to_row) = pack;
        }
    }
}

// Where the codes of a matrix go, with their transpose beside them: [cols, leading], zeros behind the rows. Rows of codes are as long as those of the matrix, or
// pitch codes, a multiple of 16, zeros behind the columns. Where they are wanted, sums [blocks of rows][cols] of what is cast, before it is scaled, are those of each
// block's rows. The transpose may be absent.
template <typename C> struct Target {
    C* codes;
    i64 pitch;
    u8* transposed;
    i64 leading;
    const float* quant_scale;
    float* scale;
    float* amax;
    float* sums;
};

// What a thread makes of its 4 rows of 8 columns: it has four codes of a column at once, a word of the transpose.
template <typename C> struct Quad {
    u32 words[8];
    float sum[8];
    float largest;
    DEVICE Quad() {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            words[i] = 0;
            sum[i] = 0;
        }
        largest = 0;
    }
    // Codes of row r, times q.
    DEVICE Pack<u16, 4> encode(int r, float (&v)[8], float q) {
        Pack<u16, 4> pack;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            largest = Max()(largest, fabsf(v[i])); // NaN is left out
            sum[i] += v[i];
            v[i] = exact_multiply(v[i], q);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u16 pair = encode_pair<C>(v[2 * i], v[2 * i + 1]);
            pack.at[i] = pair;
            words[2 * i] |= (u32)(pair & 0xff) << (8 * r);
            words[2 * i + 1] |= (u32)(pair >> 8) << (8 * r);
        }
        return pack;
    }
};

// A matrix's sides, and the place of a thread's rows and columns in it.
struct Corner {
    Tile place;
    i64 rows;
    i64 cols;
    int group;
    int quad;
    i64 column;
    i64 row;
    DEVICE Corner(Tile tile, i64 rows, i64 cols) : place(tile), rows(rows), cols(cols) {
        group = thread_index() % 16;
        quad = thread_index() / 16;
        column = place.column * 128 + group * 8;
        row = place.row * 64 + quad * 4;
    }
    // How many of its columns a row has; none or less where it is not there.
    DEVICE int there(int r) const { return row + r < rows ? (cols - column < 8 ? (int)(cols - column) : 8) : 0; }
};

// Writes the codes of row r, of which there are m, where rows may begin anywhere.
template <typename C> DEVICE void put_row(const Corner& at, const Target<C>& to, int r, Pack<u16, 4> pack, int m, bool whole) {
    bool padded = to.pitch % 16 == 0;
    bool shifted = !whole && !padded && at.place.column * 128 + 128 <= at.cols; // no lane of a row is without eight columns
    C* codes = to.codes + (at.row + r) * to.pitch + at.column;
    if (padded && at.row + r < at.rows && at.column < to.pitch) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            pack.at[i] &= 2 * i + 1 < m ? 0xffff : 2 * i < m ? 0xff : 0;
        }
        *(Pack<u16, 4>*)codes = pack;
    } else if (shifted) {
        put_codes((i64)codes, pack, at.group, m == 8);
    } else if (!padded) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < m) {
                codes[i] = C{(u8)(pack.at[i / 2] >> (8 * (i % 2)))};
            }
        }
    }
}

// Writes what a block has beside the rows of codes. Free for reuse afterwards, behind a barrier: tile, columns and scratch.
template <typename C>
DEVICE void put_quads(const Corner& at, const Target<C>& to, const Quad<C>& q, u32 (&tile)[128][17], float (&columns)[8][128], float* scratch) {
    // rows and columns that are not there: a quant_scale that is not finite makes NaN of their zeros
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u32 there = at.column + i < at.cols ? 0xffffffffu : 0;
        i64 missing = at.row + 4 - at.rows;
        there = missing >= 4 ? 0 : missing > 0 ? there >> (8 * missing) : there;
        tile[at.group * 8 + i][at.quad] = q.words[i] & there;
    }
    if (to.sums) { // the same for all threads
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float both = q.sum[i] + shuffle_xor(q.sum[i], 16);
            if (lane() < 16) {
                columns[warp()][at.group * 8 + i] = both;
            }
        }
    }
    block_barrier();
    if (to.sums && thread_index() < 128 && at.place.column * 128 + thread_index() < at.cols) {
        float all = 0;
        for (int w = 0; w < 8; w++) {
            all += columns[w][thread_index()];
        }
        to.sums[at.place.row * at.cols + at.place.column * 128 + thread_index()] = all;
    }
    if (to.transposed) {
        put_transposed(at.place, tile, at.cols, to.transposed, to.leading);
    }
    if (to.amax) {
        raise_amax(to.amax, q.largest, scratch);
    }
    put_scale(at.place, to.quant_scale, to.scale);
}

// The same of a matrix, with the transpose of the codes beside them. A block takes 64 rows of 128 columns, a thread 4 rows of 8.
template <typename X, typename C> DEVICE void cast_transpose(Tile place, X x, i64 rows, i64 cols, Target<C> to) {
    SHARED u32 tile[128][17];
    SHARED float scratch[33];
    SHARED float columns[8][128];
    float q = *to.quant_scale;
    Corner at(place, rows, cols);
    bool whole = cols % 8 == 0 && x.is_aligned16();
    Quad<C> quad;
    typedef typename X::template Raw<8> Raw;
    const int ahead = sizeof(Raw) <= 16 ? 4 : sizeof(Raw) <= 32 ? 2 : 1; // as many as registers hold
    if (ahead > 1 && whole && at.row + 4 <= rows && at.column + 8 <= cols) {
#pragma unroll
        for (int first = 0; first < 4; first += ahead) {
            Raw raw[ahead];
#pragma unroll
            for (int r = 0; r < ahead; r++) {
                raw[r] = x.template fetch<8>((at.row + first + r) * cols + at.column);
            }
#pragma unroll
            for (int r = 0; r < ahead; r++) {
                float v[8];
                x.make(raw[r], (at.row + first + r) * cols + at.column, v);
                *(Pack<u16, 4>*)(to.codes + (at.row + first + r) * to.pitch + at.column) = quad.encode(first + r, v, q);
            }
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < 4; r++) {
            float v[8];
            int m = at.there(r);
            x.take((at.row + r) * cols + at.column, v, m < 0 ? 0 : m, whole && m == 8);
            put_row(at, to, r, quad.encode(r, v, q), m, whole);
        }
    }
    put_quads(at, to, quad, tile, columns, scratch);
}

// The gradients that a gated MLP's two Linears take, from g = dL/dy of y = act(x) u: both made, cast and transposed in one pass. They are written where something
// else reads them.
template <typename T, typename C>
DEVICE void gated_gradient_transpose(Plain<T> x, Plain<T> u, Plain<T> g, T* dx, T* du, int activation, i64 rows, i64 cols, Target<C> of_x, Target<C> of_u) {
    SHARED u32 tile[128][17];
    SHARED float scratch[33];
    SHARED float columns[8][128];
    float qx = *of_x.quant_scale;
    float qu = *of_u.quant_scale;
    Corner at(tile_of_block(), rows, cols);
    bool whole = cols % 8 == 0 && x.is_aligned16() && u.is_aligned16() && g.is_aligned16();
    Quad<C> quad_x, quad_u;
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
        float vx[8], vu[8], vg[8];
        int m = at.there(r);
        int n = m < 0 ? 0 : m;
        bool all = whole && m == 8;
        i64 first = (at.row + r) * cols + at.column;
        x.take(first, vx, n, all);
        u.take(first, vu, n, all);
        g.take(first, vg, n, all);
        gated_gradient<T>(activation, vx, vu, vg);
        put(dx, first, vx, n, all);
        put(du, first, vu, n, all);
        put_row(at, of_x, r, quad_x.encode(r, vx, qx), m, whole);
        put_row(at, of_u, r, quad_u.encode(r, vu, qu), m, whole);
    }
    put_quads(at, of_x, quad_x, tile, columns, scratch);
    block_barrier();
    put_quads(at, of_u, quad_u, tile, columns, scratch);
}

// The same of many matrices, a block for each pair of a row of the table and a tile's place, which has the number of the column of tiles in its lower 32 bits. Rows of the
// table: x, rows, columns, codes, transpose or 0, its leading dimension, quant_scale, scale, amax or 0.
template <typename T, typename C> DEVICE void casts_transpose(const i64* table, const i64* tiles) {
    const i64* row = table + 9 * tiles[2 * block_index()];
    i64 place = tiles[2 * block_index() + 1];
    cast_transpose(Tile{place & 0xffffffff, place >> 32}, Plain<T>{(const T*)row[0]}, row[1], row[2],
                   Target<C>{(C*)row[3], row[2], (u8*)row[4], row[5], (const float*)row[6], (float*)row[7], (float*)row[8], (float*)0});
}

// As kernels name the parts of a target.
#define TARGET(C) Target<C>{codes, pitch, transposed, leading, quant_scale, scale, amax, sums}
#define M2(S, T, SC, C)                                                                                                             \
    KERNEL(cast_amax_##S##_##SC, 256, (const T* x, C* codes, i64 n, const float* quant_scale, float* scale, float* amax)) {         \
        cast_amax(Plain<T>{x}, codes, n, quant_scale, scale, amax);                                                                 \
    }                                                                                                                               \
    KERNEL(cast_transpose_##S##_##SC, 256,                                                                                          \
           (const T* x, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading, const float* quant_scale, float* scale,\
            float* amax, float* sums)) {                                                                                            \
        cast_transpose(tile_of_block(), Plain<T>{x}, rows, cols, TARGET(C));                                                        \
    }                                                                                                                               \
    KERNEL(casts_transpose_##S##_##SC, 256, (const i64* table, const i64* tiles)) { casts_transpose<T, C>(table, tiles); }          \
    KERNEL(gelu_amax_##S##_##SC, 256,                                                                                               \
           (const T* x, T* y, int by_tanh, C* codes, i64 n, const float* quant_scale, float* scale, float* amax)) {                 \
        cast_amax(GeluOf<T>{Plain<T>{x}, y, by_tanh}, codes, n, quant_scale, scale, amax);                                          \
    }                                                                                                                               \
    KERNEL(gelu_transpose_##S##_##SC, 256,                                                                                          \
           (const T* x, T* y, int by_tanh, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading, const float* quant_scale,\
            float* scale, float* amax, float* sums)) {                                                                              \
        cast_transpose(tile_of_block(), GeluOf<T>{Plain<T>{x}, y, by_tanh}, rows, cols, TARGET(C));                                 \
    }                                                                                                                               \
    KERNEL(gelu_gradient_amax_##S##_##SC, 256,                                                                                      \
           (const T* x, const T* dy, T* dx, int by_tanh, C* codes, i64 n, const float* quant_scale, float* scale, float* amax)) {   \
        cast_amax(GeluGradientOf<T>(x, dy, dx, by_tanh), codes, n, quant_scale, scale, amax);                                       \
    }                                                                                                                               \
    KERNEL(gelu_gradient_transpose_##S##_##SC, 256,                                                                                 \
           (const T* x, const T* dy, T* dx, int by_tanh, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading,      \
            const float* quant_scale, float* scale, float* amax, float* sums)) {                                                    \
        cast_transpose(tile_of_block(), GeluGradientOf<T>(x, dy, dx, by_tanh), rows, cols, TARGET(C));                              \
    }                                                                                                                               \
    KERNEL(product_amax_##S##_##SC, 256,                                                                                            \
           (const T* a, const T* b, T* y, C* codes, i64 n, const float* quant_scale, float* scale, float* amax)) {                  \
        cast_amax(ProductOf<T>(a, b, y), codes, n, quant_scale, scale, amax);                                                       \
    }                                                                                                                               \
    KERNEL(product_transpose_##S##_##SC, 256,                                                                                       \
           (const T* a, const T* b, T* y, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading, const float* quant_scale,\
            float* scale, float* amax, float* sums)) {                                                                              \
        cast_transpose(tile_of_block(), ProductOf<T>(a, b, y), rows, cols, TARGET(C));                                              \
    }                                                                                                                               \
    KERNEL(gated_amax_##S##_##SC, 256,                                                                                              \
           (const T* x, const T* u, T* y, int activation, C* codes, i64 n, const float* quant_scale, float* scale, float* amax)) {  \
        cast_amax(GatedOf<T>(x, u, y, activation), codes, n, quant_scale, scale, amax);                                             \
    }                                                                                                                               \
    RESIDENT_KERNEL(score_gradient_transpose_##S##_##SC, 256, 768,                                                                  \
           (const T* x, T* dx, i64 pitch_x, const float* log_sums, const float* slopes, const i32* targets, i32 classes, float smoothing, i64 rows, i64 cols,\
            C* codes, i64 pitch, u8* transposed, i64 leading, const float* quant_scale, float* scale, float* amax, float* sums)) {  \
        cast_transpose(tile_of_block(), ScoreGradientOf<T>{Plain<T>{x}, dx, pitch_x, log_sums, slopes, targets, classes, smoothing}, rows, cols, TARGET(C));\
    }                                                                                                                               \
    RESIDENT_KERNEL(gated_transpose_##S##_##SC, 256, 768,                                                                           \
           (const T* x, const T* u, T* y, int activation, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading,     \
            const float* quant_scale, float* scale, float* amax, float* sums)) {                                                    \
        cast_transpose(tile_of_block(), GatedOf<T>(x, u, y, activation), rows, cols, TARGET(C));                                    \
    }                                                                                                                               \
    RESIDENT_KERNEL(gated_gradient_transpose_##S##_##SC, 256, 512,                                                                  \
           (const T* x, const T* u, const T* dy, T* dx, T* du, int activation, i64 rows, i64 cols, C* codes, i64 pitch, u8* transposed, i64 leading,\
            const float* quant_scale, float* scale, float* amax, float* sums, C* codes_u, i64 pitch_u, u8* transposed_u, i64 leading_u,\
            const float* quant_scale_u, float* scale_u, float* amax_u, float* sums_u)) {                                            \
        gated_gradient_transpose(Plain<T>{x}, Plain<T>{u}, Plain<T>{dy}, dx, du, activation, rows, cols, TARGET(C),                 \
                                 Target<C>{codes_u, pitch_u, transposed_u, leading_u, quant_scale_u, scale_u, amax_u, sums_u});     \
    }
#define M(S, T) CODE_TYPES(M2, S, T)
FLOAT_TYPES(M)
#undef M

#if HAS_REST
// Codes that were made in one layout only. A block takes 64 rows of 128 columns, a thread 4 rows of 8, as cast_transpose does.
KERNEL(transpose_codes, 256, (const u8* codes, i64 rows, i64 cols, u8* transposed, i64 leading)) {
    SHARED u32 tile[128][17];
    int group = thread_index() % 16;
    int quad = thread_index() / 16;
    i64 column = block_index() * 128 + group * 8;
    i64 row = block_index_y() * 64 + quad * 4;
    bool whole = cols % 8 == 0 && is_aligned(codes, 8);
    Pack<u32, 2> eight[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        eight[r] = Pack<u32, 2>{{0, 0}};
        const u8* from = codes + (row + r) * cols + column;
        if (row + r < rows && whole && column + 8 <= cols) {
            eight[r] = *(const Pack<u32, 2>*)from;
        } else if (row + r < rows) {
            for (int i = 0; i < 8 && column + i < cols; i++) {
                eight[r].at[i / 4] |= (u32)from[i] << (i % 4 * 8);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u32 word = 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            word |= (eight[r].at[i / 4] >> (i % 4 * 8) & 0xff) << (8 * r);
        }
        tile[group * 8 + i][quad] = word;
    }
    block_barrier();
    put_transposed(tile_of_block(), tile, cols, transposed, leading);
}
#endif

// --- scales from the values themselves -----------------------------------------------------------------------------------------

DEVICE void raise_bits(float* amax, float magnitude) { atomic_max((int*)amax, (int)float_bits(magnitude)); }

// The larger magnitude; NaN, whose bits are above all, counts where it is to be seen.
DEVICE float larger(float amax, float x, int sees_nan) {
    float magnitude = fabsf(x);
    return magnitude > amax || (sees_nan && is_nan(magnitude)) ? magnitude : amax;
}
struct LargerBits {
    DEVICE float operator()(float a, float b) const { return float_bits(b) > float_bits(a) ? b : a; }
};

// amax: zero before. All of x is one block.
template <typename T> DEVICE void whole_amax(const T* x, i64 n, float* amax, int sees_nan) {
    SHARED float scratch[33];
    float largest = 0;
    for_packs<8>(n, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            largest = is_nan(largest) ? largest : larger(largest, v[i], sees_nan);
        }
    });
    largest = block_fold(largest, LargerBits(), 0.0f, scratch);
    if (thread_index() == 0 && (is_nan(largest) || largest > 0)) {
        raise_bits(amax, largest);
    }
}

// amax: zeros before, one for each block of block_rows by block_cols. A warp takes at most 256 columns of one row of one block.
template <typename T>
DEVICE void block_amax(const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, float* amax, int sees_nan) {
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    i64 pieces = (block_cols + 255) / 256;
    i64 all = rows * grid_cols * pieces;
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 item = block_index() * (thread_count() / WARP) + warp(); item < all; item += warps) {
        i64 row = item / (grid_cols * pieces);
        i64 rest = item - row * grid_cols * pieces;
        i64 block = rest / pieces;
        i64 from = block * block_cols + (rest - block * pieces) * 256;
        i64 end = (block + 1) * block_cols < cols ? (block + 1) * block_cols : cols;
        end = from + 256 < end ? from + 256 : end;
        float largest = 0;
        for (i64 c = from + lane(); c < end; c += WARP) {
            float v = widen(x[row * cols + c]);
            largest = is_nan(largest) ? largest : larger(largest, v, sees_nan);
        }
        largest = warp_fold(largest, LargerBits());
        if (lane() == 0 && (is_nan(largest) || largest > 0)) {
            raise_bits(amax + row / block_rows * grid_cols + block, largest);
        }
    }
}

// The same of blocks one column wide: neighbouring threads take neighbouring columns, each at most 64 rows of one block.
template <typename T> DEVICE void column_amax(const T* x, i64 rows, i64 cols, i64 block_rows, float* amax, int sees_nan) {
    i64 grid_rows = (rows + block_rows - 1) / block_rows;
    i64 pieces = (block_rows + 63) / 64;
    for_packs<1>(grid_rows * pieces * cols, [&](i64 at, int) {
        i64 piece = at / cols;
        i64 column = at - piece * cols;
        i64 block = piece / pieces;
        i64 from = block * block_rows + (piece - block * pieces) * 64;
        i64 end = (block + 1) * block_rows < rows ? (block + 1) * block_rows : rows;
        end = from + 64 < end ? from + 64 : end;
        float largest = 0;
        for (i64 r = from; r < end; r++) {
            float v = widen(x[r * cols + column]);
            largest = is_nan(largest) ? largest : larger(largest, v, sees_nan);
        }
        if (is_nan(largest) || largest > 0) {
            raise_bits(amax + block * cols + column, largest);
        }
    });
}

// --- rows of experts -----------------------------------------------------------------------------------------------------------

// Rows offsets[e] .. offsets[e + 1] - 1 are those of expert e, which has blocks of its own: its first has the row of scales offsets[e] / block_rows + e, so
// that there is one for what the last block of an expert lacks.
DEVICE int expert_of_row(const i64* offsets, int experts, i64 row) {
    int low = 0;
    int high = experts - 1;
    while (low < high) { // the last that begins at the row or before
        int middle = (low + high + 1) / 2;
        if (offsets[middle] <= row) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}
DEVICE i64 block_of_row(const i64* offsets, int experts, i64 row, i64 block_rows) {
    int e = expert_of_row(offsets, experts, row);
    i64 first = offsets[e];
    return quotient(first, block_rows) + e + quotient(row - first, block_rows);
}

// amax: zeros before, rows of scales as above. A warp takes at most 256 columns of eight rows.
template <typename T>
DEVICE void expert_amax(const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, i64 block_cols, float* amax, int sees_nan) {
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    i64 pieces = (block_cols + 255) / 256;
    i64 groups = (rows + 7) / 8;
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 item = block_index() * (thread_count() / WARP) + warp(); item < groups * grid_cols * pieces; item += warps) {
        i64 group = quotient(item, grid_cols * pieces);
        i64 rest = item - group * grid_cols * pieces;
        i64 column_block = quotient(rest, pieces);
        i64 first = column_block * block_cols + (rest - column_block * pieces) * 256;
        i64 end = (column_block + 1) * block_cols < cols ? (column_block + 1) * block_cols : cols;
        end = end < first + 256 ? end : first + 256;
        i64 last = group * 8 + 8 < rows ? group * 8 + 8 : rows;
        i64 of = -1;
        float largest = 0;
        for (i64 row = group * 8; row <= last; row++) {
            i64 next = row < last ? block_of_row(offsets, experts, row, block_rows) : -1;
            if (next != of) { // the same for all lanes
                largest = warp_fold(largest, LargerBits());
                if (lane() == 0 && (is_nan(largest) || largest > 0)) {
                    raise_bits(amax + of * grid_cols + column_block, largest);
                }
                of = next;
                largest = 0;
            }
            if (row < last) {
                for (i64 column = first + lane(); column < end; column += WARP) {
                    largest = larger(largest, widen(x[row * cols + column]), sees_nan);
                }
            }
        }
    }
}

// The same of blocks one column wide: neighbouring threads take neighbouring columns, each 64 rows.
template <typename T>
DEVICE void expert_column_amax(const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, float* amax, int sees_nan) {
    for_packs<1>((rows + 63) / 64 * cols, [&](i64 at, int) {
        i64 piece = quotient(at, cols);
        i64 column = at - piece * cols;
        i64 last = piece * 64 + 64 < rows ? piece * 64 + 64 : rows;
        i64 of = -1;
        float largest = 0;
        for (i64 row = piece * 64; row <= last; row++) {
            i64 next = row < last ? block_of_row(offsets, experts, row, block_rows) : -1;
            if (next != of) {
                if (is_nan(largest) || largest > 0) {
                    raise_bits(amax + of * cols + column, largest);
                }
                of = next;
                largest = 0;
            }
            if (row < last) {
                largest = larger(largest, widen(x[row * cols + column]), sees_nan);
            }
        }
    });
}

// Codes with a multiplier for each block. A warp takes 256 columns of a row, a lane eight.
template <typename T, typename C>
DEVICE void expert_codes(const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales, C* codes) {
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    i64 pieces = (cols + 255) / 256;
    bool whole = cols % 8 == 0 && is_aligned(x, 8 * (int)sizeof(T));
    bool one = block_cols % 8 == 0 || block_cols >= cols;
    i64 warps = block_count() * (thread_count() / WARP);
    for (i64 item = block_index() * (thread_count() / WARP) + warp(); item < rows * pieces; item += warps) {
        i64 row = quotient(item, pieces);
        i64 column = (item - row * pieces) * 256 + lane() * 8;
        i64 left = cols - column;
        int m = left < 0 ? 0 : left < 8 ? (int)left : 8;
        const float* scales = quant_scales + block_of_row(offsets, experts, row, block_rows) * grid_cols;
        i64 at = row * cols + column;
        if (m > 0) {
            float v[8];
            Plain<T>{x}.take(at, v, m, whole);
            float q = scales[quotient(column, block_cols)];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (i < m) {
                    q = one || i == 0 ? q : scales[quotient(column + i, block_cols)];
                    v[i] = exact_multiply(v[i], q);
                }
            }
            if (whole) {
                store_some<8>(codes + at, v, m);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    if (i < m) {
                        codes[at + i] = narrow<C>(v[i]);
                    }
                }
            }
        }
    }
}

#if HAS_REST
// Multipliers that are known, and their scales; a thread for each expert.
KERNEL(expert_multipliers, 32, (const i64* table, int experts, float* quant_scales, float* scales)) {
    for_packs<1>(experts, [&](i64 e, int) {
        float q = *(const float*)table[e];
        quant_scales[e] = q;
        scales[e] = exact_divide(1.0f, q);
    });
}

// Records an expert's amax where it has rows: the pending one of a history is raised, another is replaced.
KERNEL(expert_records, 32, (const i64* table, const i64* offsets, const float* amax, int experts, int raises)) {
    for_packs<1>(experts, [&](i64 e, int) {
        float* to = (float*)table[e];
        if (offsets[e + 1] > offsets[e]) {
            *to = raises ? raised(*to, amax[e]) : amax[e];
        }
    });
}
#endif

// TransformerEngineScale. largest: what a quotient beyond F32 becomes.
DEVICE float transformer_engine_scale(float amax, float format_max, float epsilon, float largest, int power_of_two) {
    float raised_amax = amax < epsilon ? epsilon : amax;
    if (raised_amax == 0 || !is_finite(raised_amax)) {
        return 1;
    }
    float quotient = exact_divide(format_max, raised_amax);
    if (!is_finite(quotient)) {
        quotient = largest;
    }
    return power_of_two ? bits_float(float_bits(quotient) & 0xff800000u) : quotient;
}

// TransformerEngineMxScale.
DEVICE float mx_scale(float amax, float format_max) {
    float v = exact_multiply(amax, exact_divide(1.0f, format_max));
    u32 code;
    if (is_nan(v)) {
        return v;
    }
    u32 bits = float_bits(v);
    u32 exponent = bits >> 23;
    u32 mantissa = bits & 0x7fffffu;
    if (exponent == 0xff) {
        code = 0xfe;
    } else {
        bool at_most_smallest = exponent == 0 && mantissa <= 0x400000u;
        code = mantissa != 0 && exponent != 0xfe && !at_most_smallest ? exponent + 1 : exponent;
    }
    // 1 / 2^(code - 127): subnormal for 0xfe
    return code == 0xfe ? bits_float(0x400000u) : bits_float((254 - code) << 23);
}

// TorchaoScale.
DEVICE float torchao_scale(float amax, float format_max, int power_of_two) {
    double raised_amax = amax < 1e-12 ? 1e-12 : (double)amax;
    float quotient = (float)((double)format_max / raised_amax);
    if (!power_of_two || !is_finite(quotient)) {
        return quotient;
    }
    return quotient == 0 ? quotient : (float)ldexp(1.0, (int)floor((double)(float)(log((double)quotient) / log(2.0))));
}

#if HAS_REST
// WindowedScale.cast. Window: size amaxes, then the number of steps. By one thread.
KERNEL(window_cast, 32, (const float* amax, const float* amax_with_nan, int size, float format_max, int quirks, const float* quant_scale,
                        const float* window, float* new_quant_scale, float* new_window)) {
    if (thread_index() != 0) {
        return;
    }
    float before = *quant_scale;
    float pending = window[0];
    bool in_time = size == 1 || window[size] < size;
    for (int i = 1; i <= size; i++) {
        new_window[i] = window[i];
    }
    if (in_time) {
        float a = *amax_with_nan;
        new_window[0] = quirks || !(pending >= a) ? a : pending;
        *new_quant_scale = msamp_scale(a, before, format_max, quirks);
    } else {
        new_window[0] = raised(pending, *amax);
        *new_quant_scale = before;
    }
}

// WindowedScale.update, a thread for each slot. Rows: quant_scale, window, new quant_scale, new window, size, largest number of the format as the bits
// of an F32, quirks.
KERNEL(window_update, 32, (const i64* table, i64 slots, const float* non_finite)) {
    i64 slot = block_index() * thread_count() + thread_index();
    if (slot >= slots) {
        return;
    }
    const i64* row = table + 7 * slot;
    const float* window = (const float*)row[1];
    float* to = (float*)row[3];
    int size = (int)row[4];
    float before = *(const float*)row[0];
    if (*non_finite != 0) {
        for (int i = 0; i <= size; i++) {
            to[i] = window[i];
        }
        *(float*)row[2] = before;
        return;
    }
    bool finite = is_finite(window[0]);
    float steps = window[size];
    float next = finite ? window[0] : 0;
    float largest = next;
    for (int i = 1; i < size; i++) {
        float here = window[i];
        largest = here > largest ? here : largest;
        to[i] = next;
        next = here;
    }
    to[0] = 0;
    to[size] = finite ? (steps + 1 < size ? steps + 1 : size) : 0;
    *(float*)row[2] = msamp_scale(largest, before, bits_float((u32)row[5]), (int)row[6]);
}

// The multiplier of a gradient's new codes. By one thread.
KERNEL(gradient_scale, 32, (const float* amax, const float* scale, float format_max, int quirks, float* quant_scale)) {
    if (thread_index() != 0) {
        return;
    }
    float a = is_nan(*amax) ? bits_float(0x7f800000u) : *amax;
    *quant_scale = msamp_scale(a, exact_divide(1.0f, *scale), format_max, quirks);
}

// Multipliers and scales of blocks from their amaxes. rule: 0 Transformer Engine's, 1 its MX, 2 torchao's, 3 MS-AMP's, 4 the same
// mended. *recorded, where it is wanted and zero before, becomes the largest amax, NaN left out.
KERNEL(block_scales, 256,
       (const float* amax, i64 blocks, int rule, float format_max, float epsilon, float largest, int power_of_two, float* quant_scales,
        float* scales, float* recorded)) {
    for_packs<1>(blocks, [&](i64 at, int) {
        float a = amax[at];
        float q = rule == 0   ? transformer_engine_scale(a, format_max, epsilon, largest, power_of_two)
                  : rule == 1 ? mx_scale(a, format_max)
                  : rule == 2 ? torchao_scale(a, format_max, power_of_two)
                              : msamp_scale(a, 1, format_max, rule == 3);
        quant_scales[at] = q;
        scales[at] = exact_divide(1.0f, q);
        if (recorded && a > 0) {
            raise_bits(recorded, a);
        }
    });
}
#endif

template <typename T, typename C>
DEVICE void encode_blocks(const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales, C* codes) {
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    bool whole = cols % 8 == 0 && block_cols % 8 == 0;
    for_packs<8>(rows * cols, [&](i64 at, int m) {
        float v[8];
        load_some<8>(x + at, v, m);
        i64 row = at / cols;
        i64 column = at - row * cols;
        i64 block = row / block_rows * grid_cols + column / block_cols;
        float q = quant_scales[block];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (!whole && i > 0 && i < m) {
                column++;
                if (column == cols) {
                    column = 0;
                    row++;
                }
                q = quant_scales[row / block_rows * grid_cols + column / block_cols];
            }
            v[i] = exact_multiply(v[i], q);
        }
        store_some<8>(codes + at, v, m);
    });
}

// The same with the transpose of the codes beside them. A block takes 64 rows of 128 columns, a thread 4 rows of 8, as in cast_transpose.
template <typename T, typename C>
DEVICE void encode_transpose(const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales, C* codes,
                             u8* transposed, i64 leading) {
    SHARED u32 tile[128][17];
    SHARED float scratch[33];
    SHARED float columns[8][128];
    Target<C> to{codes, cols, transposed, leading, 0, 0, 0, 0};
    Plain<T> from{x};
    Corner at(tile_of_block(), rows, cols);
    bool whole = cols % 8 == 0 && from.is_aligned16();
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    Quad<C> quad;
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
        float v[8];
        int m = at.there(r);
        from.take((at.row + r) * cols + at.column, v, m < 0 ? 0 : m, whole && m == 8);
        if (m > 0) {
            const float* row = quant_scales + quotient(at.row + r, block_rows) * grid_cols;
            i64 block = quotient(at.column, block_cols);
            i64 left = (block + 1) * block_cols - at.column; // columns of that block from here
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (left == 0) {
                    block++;
                    left = block_cols;
                }
                left--;
                if (i < m) {
                    v[i] = exact_multiply(v[i], row[block]);
                }
            }
        }
        Pack<u16, 4> pack = quad.encode(r, v, 1.0f);
        if (whole && m == 8) {
            *(Pack<u16, 4>*)(codes + (at.row + r) * cols + at.column) = pack;
        } else {
            put_row(at, to, r, pack, m, whole);
        }
    }
    put_quads(at, to, quad, tile, columns, scratch);
}

// A matrix that is read once and cast twice, with scales from its own values: in runs of 128 along its rows, and in runs along its columns, of which the codes are wanted
// transposed alone; or in squares with sides of 128, whose codes are the same both ways. A block has 128 rows of 128 columns, a thread 8 of 8.
template <typename C> struct Cuts {
    C* codes;
    float* scales;        // of runs along rows: [rows, blocks of columns], of squares: [blocks of rows, blocks of columns]
    u8* transposed;       // [cols, leading], zeros behind the rows
    i64 leading;
    float* column_scales; // of runs along columns: [blocks of rows, cols]
    float* sums;          // of each block's rows, [blocks of rows, cols], or 0
    float* recorded;      // raised to the largest amax of runs along rows, NaN left out; or 0
};
// TransformerEngineScale.
struct CutRule {
    float format_max;
    float epsilon;
    float largest;
    int power_of_two;
    int sees_nan;
    DEVICE float multiplier(int amax_bits) const { return transformer_engine_scale(bits_float((u32)amax_bits), format_max, epsilon, largest, power_of_two); }
    // Bits of a magnitude, which have its order; NaN is above all, or left out.
    DEVICE int bits(float x) const {
        int magnitude = (int)float_bits(fabsf(x));
        return magnitude > 0x7f800000 && !sees_nan ? 0 : magnitude;
    }
};
DEVICE int larger_of(int a, int b) { return a > b ? a : b; }
template <bool SQUARES, typename T, typename C> DEVICE void cast_cuts(const T* x, i64 rows, i64 cols, CutRule rule, Cuts<C> to) {
    SHARED u32 tile[128][33];
    SHARED u32 columns[8][128];
    SHARED float multipliers[128];
    int group = thread_index() % 16;
    int part = thread_index() / 16;
    i64 column = block_index() * 128 + group * 8;
    i64 row = block_index_y() * 128 + part * 8;
    i64 grid_cols = (cols + 127) / 128;
    int there = column >= cols ? 0 : cols - column < 8 ? (int)(cols - column) : 8; // columns
    bool whole = cols % 8 == 0 && is_aligned(x, 16) && there == 8;
    Pack<T, 8> raw[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        if (whole && row + r < rows) {
            raw[r] = *(const Pack<T, 8>*)(x + (row + r) * cols + column);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                raw[r].at[i] = row + r < rows && i < there ? x[(row + r) * cols + column + i] : narrow<T>(0.0f);
            }
        }
    }
    int of_row[8];
    int of_column[8];
    float sum[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        of_row[i] = 0;
        of_column[i] = 0;
        sum[i] = 0;
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float v = widen(raw[r].at[i]);
            int bits = rule.bits(v);
            of_row[r] = larger_of(of_row[r], bits);
            of_column[i] = larger_of(of_column[i], bits);
            sum[i] += v;
        }
    }
    float mine = 0; // the multiplier of row lane % 8, or of the square
    if (SQUARES) {
        int largest = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            largest = larger_of(largest, of_column[i]);
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            largest = larger_of(largest, shuffle_xor(largest, mask));
        }
        if (lane() == 0) {
            columns[warp()][0] = (u32)largest;
        }
        block_barrier();
        for (int w = 0; w < 8; w++) {
            largest = larger_of(largest, (int)columns[w][0]);
        }
        mine = rule.multiplier(largest);
        if (thread_index() == 0) {
            to.scales[block_index_y() * grid_cols + block_index()] = exact_divide(1.0f, mine);
        }
    } else {
#pragma unroll
        for (int mask = 8; mask > 0; mask /= 2) {
#pragma unroll
            for (int r = 0; r < 8; r++) {
                of_row[r] = larger_of(of_row[r], shuffle_xor(of_row[r], mask));
            }
        }
        int row_bits = 0;
#pragma unroll
        for (int r = 0; r < 8; r++) {
            row_bits = group % 8 == r ? of_row[r] : row_bits;
        }
        mine = rule.multiplier(row_bits);
        if (to.recorded) { // the same for all threads
            int most = warp_fold(row_bits > 0x7f800000 ? 0 : row_bits, Max());
            if (lane() == 0 && most > 0) {
                atomic_max((int*)to.recorded, most);
            }
        }
        if (group < 8 && row + group < rows) {
            to.scales[(row + group) * grid_cols + block_index()] = exact_divide(1.0f, mine);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int both = larger_of(of_column[i], shuffle_xor(of_column[i], 16));
            if (lane() < 16) {
                columns[warp()][group * 8 + i] = (u32)both;
            }
        }
        block_barrier();
        if (thread_index() < 128) {
            int largest = 0;
            for (int w = 0; w < 8; w++) {
                largest = larger_of(largest, (int)columns[w][thread_index()]);
            }
            float q = rule.multiplier(largest);
            multipliers[thread_index()] = q;
            i64 at = block_index() * 128 + thread_index();
            if (at < cols) {
                to.column_scales[block_index_y() * cols + at] = exact_divide(1.0f, q);
            }
        }
    }
    // rows of codes
#pragma unroll
    for (int r = 0; r < 8; r++) {
        float q = SQUARES ? mine : shuffle(mine, (lane() & 16) + r);
        Pack<u16, 4> pack;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            pack.at[i] = encode_pair<C>(exact_multiply(widen(raw[r].at[2 * i]), q), exact_multiply(widen(raw[r].at[2 * i + 1]), q));
        }
        C* codes = to.codes + (row + r) * cols + column;
        if (row + r < rows && whole && is_aligned(to.codes, 8)) {
            *(Pack<u16, 4>*)codes = pack;
        } else if (row + r < rows) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (i < there) {
                    codes[i] = C{(u8)(pack.at[i / 2] >> (8 * (i % 2)))};
                }
            }
        }
    }
    block_barrier();
    // columns of codes, four rows a word
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float q = SQUARES ? mine : multipliers[group * 8 + i];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u32 low = encode_pair<C>(exact_multiply(widen(raw[4 * h].at[i]), q), exact_multiply(widen(raw[4 * h + 1].at[i]), q));
            u32 high = encode_pair<C>(exact_multiply(widen(raw[4 * h + 2].at[i]), q), exact_multiply(widen(raw[4 * h + 3].at[i]), q));
            tile[group * 8 + i][part * 2 + h] = low | high << 16;
        }
    }
    if (to.sums) { // the same for all threads
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float both = sum[i] + shuffle_xor(sum[i], 16);
            if (lane() < 16) {
                columns[warp()][group * 8 + i] = float_bits(both);
            }
        }
    }
    block_barrier();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int piece = thread_index() + k * 256;
        int c = piece / 8;
        i64 to_column = block_index() * 128 + c;
        i64 to_row = block_index_y() * 128 + piece % 8 * 16;
        if (to_column < cols && to_row < to.leading) { // leading is a multiple of 16
            Pack<u32, 4> pack;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                pack.at[i] = tile[c][piece % 8 * 4 + i];
            }
            *(Pack<u32, 4>*)(to.transposed + to_column * to.leading + to_row) = pack;
        }
    }
    i64 at = block_index() * 128 + thread_index();
    if (to.sums && thread_index() < 128 && at < cols) {
        float all = 0;
        for (int w = 0; w < 8; w++) {
            all += bits_float(columns[w][thread_index()]);
        }
        to.sums[block_index_y() * cols + at] = all;
    }
}

// What codes stand for, times their scales where there are any.
template <typename C, typename T>
DEVICE void decode_blocks(const C* codes, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* scales, T* x) {
    i64 grid_cols = (cols + block_cols - 1) / block_cols;
    for_packs<8>(rows * cols, [&](i64 at, int m) {
        float v[8];
        load_some<8>(codes + at, v, m);
        if (scales) {
            i64 row = at / cols;
            i64 column = at - row * cols;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (i < m) {
                    v[i] = exact_multiply(v[i], scales[row / block_rows * grid_cols + column / block_cols]);
                }
                column++;
                if (column == cols) {
                    column = 0;
                    row++;
                }
            }
        }
        store_some<8>(x + at, v, m);
    });
}

// The same as a matrix of so many rows and columns, zeros behind those that are there: rows of it are at multiples of 16 bytes and to_columns a
// multiple of 8. A warp takes 1024 numbers of a row, a lane 8 at a time, whose codes begin at any byte.
template <typename C, typename T>
DEVICE void decode_rows(const C* codes, i64 pitch, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* scales, T* x, i64 to_rows,
                        i64 to_columns, i64 leading) {
    i64 row = block_index() * 8 + warp();
    if (row < to_rows) {
        i64 begin = (i64)codes + row * pitch;
        i64 end = row < rows ? begin + cols : begin;
        const float* row_scales = scales && row < rows ? scales + row / block_rows * ((cols + block_cols - 1) / block_cols) : 0;
        i64 first = block_index_y() * 1024 + lane() * 8;
        u64 eight[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            i64 at = begin + first + 256 * k;
            i64 unit = at & ~(i64)7;
            int bits = (int)(at - unit) * 8;
            u64 low = at < end ? *(const u64*)unit : 0;
            u64 high = bits && unit + 8 < end ? *(const u64*)(unit + 8) : 0;
            eight[k] = bits ? low >> bits | high << (64 - bits) : low;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            i64 column = first + 256 * k;
            i64 left = end - begin - column;
            int m = left < 0 ? 0 : left < 8 ? (int)left : 8;
            float v[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = i < m ? widen(C{(u8)(eight[k] >> (8 * i))}) : 0;
            }
            if (row_scales && m > 0) {
                float scale = row_scales[quotient(column, block_cols)];
                bool one = block_cols % 8 == 0;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    if (i < m) { // a scale of infinity makes NaN of zeros
                        scale = one || i == 0 ? scale : row_scales[quotient(column + i, block_cols)];
                        v[i] = exact_multiply(v[i], scale);
                    }
                }
            }
            if (column < to_columns) {
                T* to = x + row * leading + column;
                if (sizeof(T) == 2) {
                    store<8>(to, v);
                } else {
                    const float low[4] = {v[0], v[1], v[2], v[3]};
                    const float high[4] = {v[4], v[5], v[6], v[7]};
                    store<4>(to, low);
                    store<4>(to + 4, high);
                }
            }
        }
    }
}

#define M3(S, T, SC, C)                                                                                                             \
    KERNEL(encode_blocks_##S##_##SC, 256,                                                                                             \
           (const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales, C* codes)) {                     \
        encode_blocks(x, rows, cols, block_rows, block_cols, quant_scales, codes);                                                    \
    }                                                                                                                                 \
    KERNEL(encode_transpose_##S##_##SC, 256,                                                                                          \
           (const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales, C* codes, u8* transposed,      \
            i64 leading)) {                                                                                                           \
        encode_transpose(x, rows, cols, block_rows, block_cols, quant_scales, codes, transposed, leading);                            \
    }                                                                                                                                 \
    RESIDENT_KERNEL(cast_runs_##S##_##SC, 256, 512,                                                                                   \
           (const T* x, i64 rows, i64 cols, float format_max, float epsilon, float largest, int power_of_two, int sees_nan, C* codes,  \
            float* scales, u8* transposed, i64 leading, float* column_scales, float* sums, float* recorded)) {                        \
        cast_cuts<false>(x, rows, cols, CutRule{format_max, epsilon, largest, power_of_two, sees_nan},                                \
                         Cuts<C>{codes, scales, transposed, leading, column_scales, sums, recorded});                                           \
    }                                                                                                                                 \
    RESIDENT_KERNEL(cast_squares_##S##_##SC, 256, 512,                                                                                \
           (const T* x, i64 rows, i64 cols, float format_max, float epsilon, float largest, int power_of_two, int sees_nan, C* codes,  \
            float* scales, u8* transposed, i64 leading)) {                                                                            \
        cast_cuts<true>(x, rows, cols, CutRule{format_max, epsilon, largest, power_of_two, sees_nan},                                 \
                        Cuts<C>{codes, scales, transposed, leading, (float*)0, (float*)0, (float*)0});                                           \
    }                                                                                                                                 \
    KERNEL(decode_blocks_##SC##_##S, 256,                                                                                             \
           (const C* codes, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* scales, T* x)) {                           \
        decode_blocks(codes, rows, cols, block_rows, block_cols, scales, x);                                                          \
    }                                                                                                                                 \
    KERNEL(decode_rows_##SC##_##S, 256,                                                                                               \
           (const C* codes, i64 pitch, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* scales, T* x, i64 to_rows,                 \
            i64 to_columns, i64 leading)) {                                                                                           \
        decode_rows(codes, pitch, rows, cols, block_rows, block_cols, scales, x, to_rows, to_columns, leading);                              \
    }                                                                                                                                 \
    KERNEL(expert_codes_##S##_##SC, 256,                                                                                              \
           (const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, i64 block_cols, const float* quant_scales,\
            C* codes)) {                                                                                                              \
        expert_codes(x, offsets, experts, rows, cols, block_rows, block_cols, quant_scales, codes);                                   \
    }
#define M(S, T)                                                                                                                     \
    KERNEL(whole_amax_##S, 256, (const T* x, i64 n, float* amax, int sees_nan)) { whole_amax(x, n, amax, sees_nan); }                  \
    KERNEL(block_amax_##S, 256,                                                                                                       \
           (const T* x, i64 rows, i64 cols, i64 block_rows, i64 block_cols, float* amax, int sees_nan)) {                               \
        block_amax(x, rows, cols, block_rows, block_cols, amax, sees_nan);                                                            \
    }                                                                                                                                 \
    KERNEL(column_amax_##S, 256, (const T* x, i64 rows, i64 cols, i64 block_rows, float* amax, int sees_nan)) {                        \
        column_amax(x, rows, cols, block_rows, amax, sees_nan);                                                                       \
    }                                                                                                                                 \
    KERNEL(expert_amax_##S, 256,                                                                                                      \
           (const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, i64 block_cols, float* amax, int sees_nan)) { \
        expert_amax(x, offsets, experts, rows, cols, block_rows, block_cols, amax, sees_nan);                                         \
    }                                                                                                                                 \
    KERNEL(expert_column_amax_##S, 256,                                                                                               \
           (const T* x, const i64* offsets, int experts, i64 rows, i64 cols, i64 block_rows, float* amax, int sees_nan)) {            \
        expert_column_amax(x, offsets, experts, rows, cols, block_rows, amax, sees_nan);                                              \
    }
#ifndef PART_CODE
FLOAT_TYPES(M)
#endif
#undef M
#define M(S, T) CODE_TYPES(M3, S, T)
FLOAT_TYPES(M)

#if HAS_REST

// --- beside a product ----------------------------------------------------------------------------------------------------------

// Scales of blocks [rows, cols] as rows of pitch numbers, turned or not, zeros behind those that are there.
KERNEL(arrange_scales, 256, (const float* scales, i64 rows, i64 cols, int turned, float* to, i64 pitch)) {
    for_packs<1>((turned ? cols : rows) * pitch, [&](i64 at, int) {
        i64 row = quotient(at, pitch);
        i64 column = at - row * pitch;
        if (turned) {
            to[at] = column < rows ? scales[column * cols + row] : 0;
        } else {
            to[at] = column < cols ? scales[row * cols + column] : 0;
        }
    });
}

// --- behind a product ----------------------------------------------------------------------------------------------------------

// AccumulateCodes: sums of what a gradient stands for and what is added to it; NaN where they are not finite.
KERNEL(add_rounded, 256, (float* sums, const float* x, i64 n, int type)) {
    for_packs<1>(n, [&](i64 at, int) {
        float s = rounded(exact_add(sums[at], x[at]), type);
        sums[at] = is_finite(s) ? s : bits_float(0x7fc00000u);
    });
}

// Many rows of F32 in another type, a block for each 1024 elements: the number of a row of the table, and the first element. Rows: from, n, to.
KERNEL(round_rows, 256, (const i64* table, const i64* chunks, int type)) {
    const i64* row = table + 3 * chunks[2 * block_index()];
    i64 first = chunks[2 * block_index() + 1];
    i64 end = first + 1024 < row[1] ? first + 1024 : row[1];
    for (i64 at = first + thread_index(); at < end; at += thread_count()) {
        write_number(type, (void*)row[2], at, ((const float*)row[0])[at]);
    }
}

// --- histories -----------------------------------------------------------------------------------------------------------------

// A warp for each slot. Rows: quant_scale, history, new quant_scale, new history, length, largest number of the format over 2^margin (fused)
// or the largest number (unfused) as the bits of an F32, 2^margin as the bits of an F32, whether the newest alone counts.
KERNEL(amax_update, 32, (const i64* table, int fused)) {
    const i64* row = table + 8 * block_index();
    const float* history = (const float*)row[1];
    float* to = (float*)row[3];
    i64 length = row[4];
    float max = bits_float((u32)row[5]);
    bool most_recent = row[7] != 0;
    float quant_scale = *(const float*)row[0];
    float last = history[0];
    bool rolls = !fused || last != 0;
    float largest = fused ? (last > 0 ? last : 0) : last;
    bool nan = is_nan(last);
    warp_barrier();
    for (i64 from = 0; from < length; from += WARP) {
        i64 i = from + lane();
        float next = i + 1 < length ? history[i + 1] : last;
        float here = i < length ? history[i] : 0;
        warp_barrier();
        if (i > 0 && i < length) {
            nan = nan || is_nan(here);
            largest = raised(largest, here);
        }
        if (i < length) {
            to[i] = rolls ? (i == 0 ? 0 : next) : here;
        }
        warp_barrier();
    }
    largest = warp_fold(largest, Max());
    int any_nan = warp_fold(nan ? 1 : 0, Max());
    if (lane() == 0) {
        float amax;
        if (fused) {
            amax = most_recent ? last : rolls ? largest : 0;
        } else {
            amax = most_recent ? last : any_nan ? bits_float(0x7fc00000u) : largest;
        }
        float q = quant_scale;
        if (amax > 0 && is_finite(amax)) {
            q = exact_divide(max, amax);
            if (!fused) {
                q = exact_divide(q, bits_float((u32)row[6]));
            }
            q = is_finite(q) ? q : 3.4028234663852886e38f;
        }
        *(float*)row[2] = q;
    }
}
#endif
