// Attention of BF16 and F16 on tensor cores, tile by tile through shared memory and registers (Dao 2023, arXiv:2307.08691): the scores of a tile
// never leave the registers, where they turn from a product's result into the next one's operand.
//
// TYPE is the type of q, k, v, y and their gradients, HEAD the size of a head, a multiple of 8 that is padded to one of 16 here. CAUSAL
// says that query i sees keys 0 .. i. MASKED says that there is a mask, of MASK_TYPE, TRUTH that it tells where to look. A warp has M_TILES times 16 queries forward and 16 rows backward. KEYS and QUERIES are rows of a
// tile that passes by: keys forward; backward QUERIES for a block of keys, BACK_KEYS for a block of queries.
//
// Backward, the keys' gradients and the queries' come from two kernels that each compute the scores again: so nothing is added in memory
// by several blocks, and the bits are the same every time.
//
// variants: TYPE=bf16 HEAD=64 CAUSAL=1 M_TILES=2 KEYS=64 QUERIES=64 BACK_KEYS=64 MASKED=0 MASK_TYPE=f32 TRUTH=0
// variants: TYPE=bf16 HEAD=80 CAUSAL=0 M_TILES=2 KEYS=32 QUERIES=32 BACK_KEYS=64 MASKED=0 MASK_TYPE=f32 TRUTH=0
// variants: TYPE=f16 HEAD=96 CAUSAL=1 M_TILES=2 KEYS=32 QUERIES=32 BACK_KEYS=64 MASKED=0 MASK_TYPE=f32 TRUTH=0
// variants: TYPE=bf16 HEAD=128 CAUSAL=1 M_TILES=1 KEYS=64 QUERIES=32 BACK_KEYS=32 MASKED=0 MASK_TYPE=f32 TRUTH=0
// variants: TYPE=bf16 HEAD=64 CAUSAL=0 M_TILES=1 KEYS=64 QUERIES=64 BACK_KEYS=64 MASKED=1 MASK_TYPE=bf16 TRUTH=0
// variants: TYPE=f16 HEAD=128 CAUSAL=1 M_TILES=1 KEYS=32 QUERIES=16 BACK_KEYS=32 MASKED=1 MASK_TYPE=boolean TRUTH=1
#include "octet.cuh"

#define WARPS 4
#define THREADS (WARPS * WARP)
#define PADDED ((HEAD + 15) / 16 * 16)
// Elements from row to row in shared memory: an odd number of 16 bytes, so that eight rows of a matrix lie in different banks.
#define PITCH (PADDED + 8)
#define ROWS (WARPS * 16 * M_TILES) // queries of a block forward
#define BACK_ROWS (WARPS * 16)      // rows of a block backward
#define LOG2_E 1.44269504f

// Elements from one batch, head and row to the next: those of q, k, v and y, as the table of strides has them.
struct Steps {
    i64 batch;
    i64 head;
    i64 row;
};
enum Operand { Q, K, V, Y };
DEVICE Steps steps_of(const i64* steps, int operand) {
    return Steps{steps[3 * operand], steps[3 * operand + 1], steps[3 * operand + 2]};
}

// Starts copies of COUNT rows to shared memory; zeros arrive for rows from valid on and behind the head's size.
template <int COUNT> DEVICE void start_rows(TYPE* to, const TYPE* from, i64 step, int valid) {
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
template <int M> DEVICE void write_rows(TYPE* to, i64 step, int valid, const float (&d)[M][PADDED / 8][4], TYPE* stage) {
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

// What a head's queries may see. With a mask, scores are scaled before it is added; a mask may hold the lowest number there is, so it is
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
// The score of query i and key j: -infinity where it does not look.
DEVICE float seen(const Sight& sight, float product, int i, int j) {
    bool there = i < sight.queries && j < sight.keys && (!CAUSAL || j <= i);
#if MASKED
    if (!there) {
        return -INFINITE;
    }
    MASK_TYPE m = sight.mask[i * sight.query_step + j * sight.key_step];
#if TRUTH
    return m == 0 ? -INFINITE : product * sight.scale;
#else
    return product * sight.scale + widen(m);
#endif
#else
    return there ? product : -INFINITE;
#endif
}
// exp(score - x), base being that of x.
DEVICE float base_of_score(float x, float factor) { return MASKED ? x : x * factor; }
DEVICE float base_of_sum(float x) { return MASKED ? x : x * LOG2_E; }
DEVICE float power(float score, float base, float factor) {
    return fast_exp2(MASKED ? (score - base) * LOG2_E : fmaf(score, factor, -base));
}

// A block has ROWS queries of a head. While scores are computed values arrive, and while values are added up the next keys do.
RESIDENT_KERNEL(flash_forward, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, TYPE* y, float* log_sums, const i64* steps, i32 heads,
        i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    TYPE* qs = (TYPE*)shared;
    TYPE* ks = qs + ROWS * PITCH;
    TYPE* vs = ks + KEYS * PITCH;
    i64 h = block_index_y();
    i64 b = block_index_z();
    // the last queries see the most keys: they begin first
    int first = (int)(CAUSAL ? block_count() - 1 - block_index() : block_index()) * ROWS;
    int own = first + warp() * 16 * M_TILES; // the warp's first query
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    q += b * sq.batch + h * sq.head + first * sq.row;
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    int end = CAUSAL ? at_most(first + ROWS, keys) : keys;
    int blocks = (end + KEYS - 1) / KEYS;
    start_rows<ROWS>(qs, q, sq.row, queries - first);
    start_rows<KEYS>(ks, k, sk.row, keys);
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
    for (int block = 0; block < blocks; block++) {
        int from = block * KEYS;
        copy_async_wait<0>();
        block_barrier(); // the keys are there, and all warps are through with the values before
        start_rows<KEYS>(vs, v + from * sv.row, sv.row, keys - from);
        copy_async_commit();
        float s[M_TILES][KEYS / 8][4];
        clear(s);
        multiply_rows<M_TILES, KEYS>(s, qs + warp() * 16 * M_TILES * PITCH, ks);
        if (MASKED || from + KEYS > keys || (CAUSAL && from + KEYS - 1 > own)) {
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int j = from + n * 8 + lane() % 4 * 2 + e % 2;
                        int i = own + m * 16 + lane() / 4 + e / 2 * 8;
                        s[m][n][e] = seen(sight, s[m][n][e], i, j);
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
        copy_async_wait<0>();
        block_barrier(); // the values are there, and all warps are through with the keys
        if (block + 1 < blocks) {
            start_rows<KEYS>(ks, k + (from + KEYS) * sk.row, sk.row, keys - from - KEYS);
            copy_async_commit();
        }
        multiply_columns<M_TILES, KEYS>(out, s, vs);
    }
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
                log_sums[(b * heads + h) * queries + i] = all == 0 ? -INFINITE : largest[m][half] * (MASKED ? 1 : scale) + logf(all);
            }
        }
    }
    write_rows<M_TILES>(
        y + b * sy.batch + h * sy.head + own * sy.row, sy.row, queries - own, out, qs + warp() * 16 * M_TILES * PITCH);
}

// dq = scale Σ ds k, ds = p (dp - dy·y). A block has 64 queries of a head; keys and values of the next tile arrive while one is worked on.
RESIDENT_KERNEL(flash_queries, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dq, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    TYPE* qs = (TYPE*)shared;
    TYPE* ups = qs + BACK_ROWS * PITCH;
    TYPE* tiles = ups + BACK_ROWS * PITCH; // keys, values, keys, values
    const int tile = BACK_KEYS * PITCH;
    i64 h = block_index_y();
    i64 b = block_index_z();
    int first = (int)(CAUSAL ? block_count() - 1 - block_index() : block_index()) * BACK_ROWS;
    int own = first + warp() * 16;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    int end = CAUSAL ? at_most(first + BACK_ROWS, keys) : keys;
    int blocks = (end + BACK_KEYS - 1) / BACK_KEYS;
    start_rows<BACK_ROWS>(qs, q + b * sq.batch + h * sq.head + first * sq.row, sq.row, queries - first);
    start_rows<BACK_ROWS>(ups, dy + b * sy.batch + h * sy.head + first * sy.row, sy.row, queries - first);
    start_rows<BACK_KEYS>(tiles, k, sk.row, keys);
    start_rows<BACK_KEYS>(tiles + tile, v, sv.row, keys);
    copy_async_commit();
    float c = scale * LOG2_E;
    Sight sight = sight_of(mask, steps, b, h, queries, keys, scale);
    float base[2];
    float common[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = own + half * 8 + lane() / 4;
        float log_sum = i < queries ? log_sums[(b * heads + h) * queries + i] : -INFINITE;
        // of a query that sees nothing all probabilities are 0
        base[half] = log_sum == -INFINITE ? INFINITE : base_of_sum(log_sum);
        common[half] = i < queries ? dy_dots[(b * heads + h) * queries + i] : 0;
    }
    float out[1][PADDED / 8][4];
    clear(out);
    for (int block = 0; block < blocks; block++) {
        int from = block * BACK_KEYS;
        TYPE* ks = tiles + block % 2 * 2 * tile;
        TYPE* vs = ks + tile;
        if (block + 1 < blocks) {
            TYPE* next = tiles + (block + 1) % 2 * 2 * tile;
            int behind = from + BACK_KEYS;
            start_rows<BACK_KEYS>(next, k + behind * sk.row, sk.row, keys - behind);
            start_rows<BACK_KEYS>(next + tile, v + behind * sv.row, sv.row, keys - behind);
            copy_async_commit();
            copy_async_wait<1>();
        } else {
            copy_async_wait<0>();
        }
        block_barrier();
        float s[1][BACK_KEYS / 8][4];
        float dp[1][BACK_KEYS / 8][4];
        clear(s);
        clear(dp);
        multiply_rows<1, BACK_KEYS>(s, qs + warp() * 16 * PITCH, ks);
        multiply_rows<1, BACK_KEYS>(dp, ups + warp() * 16 * PITCH, vs);
        bool edge = MASKED || from + BACK_KEYS > keys || (CAUSAL && from + BACK_KEYS - 1 > own);
#pragma unroll
        for (int n = 0; n < BACK_KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float score = s[0][n][e];
                if (edge) {
                    int j = from + n * 8 + lane() % 4 * 2 + e % 2;
                    score = seen(sight, score, own + lane() / 4 + e / 2 * 8, j);
                }
                float p = power(score, base[e / 2], c);
                s[0][n][e] = p * (dp[0][n][e] - common[e / 2]);
            }
        }
        multiply_columns<1, BACK_KEYS>(out, s, ks);
        block_barrier(); // before the next but one arrives here
    }
#pragma unroll
    for (int n = 0; n < PADDED / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            out[0][n][e] *= scale;
        }
    }
    write_rows<1>(dq + b * sq.batch + h * sq.head + own * sq.row, sq.row, queries - own, out, qs + warp() * 16 * PITCH);
}

// dk = scale Σ dsᵀ q and dv = Σ pᵀ dy. A block has 64 keys, for which scores are computed transposed: then they are in the registers as the
// products over queries want them. The heads that share the keys come one after the other. dk or dv may be absent.
RESIDENT_KERNEL(flash_keys, THREADS, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dk, TYPE* dv, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, float scale)) {
    DYNAMIC_SHARED(shared);
    SHARED float bases[2][QUERIES];
    SHARED float commons[2][QUERIES];
    TYPE* ks = (TYPE*)shared;
    TYPE* vs = ks + BACK_ROWS * PITCH;
    TYPE* tiles = vs + BACK_ROWS * PITCH; // queries, upstream, queries, upstream
    const int tile = QUERIES * PITCH;
    i64 shared_head = block_index_y();
    i64 b = block_index_z();
    int first = (int)block_index() * BACK_ROWS;
    int own = first + warp() * 16;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    i64 at_k = b * sk.batch + shared_head * sk.head;
    i64 at_v = b * sv.batch + shared_head * sv.head;
    // tiles of queries that see any of the keys, of each head
    int skipped = CAUSAL ? first / QUERIES : 0;
    int each = (queries + QUERIES - 1) / QUERIES - skipped;
    int count = each > 0 ? each * group : 0;
    start_rows<BACK_ROWS>(ks, k + at_k + first * sk.row, sk.row, keys - first);
    start_rows<BACK_ROWS>(vs, v + at_v + first * sv.row, sv.row, keys - first);
    copy_async_commit(); // also where no tile of queries follows: a wait covers only copies that were committed
    float c = scale * LOG2_E;
    float out_k[1][PADDED / 8][4];
    float out_v[1][PADDED / 8][4];
    clear(out_k);
    clear(out_v);
    // turn 0 only starts the first tile
    for (int turn = 0; turn <= count; turn++) {
        if (turn < count) {
            i64 h = shared_head * group + turn / each;
            int from = (skipped + turn % each) * QUERIES;
            TYPE* next = tiles + turn % 2 * 2 * tile;
            start_rows<QUERIES>(next, q + b * sq.batch + h * sq.head + from * sq.row, sq.row, queries - from);
            start_rows<QUERIES>(next + tile, dy + b * sy.batch + h * sy.head + from * sy.row, sy.row, queries - from);
            copy_async_commit();
            if (thread_index() < QUERIES) {
                int i = from + thread_index();
                float log_sum = i < queries ? log_sums[(b * heads + h) * queries + i] : -INFINITE;
                bases[turn % 2][thread_index()] = log_sum == -INFINITE ? INFINITE : base_of_sum(log_sum);
                commons[turn % 2][thread_index()] = i < queries ? dy_dots[(b * heads + h) * queries + i] : 0;
            }
        }
        if (turn == 0) {
            continue;
        }
        if (turn < count) {
            copy_async_wait<1>();
        } else {
            copy_async_wait<0>();
        }
        block_barrier();
        int now = (turn - 1) % 2;
        int from = (skipped + (turn - 1) % each) * QUERIES;
        TYPE* qs = tiles + now * 2 * tile;
        TYPE* ups = qs + tile;
        float p[1][QUERIES / 8][4];
        clear(p);
        multiply_rows<1, QUERIES>(p, ks + warp() * 16 * PITCH, qs);
        bool edge = MASKED || (CAUSAL && from < own + 16);
        Sight sight = sight_of(mask, steps, b, shared_head * group + (turn - 1) / each, queries, keys, scale);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int column = n * 8 + lane() % 4 * 2 + e % 2;
                float score = p[0][n][e];
                if (edge) {
                    score = seen(sight, score, from + column, own + lane() / 4 + e / 2 * 8);
                }
                p[0][n][e] = power(score, bases[now][column], c);
            }
        }
        multiply_columns<1, QUERIES>(out_v, p, ups);
        float ds[1][QUERIES / 8][4];
        clear(ds);
        multiply_rows<1, QUERIES>(ds, vs + warp() * 16 * PITCH, ups);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int column = n * 8 + lane() % 4 * 2 + e % 2;
                ds[0][n][e] = p[0][n][e] * (ds[0][n][e] - commons[now][column]);
            }
        }
        multiply_columns<1, QUERIES>(out_k, ds, qs);
        block_barrier(); // before the next but one arrives here
    }
    copy_async_wait<0>();
    block_barrier(); // without queries, keys and values may still be arriving
#pragma unroll
    for (int n = 0; n < PADDED / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            out_k[0][n][e] *= scale;
        }
    }
    if (dk) {
        write_rows<1>(dk + at_k + own * sk.row, sk.row, keys - own, out_k, ks + warp() * 16 * PITCH);
    }
    if (dv) {
        write_rows<1>(dv + at_v + own * sv.row, sv.row, keys - own, out_v, vs + warp() * 16 * PITCH);
    }
}
