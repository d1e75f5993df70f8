// Attention of any element type, head size and mask. No matrix of queries by keys lies in memory: a warp has a query (backward, also a key), its
// lanes have 32 keys (queries) at a time. What sums over many rows is in a fixed order.
//
// TYPE is the type of q, k, v, y and their gradients. MASK_TYPE is that of the mask, TRUTH says that it tells where to look.
//
// variants: TYPE=f32 MASK_TYPE=f32 TRUTH=0; TYPE=bf16 MASK_TYPE=boolean TRUTH=1; TYPE=f16 MASK_TYPE=f16 TRUTH=0
#include "octet.cuh"

#define THREADS 256
#define WARPS (THREADS / WARP)
// Columns of 32 rows that lie in shared memory at a time; a row's pitch is odd, so that a column lies in 32 banks.
#define COLUMNS 64
#define PITCH (COLUMNS + 1)

// Elements from one batch, head and row to the next; the table holds those of q, k, v and y in this order, then the mask's, which has one
// more, from key to key.
struct Steps {
    i64 batch;
    i64 head;
    i64 row;
};
DEVICE Steps steps_of(const i64* steps, int operand) {
    return Steps{steps[3 * operand], steps[3 * operand + 1], steps[3 * operand + 2]};
}
enum Operand { Q, K, V, Y };
DEVICE float masked(float score, const MASK_TYPE* mask, const i64* steps, i64 b, i64 h, i64 i, i64 j) {
    if (!mask) {
        return score;
    }
    MASK_TYPE m = mask[b * steps[12] + h * steps[13] + i * steps[14] + j * steps[15]];
#if TRUTH
    return m == 0 ? -INFINITE : score;
#else
    return score + widen(m);
#endif
}

// own . row, for the lane's row of 32; all threads of the block call it, stage is theirs together. Rows from valid on count as zeros.
DEVICE float dots(const float* own, const TYPE* rows, i64 step, int valid, int size, float* stage) {
    float sum = 0;
    for (int from = 0; from < size; from += COLUMNS) {
        block_barrier();
        for (int at = thread_index(); at < WARP * COLUMNS; at += THREADS) {
            int r = at / COLUMNS;
            int c = at % COLUMNS;
            stage[r * PITCH + c] = r < valid && from + c < size ? widen(rows[r * step + from + c]) : 0;
        }
        block_barrier();
        int n = size - from < COLUMNS ? size - from : COLUMNS;
        for (int c = 0; c < n; c++) {
            sum = fmaf(own[from + c], stage[lane() * PITCH + c], sum);
        }
    }
    return sum;
}
// sums = sums * factor + weights . rows, column by column; weights are the warp's.
DEVICE void add_rows(float* sums, float factor, const float* weights, const TYPE* rows, i64 step, int valid, int size) {
    for (int c = lane(); c < size; c += WARP) {
        float sum = sums[c] * factor;
        for (int r = 0; r < valid; r++) {
            sum = fmaf(weights[r], widen(rows[r * step + c]), sum);
        }
        sums[c] = sum;
    }
}
// A row, or zeros where it is not there.
DEVICE void take_row(float* to, const TYPE* from, bool here, int size) {
    for (int c = lane(); c < size; c += WARP) {
        to[c] = here ? widen(from[c]) : 0;
    }
}
DEVICE void clear_row(float* to, int size) {
    for (int c = lane(); c < size; c += WARP) {
        to[c] = 0;
    }
}
DEVICE void put_row(TYPE* to, const float* from, float factor, int size) {
    for (int c = lane(); c < size; c += WARP) {
        to[c] = narrow<TYPE>(from[c] * factor);
    }
}
DEVICE int at_most(int x, int most) { return x < most ? x : most; }

RESIDENT_KERNEL(attention_forward, THREADS, 512,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, TYPE* y, float* log_sums, const i64* steps, i32 heads, i32 queries,
        i32 keys, i32 group, i32 size, i32 value_size, i32 causal, float scale)) {
    DYNAMIC_SHARED(shared);
    float* stage = (float*)shared;
    float* weights = stage + WARP * PITCH + warp() * WARP;
    float* own = stage + WARP * PITCH + THREADS + warp() * (size + value_size);
    float* sums = own + size;
    i64 h = block_index_y();
    i64 b = block_index_z();
    int first = (int)block_index() * WARPS;
    int i = first + warp();
    bool here = i < queries;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    take_row(own, q + b * sq.batch + h * sq.head + i * sq.row, here, size);
    clear_row(sums, value_size);
    float largest = -INFINITE;
    float all = 0;
    int end = causal ? at_most(first + WARPS, keys) : keys;
    for (int from = 0; from < end; from += WARP) {
        int valid = at_most(keys - from, WARP);
        float score = scale * dots(own, k + from * sk.row, sk.row, valid, size, stage);
        int j = from + lane();
        bool seen = here && j < keys && (!causal || j <= i);
        score = seen ? masked(score, mask, steps, b, h, i, j) : -INFINITE;
        float more = Max()(largest, warp_fold(score, Max()));
        float e = score == -INFINITE ? 0 : expf(score - more);
        float factor = largest == -INFINITE ? 0 : expf(largest - more);
        all = all * factor + warp_fold(e, Sum());
        weights[lane()] = e;
        warp_barrier();
        add_rows(sums, factor, weights, v + from * sv.row, sv.row, valid, value_size);
        warp_barrier();
        largest = more;
    }
    if (here) {
        put_row(y + b * sy.batch + h * sy.head + i * sy.row, sums, all == 0 ? 0 : 1 / all, value_size);
        if (lane() == 0) {
            log_sums[(b * heads + h) * queries + i] = all == 0 ? -INFINITE : largest + logf(all);
        }
    }
}

// Of each query dy . y, which is what its scores' gradients have in common. Four lanes have a query, and load PACK elements at a time where rows are made of
// such packs: neighbouring queries of a batch are neighbouring heads first, as they lie in memory where heads are interleaved.
#define DOT_PACK (16 / (int)sizeof(TYPE))
KERNEL(attention_dots, THREADS,
       (const TYPE* y, const TYPE* dy, float* dots, const i64* steps, i32 batch, i32 heads, i32 queries, i32 value_size)) {
    i64 row = block_index() * (THREADS / 4) + thread_index() / 4;
    bool here = row < (i64)batch * heads * queries;
    Steps sy = steps_of(steps, Y);
    bool packed = value_size % DOT_PACK == 0 && is_aligned(y, 16) && is_aligned(dy, 16) && sy.row % DOT_PACK == 0
                  && sy.head % DOT_PACK == 0 && sy.batch % DOT_PACK == 0;
    i64 outer = quotient(row, heads);
    i32 h = (i32)(row - outer * heads);
    i64 b = quotient(outer, queries);
    i64 i = outer - b * queries;
    i64 at = b * sy.batch + h * sy.head + i * sy.row;
    float sum = 0;
    if (here && packed) {
#pragma unroll 4
        for (int c = thread_index() % 4 * DOT_PACK; c < value_size; c += 4 * DOT_PACK) {
            float u[DOT_PACK], v[DOT_PACK];
            load(y + at + c, u);
            load(dy + at + c, v);
#pragma unroll
            for (int k = 0; k < DOT_PACK; k++) {
                sum = fmaf(u[k], v[k], sum);
            }
        }
    } else if (here) {
        for (int c = thread_index() % 4; c < value_size; c += 4) {
            sum = fmaf(widen(y[at + c]), widen(dy[at + c]), sum);
        }
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (here && thread_index() % 4 == 0) {
        dots[(b * heads + h) * queries + i] = sum;
    }
}

// Of a query that sees no key, what the vendor's library adds up is below half of what hides a key.
#define HIDING (-1e30f)

#if TRUTH
// What the vendor's library adds to the scores of keys, [batch, keys]: nothing, or what hides a key of a mask that is the same for all queries and heads.
KERNEL(attention_bias, THREADS, (const MASK_TYPE* mask, float* bias, const i64* steps, i32 batch, i32 keys)) {
    i64 at = block_index() * THREADS + thread_index();
    if (at < (i64)batch * keys) {
        i64 b = quotient(at, keys);
        bias[at] = mask[b * steps[12] + (at - b * keys) * steps[15]] == 0 ? HIDING : 0;
    }
}
#endif

// Zeros in place of rows of queries that see no key, and no sum in place of their sums. A thread has a query.
KERNEL(attention_hide, THREADS,
       (TYPE* y, float* log_sums, const i64* steps, i32 batch, i32 heads, i32 queries, i32 value_size)) {
    i64 row = block_index() * THREADS + thread_index();
    if (row < (i64)batch * heads * queries && log_sums[row] < HIDING / 2) {
        Steps sy = steps_of(steps, Y);
        i64 outer = quotient(row, queries);
        i64 b = quotient(outer, heads);
        TYPE* own = y + b * sy.batch + (outer - b * heads) * sy.head + (row - outer * queries) * sy.row;
        for (int c = 0; c < value_size; c++) {
            own[c] = narrow<TYPE>(0);
        }
        log_sums[row] = -INFINITE;
    }
}

// Sums for backward, where the exponential of a score less its sum must be 0 if there is no sum.
KERNEL(attention_sums, THREADS, (const float* log_sums, float* sums, i64 rows)) {
    i64 row = block_index() * THREADS + thread_index();
    if (row < rows) {
        sums[row] = log_sums[row] == -INFINITE ? INFINITE : log_sums[row];
    }
}

// dq = scale Σ ds k. A warp has a query.
RESIDENT_KERNEL(attention_queries, THREADS, 512,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dq, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, i32 size, i32 value_size, i32 causal, float scale)) {
    DYNAMIC_SHARED(shared);
    float* stage = (float*)shared;
    float* weights = stage + WARP * PITCH + warp() * WARP;
    float* own = stage + WARP * PITCH + THREADS + warp() * (2 * size + value_size);
    float* up = own + size;
    float* sums = up + value_size;
    i64 h = block_index_y();
    i64 b = block_index_z();
    int first = (int)block_index() * WARPS;
    int i = first + warp();
    bool here = i < queries;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    i64 at = b * sq.batch + h * sq.head + i * sq.row;
    k += b * sk.batch + h / group * sk.head;
    v += b * sv.batch + h / group * sv.head;
    take_row(own, q + at, here, size);
    take_row(up, dy + b * sy.batch + h * sy.head + i * sy.row, here, value_size);
    clear_row(sums, size);
    float log_sum = here ? log_sums[(b * heads + h) * queries + i] : -INFINITE;
    float common = here ? dy_dots[(b * heads + h) * queries + i] : 0;
    int end = causal ? at_most(first + WARPS, keys) : keys;
    for (int from = 0; from < end; from += WARP) {
        int valid = at_most(keys - from, WARP);
        float score = scale * dots(own, k + from * sk.row, sk.row, valid, size, stage);
        float dp = dots(up, v + from * sv.row, sv.row, valid, value_size, stage);
        int j = from + lane();
        bool seen = log_sum != -INFINITE && j < keys && (!causal || j <= i);
        float p = seen ? expf(masked(score, mask, steps, b, h, i, j) - log_sum) : 0;
        weights[lane()] = p * (dp - common);
        warp_barrier();
        add_rows(sums, 1, weights, k + from * sk.row, sk.row, valid, size);
        warp_barrier();
    }
    if (here) {
        put_row(dq + at, sums, scale, size);
    }
}

// dk = scale Σ ds q and dv = Σ p dy, over the queries of all heads that share the key. A warp has a key. dk or dv may be absent.
KERNEL(attention_keys, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        TYPE* dk, TYPE* dv, const i64* steps, i32 heads, i32 queries, i32 keys, i32 group, i32 size, i32 value_size, i32 causal,
        float scale)) {
    DYNAMIC_SHARED(shared);
    float* stage = (float*)shared;
    float* probabilities = stage + WARP * PITCH + warp() * WARP;
    float* weights = probabilities + THREADS;
    float* own_k = stage + WARP * PITCH + 2 * THREADS + warp() * 2 * (size + value_size);
    float* own_v = own_k + size;
    float* sum_k = own_v + value_size;
    float* sum_v = sum_k + size;
    i64 b = block_index_z();
    int first = (int)block_index() * WARPS;
    int j = first + warp();
    bool here = j < keys;
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    i64 at_k = b * sk.batch + block_index_y() * sk.head + j * sk.row;
    i64 at_v = b * sv.batch + block_index_y() * sv.head + j * sv.row;
    take_row(own_k, k + at_k, here, size);
    take_row(own_v, v + at_v, here, value_size);
    clear_row(sum_k, size);
    clear_row(sum_v, value_size);
    for (i64 h = block_index_y() * group; h < (block_index_y() + 1) * group; h++) {
        const TYPE* head_q = q + b * sq.batch + h * sq.head;
        const TYPE* head_dy = dy + b * sy.batch + h * sy.head;
        // the queries before the block's first key do not see it
        for (int from = causal ? first / WARP * WARP : 0; from < queries; from += WARP) {
            int valid = at_most(queries - from, WARP);
            float score = scale * dots(own_k, head_q + from * sq.row, sq.row, valid, size, stage);
            float dp = dots(own_v, head_dy + from * sy.row, sy.row, valid, value_size, stage);
            int i = from + lane();
            i64 row = (b * heads + h) * queries + i;
            float log_sum = i < queries ? log_sums[row] : -INFINITE;
            bool seen = here && log_sum != -INFINITE && (!causal || j <= i);
            float p = seen ? expf(masked(score, mask, steps, b, h, i, j) - log_sum) : 0;
            probabilities[lane()] = p;
            weights[lane()] = seen ? p * (dp - dy_dots[row]) : 0;
            warp_barrier();
            add_rows(sum_k, 1, weights, head_q + from * sq.row, sq.row, valid, size);
            add_rows(sum_v, 1, probabilities, head_dy + from * sy.row, sy.row, valid, value_size);
            warp_barrier();
        }
    }
    if (here && dk) {
        put_row(dk + at_k, sum_k, scale, size);
    }
    if (here && dv) {
        put_row(dv + at_v, sum_v, 1, value_size);
    }
}

#if !TRUTH
// dmask = Σ ds over the axes along which the mask is repeated; lengths holds its four. A thread has an element.
KERNEL(attention_mask, THREADS,
       (const TYPE* q, const TYPE* k, const TYPE* v, const MASK_TYPE* mask, const TYPE* dy, const float* log_sums, const float* dy_dots,
        MASK_TYPE* dmask, const i64* steps, const i64* lengths, i32 batch, i32 heads, i32 queries, i32 keys, i32 group, i32 size,
        i32 value_size, i32 causal, float scale)) {
    i64 element = block_index() * THREADS + thread_index();
    if (element >= lengths[0] * lengths[1] * lengths[2] * lengths[3]) {
        return;
    }
    int whole[4] = {batch, heads, queries, keys};
    int from[4];
    int end[4];
    i64 rest = element;
    for (int axis = 3; axis >= 0; axis--) {
        int place = (int)(rest % lengths[axis]);
        rest /= lengths[axis];
        bool repeated = lengths[axis] != whole[axis];
        from[axis] = repeated ? 0 : place;
        end[axis] = repeated ? whole[axis] : place + 1;
    }
    Steps sq = steps_of(steps, Q);
    Steps sk = steps_of(steps, K);
    Steps sv = steps_of(steps, V);
    Steps sy = steps_of(steps, Y);
    float sum = 0;
    for (i64 b = from[0]; b < end[0]; b++) {
        for (i64 h = from[1]; h < end[1]; h++) {
            for (i64 i = from[2]; i < end[2]; i++) {
                i64 row = (b * heads + h) * queries + i;
                for (i64 j = from[3]; j < end[3] && (!causal || j <= i); j++) {
                    const TYPE* own_q = q + b * sq.batch + h * sq.head + i * sq.row;
                    const TYPE* own_k = k + b * sk.batch + h / group * sk.head + j * sk.row;
                    const TYPE* own_v = v + b * sv.batch + h / group * sv.head + j * sv.row;
                    const TYPE* up = dy + b * sy.batch + h * sy.head + i * sy.row;
                    float score = 0;
                    float dp = 0;
                    for (int c = 0; c < size; c++) {
                        score = fmaf(widen(own_q[c]), widen(own_k[c]), score);
                    }
                    for (int c = 0; c < value_size; c++) {
                        dp = fmaf(widen(up[c]), widen(own_v[c]), dp);
                    }
                    if (log_sums[row] != -INFINITE) {
                        sum += expf(masked(scale * score, mask, steps, b, h, i, j) - log_sums[row]) * (dp - dy_dots[row]);
                    }
                }
            }
        }
    }
    dmask[element] = narrow<MASK_TYPE>(sum);
}
#endif
