// Fake quantisation to a grid of codes, and the gradients of its steps; the twin of GridQuantizeReference. TYPE is the type of the elements.
//
// variants: TYPE=f32
// variants: TYPE=bf16
// variants: TYPE=f16
#include "octet.cuh"

// As in StepRule.
#define CLIPPED 0
#define PASSED 1
#define LSQ 2
#define PACT 3
#define RANGE 4
#define SCALED 5

// As in CudaGrid.
#define INTEGERS 0
#define FLOATS 1
#define SIGNS 2

// As in GridQuantizeCuda: parameters and offsets are the ends of blocks.
#define GREATEST 3

// The numbers of codes, and how steps stand for them.
struct Form {
    int kind;      // INTEGERS, FLOATS or SIGNS
    float low;
    float high;
    int mantissa;  // of FLOATS: bits behind the leading one
    int least;     // of FLOATS: exponent of the smallest normal number
    int rule;
    int amax;      // 1: parameters are largest magnitudes, 2: of steps that are powers of two, 3: greatest values
    int zero;      // 1: offsets are zero points; least values beside greatest ones
};
// Pointers to parameters; null where absent.
struct Given {
    const float* step;
    const float* offset;
    const float* pre;
    const float* global;
};

DEVICE float clip(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

DEVICE float nearest_float(float v, int mantissa, int least, float high) {
    float magnitude = fabsf(v);
    if (is_nan(v)) {
        return v;
    }
    int exponent = (int)(float_bits(magnitude) >> 23) - 127;
    exponent = exponent < least ? least : exponent;
    float unit = bits_float((u32)(exponent - mantissa + 127) << 23);
    float rounded = rintf(exact_divide(magnitude, unit)) * unit;
    rounded = rounded > high ? high : rounded;
    return float_bits(v) >> 31 ? -rounded : rounded;
}

DEVICE float nearest(const Form& f, float v) {
    if (f.kind == FLOATS) {
        return nearest_float(v, f.mantissa, f.least, f.high);
    }
    if (f.kind == SIGNS) {
        return v < 0 ? -1.0f : is_nan(v) ? v : 1.0f;
    }
    return rintf(clip(v, f.low, f.high));
}

// What a block's parameters come to.
struct Block {
    float post;
    float pre;
    float offset;
    float edge;
    bool added;
};

DEVICE float step_of(const Form& f, float parameter, const float* global) {
    float step = f.amax ? exact_divide(parameter, f.high) : parameter;
    if (f.amax == 2 && step > 1e-9f) {
        step = bits_float((float_bits(step) + 0x7fffff) & 0x7f800000);
    }
    if (global) {
        float block = clip(exact_divide(step, global[0]), 0x1p-9f, 448.0f);
        step = exact_multiply(nearest_float(block, 3, -6, 448.0f), global[0]);
    }
    return step < 1e-9f ? 1e-9f : step;
}

// Step and zero point between a least and a greatest value; NaN stays NaN.
DEVICE Block block_between(const Form& f, float least, float greatest) {
    least = least > 0 ? 0.0f : least;
    greatest = greatest < 0 ? 0.0f : greatest;
    Block b;
    b.post = exact_divide(exact_add(greatest, -least), exact_add(f.high, -f.low));
    b.post = b.post < 0x1p-126f ? 0x1p-126f : b.post;
    b.pre = b.post;
    b.offset = clip(exact_add(f.low, -rintf(exact_divide(least, b.post))), f.low, f.high);
    b.edge = greatest;
    b.added = false;
    return b;
}

DEVICE Block block_of(const Form& f, const Given& g, i64 k) {
    if (f.amax == GREATEST) {
        return block_between(f, g.offset[k], g.step[k]);
    }
    Block b;
    b.post = step_of(f, g.step[k], g.global);
    b.pre = g.pre ? step_of(f, g.pre[k], g.global) : b.post;
    b.offset = g.offset ? (f.zero ? nearest(f, g.offset[k]) : g.offset[k]) : 0.0f;
    b.edge = f.amax ? g.step[k] : exact_multiply(b.post, f.high);
    b.added = g.offset && !f.zero;
    return b;
}

DEVICE float unclipped(const Form& f, const Block& b, float x) {
    float v = f.amax == GREATEST ? exact_multiply(x, exact_divide(1.0f, b.pre)) : exact_divide(x, b.pre);
    return exact_add(rintf(v), b.offset);
}
DEVICE bool inside(const Form& f, const Block& b, float x) {
    float c = unclipped(f, b, x);
    return c >= f.low && c <= f.high;
}
DEVICE float ratio(const Block& b, float x) {
    return exact_divide(b.added ? exact_add(x, -b.offset) : x, b.pre);
}

DEVICE float value(const Form& f, const Block& b, float x) {
    if (f.zero) {
        float code = clip(unclipped(f, b, x), f.low, f.high);
        return exact_multiply(exact_add(code, -b.offset), b.post);
    }
    float y = exact_multiply(nearest(f, ratio(b, x)), b.post);
    return b.added ? exact_add(y, b.offset) : y;
}

DEVICE float slope(const Form& f, const Block& b, float x) {
    switch (f.rule) {
    case CLIPPED: return (f.zero ? inside(f, b, x) : fabsf(x) <= b.edge) ? 1.0f : 0.0f;
    case PASSED: return 1;
    case PACT: return x >= 0 && x <= b.edge ? 1.0f : 0.0f;
    case RANGE: return inside(f, b, x) ? 1.0f : 0.0f;
    case SCALED: return fabsf(exact_divide(x, b.pre)) <= f.high ? exact_divide(b.post, b.pre) : 0.0f;
    default: {
        float v = ratio(b, x);
        return v > f.low && v < f.high ? 1.0f : 0.0f;
    }
    }
}

DEVICE float pre_slope(const Form& f, const Block& b, float x) {
    float v = exact_divide(x, b.pre);
    return fabsf(v) <= f.high ? -exact_multiply(v, exact_divide(b.post, b.pre)) : 0.0f;
}

DEVICE float step_slope(const Form& f, const Block& b, float x, bool has_pre) {
    switch (f.rule) {
    case PACT: return x >= b.edge ? 1.0f : 0.0f;
    case RANGE: {
        float q = exact_add(clip(unclipped(f, b, x), f.low, f.high), -b.offset);
        return inside(f, b, x) ? exact_add(q, -exact_divide(x, b.pre)) : q;
    }
    case SCALED: {
        float q = nearest(f, exact_divide(x, b.pre));
        return has_pre ? q : exact_add(q, pre_slope(f, b, x));
    }
    default: {
        float v = ratio(b, x);
        return v <= f.low ? f.low : v >= f.high ? f.high : exact_add(nearest(f, v), -v);
    }
    }
}

DEVICE float offset_slope(const Form& f, const Block& b, float x) {
    if (f.rule == RANGE) {
        return inside(f, b, x) ? 0.0f : -b.post;
    }
    float v = ratio(b, x);
    return v <= f.low || v >= f.high ? 1.0f : 0.0f;
}

// Which sum: as the numbers of the operator's inputs.
DEVICE float summand(int which, const Form& f, const Block& b, float x, bool has_pre) {
    return which == 1 ? step_slope(f, b, x, has_pre) : which == 2 ? offset_slope(f, b, x) : pre_slope(f, b, x);
}

#define FORM int kind, float low, float high, int mantissa, int least, int rule, int amax, int zero
#define THE_FORM Form{kind, low, high, mantissa, least, rule, amax, zero}
#define CUT i64 rows, i64 cols, i64 block_rows, i64 block_cols
#define GIVEN const float* step, const float* offset, const float* pre, const float* global

DEVICE i64 block_at(i64 i, i64 cols, i64 block_rows, i64 block_cols) {
    i64 row = quotient(i, cols);
    i64 grid_cols = quotient(cols + block_cols - 1, block_cols);
    return quotient(row, block_rows) * grid_cols + quotient(i - row * cols, block_cols);
}

// y of x; with dy, dx.
KERNEL(grid_elements, 256, (const TYPE* x, const TYPE* dy, TYPE* to, CUT, GIVEN, FORM)) {
    Form f = THE_FORM;
    Given g = {step, offset, pre, global};
    i64 n = rows * cols;
    for_packs<1>(n, [&](i64 at, int) {
        Block b = block_of(f, g, block_at(at, cols, block_rows, block_cols));
        float v = widen(x[at]);
        to[at] = narrow<TYPE>(dy ? exact_multiply(widen(dy[at]), slope(f, b, v)) : value(f, b, v));
    });
}

// Sums of pieces of a block: piece p of block k at parts[k * pieces + p].
KERNEL(grid_sums, 256, (const TYPE* x, const TYPE* dy, double* parts, int which, int pieces, CUT, GIVEN, FORM)) {
    SHARED double scratch[33];
    Form f = THE_FORM;
    Given g = {step, offset, pre, global};
    i64 k = quotient(block_index(), pieces);
    i64 piece = block_index() - k * pieces;
    i64 grid_cols = quotient(cols + block_cols - 1, block_cols);
    i64 top = quotient(k, grid_cols) * block_rows;
    i64 left = (k - quotient(k, grid_cols) * grid_cols) * block_cols;
    i64 height = rows - top < block_rows ? rows - top : block_rows;
    i64 width = cols - left < block_cols ? cols - left : block_cols;
    i64 all = height * width;
    i64 length = quotient(all + pieces - 1, pieces);
    i64 end = (piece + 1) * length < all ? (piece + 1) * length : all;
    Block b = block_of(f, g, k);
    double sum = 0;
    for (i64 i = piece * length + thread_index(); i < end; i += thread_count()) {
        i64 row = quotient(i, width);
        i64 at = (top + row) * cols + left + (i - row * width);
        sum += (double)widen(dy[at]) * summand(which, f, b, widen(x[at]), pre != 0);
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        parts[block_index()] = sum;
    }
}

KERNEL(grid_total, 256, (const double* parts, float* sums, i64 blocks, int pieces, double factor)) {
    for_packs<1>(blocks, [&](i64 k, int) {
        double sum = 0;
        for (int p = 0; p < pieces; p++) {
            sum += parts[k * pieces + p];
        }
        sums[k] = (float)(sum * factor);
    });
}
