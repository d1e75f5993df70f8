// Adafactor for many tensors at once; the twin of AdafactorReference.
//
// Tensors are rows of a table of 64-bit words (struct Tensor). Each block takes an entry of a list: a tensor, and which part of it.
//
// variants: PART_REST=1; PART_FLOAT=f32; PART_FLOAT=bf16; PART_FLOAT=f16
#include "octet.cuh"

#define CHUNK 16384
#define SLAB 256

// rows is 0 for a vector, whose second moment `row` has the elements of p. m is 0 without a first moment. sums: for each slab of rows the sums of its
// columns. means: of the rows of each matrix. parts: for each chunk two sums of squares, of u and of p, of which the first is number first_chunk.
// numbers: rate of the update, what p is multiplied by.
struct Tensor {
    i64 p, g, row, col, m, new_p, new_row, new_col, new_m, count, batch, rows, columns, first_sum, first_mean, first_chunk, chunks;
    double decay;
};

DEVICE const Tensor* tensor(const i64* table, const i64* list) { return (const Tensor*)table + list[2 * block_index()]; }

DEVICE double weight_of(double decay_rate, const float* step) { return pow((double)*step, decay_rate); }

// --- moments of matrices -------------------------------------------------------------------------------------------------------

// Parts: the first of eight rows of all matrices.
template <typename T>
DEVICE void rows_of(const i64* table, const i64* list, const float* step, const float* factor, const float* left_out, double decay_rate,
                    double added) {
    const Tensor* t = tensor(table, list);
    i64 r = list[2 * block_index() + 1] + warp();
    if (r < t->batch * t->rows) {
        const T* g = (const T*)t->g + r * t->columns;
        float f = *factor;
        double sum = 0;
        for (i64 j = lane(); j < t->columns; j += WARP) {
            float x = widen(g[j]) * f;
            sum += (double)x * x;
        }
        sum = warp_fold(sum, Sum());
        if (lane() == 0) {
            float old = ((const float*)t->row)[r];
            double weight = weight_of(decay_rate, step);
            ((float*)t->new_row)[r] =
                *left_out != 0 ? old : (float)(1 - weight) * old + (float)weight * (float)(sum / (double)t->columns + added);
        }
    }
}

// Parts: a slab of a matrix, and 32 of its columns.
template <typename T> DEVICE void columns_of(const i64* table, const i64* list, const float* factor, double* sums) {
    SHARED double scratch[256];
    const Tensor* t = tensor(table, list);
    i64 slabs = (t->rows + SLAB - 1) / SLAB;
    i64 groups = (t->columns + 31) / 32;
    i64 part = list[2 * block_index() + 1];
    i64 j = part % groups * 32 + lane();
    i64 slab = part / groups;
    i64 from = slab % slabs * SLAB;
    i64 end = from + SLAB < t->rows ? from + SLAB : t->rows;
    const T* g = (const T*)t->g + slab / slabs * t->rows * t->columns;
    float f = *factor;
    double sum = 0;
    if (j < t->columns) {
        for (i64 r = from + warp(); r < end; r += 8) {
            float x = widen(g[r * t->columns + j]) * f;
            sum += (double)x * x;
        }
    }
    scratch[thread_index()] = sum;
    block_barrier();
    if (warp() == 0 && j < t->columns) {
        for (int k = 1; k < 8; k++) {
            sum += scratch[32 * k + lane()];
        }
        sums[t->first_sum + slab * t->columns + j] = sum;
    }
}

#if HAS_REST
// Parts: the first of 256 columns of all matrices.
KERNEL(adafactor_columns_join, 256,
       (const i64* table, const i64* list, const float* step, const float* left_out, double decay_rate, double added, const double* sums)) {
    const Tensor* t = tensor(table, list);
    i64 at = list[2 * block_index() + 1] + thread_index();
    if (at < t->batch * t->columns) {
        i64 slabs = (t->rows + SLAB - 1) / SLAB;
        const double* mine = sums + t->first_sum + at / t->columns * slabs * t->columns + at % t->columns;
        double sum = 0;
        for (i64 k = 0; k < slabs; k++) {
            sum += mine[k * t->columns];
        }
        float old = ((const float*)t->col)[at];
        double weight = weight_of(decay_rate, step);
        ((float*)t->new_col)[at] =
            *left_out != 0 ? old : (float)(1 - weight) * old + (float)weight * (float)(sum / (double)t->rows + added);
    }
}

// Parts: a matrix.
KERNEL(adafactor_means, 256, (const i64* table, const i64* list, double least, double* means)) {
    SHARED double scratch[33];
    const Tensor* t = tensor(table, list);
    i64 b = list[2 * block_index() + 1];
    const float* row = (const float*)t->new_row + b * t->rows;
    double sum = 0;
    for (i64 r = thread_index(); r < t->rows; r += thread_count()) {
        sum += row[r];
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        double mean = sum / (double)t->rows;
        means[t->first_mean + b] = mean > least ? mean : least;
    }
}
#endif

// --- updates ----------------------------------------------------------------------------------------------------------------------

// The update of an element before it is clipped. The product of two moments may leave the range of F32, their roots' does not.
DEVICE float direction(const Tensor* t, i64 i, float x, const double* means, float least) {
    if (!t->rows) {
        float v = ((const float*)t->new_row)[i];
        return x / sqrtf(v > least ? v : least);
    }
    i64 r = quotient(i, t->columns);
    i64 b = quotient(r, t->rows);
    float row = (float)(((const float*)t->new_row)[r] / means[t->first_mean + b]);
    float col = ((const float*)t->new_col)[b * t->columns + i - r * t->columns];
    if (least > 0) {
        float v = row * col;
        return x / sqrtf(v > least ? v : least);
    }
    return x * (1 / sqrtf(row)) * (1 / sqrtf(col));
}

// Parts: the first element of a chunk.
template <typename T>
DEVICE void norms(const i64* table, const i64* list, const float* step, const float* factor, const float* left_out, double decay_rate,
                  double added, double least, const double* means, double* parts) {
    SHARED double scratch[33];
    const Tensor* t = tensor(table, list);
    i64 from = list[2 * block_index() + 1];
    i64 end = from + CHUNK < t->count ? from + CHUNK : t->count;
    double weight = weight_of(decay_rate, step);
    float keep = (float)(1 - weight);
    float enter = (float)weight;
    float f = *factor;
    bool skip = *left_out != 0;
    double of_u = 0;
    double of_p = 0;
    for (i64 i = from + thread_index(); i < end; i += thread_count()) {
        float x = widen(((const T*)t->g)[i]) * f;
        float p = widen(((const T*)t->p)[i]);
        if (!t->rows) {
            float old = ((const float*)t->row)[i];
            ((float*)t->new_row)[i] = skip ? old : keep * old + enter * (x * x + (float)added);
        }
        float u = direction(t, i, x, means, (float)least);
        of_u += (double)u * u;
        of_p += (double)p * p;
    }
    of_u = block_fold(of_u, Sum(), 0.0, scratch);
    block_barrier();
    of_p = block_fold(of_p, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        i64 at = 2 * (t->first_chunk + from / CHUNK);
        parts[at] = of_u;
        parts[at + 1] = of_p;
    }
}

#if HAS_REST
// A warp for each tensor.
KERNEL(adafactor_join, 256,
       (const i64* table, i64 tensors, const float* lr, const float* step, const double* parts, double eps2, double clip, int torch,
        int scales, int relative, int warms, double* numbers)) {
    i64 k = block_index() * (thread_count() / WARP) + warp();
    if (k < tensors) {
        const Tensor* t = (const Tensor*)table + k;
        double of_u = 0;
        double of_p = 0;
        for (i64 i = lane(); i < t->chunks; i += WARP) {
            of_u += parts[2 * (t->first_chunk + i)];
            of_p += parts[2 * (t->first_chunk + i) + 1];
        }
        of_u = warp_fold(of_u, Sum());
        of_p = warp_fold(of_p, Sum());
        if (lane() == 0 && t->count) {
            double count = (double)t->count;
            double rate = *lr;
            if (relative) {
                double most = torch ? rate : warms ? 1e-6 * (double)*step : 1e-2;
                double least = 1 / sqrt((double)*step);
                rate = most < least ? most : least;
            }
            if (scales) {
                double rms = sqrt(of_p / count);
                rate *= rms > eps2 ? rms : eps2;
            }
            double clipped = sqrt(of_u / count) / clip;
            numbers[2 * k] = rate * (1 / (clipped > 1 ? clipped : 1));
            numbers[2 * k + 1] = 1 - (torch ? (double)*lr : rate) * t->decay;
        }
    }
}
#endif

// Parts: the first element of a chunk.
template <typename T>
DEVICE void update(const i64* table, const i64* list, const float* factor, const float* left_out, double beta1, double least,
                   const double* means, const double* numbers) {
    const Tensor* t = tensor(table, list);
    i64 from = list[2 * block_index() + 1];
    i64 end = from + CHUNK < t->count ? from + CHUNK : t->count;
    bool skip = *left_out != 0;
    if (skip && t->p == t->new_p) {
        return;
    }
    const double* mine = numbers + 2 * list[2 * block_index()];
    float size = (float)mine[0];
    float shrink = (float)mine[1];
    float f = *factor;
    for (i64 i = from + thread_index(); i < end; i += thread_count()) {
        float p = widen(((const T*)t->p)[i]);
        float m = t->m ? ((const float*)t->m)[i] : 0.0f;
        if (!skip) {
            float u = direction(t, i, widen(((const T*)t->g)[i]) * f, means, (float)least) * size;
            if (t->m) {
                m = m * (float)beta1 + (float)(1 - beta1) * u;
                u = m;
            }
            p = p * shrink - u;
        }
        ((T*)t->new_p)[i] = narrow<T>(p);
        if (t->m) {
            ((float*)t->new_m)[i] = m;
        }
    }
}

#define M(S, T)                                                                                                                       \
    KERNEL(adafactor_rows_##S, 256,                                                                                                   \
           (const i64* table, const i64* list, const float* step, const float* factor, const float* left_out, double decay_rate,      \
            double added)) {                                                                                                          \
        rows_of<T>(table, list, step, factor, left_out, decay_rate, added);                                                           \
    }                                                                                                                                 \
    KERNEL(adafactor_columns_##S, 256, (const i64* table, const i64* list, const float* factor, double* sums)) {                      \
        columns_of<T>(table, list, factor, sums);                                                                                     \
    }                                                                                                                                 \
    KERNEL(adafactor_norms_##S, 256,                                                                                                  \
           (const i64* table, const i64* list, const float* step, const float* factor, const float* left_out, double decay_rate,      \
            double added, double least, const double* means, double* parts)) {                                                        \
        norms<T>(table, list, step, factor, left_out, decay_rate, added, least, means, parts);                                        \
    }                                                                                                                                 \
    KERNEL(adafactor_##S, 256,                                                                                                        \
           (const i64* table, const i64* list, const float* factor, const float* left_out, double beta1, double least,                \
            const double* means, const double* numbers)) {                                                                            \
        update<T>(table, list, factor, left_out, beta1, least, means, numbers);                                                       \
    }
FLOAT_TYPES(M)
