// Attention of BF16 and F16 on tensor cores, tile by tile through shared memory and registers (Dao 2023, arXiv:2307.08691): the scores of a tile
// never leave the registers, where they turn from a product's result into the next one's operand.
//
// TYPE is the type of q, k, v, y and their gradients, HEAD the size of a head, a multiple of 8 that is padded to one of 16 here. CAUSAL
// says that query i sees keys 0 .. i. MASKED says that there is a mask, of MASK_TYPE, TRUTH that it tells where to look, KEYWISE that it tells the same to all
// queries: then a tile of keys that all may be seen is computed as without a mask, and one of keys that none may see is left out. A warp has M_TILES times 16 queries forward and, backward, QUERY_TILES times
// 16 queries or KEY_TILES times 16 keys. KEYS and QUERIES are rows of a tile that passes by: keys forward; backward QUERIES for a block of keys, BACK_KEYS for a
// block of queries.
//
// Backward, the keys' gradients and the queries' come from two kernels that each compute the scores again: so nothing is added in memory
// by several blocks, and the bits are the same every time.
//
// variants: TYPE=bf16 HEAD=64 CAUSAL=1 M_TILES=2 QUERY_TILES=2 KEY_TILES=2 KEYS=64 QUERIES=32 BACK_KEYS=32 MASKED=0 MASK_TYPE=f32 TRUTH=0 KEYWISE=0
// variants: TYPE=bf16 HEAD=64 CAUSAL=1 M_TILES=2 QUERY_TILES=2 KEY_TILES=2 KEYS=64 QUERIES=32 BACK_KEYS=32 MASKED=1 MASK_TYPE=boolean TRUTH=1 KEYWISE=1
// variants: TYPE=bf16 HEAD=80 CAUSAL=0 M_TILES=2 QUERY_TILES=1 KEY_TILES=1 KEYS=32 QUERIES=32 BACK_KEYS=64 MASKED=0 MASK_TYPE=f32 TRUTH=0 KEYWISE=0
// variants: TYPE=f16 HEAD=96 CAUSAL=1 M_TILES=2 QUERY_TILES=1 KEY_TILES=1 KEYS=32 QUERIES=32 BACK_KEYS=64 MASKED=0 MASK_TYPE=f32 TRUTH=0 KEYWISE=0
// variants: TYPE=bf16 HEAD=128 CAUSAL=1 M_TILES=1 QUERY_TILES=1 KEY_TILES=1 KEYS=64 QUERIES=32 BACK_KEYS=32 MASKED=0 MASK_TYPE=f32 TRUTH=0 KEYWISE=0
// variants: TYPE=bf16 HEAD=64 CAUSAL=0 M_TILES=1 QUERY_TILES=1 KEY_TILES=1 KEYS=64 QUERIES=64 BACK_KEYS=64 MASKED=1 MASK_TYPE=bf16 TRUTH=0 KEYWISE=0
// variants: TYPE=f16 HEAD=128 CAUSAL=1 M_TILES=1 QUERY_TILES=1 KEY_TILES=1 KEYS=32 QUERIES=16 BACK_KEYS=32 MASKED=1 MASK_TYPE=boolean TRUTH=1 KEYWISE=0
#include "octet.cuh"

#define WARPS 4
#define THREADS (WARPS * WARP)
#define PADDED ((HEAD + 15) / 16 * 16)
// Elements from row to row in shared memory: an odd number of 16 bytes, so that eight rows of a matrix lie in different banks.
#define PITCH (PADDED + 8)
#define ROWS (WARPS * 16 * M_TILES) // queries of a block forward
#define QUERY_ROWS (WARPS * 16 * QUERY_TILES) // queries of a block backward
#define KEY_ROWS (WARPS * 16 * KEY_TILES)     // keys of a block backward
#define ADDED (MASKED && !TRUTH)              // a mask of numbers
#define LOG2_E 1.44269504f

// Elements from one batch, head and row to the next: those of q, k, v and y, as the table of strides has them.
struct Steps {
    i64 batch;
    i64 head;
    int row;
};
enum Operand { Q, K, V, Y };
DEVICE Steps steps_of(const i64* steps, int operand) {
    return Steps{steps[3 * operand], steps[3 * operand + 1], (int)steps[3 * operand + 2]};
}

// Starts copies of COUNT rows to shared memory; zeros arrive for rows from valid on and behind the head's size.
template <int COUNT> DEVICE void start_rows(TYPE* to, const TYPE* from, int step, int valid) {
    const int chunks = PADDED / 8;
#pragma unroll
    for (int first = 0; first < COUNT * chunks; first += THREADS) {
        int at = first + thread_index();
        int r = at / chunks;
        int c = at % chunks * 8;
        if (COUNT * chunks % THREADS == 0 || at < COUNT * chunks) {
            bool there = r < valid && c < HEAD;
            copy_async_16(to + r * PITCH + c, there ? from + r * step + c : from, there);
        }
    }
}

// d += a bᵀ for M times 16 rows of a and N of b, both in shared memory, along PADDED elements of each.
template <int M, int N> DEVICE void multiply_rows(float (&d)[M][N / 8][4], const TYPE* a, const TYPE* b) {
    const TYPE* at_a = a + (lane() % 16) * PITCH + lane() / 16 * 8;
    const TYPE* at_b = b + (lane() / 16 * 8 + lane() % 8) * PITCH + lane() / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < PADDED; k += 16) {
        u32 rows[M][4];
#pragma unroll
        for (int m = 0; m < M; m++) {
            load_matrix_4(rows[m], at_a + m * 16 * PITCH + k);
        }
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            u32 both[4];
            load_matrix_4(both, at_b + n * 16 * PITCH + k);
            u32 left[2] = {both[0], both[1]};
            u32 right[2] = {both[2], both[3]};
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply_16816(d[m][2 * n], rows[m], left, TYPE());
                multiply_16816(d[m][2 * n + 1], rows[m], right, TYPE());
            }
        }
    }
}

// d += p b: p, M times 16 rows of N, as a product left it in registers, rounded to the operands' type; b, N rows, in shared memory.
template <int M, int N>
DEVICE void multiply_columns(float (&d)[M][PADDED / 8][4], const float (&p)[M][N / 8][4], const TYPE* b) {
    const TYPE* at_b = b + (lane() % 16) * PITCH + lane() / 16 * 8;
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        u32 rows[M][4];
#pragma unroll
        for (int m = 0; m < M; m++) {
            rows[m][0] = pair_bits(p[m][2 * k][0], p[m][2 * k][1], TYPE());
            rows[m][1] = pair_bits(p[m][2 * k][2], p[m][2 * k][3], TYPE());
            rows[m][2] = pair_bits(p[m][2 * k + 1][0], p[m][2 * k + 1][1], TYPE());
            rows[m][3] = pair_bits(p[m][2 * k + 1][2], p[m][2 * k + 1][3], TYPE());
        }
#pragma unroll
        for (int n = 0; n < PADDED / 16; n++) {
            u32 both[4];
            load_matrix_4_transposed(both, at_b + k * 16 * PITCH + n * 16);
            u32 left[2] = {both[0], both[1]};
            u32 right[2] = {both[2], both[3]};
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply_16816(d[m][2 * n], rows[m], left, TYPE());
                multiply_16816(d[m][2 * n + 1], rows[m], right, TYPE());
            }
        }
    }
}

template <int M, int N> DEVICE void clear(float (&d)[M][N][4]) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                d[m][n][e] = 0;
            }
        }
    }
}

// Writes M times 16 rows of the warp, by way of its own rows in shared memory, 16 bytes at a time.
template <int M> DEVICE void write_rows(TYPE* to, int step, int valid, const float (&d)[M][PADDED / 8][4], TYPE* stage) {
    warp_barrier(); // all lanes have read what lay there
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < PADDED / 8; n++) {
            TYPE* at = stage + (m * 16 + lane() / 4) * PITCH + n * 8 + lane() % 4 * 2;
            *(u32*)at = pair_bits(d[m][n][0], d[m][n][1], TYPE());
            *(u32*)(at + 8 * PITCH) = pair_bits(d[m][n][2], d[m][n][3], TYPE());
        }
    }
    warp_barrier();
    for (int at = lane(); at < M * 16 * (HEAD / 8); at += WARP) {
        int r = at / (HEAD / 8);
        int c = at % (HEAD / 8) * 8;
        if (r < valid) {
            *(Pack<u32, 4>*)(to + r * step + c) = *(const Pack<u32, 4>*)(stage + r * PITCH + c);
        }
    }
}

DEVICE int at_most(int x, int most) { return x < most ? x : most; }

// What a head's queries may see. With a mask of numbers, scores are scaled before it is added; a mask may hold the lowest number there is, so it is
// never multiplied. Without one, the scale is part of the exponent's factor.
struct Sight {
    const MASK_TYPE* mask;
    int query_step;
    int key_step;
    int queries;
    int keys;
    float scale;
};
DEVICE Sight sight_of(const MASK_TYPE* mask, const i64* steps, i64 b, i64 h, int queries, int keys, float scale) {
#if MASKED
    return Sight{mask + b * steps[12] + h * steps[13], (int)steps[14], (int)steps[15], queries, keys, scale};
#else
    return Sight{mask, 0, 0, queries, keys, scale};
#endif
}
// The score of query i and key j: -infinity where it does not look. open: what a keywise mask says of the key.
DEVICE float seen(const Sight& sight, float product, int i, int j, bool open) {
    bool there = i < sight.queries && j < sight.keys && (!CAUSAL || j <= i);
#if KEYWISE
    return there && open ? product : -INFINITE;
#elif MASKED
    if (!there) {
        return -INFINITE;
    }
    MASK_TYPE m = sight.mask[i * sight.query_step + j * sight.key_step];
#if TRUTH
    return m == 0 ? -INFINITE : product;
#else
    return product * sight.scale + widen(m);
#endif
#else
    return there ? product : -INFINITE;
#endif
}
// exp(score - x), base being that of x.
DEVICE float base_of_score(float x, float factor) { return ADDED ? x : x * factor; }
DEVICE float base_of_sum(float x) { return ADDED ? x : x * LOG2_E; }
DEVICE float power(float score, float base, float factor) {
    return fast_exp2(ADDED ? (score - base) * LOG2_E : fmaf(score, factor, -base));
}

// What a keywise mask says of a tile of N keys: fetched ahead, a lane for each key of 32, then shared by the warp as bits. Without such a mask all keys are open.
template <int N> struct Open {
    static const int WORDS = (N + WARP - 1) / WARP;
    bool own[WORDS];
    u32 words[WORDS];
    bool all;
    bool any;

    DEVICE void fetch(const Sight& sight, int from) {
#if KEYWISE
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            int j = w * WARP + lane();
            own[w] = j < N && from + j < sight.keys && sight.mask[(from + j) * sight.key_step] != 0;
        }
#endif
    }
    DEVICE void share() {
        all = true;
        any = !KEYWISE;
#if KEYWISE
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            words[w] = lane_bits(own[w]);
            any = any || words[w] != 0;
            all = all && words[w] == (N - w * WARP < WARP ? (1u << (N % WARP)) - 1 : 0xffffffffu);
        }
#endif
    }
    // Of the lane's key in a product's result: column n * 8 + lane % 4 * 2 + e % 2.
    DEVICE bool at(int n, int e) const {
#if KEYWISE
        return words[n / 4] >> (n % 4 * 8 + lane() % 4 * 2 + e % 2) & 1;
#else
        return true;
#endif
    }
};

// A block has ROWS queries of a head. While a tile of keys and values is worked on the next one arrives.
RESIDENT_KERNEL(flash_forward, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, TYPE* y, float* log_sums, const i64* steps, i32 heads,
        i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    TYPE* qs = (TYPE*)shared;
    TYPE* tiles = qs + ROWS * PITCH; // keys, values, keys, values
    const int tile = KEYS * PITCH;
    i64 h = block_index_y();
    i64 b = block_index_z();
    // the last queries see the most keys: they begin first
    int first = (int)(CAUSAL ? block_count() - 1 - block_index() : block_index()) * ROWS;
    int own = first + warp() * 16 * M_TILES; // the warp's first query
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    q += b * sq.batch + h * sq.head + (i64)first * sq.row;
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    int end = CAUSAL ? at_most(first + ROWS, keys) : keys;
    int blocks = (end + KEYS - 1) / KEYS;
    start_rows<ROWS>(qs, q, sq.row, queries - first);
    start_rows<KEYS>(tiles, k, sk.row, keys);
    start_rows<KEYS>(tiles + tile, v, sv.row, keys);
    copy_async_commit();

    float out[M_TILES][PADDED / 8][4];
    float largest[M_TILES][2];
    float sum[M_TILES][2];
    clear(out);
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
        largest[m][0] = largest[m][1] = -INFINITE;
        sum[m][0] = sum[m][1] = 0;
    }
    float c = scale * LOG2_E;
    Sight sight = sight_of(mask, steps, b, h, queries, keys, scale);
    Open<KEYS> open;
    open.fetch(sight, 0);
#pragma unroll 1
    for (int block = 0; block < blocks; block++) {
        int from = block * KEYS;
        TYPE* ks = tiles + block % 2 * 2 * tile;
        TYPE* vs = ks + tile;
        copy_async_wait<0>();
        block_barrier(); // the tile is there, and all warps are through with the one before
        open.share();
        if (block + 1 < blocks) {
            TYPE* next = tiles + (block + 1) % 2 * 2 * tile;
            int behind = from + KEYS;
            k += KEYS * sk.row;
            v += KEYS * sv.row;
            start_rows<KEYS>(next, k, sk.row, keys - behind);
            start_rows<KEYS>(next + tile, v, sv.row, keys - behind);
            copy_async_commit();
            open.fetch(sight, behind);
        }
        if (own >= queries || !open.any || (CAUSAL && from >= own + 16 * M_TILES)) {
            continue; // the warp has no query that sees one of these keys
        }
        float s[M_TILES][KEYS / 8][4];
        clear(s);
        multiply_rows<M_TILES, KEYS>(s, qs + warp() * 16 * M_TILES * PITCH, ks);
        if ((MASKED && !KEYWISE) || !open.all || from + KEYS > keys || (CAUSAL && from + KEYS - 1 > own)) {
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int j = from + n * 8 + lane() % 4 * 2 + e % 2;
                        int i = own + m * 16 + lane() / 4 + e / 2 * 8;
                        s[m][n][e] = seen(sight, s[m][n][e], i, j, open.at(n, e));
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float most = largest[m][half];
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
                    most = Max()(Max()(most, s[m][n][2 * half]), s[m][n][2 * half + 1]);
                }
                most = Max()(most, shuffle_xor(most, 1));
                most = Max()(most, shuffle_xor(most, 2));
                float base = most == -INFINITE ? 0 : base_of_score(most, c);
                float factor = power(largest[m][half], base, c);
                float all = 0;
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        s[m][n][e] = power(s[m][n][e], base, c);
                        all += s[m][n][e];
                    }
                }
                sum[m][half] = sum[m][half] * factor + all;
                largest[m][half] = most;
#pragma unroll
                for (int n = 0; n < PADDED / 8; n++) {
                    out[m][n][2 * half] *= factor;
                    out[m][n][2 * half + 1] *= factor;
                }
            }
        }
        multiply_columns<M_TILES, KEYS>(out, s, vs);
    }
    copy_async_wait<0>();
    block_barrier(); // without keys, queries may still be arriving where results are staged
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float all = sum[m][half];
            all += shuffle_xor(all, 1);
            all += shuffle_xor(all, 2);
            float factor = all == 0 ? 0 : 1 / all;
#pragma unroll
            for (int n = 0; n < PADDED / 8; n++) {
                out[m][n][2 * half] *= factor;
                out[m][n][2 * half + 1] *= factor;
            }
            int i = own + m * 16 + half * 8 + lane() / 4;
            if (lane() % 4 == 0 && i < queries) {
                log_sums[(b * heads + h) * queries + i] = all == 0 ? -INFINITE : largest[m][half] * (ADDED ? 1 : scale) + logf(all);
            }
        }
    }
    write_rows<M_TILES>(
        y + b * sy.batch + h * sy.head + (i64)own * sy.row, sy.row, queries - own, out, qs + warp() * 16 * M_TILES * PITCH);
}

// dq = scale Σ ds k, ds = p (dp - dy·y). A block has QUERY_ROWS queries of a head; keys and values of the next tile arrive while one is worked on.
RESIDENT_KERNEL(flash_queries, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dq, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    TYPE* qs = (TYPE*)shared;
    TYPE* ups = qs + QUERY_ROWS * PITCH;
    TYPE* tiles = ups + QUERY_ROWS * PITCH; // keys, values, keys, values
    const int tile = BACK_KEYS * PITCH;
    i64 h = block_index_y();
    i64 b = block_index_z();
    int first = (int)(CAUSAL ? block_count() - 1 - block_index() : block_index()) * QUERY_ROWS;
    int own = first + warp() * 16 * QUERY_TILES;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    int end = CAUSAL ? at_most(first + QUERY_ROWS, keys) : keys;
    int blocks = (end + BACK_KEYS - 1) / BACK_KEYS;
    start_rows<QUERY_ROWS>(qs, q + b * sq.batch + h * sq.head + (i64)first * sq.row, sq.row, queries - first);
    start_rows<QUERY_ROWS>(ups, dy + b * sy.batch + h * sy.head + (i64)first * sy.row, sy.row, queries - first);
    start_rows<BACK_KEYS>(tiles, k, sk.row, keys);
    start_rows<BACK_KEYS>(tiles + tile, v, sv.row, keys);
    copy_async_commit();
    float c = scale * LOG2_E;
    Sight sight = sight_of(mask, steps, b, h, queries, keys, scale);
    float base[QUERY_TILES][2];
    float common[QUERY_TILES][2];
#pragma unroll
    for (int m = 0; m < QUERY_TILES; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int i = own + m * 16 + half * 8 + lane() / 4;
            float log_sum = i < queries ? log_sums[(b * heads + h) * queries + i] : -INFINITE;
            // of a query that sees nothing all probabilities are 0
            base[m][half] = log_sum == -INFINITE ? INFINITE : base_of_sum(log_sum);
            common[m][half] = i < queries ? dy_dots[(b * heads + h) * queries + i] : 0;
        }
    }
    float out[QUERY_TILES][PADDED / 8][4];
    clear(out);
    Open<BACK_KEYS> open;
    open.fetch(sight, 0);
#pragma unroll 1
    for (int block = 0; block < blocks; block++) {
        int from = block * BACK_KEYS;
        TYPE* ks = tiles + block % 2 * 2 * tile;
        TYPE* vs = ks + tile;
        copy_async_wait<0>();
        block_barrier(); // the tile is there, and all warps are through with the one before
        open.share();
        if (block + 1 < blocks) {
            TYPE* next = tiles + (block + 1) % 2 * 2 * tile;
            int behind = from + BACK_KEYS;
            k += BACK_KEYS * sk.row;
            v += BACK_KEYS * sv.row;
            start_rows<BACK_KEYS>(next, k, sk.row, keys - behind);
            start_rows<BACK_KEYS>(next + tile, v, sv.row, keys - behind);
            copy_async_commit();
            open.fetch(sight, behind);
        }
        if (own >= queries || !open.any || (CAUSAL && from >= own + 16 * QUERY_TILES)) {
            continue; // the warp has no query that sees one of these keys
        }
        float s[QUERY_TILES][BACK_KEYS / 8][4];
        float dp[QUERY_TILES][BACK_KEYS / 8][4];
        clear(s);
        clear(dp);
        multiply_rows<QUERY_TILES, BACK_KEYS>(s, qs + warp() * 16 * QUERY_TILES * PITCH, ks);
        multiply_rows<QUERY_TILES, BACK_KEYS>(dp, ups + warp() * 16 * QUERY_TILES * PITCH, vs);
        if ((MASKED && !KEYWISE) || !open.all || from + BACK_KEYS > keys || (CAUSAL && from + BACK_KEYS - 1 > own)) {
#pragma unroll
            for (int m = 0; m < QUERY_TILES; m++) {
#pragma unroll
                for (int n = 0; n < BACK_KEYS / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int j = from + n * 8 + lane() % 4 * 2 + e % 2;
                        int i = own + m * 16 + lane() / 4 + e / 2 * 8;
                        s[m][n][e] = seen(sight, s[m][n][e], i, j, open.at(n, e));
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < QUERY_TILES; m++) {
#pragma unroll
            for (int n = 0; n < BACK_KEYS / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float p = power(s[m][n][e], base[m][e / 2], c);
                    s[m][n][e] = p * (dp[m][n][e] - common[m][e / 2]);
                }
            }
        }
        multiply_columns<QUERY_TILES, BACK_KEYS>(out, s, ks);
    }
    copy_async_wait<0>();
    block_barrier(); // without keys, queries may still be arriving where results are staged
#pragma unroll
    for (int m = 0; m < QUERY_TILES; m++) {
#pragma unroll
        for (int n = 0; n < PADDED / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                out[m][n][e] *= scale;
            }
        }
    }
    write_rows<QUERY_TILES>(dq + b * sq.batch + h * sq.head + (i64)own * sq.row, sq.row, queries - own, out,
                            qs + warp() * 16 * QUERY_TILES * PITCH);
}

// Where a block of keys is on its way through the queries: tiles of them, of one head after the other.
struct Turn {
    int head; // of those that share the keys
    int from; // first query
    DEVICE Turn next(int start, int queries) const {
        return from + QUERIES < queries ? Turn{head, from + QUERIES} : Turn{head + 1, start};
    }
};

// dk = scale Σ dsᵀ q and dv = Σ pᵀ dy. A block has KEY_ROWS keys, for which scores are computed transposed: then they are in the registers as the
// products over queries want them. The heads that share the keys come one after the other. dk or dv may be absent.
RESIDENT_KERNEL(flash_keys, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dk, TYPE* dv, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    SHARED float bases[2][QUERIES];
    SHARED float commons[2][QUERIES];
    TYPE* ks = (TYPE*)shared;
    TYPE* vs = ks + KEY_ROWS * PITCH;
    TYPE* tiles = vs + KEY_ROWS * PITCH; // queries, upstream, queries, upstream
    const int tile = QUERIES * PITCH;
    i64 shared_head = block_index_y();
    i64 b = block_index_z();
    int first = (int)block_index() * KEY_ROWS;
    int own = first + warp() * 16 * KEY_TILES;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    i64 at_k = b * sk.batch + shared_head * sk.head;
    i64 at_v = b * sv.batch + shared_head * sv.head;
    // tiles of queries that see any of the keys, of each head
    int skipped = CAUSAL ? first / QUERIES : 0;
    int start = skipped * QUERIES;
    int each = (queries + QUERIES - 1) / QUERIES - skipped;
    int count = each > 0 ? each * group : 0;
    q += b * sq.batch + shared_head * group * sq.head;
    dy += b * sy.batch + shared_head * group * sy.head;
    i64 statistics = (b * heads + shared_head * group) * queries;
    log_sums += statistics;
    dy_dots += statistics;
    start_rows<KEY_ROWS>(ks, k + at_k + (i64)first * sk.row, sk.row, keys - first);
    start_rows<KEY_ROWS>(vs, v + at_v + (i64)first * sv.row, sv.row, keys - first);
    // of the thread's query, fetched a tile ahead of its copies
    float log_sum = 0;
    float common = 0;
    auto fetch = [&](Turn to) {
        int i = to.from + thread_index();
        bool there = thread_index() < QUERIES && i < queries && to.head < group;
        log_sum = there ? log_sums[(i64)to.head * queries + i] : -INFINITE;
        common = there ? dy_dots[(i64)to.head * queries + i] : 0;
    };
    auto begin = [&](Turn to, int turn) {
        TYPE* next = tiles + turn % 2 * 2 * tile;
        start_rows<QUERIES>(next, q + to.head * sq.head + (i64)to.from * sq.row, sq.row, queries - to.from);
        start_rows<QUERIES>(next + tile, dy + to.head * sy.head + (i64)to.from * sy.row, sy.row, queries - to.from);
        if (thread_index() < QUERIES) {
            bases[turn % 2][thread_index()] = log_sum == -INFINITE ? INFINITE : base_of_sum(log_sum);
            commons[turn % 2][thread_index()] = common;
        }
    };
    Turn now = {0, start};
    if (count > 0) {
        fetch(now);
        begin(now, 0);
        fetch(now.next(start, queries));
    }
    copy_async_commit(); // also where no tile of queries follows: a wait covers only copies that were committed
    float c = scale * LOG2_E;
    float out_k[KEY_TILES][PADDED / 8][4];
    float out_v[KEY_TILES][PADDED / 8][4];
    clear(out_k);
    clear(out_v);
    // a keywise mask is the same for all heads that share keys; a bit for each of the lane's keys
    u32 open = 0xffffffffu;
#if KEYWISE
    const MASK_TYPE* mask_of_keys = mask + b * steps[12] + shared_head * group * steps[13];
#pragma unroll
    for (int m = 0; m < KEY_TILES * 2; m++) {
        int j = own + m * 8 + lane() / 4;
        open ^= j < keys && mask_of_keys[j * steps[15]] == 0 ? 1u << m : 0;
    }
    SHARED int any_open;
    if (thread_index() == 0) {
        any_open = 0;
    }
    block_barrier();
    if ((open & ((1u << (2 * KEY_TILES)) - 1)) != 0) {
        atomic_max(&any_open, 1); // by many threads
    }
    block_barrier();
    count = any_open ? count : 0; // keys that no query sees have no gradient
#endif
    bool all_open = !KEYWISE || lane_bits(open == 0xffffffffu) == 0xffffffffu;
#pragma unroll 1
    for (int turn = 0; turn < count; turn++, now = now.next(start, queries)) {
        copy_async_wait<0>();
        block_barrier(); // the tile is there, and all warps are through with the one before
        if (turn + 1 < count) {
            Turn coming = now.next(start, queries);
            begin(coming, turn + 1);
            copy_async_commit();
            fetch(coming.next(start, queries));
        }
        int from = now.from;
        if (own >= keys || (CAUSAL && from + QUERIES <= own)) {
            continue; // the warp has no key that one of these queries sees
        }
        const TYPE* qs = tiles + turn % 2 * 2 * tile;
        const TYPE* ups = qs + tile;
        float p[KEY_TILES][QUERIES / 8][4];
        clear(p);
        multiply_rows<KEY_TILES, QUERIES>(p, ks + warp() * 16 * KEY_TILES * PITCH, qs);
        if ((MASKED && !KEYWISE) || !all_open || (CAUSAL && from < own + 16 * KEY_TILES)) {
            Sight sight = KEYWISE ? Sight{mask, 0, 0, queries, keys, scale}
                                  : sight_of(mask, steps, b, shared_head * group + now.head, queries, keys, scale);
#pragma unroll
            for (int m = 0; m < KEY_TILES; m++) {
#pragma unroll
                for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int i = from + n * 8 + lane() % 4 * 2 + e % 2;
                        int j = own + m * 16 + lane() / 4 + e / 2 * 8;
                        p[m][n][e] = seen(sight, p[m][n][e], i, j, open >> (2 * m + e / 2) & 1);
                    }
                }
            }
        }
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                float base = bases[turn % 2][n * 8 + lane() % 4 * 2 + odd];
#pragma unroll
                for (int m = 0; m < KEY_TILES; m++) {
                    p[m][n][odd] = power(p[m][n][odd], base, c);
                    p[m][n][2 + odd] = power(p[m][n][2 + odd], base, c);
                }
            }
        }
        multiply_columns<KEY_TILES, QUERIES>(out_v, p, ups);
        float ds[KEY_TILES][QUERIES / 8][4];
        clear(ds);
        multiply_rows<KEY_TILES, QUERIES>(ds, vs + warp() * 16 * KEY_TILES * PITCH, ups);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                float in_common = commons[turn % 2][n * 8 + lane() % 4 * 2 + odd];
#pragma unroll
                for (int m = 0; m < KEY_TILES; m++) {
                    ds[m][n][odd] = p[m][n][odd] * (ds[m][n][odd] - in_common);
                    ds[m][n][2 + odd] = p[m][n][2 + odd] * (ds[m][n][2 + odd] - in_common);
                }
            }
        }
        multiply_columns<KEY_TILES, QUERIES>(out_k, ds, qs);
    }
    copy_async_wait<0>();
    block_barrier(); // without queries, keys and values may still be arriving
#pragma unroll
    for (int m = 0; m < KEY_TILES; m++) {
#pragma unroll
        for (int n = 0; n < PADDED / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                out_k[m][n][e] *= scale;
            }
        }
    }
    if (dk) {
        write_rows<KEY_TILES>(dk + at_k + (i64)own * sk.row, sk.row, keys - own, out_k, ks + warp() * 16 * KEY_TILES * PITCH);
    }
    if (dv) {
        write_rows<KEY_TILES>(dv + at_v + (i64)own * sv.row, sv.row, keys - own, out_v, vs + warp() * 16 * KEY_TILES * PITCH);
    }
}
