// Pairs of elements turned by the angles of tables. X_TYPE, Y_TYPE, COS_TYPE and SIN_TYPE are types of elements, ID_TYPE that of the positions; PACK
// neighbouring pairs are one thread's.
//
// variants: X_TYPE=bf16 Y_TYPE=bf16 COS_TYPE=f32 SIN_TYPE=f32 ID_TYPE=i64 PACK=4
// variants: X_TYPE=f32 Y_TYPE=f32 COS_TYPE=f32 SIN_TYPE=f32 ID_TYPE=i64 PACK=1
// variants: X_TYPE=f32 Y_TYPE=bf16 COS_TYPE=f32 SIN_TYPE=f32 ID_TYPE=i64 PACK=4
#include "octet.cuh"

#define THREADS 256

// y = x turned by its angle, or back with direction -1; elements behind the rotated ones are copied. Strides in elements; positions of the
// tables come from ids, or where ids are absent from the sequence: one table for each sample, or table_step 0. Ids outside give NaN.
KERNEL(rotary_turn, THREADS,
       (const X_TYPE* x, const COS_TYPE* cosines, const SIN_TYPE* sines, const ID_TYPE* ids, Y_TYPE* y, i64 rows, i32 heads,
        i32 sequence, i64 batch_step, i64 head_step, i64 sequence_step, i32 size, i32 rotated, i64 table_step, i32 positions,
        i32 interleaved, float direction)) {
    int half = rotated / 2;
    int pairs = half / PACK;
    int each = pairs + (size - rotated + PACK - 1) / PACK;
    i64 thread = block_index() * THREADS + thread_index();
    i64 row = thread / each;
    int part = (int)(thread % each);
    if (row >= rows) {
        return;
    }
    // heads innermost: neighbouring threads share a row of the tables
    int h = (int)(row % heads);
    i64 s = row / heads % sequence;
    i64 b = row / heads / sequence;
    i64 start = b * batch_step + h * head_step + s * sequence_step;
    if (part >= pairs) {
        int from = rotated + (part - pairs) * PACK;
        for (int i = from; i < from + PACK && i < size; i++) {
            y[start + i] = narrow<Y_TYPE>(widen(x[start + i]));
        }
        return;
    }
    i64 id = ids ? (i64)ids[b * sequence + s] : s + b * table_step;
    bool known = !ids || (id >= 0 && id < positions);
    i64 table = (known ? id : 0) * half + part * PACK;
    float c[PACK];
    float sn[PACK];
    load(cosines + table, c);
    load(sines + table, sn);
    float first[PACK];
    float second[PACK];
    i64 at = start + (interleaved ? 2 * part * PACK : part * PACK);
    if (interleaved) {
        float both[2 * PACK];
        load(x + at, both);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            first[i] = both[2 * i];
            second[i] = both[2 * i + 1];
        }
    } else {
        load(x + at, first);
        load(x + at + half, second);
    }
    float turned[2 * PACK];
#pragma unroll
    for (int i = 0; i < PACK; i++) {
        float sine = direction * sn[i];
        float u = known ? first[i] * c[i] - second[i] * sine : bits_float(0x7fc00000u);
        float v = known ? first[i] * sine + second[i] * c[i] : bits_float(0x7fc00000u);
        first[i] = u;
        second[i] = v;
        turned[2 * i] = u;
        turned[2 * i + 1] = v;
    }
    if (interleaved) {
        store(y + at, turned);
    } else {
        store(y + at, first);
        store(y + at + half, second);
    }
}
