// Tensors kept in few bits: optimizers' steps (CodedStep), sums of squares and decoding. The twins of CpuState, CodedStepCpu, CodedSquareSumCpu and DecodeStateCpu, with the
// same bits.
//
// A kept tensor is described by 7 words: form, address of codes, of scales or remainders, the same two where the new ones go, whether MS-AMP's scale rule keeps its oddities,
// whether a tensor of zeros has the scale 1. Elements are cut into chunks of CHUNK; each block takes one, each warp 256 of its elements at a time, each thread 8.
#include "octet.cuh"

#define CHUNK 16384
#define KEPT 7

enum Form { F32, BF16, F16, STOCHASTIC, POWER_E4M3, POWER_E5M2, POWER_F16, FUSED_E4M3, FUSED_F16, BLOCK_FP8, INT8, UINT8, INT4, UINT4, SPLIT };

struct Chunk {
    i64 row, from;
};

DEVICE Chunk chunk(const i64* chunks) { return Chunk{chunks[2 * block_index()], chunks[2 * block_index() + 1]}; }

DEVICE bool scales_tensor(i64 form) { return form >= POWER_E4M3 && form <= FUSED_F16; }
DEVICE bool in_blocks(i64 form) { return form >= BLOCK_FP8 && form <= UINT4; }
DEVICE int block_size(i64 form) { return form >= INT4 ? 128 : 256; }

// The quantiles of INT8, UINT8, INT4 and UINT4 lie one behind the other.
DEVICE const float* quantiles(const float* maps, i64 form) {
    return maps + (form == INT8 ? 0 : form == UINT8 ? 256 : form == INT4 ? 512 : 528);
}

// n of 8 elements from `at` on; the others are 0.
CALLED void read_kept(i64 form, const void* codes, const void* second, float scale, const float* maps, i64 at, int n, float* v) {
    float by = in_blocks(form) && n > 0 ? ((const float*)second)[at / block_size(form)] : 1.0f;
    const float* map = quantiles(maps, form);
    for (int i = 0; i < 8; i++) {
        i64 e = at + i;
        float x = 0;
        if (i < n) {
            switch ((int)form) {
            case F32: x = ((const float*)codes)[e]; break;
            case BF16:
            case STOCHASTIC: x = widen(((const bf16*)codes)[e]); break;
            case F16: x = widen(((const f16*)codes)[e]); break;
            case POWER_E4M3:
            case FUSED_E4M3: x = exact_multiply(decode_e4m3(((const u8*)codes)[e]), scale); break;
            case POWER_E5M2: x = exact_multiply(decode_e5m2(((const u8*)codes)[e]), scale); break;
            case POWER_F16:
            case FUSED_F16: x = exact_multiply(widen(((const f16*)codes)[e]), scale); break;
            case BLOCK_FP8: x = exact_multiply(decode_e4m3(((const u8*)codes)[e]), by); break;
            case INT8:
            case UINT8: x = exact_multiply(map[((const u8*)codes)[e]], by); break;
            case INT4:
            case UINT4: {
                u8 pair = ((const u8*)codes)[e / 2];
                x = exact_multiply(map[e % 2 == 0 ? pair >> 4 : pair & 15], by);
                break;
            }
            default: {
                u16 low = ((const u16*)second)[e];
                u16 high = (u16)(((const u16*)codes)[e] - (low >> 15));
                x = bits_float((u32)high << 16 | low);
            }
            }
        }
        v[i] = x;
    }
}

// QuantileMap.code.
DEVICE int quantile(const float* map, int count, float x) {
    int code = 0;
    for (int step = count / 2; step > 0; step /= 2) {
        if (x >= map[code + step]) {
            code += step;
        }
    }
    int up = code + 1 < count ? code + 1 : count - 1;
    return x - map[code] >= exact_multiply(map[up] - map[code], 0.5f) ? up : code;
}

// Writes n of 8 elements. by: what elements are multiplied by, or in blocks the block's scale, which its first thread writes.
CALLED void write_kept(i64 form, void* codes, void* second, float by, const float* maps, u64 key, i64 at, int n, const float* v) {
    const float* map = quantiles(maps, form);
    if (in_blocks(form) && n > 0 && at % block_size(form) == 0) {
        ((float*)second)[at / block_size(form)] = by;
    }
    int pair = 0;
    for (int i = 0; i < n; i++) {
        i64 e = at + i;
        float x = v[i];
        switch ((int)form) {
        case F32: ((float*)codes)[e] = x; break;
        case BF16: ((bf16*)codes)[e] = narrow<bf16>(x); break;
        case F16: ((f16*)codes)[e] = narrow<f16>(x); break;
        case STOCHASTIC: {
            u32 bits = float_bits(x);
            int away = random_bits(key, e, 16) < (int)(bits & 0xffffu);
            ((u16*)codes)[e] = is_finite(x) ? (u16)((bits >> 16) + (u32)away) : bf16_bits(x);
            break;
        }
        case POWER_E4M3:
        case FUSED_E4M3: ((e4m3*)codes)[e] = narrow<e4m3>(exact_multiply(x, by)); break;
        case POWER_E5M2: ((e5m2*)codes)[e] = narrow<e5m2>(exact_multiply(x, by)); break;
        case POWER_F16:
        case FUSED_F16: ((f16*)codes)[e] = narrow<f16>(exact_multiply(x, by)); break;
        case BLOCK_FP8: ((e4m3*)codes)[e] = narrow<e4m3>(exact_divide(x, by)); break;
        case INT8:
        case UINT8: ((u8*)codes)[e] = (u8)quantile(map, 256, exact_divide(x, by)); break;
        case INT4:
        case UINT4:
            pair = pair << 4 | quantile(map, 16, exact_divide(x, by));
            if (i % 2 == 1) {
                ((u8*)codes)[e / 2] = (u8)pair;
                pair = 0;
            }
            break;
        default: {
            u32 bits = float_bits(x);
            ((u16*)second)[e] = (u16)bits;
            ((u16*)codes)[e] = (u16)((bits >> 16) + (bits >> 15 & 1));
        }
        }
    }
}

// The scale of the block that this thread's elements are in. All threads of the warp must call it.
DEVICE float block_scale(i64 form, const float* v) {
    float amax = 1e-12f;
    for (int i = 0; i < 8; i++) {
        amax = fabsf(v[i]) > amax || is_nan(v[i]) ? fabsf(v[i]) : amax;
    }
    for (int mask = block_size(form) / 16; mask > 0; mask /= 2) {
        float other = shuffle_xor(amax, mask);
        amax = other > amax || is_nan(other) ? other : amax;
    }
    return form == BLOCK_FP8 ? exact_divide(amax, 448.0f) : amax;
}

// --- steps ---------------------------------------------------------------------------------------------------------------------

// Numbers of a rule: the same for all tensors of a launch but for weight decay.
struct Rule {
    int id; // of CudaRule
    double h0, h1, h2;
    int flag;
};

struct Constants {
    float factor, coupled, decay, beta1, weight1, beta2, weight2, correction1, correction2, lr, eps;
    bool first;
};

enum RuleId { TORCH_ADAM, MSAMP_ADAM, TE_ADAM, TORCHAO_ADAM, SGD, MSAMP_F32_ADAM, LION, SCALED_ADAM, UNCORRECTED_ADAM, ADAGRAD };

// Whether the learning rate of a tensor is multiplied by what was measured.
DEVICE bool is_scaled(int id) { return id == SCALED_ADAM || id == UNCORRECTED_ADAM; }

// LibraryAdam.constants, AdamTile, SgdTile, LionStep and AdagradStep.
CALLED void constants(const Rule& r, double weight_decay, double lr, double t, float factor, Constants& c) {
    c.factor = factor;
    c.first = t == 1;
    if (r.id == SGD) {
        c.coupled = (float)weight_decay;
        c.beta1 = (float)r.h0;
        c.weight1 = (float)(1 - r.h1);
        c.lr = (float)lr;
        return;
    }
    if (r.id == ADAGRAD) {
        c.coupled = (float)weight_decay;
        c.lr = (float)(-lr / (1 + (t - 1) * r.h0));
        c.eps = (float)r.h1;
        return;
    }
    if (r.id == LION) {
        c.coupled = 0;
        c.decay = (float)(1 - lr * weight_decay);
        c.beta1 = (float)r.h0;
        c.weight1 = (float)(1 - r.h0);
        c.beta2 = (float)r.h1;
        c.weight2 = (float)(1 - r.h1);
        c.lr = (float)lr;
        return;
    }
    bool decoupled = r.flag;
    double correction1 = r.id == UNCORRECTED_ADAM ? 1 : 1 - pow(r.h0, t);
    double correction2 = r.id == UNCORRECTED_ADAM ? 1 : 1 - pow(r.h1, t);
    c.coupled = decoupled ? 0.0f : (float)weight_decay;
    c.beta1 = (float)r.h0;
    c.weight1 = (float)(1 - r.h0);
    c.beta2 = (float)r.h1;
    c.weight2 = (float)(1 - r.h1);
    c.eps = (float)r.h2;
    c.correction1 = (float)correction1;
    c.correction2 = (float)sqrt(correction2);
    c.lr = (float)lr;
    float kept = decoupled ? (float)(1 - lr * weight_decay) : 1.0f;
    if (r.id == TORCH_ADAM || is_scaled(r.id)) {
        c.decay = kept;
        c.lr = (float)(-lr / correction1);
    } else if (r.id == MSAMP_F32_ADAM) {
        c.decay = kept;
        c.lr = (float)(lr / correction1);
    } else if (r.id == MSAMP_ADAM || r.id == TE_ADAM) {
        c.weight1 = 1 - c.beta1;
        c.weight2 = 1 - c.beta2;
        c.correction1 = (float)(1 - pow((double)c.beta1, t));
        c.correction2 = (float)(1 - pow((double)c.beta2, t));
        if (r.id == MSAMP_ADAM) {
            c.decay = kept;
            c.correction2 = sqrtf(c.correction2);
            c.lr = exact_divide(c.lr, c.correction1);
        } else {
            c.decay = decoupled ? (float)weight_decay : 0.0f;
        }
    } else {
        c.decay = exact_multiply(c.lr, decoupled ? (float)weight_decay : 0.0f);
        c.correction1 = 1 - (float)pow((double)c.beta1, t);
        c.correction2 = (float)sqrt((double)(1 - (float)pow((double)c.beta2, t)));
    }
}

CALLED void move_on(const Rule& r, const Constants& c, float* p, float* g, float* m, float* v) {
    for (int i = 0; i < 8; i++) {
        float dx = exact_add(exact_multiply(g[i], c.factor), exact_multiply(c.coupled, p[i]));
        if (r.id == SGD) {
            if (c.beta1 != 0) {
                m[i] = c.first ? dx : exact_add(exact_multiply(m[i], c.beta1), exact_multiply(c.weight1, dx));
                dx = r.flag ? exact_add(dx, exact_multiply(c.beta1, m[i])) : m[i];
            }
            p[i] = p[i] - exact_multiply(c.lr, dx);
            continue;
        }
        if (r.id == ADAGRAD) {
            m[i] = exact_add(m[i], exact_multiply(dx, dx));
            p[i] = exact_add(p[i], exact_divide(exact_multiply(c.lr, dx), exact_add(sqrtf(m[i]), c.eps)));
            continue;
        }
        if (r.id == LION) {
            float direction = exact_add(exact_multiply(m[i], c.beta1), exact_multiply(dx, c.weight1));
            p[i] = exact_multiply(p[i], c.decay) - (direction > 0 ? c.lr : direction < 0 ? -c.lr : 0.0f);
            m[i] = exact_add(exact_multiply(m[i], c.beta2), exact_multiply(dx, c.weight2));
            continue;
        }
        bool torch = r.id == TORCH_ADAM || is_scaled(r.id);
        bool msamp = r.id == MSAMP_ADAM || r.id == MSAMP_F32_ADAM;
        float square = r.id == TORCHAO_ADAM ? exact_multiply(dx, dx)
                       : msamp              ? exact_multiply(c.weight2, exact_multiply(dx, dx))
                                            : exact_multiply(exact_multiply(c.weight2, dx), dx);
        if (torch || r.id == TORCHAO_ADAM) {
            m[i] = exact_add(m[i], exact_multiply(c.weight1, dx - m[i]));
        } else {
            m[i] = exact_add(exact_multiply(c.beta1, m[i]), exact_multiply(c.weight1, dx));
        }
        v[i] = r.id == TORCHAO_ADAM ? exact_add(v[i], exact_multiply(c.weight2, square - v[i])) : exact_add(exact_multiply(c.beta2, v[i]), square);
        if (r.id == TE_ADAM) {
            float divisor = exact_add(sqrtf(exact_divide(v[i], c.correction2)), c.eps);
            float update = exact_add(exact_divide(exact_divide(m[i], c.correction1), divisor), exact_multiply(c.decay, p[i]));
            p[i] = p[i] - exact_multiply(c.lr, update);
            continue;
        }
        float divisor = exact_add(exact_divide(sqrtf(v[i]), c.correction2), c.eps);
        if (torch) {
            p[i] = exact_add(exact_multiply(p[i], c.decay), exact_divide(exact_multiply(c.lr, m[i]), divisor));
        } else if (msamp) {
            p[i] = exact_multiply(p[i], c.decay) - exact_multiply(c.lr, exact_divide(m[i], divisor));
        } else {
            float kept = p[i] - exact_multiply(c.decay, p[i]);
            p[i] = kept - exact_divide(exact_multiply(c.lr, exact_divide(m[i], c.correction1)), divisor);
        }
    }
}

// Rows: elements, weight decay as the bits of an F64, address of what was measured or 0, seed, then p, the two buffers and the gradient, KEPT words each; a buffer that is not there has
// the form -1. numbers: for each row 9 floats: the largest magnitudes as they are found, the scales before the step, what new elements are multiplied by.
#define ROW (4 + 4 * KEPT)
#define NUMBERS 9

DEVICE const i64* kept_of(const i64* row, int k) { return row + 4 + k * KEPT; }

// What a thread works with in a chunk.
struct Piece {
    float x[4][8]; // p, the buffers, the gradient
};

CALLED void compute(const i64* row, const Rule& r, const Constants& c, const float* numbers, const float* maps, i64 at, int n, Piece& piece) {
    for (int k = 0; k < 4; k++) {
        const i64* kept = kept_of(row, k);
        float scale = k < 3 ? numbers[3 + k] : scales_tensor(kept[0]) ? *(const float*)kept[2] : 1.0f;
        if (kept[0] >= 0) {
            read_kept(kept[0], (const void*)kept[1], (const void*)kept[2], scale, maps, at, n, piece.x[k]);
        }
    }
    move_on(r, c, piece.x[0], piece.x[3], piece.x[1], piece.x[2]);
}

DEVICE void begin(const i64* row, const Rule& r, const float* lr, const float* step, const float* factor, Constants& c) {
    const float* measured = (const float*)row[2];
    double rate = is_scaled(r.id) ? *lr * (double)*measured : measured && *measured > 1 ? *lr / (double)*measured : *lr;
    constants(r, *(const double*)(row + 1), rate, *step, *factor, c);
}

// Before the first pass: the scales as they are, and no largest magnitudes. A thread for each row.
KERNEL(coded_begin, 32, (const i64* table, i64 rows, float* numbers)) {
    i64 at = block_index() * thread_count() + thread_index();
    if (at < rows) {
        for (int k = 0; k < 3; k++) {
            const i64* kept = kept_of(table + ROW * at, k);
            float* own = numbers + NUMBERS * at;
            own[k] = 0;
            own[3 + k] = scales_tensor(kept[0]) ? *(const float*)kept[2] : 1.0f;
            own[6 + k] = 1;
        }
    }
}

// The largest magnitudes of new elements. NaN is larger than all.
KERNEL(coded_amax, 256,
       (const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out, int id, double h0,
        double h1, double h2, int flag, const float* maps, float* numbers)) {
    SHARED Constants shared;
    Rule r = {id, h0, h1, h2, flag};
    Chunk c = chunk(chunks);
    const i64* row = table + ROW * c.row;
    if (thread_index() == 0) {
        begin(row, r, lr, step, factor, shared);
    }
    block_barrier();
    Constants own = shared;
    i64 end = c.from + CHUNK < row[0] ? c.from + CHUNK : row[0];
    int largest[3] = {0, 0, 0};
    for (i64 at = c.from + thread_index() * 8; at < end && *left_out == 0; at += thread_count() * 8) {
        int n = end - at < 8 ? (int)(end - at) : 8;
        Piece piece;
        compute(row, r, own, numbers + NUMBERS * c.row, maps, at, n, piece);
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < n; i++) {
                int bits = (int)(float_bits(piece.x[k][i]) & 0x7fffffffu);
                largest[k] = bits > largest[k] ? bits : largest[k];
            }
        }
    }
    for (int k = 0; k < 3; k++) {
        if (scales_tensor(kept_of(row, k)[0]) && largest[k] > 0) {
            atomic_max((int*)(numbers + NUMBERS * c.row + k), largest[k]);
        }
    }
}

// CpuState.rescale, or the scales as they were. A thread for each row.
KERNEL(coded_scales, 32, (const i64* table, i64 rows, const float* left_out, float* numbers)) {
    i64 at = block_index() * thread_count() + thread_index();
    if (at < rows) {
        for (int k = 0; k < 3; k++) {
            const i64* kept = kept_of(table + ROW * at, k);
            float* own = numbers + NUMBERS * at;
            float amax = own[k];
            float scale = own[3 + k];
            float by = 1;
            if (kept[0] >= POWER_E4M3 && kept[0] <= POWER_F16) {
                float before = kept[6] || scale == 0 ? 1.0f : exact_divide(1.0f, scale);
                by = msamp_scale(amax, before, kept[0] == POWER_E4M3 ? 448.0f : kept[0] == POWER_E5M2 ? 57344.0f : 65504.0f, (int)kept[5]);
                scale = exact_divide(1.0f, by);
            } else if (kept[0] == FUSED_E4M3 || kept[0] == FUSED_F16) {
                scale = exact_divide(amax, kept[0] == FUSED_F16 ? 32752.0f : 448.0f);
                by = scale == 0 ? 0.0f : exact_divide(1.0f, scale);
                by = by > 3.4028234663852886e38f ? 3.4028234663852886e38f : by;
                scale = kept[0] == FUSED_F16 || by == 0 ? scale : exact_divide(1.0f, by);
            }
            own[6 + k] = by;
            if (scales_tensor(kept[0])) {
                *(float*)kept[4] = *left_out == 0 ? scale : own[3 + k];
            }
        }
    }
}

// A step that does not count, where the new elements lie elsewhere.
DEVICE void copy_kept(const i64* kept, i64 at, int n) {
    int bytes = kept[0] == F32 ? 4 : kept[0] == BF16 || kept[0] == F16 || kept[0] == STOCHASTIC || kept[0] == POWER_F16 || kept[0] == FUSED_F16 || kept[0] == SPLIT ? 2 : 1;
    i64 from = kept[0] == INT4 || kept[0] == UINT4 ? at / 2 : at * bytes;
    i64 count = kept[0] == INT4 || kept[0] == UINT4 ? n / 2 : (i64)n * bytes;
    for (i64 i = from; i < from + count; i++) {
        ((u8*)kept[3])[i] = ((const u8*)kept[1])[i];
    }
    if (in_blocks(kept[0]) && at % block_size(kept[0]) == 0) {
        ((float*)kept[4])[at / block_size(kept[0])] = ((const float*)kept[2])[at / block_size(kept[0])];
    }
    for (int i = 0; i < n && kept[0] == SPLIT; i++) {
        ((u16*)kept[4])[at + i] = ((const u16*)kept[2])[at + i];
    }
}

KERNEL(coded_write, 256,
       (const i64* table, const i64* chunks, const float* lr, const float* step, const float* factor, const float* left_out, int id, double h0,
        double h1, double h2, int flag, const float* maps, const float* numbers)) {
    SHARED Constants shared;
    Rule r = {id, h0, h1, h2, flag};
    Chunk c = chunk(chunks);
    const i64* row = table + ROW * c.row;
    if (thread_index() == 0) {
        begin(row, r, lr, step, factor, shared);
    }
    block_barrier();
    Constants own = shared;
    bool skip = *left_out != 0;
    i64 end = c.from + CHUNK < row[0] ? c.from + CHUNK : row[0];
    // all threads of a warp take part in the scale of a block
    for (i64 first = c.from + warp() * 256; first < end; first += thread_count() * 8) {
        i64 at = first + lane() * 8;
        int n = at >= end ? 0 : end - at < 8 ? (int)(end - at) : 8;
        Piece piece;
        if (!skip) {
            compute(row, r, own, numbers + NUMBERS * c.row, maps, at, n, piece);
        }
        for (int k = 0; k < 3; k++) {
            const i64* kept = kept_of(row, k);
            if (kept[0] < 0) {
                continue;
            }
            if (skip) {
                if (kept[1] != kept[3]) {
                    copy_kept(kept, at, n);
                }
                continue;
            }
            for (int i = n; i < 8; i++) {
                piece.x[k][i] = 0;
            }
            float by = in_blocks(kept[0]) ? block_scale(kept[0], piece.x[k]) : numbers[NUMBERS * c.row + 6 + k];
            u64 key = random_key(random_key((u64)row[3], k), (i64)*step);
            write_kept(kept[0], (void*)kept[3], (void*)kept[4], by, maps, key, at, n, piece.x[k]);
        }
    }
}

// --- norms, decoding --------------------------------------------------------------------------------------------------------------------

// Rows: elements, then the gradient. parts: a sum for each chunk.
KERNEL(coded_square_sum_parts, 256, (const i64* table, const i64* chunks, const float* maps, double* parts)) {
    SHARED double scratch[33];
    Chunk c = chunk(chunks);
    const i64* row = table + (1 + KEPT) * c.row;
    float scale = scales_tensor(row[1]) ? *(const float*)row[3] : 1.0f;
    i64 end = c.from + CHUNK < row[0] ? c.from + CHUNK : row[0];
    double sum = 0;
    for (i64 at = c.from + thread_index() * 8; at < end; at += thread_count() * 8) {
        float v[8];
        read_kept(row[1], (const void*)row[2], (const void*)row[3], scale, maps, at, end - at < 8 ? (int)(end - at) : 8, v);
        for (int i = 0; i < 8; i++) {
            sum += (double)v[i] * v[i];
        }
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
    }
}

// to: 0 F32, 1 BF16, 2 F16.
KERNEL(decode_kept, 256, (int form, const void* codes, const void* second, const float* maps, i64 n, int to, void* y)) {
    float scale = scales_tensor(form) ? *(const float*)second : 1.0f;
    i64 at = (block_index() * thread_count() + thread_index()) * 8;
    if (at < n) {
        float v[8];
        int m = n - at < 8 ? (int)(n - at) : 8;
        read_kept(form, codes, second, scale, maps, at, m, v);
        write_kept(to, y, 0, 1, maps, 0, at, m, v);
    }
}

// Rows of a table as F32, in the order of indices of 64 or 32 bits, which count from the end when negative. One outside of the table gives NaN.
KERNEL(gather_kept, 256,
       (int form, const void* codes, const void* second, const float* maps, const void* indices, int wide, i64 count, i64 size, i64 inner,
        float* y)) {
    float scale = scales_tensor(form) ? *(const float*)second : 1.0f;
    i64 thread = block_index() * thread_count() + thread_index();
    i64 pieces = (inner + 7) / 8;
    i64 position = thread / pieces;
    if (position < count) {
        i64 row = wide ? ((const i64*)indices)[position] : (i64)((const i32*)indices)[position];
        row = row < 0 ? row + size : row;
        i64 column = thread % pieces * 8;
        int m = inner - column < 8 ? (int)(inner - column) : 8;
        float v[8];
        if (row >= 0 && row < size) {
            read_kept(form, codes, second, scale, maps, row * inner + column, m, v);
        }
        for (int i = 0; i < m; i++) {
            y[position * inner + column + i] = row >= 0 && row < size ? v[i] : bits_float(0xffffffffu);
        }
    }
}

// Gradients pass as they are. from, to: types as above.
KERNEL(kept_gradient, 256, (int from, const void* dy, int to, void* dx, i64 n, int add)) {
    i64 at = (block_index() * thread_count() + thread_index()) * 8;
    if (at < n) {
        float v[8], sum[8];
        int m = n - at < 8 ? (int)(n - at) : 8;
        read_kept(from, dy, 0, 1, 0, at, m, v);
        if (add) {
            read_kept(to, dx, 0, 1, 0, at, m, sum);
            for (int i = 0; i < 8; i++) {
                v[i] += sum[i];
            }
        }
        write_kept(to, dx, 0, 1, 0, 0, at, m, v);
    }
}
