// LayerNorm and RMSNorm. X_TYPE, Y_TYPE, W_TYPE and B_TYPE are types of the operands; a gradient has its operand's type. GROUP threads (a warp
// or a block) have a row in registers: ELEMENTS of each, loaded PACK at a time.
//
// variants: X_TYPE=bf16 Y_TYPE=bf16 W_TYPE=f32 B_TYPE=f32 GROUP=32 PACK=8 ELEMENTS=32
// variants: X_TYPE=bf16 Y_TYPE=bf16 W_TYPE=bf16 B_TYPE=bf16 GROUP=256 PACK=8 ELEMENTS=8
// variants: X_TYPE=f32 Y_TYPE=bf16 W_TYPE=f32 B_TYPE=f32 GROUP=256 PACK=1 ELEMENTS=32
// variants: X_TYPE=f32 Y_TYPE=f32 W_TYPE=f32 B_TYPE=f32 GROUP=32 PACK=4 ELEMENTS=64 FIRST_TYPE=f32 SECOND_TYPE=bf16 CODE_TYPE=e4m3
// variants: X_TYPE=f32 Y_TYPE=f32 W_TYPE=f32 B_TYPE=f32 GROUP=32 PACK=4 ELEMENTS=24 UP_TYPE=bf16 NARROW_TYPE=bf16
// variants: X_TYPE=f32 Y_TYPE=f32 W_TYPE=f32 B_TYPE=f32 GROUP=32 PACK=4 ELEMENTS=24 UP_TYPE=f32 NARROW_TYPE=bf16 PASSED_TYPE=e5m2
// variants: X_TYPE=f32 Y_TYPE=f32 W_TYPE=f32 B_TYPE=f32 GROUP=256 PACK=4 ELEMENTS=8 UP_TYPE=f32 NARROW_TYPE=bf16 PASSED_TYPE=e5m2
// variants: X_TYPE=f32 Y_TYPE=f32 W_TYPE=f32 B_TYPE=f32 GROUP=256 PACK=4 ELEMENTS=8 UP_TYPE=f32 NARROW_TYPE=bf16
#include "octet.cuh"

#define THREADS 256
#define CHUNKS (ELEMENTS / PACK)
#define ROWS (THREADS / GROUP) // of a block at a time
#define WARPS (THREADS / WARP)

DEVICE float group_sum(float x, float* scratch) {
    return GROUP == WARP ? warp_fold(x, Sum()) : block_fold(x, Sum(), 0.0f, scratch);
}

// Element of its row that a thread's chunk begins with.
DEVICE int start_of(int chunk) { return (chunk * GROUP + thread_index() % GROUP) * PACK; }

// Turns a row's elements into x - mean and gives r; mean is 0 without a place for means, where the row is not centred.
DEVICE float centre(float (&v)[CHUNKS][PACK], int n, int size, float epsilon, float* means, float* deviations, i64 row, bool there,
                    float* scratch) {
    float mean = 0;
    if (means) {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (start_of(c) < n) {
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    sum += v[c][i];
                }
            }
        }
        mean = group_sum(sum, scratch) / size;
    }
    float squares = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                v[c][i] -= mean;
                squares = fmaf(v[c][i], v[c][i], squares);
            }
        }
    }
    float r = 1 / sqrtf(group_sum(squares, scratch) / size + epsilon);
    if (thread_index() % GROUP == 0 && there) {
        deviations[row] = r;
        if (means) {
            means[row] = mean;
        }
    }
    return r;
}

// v r w + b, of one chunk.
DEVICE void weigh(float (&v)[PACK], float r, const W_TYPE* w, const B_TYPE* b) {
    float ws[PACK];
    float bs[PACK];
    load(w, ws);
    if (b) {
        load(b, bs);
    }
#pragma unroll
    for (int i = 0; i < PACK; i++) {
        v[i] = v[i] * r * ws[i] + (b ? bs[i] : 0);
    }
}

// y = (x - mean) r w + b; b and mean may be absent: without a place for means the row is not centred.
RESIDENT_KERNEL(norm_forward, THREADS, THREADS,
       (const X_TYPE* x, const W_TYPE* w, const B_TYPE* b, Y_TYPE* y, float* means, float* deviations, i64 rows, i32 size,
        float epsilon)) {
    SHARED float scratch[33];
    i64 row = block_index() * ROWS + thread_index() / GROUP;
    int n = row < rows ? size : 0;
    float v[CHUNKS][PACK];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            load(x + row * size + start_of(c), v[c]);
        }
    }
    float r = centre(v, n, size, epsilon, means, deviations, row, row < rows, scratch);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            weigh(v[c], r, w + start_of(c), b ? b + start_of(c) : b);
            store(y + row * size + start_of(c), v[c]);
        }
    }
}

#define TURNED 32 // rows whose codes a block keeps and transposes at a time
// From one of them to the next: half of the lanes read 16 rows behind the others, from other banks.
DEVICE int kept_pitch(int size) { return size + PACK; }
// Writes the transpose of the codes that are kept of rows from first on, [size, leading]. Rows are multiples of 4.
DEVICE void turn(const u8* kept, i64 first, i32 size, u8* transposed, i64 leading) {
    // 16 rows of 4 columns at a time
    for (int piece = thread_index(); piece < size / 4 * 2; piece += THREADS) {
        int column = piece / 2 * 4;
        int from = piece % 2 * 16;
        u32 four[16];
#pragma unroll
        for (int k = 0; k < 16; k++) {
            four[k] = *(const u32*)(kept + (from + k) * kept_pitch(size) + column);
        }
        i64 row = first + from;
        if (row < leading) { // a multiple of 16
#pragma unroll
            for (int i = 0; i < 4; i++) {
                Pack<u32, 4> pack;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    pack.at[k] = (four[4 * k] >> (8 * i) & 0xff) | (four[4 * k + 1] >> (8 * i) & 0xff) << 8 |
                                 (four[4 * k + 2] >> (8 * i) & 0xff) << 16 | (four[4 * k + 3] >> (8 * i) & 0xff) << 24;
                }
                *(Pack<u32, 4>*)(transposed + (column + i) * leading + row) = pack;
            }
        }
    }
}

#ifdef CODE_TYPE
// What such a kernel reads and writes. x = first + second where there is a second, written; y is written where there is a place for it; and is cast where there is one
// for codes, with its largest magnitude (QuantizeFp8Delayed). Values are rounded to the operands' types between the operators, as they are where each runs by itself.
struct Fused {
    const FIRST_TYPE* first;
    const SECOND_TYPE* second;
    X_TYPE* x;
    const W_TYPE* w;
    const B_TYPE* b;
    Y_TYPE* y;
    float* means;
    float* deviations;
    CODE_TYPE* codes;
    i32 size;
    float epsilon;
};
// One row, with its codes to kept, too, where there is a place; raises largest to the magnitudes of y.
DEVICE void forward_row(const Fused& f, i64 row, bool here, float q, float& largest, u8* kept, float* scratch) {
    i32 size = f.size;
    int n = here ? size : 0;
    float v[CHUNKS][PACK];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            load(f.first + row * size + start_of(c), v[c]);
        }
    }
    if (f.second) { // all of the row is under way before the first sum is written
        Pack<SECOND_TYPE, PACK> more[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (start_of(c) < n) {
                more[c] = *(const Pack<SECOND_TYPE, PACK>*)(f.second + row * size + start_of(c));
            }
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (start_of(c) < n) {
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    v[c][i] += widen(more[c].at[i]);
                }
                round_all<X_TYPE>(v[c]);
                store(f.x + row * size + start_of(c), v[c]);
            }
        }
    }
    float r = centre(v, n, size, f.epsilon, f.means, f.deviations, row, here, scratch);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (start_of(c) < n) {
            i64 at = row * size + start_of(c);
            weigh(v[c], r, f.w + start_of(c), f.b ? f.b + start_of(c) : f.b);
            round_all<Y_TYPE>(v[c]);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                largest = Max()(largest, fabsf(v[c][i])); // NaN is left out
            }
            if (f.y) {
                store(f.y + at, v[c]);
            }
            if (f.codes) {
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    v[c][i] = exact_multiply(v[c][i], q);
                }
                store(f.codes + at, v[c]);
                if (kept) {
                    store((CODE_TYPE*)kept + start_of(c), v[c]);
                }
            }
        } else if (kept && start_of(c) < size) {
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                kept[start_of(c) + i] = 0;
            }
        }
    }
}

// The same with what comes before and behind it.
RESIDENT_KERNEL(norm_forward_fused, THREADS, THREADS,
       (const FIRST_TYPE* first, const SECOND_TYPE* second, X_TYPE* x, const W_TYPE* w, const B_TYPE* b, Y_TYPE* y, float* means,
        float* deviations, i64 rows, i32 size, float epsilon, CODE_TYPE* codes, const float* quant_scale, float* scale, float* amax)) {
    SHARED float scratch[33];
    i64 row = block_index() * ROWS + thread_index() / GROUP;
    float q = codes ? *quant_scale : 0;
    float largest = 0;
    forward_row(Fused{first, second, x, w, b, y, means, deviations, codes, size, epsilon}, row, row < rows, q, largest, (u8*)0, scratch);
    if (amax) {
        raise_amax(amax, largest, scratch);
    }
    if (codes && block_index() == 0 && thread_index() == 0) {
        *scale = exact_divide(1.0f, q);
    }
}

#if GROUP == WARP && PACK > 1
// The same with the codes' transpose beside them, [size, leading], zeros behind the rows: a block has TURNED rows, a warp one at a time, and their codes in shared memory
// until all are there.
RESIDENT_KERNEL(norm_forward_transposed, THREADS, THREADS,
       (const FIRST_TYPE* first, const SECOND_TYPE* second, X_TYPE* x, const W_TYPE* w, const B_TYPE* b, Y_TYPE* y, float* means,
        float* deviations, i64 rows, i32 size, float epsilon, CODE_TYPE* codes, const float* quant_scale, float* scale, float* amax,
        u8* transposed, i64 leading)) {
    DYNAMIC_SHARED(kept);
    SHARED float scratch[33];
    float q = *quant_scale;
    float largest = 0;
#pragma unroll 1
    for (int k = warp(); k < TURNED; k += THREADS / WARP) {
        i64 row = block_index() * TURNED + k;
        forward_row(Fused{first, second, x, w, b, y, means, deviations, codes, size, epsilon}, row, row < rows, q, largest, kept + k * kept_pitch(size), scratch);
    }
    block_barrier();
    turn(kept, block_index() * TURNED, size, transposed, leading);
    if (amax) {
        raise_amax(amax, largest, scratch);
    }
    if (block_index() == 0 && thread_index() == 0) {
        *scale = exact_divide(1.0f, q);
    }
}
#endif
#endif

// What a row's gradient is made of beside dy and x: dx = r g - shift - normal slope, g = dy w, normal = (x - mean) r.
struct Slopes {
    float shift;
    float slope;
};
DEVICE Slopes slopes(float sum_g, float sum_g_normal, float r, const float* dmean, const float* ddeviation, i64 row, int size, bool centred) {
    Slopes s;
    s.shift = (centred ? r * (sum_g / size) : 0) - (dmean ? dmean[row] / size : 0);
    s.slope = r * (sum_g_normal / size) + (ddeviation ? ddeviation[row] * r * r / size : 0);
    return s;
}

#if ELEMENTS <= 32 // of longer rows the gradients do not fit a warp's registers, RowNormCuda gives them to a block
// Two sums of a row's group. Those of blocks meet in scratch, of which neighbouring rows use different halves: so one barrier is enough.
DEVICE void group_sums(float& a, float& b, float (&scratch)[2][2][WARPS], int half) {
    a = warp_fold(a, Sum());
    b = warp_fold(b, Sum());
    if (GROUP != WARP) {
        if (lane() == 0) {
            scratch[half][0][warp()] = a;
            scratch[half][1][warp()] = b;
        }
        block_barrier();
        a = b = 0;
#pragma unroll
        for (int k = 0; k < WARPS; k++) {
            a += scratch[half][0][k];
            b += scratch[half][1][k];
        }
    }
}

// What is made of a row's gradient: written to dx, or added to residual and written there; and once more as narrower numbers. residual and narrow may be absent.
template <typename N> struct Passing {
    const X_TYPE* residual;
    X_TYPE* dx;
    N* narrow;
};

// The narrower numbers' codes (QuantizeFp8Delayed), as they lie and transposed, [size, leading], zeros behind the rows; and sums of 64 rows each, in the order in which
// cast_transpose adds them up, [rows / 64, size], which may be absent. kept: memory of the block for the codes of TURNED rows, behind them for sums of each warp's rows, where
// a warp has a row.
template <typename C> struct Codes {
    static constexpr bool THERE = true;
    C* codes;
    u8* transposed;
    i64 leading;
    const float* quant_scale;
    float* scale;
    float* amax;
    float* sums;
    u8* kept;
};
struct NoCodes {
    static constexpr bool THERE = false;
};

DEVICE void clear(float (&sum)[CHUNKS][PACK]) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            sum[c][i] = 0;
        }
    }
}

// Adds what warps before have left there, and leaves it to the next.
DEVICE void take_turn(float (&sum)[CHUNKS][PACK], float* left, bool first) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            int at = start_of(c) + i;
            sum[c][i] += first ? 0 : left[at];
            left[at] = sum[c][i];
        }
    }
}

// Rows that follow each other, of which a block takes STEP at a time and a group of threads SOME, one behind the other.
#define STEP (GROUP == WARP ? TURNED : 1)
#define SOME (STEP / ROWS > 0 ? STEP / ROWS : 1)

// Gradients of rows and their parts of dw and db: pieces [rows / each, size] of so many rows that follow each other, a multiple of STEP. dx, the pieces, dy, dmean and
// ddeviation may be absent; means are when the row was not centred. A block has a piece; with codes one or two, of 64 rows at least.
template <typename U, typename N, typename Q>
DEVICE void backward(const X_TYPE* x, const W_TYPE* w, const float* means, const float* deviations, const U* dy, const float* dmean,
                     const float* ddeviation, Passing<N> to, Q coded, float* dw_pieces, float* db_pieces, i64 rows, i32 size, i32 each) {
    SHARED float scratch[2][2][WARPS];
    SHARED float sums[2][GROUP == WARP ? WARP * ELEMENTS : 1];
    float dw[CHUNKS][PACK];
    float db[CHUNKS][PACK];
    float quad[CHUNKS][PACK]; // sums of what is cast, of four rows
    float largest = 0;
    float q = 0;
    int half = 0;
    clear(dw);
    clear(db);
    if constexpr (Q::THERE) {
        clear(quad);
        q = *coded.quant_scale;
    }
    // in 32 bits, and one offset for all tensors: registers are short
    auto take_row = [&](int row, int kept_row) {
        int n = row < rows ? size : 0;
        i64 begin = (i64)row * size + start_of(0);
        float mean = n && means ? means[row] : 0;
        float r = n ? deviations[row] : 0;
        float v[CHUNKS][PACK];
        float g[CHUNKS][PACK];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (start_of(c) < n) {
                load(x + begin + c * (GROUP * PACK), v[c]);
                if (dy) {
                    load(dy + begin + c * (GROUP * PACK), g[c]);
                }
            }
        }
        Pack<X_TYPE, PACK> residual[CHUNKS];
        auto fetch_residual = [&]() {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                if (to.residual && start_of(c) < n) {
                    residual[c] = *(const Pack<X_TYPE, PACK>*)(to.residual + begin + c * (GROUP * PACK));
                }
            }
        };
        if (Q::THERE) { // few blocks are resident: all of the row is under way at once
            fetch_residual();
        }
        float sum_g = 0;
        float sum_g_normal = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (start_of(c) < n) {
                float ws[PACK];
                load(w + start_of(c), ws);
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    float up = dy ? g[c][i] : 0;
                    v[c][i] = (v[c][i] - mean) * r;
                    dw[c][i] = fmaf(up, v[c][i], dw[c][i]);
                    db[c][i] += up;
                    g[c][i] = up * ws[i];
                    sum_g += g[c][i];
                    sum_g_normal = fmaf(g[c][i], v[c][i], sum_g_normal);
                }
            }
        }
        if (to.dx) {
            if (!Q::THERE) {
                fetch_residual();
            }
            group_sums(sum_g, sum_g_normal, scratch, half);
            half ^= 1;
            if (n) {
                Slopes s = slopes(sum_g, sum_g_normal, r, dmean, ddeviation, row, size, means != 0);
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    if (start_of(c) < n) {
#pragma unroll
                        for (int i = 0; i < PACK; i++) {
                            g[c][i] = r * g[c][i] - s.shift - v[c][i] * s.slope;
                        }
                        if (to.residual) {
                            round_all<X_TYPE>(g[c]);
#pragma unroll
                            for (int i = 0; i < PACK; i++) {
                                g[c][i] = widen(residual[c].at[i]) + g[c][i];
                            }
                        }
                        store(to.dx + begin + c * (GROUP * PACK), g[c]);
                        if (Q::THERE || to.narrow) {
                            round_all<X_TYPE>(g[c]);
                        }
                        if (to.narrow) {
                            store(to.narrow + begin + c * (GROUP * PACK), g[c]);
                        }
                        if constexpr (Q::THERE) {
                            round_all<N>(g[c]);
#pragma unroll
                            for (int i = 0; i < PACK; i++) {
                                largest = Max()(largest, fabsf(g[c][i])); // NaN is left out
                                quad[c][i] += g[c][i];
                                g[c][i] = exact_multiply(g[c][i], q);
                            }
                            store(coded.codes + begin + c * (GROUP * PACK), g[c]);
                            store((decltype(coded.codes))(coded.kept + kept_row * kept_pitch(size)) + start_of(c), g[c]);
                        }
                    }
                }
            }
        }
        if constexpr (Q::THERE) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                if (!n && start_of(c) < size) {
#pragma unroll
                    for (int i = 0; i < PACK; i++) {
                        coded.kept[kept_row * kept_pitch(size) + start_of(c) + i] = 0;
                    }
                }
            }
        }
    };
    // a piece is whole: the warps' sums one after the other
    auto put_piece = [&](int piece) {
        for (int turn = 0; GROUP == WARP && turn < ROWS; turn++) {
            if (warp() == turn) {
                take_turn(dw, sums[0], turn == 0);
                take_turn(db, sums[1], turn == 0);
            }
            block_barrier();
        }
        if (GROUP != WARP || warp() == ROWS - 1) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                if (start_of(c) < size) {
                    if (dw_pieces) {
                        store(dw_pieces + (i64)piece * size + start_of(c), dw[c]);
                    }
                    if (db_pieces) {
                        store(db_pieces + (i64)piece * size + start_of(c), db[c]);
                    }
                }
            }
        }
    };
    if constexpr (Q::THERE) {
        float pair[GROUP == WARP ? 1 : CHUNKS][PACK]; // of the four rows before
        float all[GROUP == WARP ? 1 : CHUNKS][PACK];  // of up to 64 rows
        float* of_warps = (float*)(coded.kept + TURNED * kept_pitch(size));
        int unit = each < 64 ? 64 : each;
        for (int begin = (int)block_index() * unit; begin < (int)rows; begin += (int)block_count() * unit) {
            for (int first = begin; first < begin + unit && first < (int)rows; first += TURNED) {
                bool is_second = first % 64 != 0;
#pragma unroll 1
                for (int k = 0; k < TURNED; k += STEP) {
#pragma unroll 1
                    for (int j = 0; j < SOME; j++) {
                        int at = k + thread_index() / GROUP * SOME + j;
                        take_row(first + at, at);
                    }
                    if (GROUP == WARP) {
#pragma unroll
                        for (int c = 0; c < CHUNKS; c++) {
                            if (coded.sums && start_of(c) < size) {
                                store(of_warps + warp() * size + start_of(c), quad[c]);
                            }
                        }
                        clear(quad);
                    } else if (k % 8 == 3) {
#pragma unroll
                        for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
                            for (int i = 0; i < PACK; i++) {
                                pair[c][i] = quad[c][i];
                            }
                        }
                        clear(quad);
                    } else if (k % 8 == 7) {
#pragma unroll
                        for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
                            for (int i = 0; i < PACK; i++) {
                                all[c][i] = (k == 7 && !is_second ? 0 : all[c][i]) + (pair[c][i] + quad[c][i]);
                            }
                        }
                        clear(quad);
                    }
                }
                block_barrier();
                turn(coded.kept, first, size, coded.transposed, coded.leading);
                float* to_sums = coded.sums + (i64)(first / 64) * size;
                if (GROUP == WARP) {
                    for (int column = thread_index(); coded.sums && column < size; column += THREADS) {
                        float sum = is_second ? to_sums[column] : 0;
                        for (int w = 0; w < WARPS; w += 2) {
                            sum += of_warps[w * size + column] + of_warps[(w + 1) * size + column];
                        }
                        to_sums[column] = sum;
                    }
                } else if (coded.sums && (is_second || first + TURNED >= (int)rows)) {
#pragma unroll
                    for (int c = 0; c < CHUNKS; c++) {
                        if (start_of(c) < size) {
                            store(to_sums + start_of(c), all[c]);
                        }
                    }
                }
                block_barrier();
                if ((first + TURNED) % each == 0 || first + TURNED >= (int)rows) {
                    put_piece(first / each);
                    clear(dw);
                    clear(db);
                }
            }
        }
    } else {
        int begin = (int)block_index() * each;
        for (int first = begin; first < begin + each && first < (int)rows; first += STEP) {
#pragma unroll 1
            for (int j = 0; j < SOME; j++) {
                take_row(first + thread_index() / GROUP * SOME + j, 0);
            }
        }
        put_piece((int)block_index());
    }
    if constexpr (Q::THERE) {
        SHARED float folded[33];
        if (coded.amax) {
            raise_amax(coded.amax, largest, folded);
        }
        if (block_index() == 0 && thread_index() == 0) {
            *coded.scale = exact_divide(1.0f, q);
        }
    }
}

// Two blocks with short rows at a time, or four that have a row each, so that all pieces are under way at once.
#define BACK_RESIDENT (GROUP == WARP ? (ELEMENTS <= 24 && PACK > 1 ? 512 : THREADS) : (ELEMENTS <= 8 ? 1024 : THREADS))
RESIDENT_KERNEL(norm_backward, THREADS, BACK_RESIDENT,
       (const X_TYPE* x, const W_TYPE* w, const float* means, const float* deviations, const Y_TYPE* dy, const float* dmean,
        const float* ddeviation, X_TYPE* dx, float* dw_pieces, float* db_pieces, i64 rows, i32 size, i32 each)) {
    backward(x, w, means, deviations, dy, dmean, ddeviation, Passing<bf16>{0, dx, 0}, NoCodes(), dw_pieces, db_pieces, rows, size, each);
}
#ifdef UP_TYPE
// The same with what comes before and behind it: dy as it was before it was cast, the gradient that reaches x by another way added, and the sum cast. Values are
// rounded to the operands' types between the operators, as they are where each runs by itself.
RESIDENT_KERNEL(norm_backward_fused, THREADS, GROUP == WARP ? THREADS : BACK_RESIDENT,
       (const X_TYPE* x, const W_TYPE* w, const float* means, const float* deviations, const UP_TYPE* dy, const float* dmean,
        const float* ddeviation, const X_TYPE* residual, X_TYPE* dx, NARROW_TYPE* narrow, float* dw_pieces, float* db_pieces, i64 rows,
        i32 size, i32 each)) {
    backward(x, w, means, deviations, dy, dmean, ddeviation, Passing<NARROW_TYPE>{residual, dx, narrow}, NoCodes(), dw_pieces, db_pieces, rows, size, each);
}
#ifdef PASSED_TYPE
// The same with the cast of the narrower numbers to FP8.
RESIDENT_KERNEL(norm_backward_transposed, THREADS, GROUP == WARP ? THREADS : ELEMENTS <= 8 ? 512 : THREADS,
       (const X_TYPE* x, const W_TYPE* w, const float* means, const float* deviations, const UP_TYPE* dy, const float* dmean,
        const float* ddeviation, const X_TYPE* residual, X_TYPE* dx, NARROW_TYPE* narrow, float* dw_pieces, float* db_pieces, i64 rows,
        i32 size, i32 each, PASSED_TYPE* codes, const float* quant_scale, float* scale, float* amax, u8* transposed, i64 leading, float* sums)) {
    DYNAMIC_SHARED(kept);
    backward(x, w, means, deviations, dy, dmean, ddeviation, Passing<NARROW_TYPE>{residual, dx, narrow},
             Codes<PASSED_TYPE>{codes, transposed, leading, quant_scale, scale, amax, sums, kept}, dw_pieces, db_pieces, rows, size, each);
}
#endif
#endif
#endif

// Sums of pieces, [pieces, size], column by column: of 32 columns at a time, each of eight groups of threads has some pieces in order, and
// the groups' sums are added in order, and to what was there before where that is wanted.
template <typename T> DEVICE void sum_columns(const float* from, const T* before, T* to, i32 pieces, i32 size, float (&sums)[8][33]) {
    i64 column = block_index() * 32 + thread_index() % 32;
    int group = thread_index() / 32;
    int each = (pieces + 7) / 8;
    float sum = 0;
    if (column < size) {
#pragma unroll 8
        for (int p = group * each; p < (group + 1) * each && p < pieces; p++) {
            sum += from[(i64)p * size + column];
        }
    }
    sums[group][thread_index() % 32] = sum;
    block_barrier();
    if (group == 0 && column < size) {
        for (int g = 1; g < 8; g++) {
            sum += sums[g][thread_index() % 32];
        }
        to[column] = narrow<T>(before ? widen(before[column]) + widen(narrow<T>(sum)) : sum);
    }
}
KERNEL(norm_weights, THREADS, (const float* pieces, const W_TYPE* before, W_TYPE* dw, i32 count, i32 size)) {
    SHARED float sums[8][33];
    sum_columns(pieces, before, dw, count, size, sums);
}
KERNEL(norm_biases, THREADS, (const float* pieces, const B_TYPE* before, B_TYPE* db, i32 count, i32 size)) {
    SHARED float sums[8][33];
    sum_columns(pieces, before, db, count, size, sums);
}

// Rows too long for registers: a block reads each three times.
KERNEL(norm_forward_long, THREADS,
       (const X_TYPE* x, const W_TYPE* w, const B_TYPE* b, Y_TYPE* y, float* means, float* deviations, i64 rows, i32 size,
        float epsilon)) {
    SHARED float scratch[33];
    i64 row = block_index();
    const X_TYPE* from = x + row * size;
    float mean = 0;
    if (means) {
        float sum = 0;
        for (int k = thread_index(); k < size; k += THREADS) {
            sum += widen(from[k]);
        }
        mean = block_fold(sum, Sum(), 0.0f, scratch) / size;
    }
    float squares = 0;
    for (int k = thread_index(); k < size; k += THREADS) {
        float d = widen(from[k]) - mean;
        squares = fmaf(d, d, squares);
    }
    float r = 1 / sqrtf(block_fold(squares, Sum(), 0.0f, scratch) / size + epsilon);
    if (thread_index() == 0) {
        deviations[row] = r;
        if (means) {
            means[row] = mean;
        }
    }
    for (int k = thread_index(); k < size; k += THREADS) {
        y[row * size + k] = narrow<Y_TYPE>((widen(from[k]) - mean) * r * widen(w[k]) + (b ? widen(b[k]) : 0));
    }
}

KERNEL(norm_backward_long, THREADS,
       (const X_TYPE* x, const W_TYPE* w, const float* means, const float* deviations, const Y_TYPE* dy, const float* dmean,
        const float* ddeviation, X_TYPE* dx, i64 rows, i32 size)) {
    SHARED float scratch[33];
    i64 row = block_index();
    float mean = means ? means[row] : 0;
    float r = deviations[row];
    float sum_g = 0;
    float sum_g_normal = 0;
    for (int k = thread_index(); dy && k < size; k += THREADS) {
        float g = widen(dy[row * size + k]) * widen(w[k]);
        sum_g += g;
        sum_g_normal += g * ((widen(x[row * size + k]) - mean) * r);
    }
    sum_g = block_fold(sum_g, Sum(), 0.0f, scratch);
    sum_g_normal = block_fold(sum_g_normal, Sum(), 0.0f, scratch);
    Slopes s = slopes(sum_g, sum_g_normal, r, dmean, ddeviation, row, size, means != 0);
    for (int k = thread_index(); k < size; k += THREADS) {
        float g = dy ? widen(dy[row * size + k]) * widen(w[k]) : 0;
        float normal = (widen(x[row * size + k]) - mean) * r;
        dx[row * size + k] = narrow<X_TYPE>(r * g - s.shift - normal * s.slope);
    }
}

// Parts of dw and db of long rows: a thread for each column of rows piece, piece + pieces, ..; pieces are numbered by the grid's y.
KERNEL(norm_columns_long, THREADS,
       (const X_TYPE* x, const float* means, const float* deviations, const Y_TYPE* dy, float* dw_pieces, float* db_pieces,
        i64 rows, i32 size, i32 pieces)) {
    i64 column = block_index() * THREADS + thread_index();
    if (column < size) {
        float dw = 0;
        float db = 0;
        for (i64 row = block_index_y(); dy && row < rows; row += pieces) {
            float up = widen(dy[row * size + column]);
            dw += up * ((widen(x[row * size + column]) - (means ? means[row] : 0)) * deviations[row]);
            db += up;
        }
        if (dw_pieces) {
            dw_pieces[block_index_y() * size + column] = dw;
        }
        if (db_pieces) {
            db_pieces[block_index_y() * size + column] = db;
        }
    }
}
