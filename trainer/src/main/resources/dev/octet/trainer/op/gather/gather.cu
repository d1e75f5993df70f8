// Rows looked up by indices, and the sums of their gradients. INDEX_TYPE is the type of the indices, X_TYPE that of the gradients; rows are
// copied in units of UNIT bytes.
//
// Backward sorts the positions by row, stably, eight bits of the row at a time; then each row's gradients stand side by side, in the order
// of the positions, and are added in pieces of CHUNK positions, whose sums are added in order. No sum depends on which block was first.
//
// variants: INDEX_TYPE=i64 X_TYPE=bf16 UNIT=16
// variants: INDEX_TYPE=i32 X_TYPE=f32 UNIT=4
#include "octet.cuh"

#define THREADS 256
// Positions that a block sorts.
#define KEYS 1024
#define DIGITS 256
#define CHUNK 64
// Columns of a thread where a row is a multiple of as many.
#define WIDE_COLUMNS (16 / (int)sizeof(X_TYPE))

typedef Pack<u8, UNIT> Bytes;

// The row of an index, which counts from the end when it is negative; -1 for one that is outside.
DEVICE i64 row_of(INDEX_TYPE index, i64 size) {
    i64 row = (i64)index < 0 ? (i64)index + size : (i64)index;
    return row >= 0 && row < size ? row : -1;
}

// Of a table of `all` rows here are those from `first` on, mostly all of them. Another's row is zero. An index outside of the table gives bytes of ones, which is
// NaN in every float type: no data are made up for it.
KERNEL(gather_forward, THREADS,
       (const Bytes* x, const INDEX_TYPE* indices, Bytes* y, i64 outer, i64 size, i64 first, i64 all, i64 count, i64 units, i32 group)) {
    i64 thread = block_index() * THREADS + thread_index();
    i64 position = thread / group;
    if (position < outer * count) {
        i64 of_all = row_of(indices[position % count], all);
        i64 row = of_all - first;
        bool here = of_all >= 0 && row >= 0 && row < size;
        Bytes nothing;
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            nothing.at[i] = of_all < 0 ? 0xff : 0;
        }
        const Bytes* from = x + (position / count * size + row) * units;
        for (i64 i = thread % group; i < units; i += group) {
            y[position * units + i] = here ? from[i] : nothing;
        }
    }
}

// Keys to sort: the row of each position; size for the row of padding and for indices outside, which get no gradient.
KERNEL(gather_keys, THREADS,
       (const INDEX_TYPE* indices, i32* keys, i32* positions, i64 count, i64 size, i64 first, i64 all, i64 padding)) {
    i64 i = block_index() * THREADS + thread_index();
    if (i < count) {
        i64 of_all = row_of(indices[i], all);
        i64 row = of_all - first;
        keys[i] = (i32)(of_all < 0 || row < 0 || row >= size || row == padding ? size : row);
        positions[i] = (i32)i;
    }
}

DEVICE int digit(i32 key, int shift) { return (key >> shift) & (DIGITS - 1); }

// How many keys of each block have each digit: counts[digit][block].
KERNEL(gather_count, THREADS, (const i32* keys, i32* counts, i64 count, i32 shift)) {
    SHARED int histogram[DIGITS];
    histogram[thread_index()] = 0;
    block_barrier();
    i64 start = block_index() * KEYS;
    for (i64 i = start + thread_index(); i < start + KEYS && i < count; i += THREADS) {
        atomic_add(&histogram[digit(keys[i], shift)], 1);
    }
    block_barrier();
    counts[thread_index() * block_count() + block_index()] = histogram[thread_index()];
}

// Counts to starts: each becomes the sum of those before it. One block of 1024 threads.
KERNEL(gather_starts, 1024, (i32* counts, i64 n)) {
    SHARED int sums[1024];
    i64 each = (n + 1023) / 1024;
    i64 from = thread_index() * each;
    int sum = 0;
    for (i64 i = from; i < from + each && i < n; i++) {
        sum += counts[i];
    }
    sums[thread_index()] = sum;
    block_barrier();
    for (int step = 1; step < 1024; step *= 2) {
        int before = thread_index() >= step ? sums[thread_index() - step] : 0;
        block_barrier();
        sums[thread_index()] += before;
        block_barrier();
    }
    int start = sums[thread_index()] - sum;
    for (i64 i = from; i < from + each && i < n; i++) {
        int here = counts[i];
        counts[i] = start;
        start += here;
    }
}

// Moves keys and positions to their places. A thread for each digit walks the block's keys in their order: so equal digits keep it.
KERNEL(gather_place, THREADS,
       (const i32* keys, const i32* positions, const i32* starts, i32* sorted_keys, i32* sorted_positions, i64 count, i32 shift)) {
    SHARED int block_keys[KEYS];
    i64 start = block_index() * KEYS;
    int n = (int)(count - start < KEYS ? count - start : KEYS);
    for (int i = thread_index(); i < n; i += THREADS) {
        block_keys[i] = keys[start + i];
    }
    block_barrier();
    int to = starts[thread_index() * block_count() + block_index()];
    for (int i = 0; i < n; i++) {
        if (digit(block_keys[i], shift) == thread_index()) {
            sorted_keys[to] = block_keys[i];
            sorted_positions[to] = positions[start + i];
            to++;
        }
    }
}

// What a chunk of sorted positions adds. Rows that begin and end in it are finished here. Sums of a row that began before go to
// pieces[..][0], those of one that begins here and goes on to pieces[..][1]; pieces is [outer, chunks, 2, inner].
template <int COLUMNS>
DEVICE void add_chunk(
    const X_TYPE* dy, const i32* keys, const i32* positions, X_TYPE* dx, float* pieces, i64 size, i64 count, i64 inner, i64 chunks, bool add) {
    i64 chunk = block_index() % chunks;
    i64 outer = block_index() / chunks;
    i64 first = chunk * CHUNK;
    i64 end = first + CHUNK < count ? first + CHUNK : count;
    const X_TYPE* up = dy + outer * count * inner;
    float* piece = pieces + block_index() * 2 * inner;
    for (i64 column = thread_index() * COLUMNS; column < inner; column += THREADS * COLUMNS) {
        float sum[COLUMNS];
        i64 begin = first;
        while (begin < end && keys[begin] < size) {
            int key = keys[begin];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                sum[c] = 0;
            }
            i64 k = begin;
            for (; k < end && keys[k] == key; k++) {
                float more[COLUMNS];
                load(up + positions[k] * inner + column, more);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    sum[c] += more[c];
                }
            }
            bool before = begin == first && first > 0 && keys[first - 1] == key;
            bool behind = k == end && end < count && keys[end] == key;
            if (before || behind) {
                store(piece + (before ? 0 : inner) + column, sum);
            } else {
                X_TYPE* to = dx + (outer * size + key) * inner + column;
                if (add) {
                    float old[COLUMNS];
                    load(to, old);
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        sum[c] += old[c];
                    }
                }
                store(to, sum);
            }
            begin = k;
        }
    }
}

// Sums of rows that span chunks: the chunk in which one begins adds what the next ones have of it.
template <int COLUMNS>
DEVICE void join_chunks(
    const i32* keys, const float* pieces, X_TYPE* dx, i64 size, i64 count, i64 inner, i64 chunks, bool add) {
    i64 chunk = block_index() % chunks;
    i64 outer = block_index() / chunks;
    i64 end = (chunk + 1) * CHUNK;
    if (end >= count || keys[end] != keys[end - 1] || keys[end] >= size) {
        return;
    }
    int key = keys[end];
    bool begins = chunk == 0 || keys[end - CHUNK] != key || keys[end - CHUNK - 1] != key;
    if (!begins) {
        return;
    }
    for (i64 column = thread_index() * COLUMNS; column < inner; column += THREADS * COLUMNS) {
        float sum[COLUMNS];
        load(pieces + (block_index() * 2 + 1) * inner + column, sum);
        for (i64 next = chunk + 1; next < chunks && keys[next * CHUNK] == key; next++) {
            float more[COLUMNS];
            load(pieces + (outer * chunks + next) * 2 * inner + column, more);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                sum[c] += more[c];
            }
        }
        X_TYPE* to = dx + (outer * size + key) * inner + column;
        if (add) {
            float old[COLUMNS];
            load(to, old);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                sum[c] += old[c];
            }
        }
        store(to, sum);
    }
}

#define SUMS(suffix, COLUMNS)                                                                                                        \
    KERNEL(gather_add_##suffix, THREADS,                                                                                             \
           (const X_TYPE* dy, const i32* keys, const i32* positions, X_TYPE* dx, float* pieces, i64 size, i64 count, i64 inner,      \
            i64 chunks, i32 add)) {                                                                                                  \
        add_chunk<COLUMNS>(dy, keys, positions, dx, pieces, size, count, inner, chunks, add != 0);                                   \
    }                                                                                                                                \
    KERNEL(gather_join_##suffix, THREADS,                                                                                            \
           (const i32* keys, const float* pieces, X_TYPE* dx, i64 size, i64 count, i64 inner, i64 chunks, i32 add)) {                \
        join_chunks<COLUMNS>(keys, pieces, dx, size, count, inner, chunks, add != 0);                                                \
    }
SUMS(wide, WIDE_COLUMNS)
SUMS(single, 1)
