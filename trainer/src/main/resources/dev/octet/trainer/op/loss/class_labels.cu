// Losses over classes. X_TYPE is the type of the scores (of the student's), T_TYPE that of the teacher's, LABEL_TYPE that of the labels and W_TYPE
// that of weights. GROUP threads, a warp or a block, have a position; PACK is how many scores of it they load at once, where that is
// not found out row by row.
//
// A label that is no class makes its position's loss and gradient NaN: no data are made up for it, and no other memory is touched.
//
// variants: X_TYPE=bf16 T_TYPE=bf16 LABEL_TYPE=i64 W_TYPE=f32 GROUP=256 PACK=8
// variants: X_TYPE=f32 T_TYPE=f32 LABEL_TYPE=i64 W_TYPE=f32 GROUP=32 PACK=1
// variants: X_TYPE=f16 T_TYPE=f32 LABEL_TYPE=i32 W_TYPE=i64 GROUP=256 PACK=1
#include "octet.cuh"

#define THREADS 256
// Packs that a thread has under way at once.
#define PACKS 4
// Scores in 16 bytes.
#define WIDE (16 / (int)sizeof(X_TYPE))
#define NOT_A_NUMBER bits_float(0x7fc00000u)

// --- labels

#define NO_LABEL -1
#define BAD_LABEL -2

// How labels are read. With a sequence, the label of a position is that of the next one, and the last of each sequence has none.
struct LabelRule {
    const LABEL_TYPE* labels;
    i64 sequence;
    i64 ignored;
    i32 ignores;
    i32 classes;
};
DEVICE int label_of(const LabelRule& rule, i64 position) {
    if (rule.sequence > 0) {
        if ((position + 1) % rule.sequence == 0) {
            return NO_LABEL;
        }
        position++;
    }
    i64 label = (i64)rule.labels[position];
    if (rule.ignores && label == rule.ignored) {
        return NO_LABEL;
    }
    return label >= 0 && label < rule.classes ? (int)label : BAD_LABEL;
}
// How much a position counts. weights are by class, and may be absent.
DEVICE float weight_of(int label, const W_TYPE* weights) {
    return label == NO_LABEL ? 0 : label == BAD_LABEL ? NOT_A_NUMBER : weights ? widen(weights[label]) : 1;
}
// Gradient with respect to a position's unweighted loss.
DEVICE float upstream_of(const float* dloss, const float* divisor, i32 each, i64 position, float weight) {
    return !dloss || weight == 0 ? 0 : (each ? dloss[position] : dloss[0] / divisor[0]) * weight;
}

// The sum of the scores times the target: the score at the label and, with smoothing, that of all classes alike.
DEVICE float expected(float at_label, float all, float smoothing, i32 classes) {
    return smoothing > 0 ? (1 - smoothing) * at_label + smoothing / classes * all : at_label;
}

// --- sums of exponentials

// Σ exp(x - max) of the numbers seen so far.
struct Exponentials {
    float max;
    float sum;
};
template <int N> DEVICE void add(Exponentials& all, const float (&x)[N]) {
    float max = all.max;
#pragma unroll
    for (int i = 0; i < N; i++) {
        max = Max()(max, x[i]);
    }
    if (max > all.max) {
        all.sum *= expf(all.max - max);
        all.max = max;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        // nothing but -infinity so far: they count for nothing, NaN does
        all.sum += max == -INFINITE ? (is_nan(x[i]) ? x[i] : 0) : expf(x[i] - max);
    }
}
template <typename F> DEVICE float group_fold(float x, F fold, float neutral, float* scratch) {
    return GROUP == WARP ? warp_fold(x, fold) : block_fold(x, fold, neutral, scratch);
}
// max + log of the group's sum; scaled is what a thread's own sums have to be multiplied by.
DEVICE float log_sum(const Exponentials& mine, float* scratch, float& scaled, float& sum) {
    float max = group_fold(mine.max, Max(), -INFINITE, scratch);
    scaled = mine.max == -INFINITE ? 1 : expf(mine.max - max);
    sum = group_fold(mine.sum * scaled, Sum(), 0.0f, scratch);
    return max + logf(sum);
}

// --- rows

DEVICE int member() { return thread_index() % GROUP; }
DEVICE i64 first_position() { return block_index() * (THREADS / GROUP) + thread_index() / GROUP; }

// Calls f(column, numbers) for the group's share of a row, 16 bytes at a time from the first aligned address on: rows need not begin at one.
template <typename F> DEVICE void each_of_row(const X_TYPE* row, int n, F f) {
    int head = (int)((16 - ((u64)row & 15)) % 16 / sizeof(X_TYPE));
    head = head < n ? head : n;
    int packs = (n - head) / WIDE;
    if (member() < head) {
        float one[1] = {widen(row[member()])};
        f(member(), one);
    }
    for (int first = member(); first < packs; first += PACKS * GROUP) {
        float x[PACKS][WIDE];
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            if (first + p * GROUP < packs) {
                load(row + head + (first + p * GROUP) * WIDE, x[p]);
            }
        }
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            if (first + p * GROUP < packs) {
                f(head + (first + p * GROUP) * WIDE, x[p]);
            }
        }
    }
    int tail = head + packs * WIDE + member();
    if (tail < n) {
        float one[1] = {widen(row[tail])};
        f(tail, one);
    }
}

// Writes numbers to an address that is one of packs where rows begin as those do that are read.
template <int N> DEVICE void put_numbers(X_TYPE* to, const float (&y)[N]) {
    if (is_aligned(to, (int)sizeof(X_TYPE) * N)) {
        store(to, y);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            to[i] = narrow<X_TYPE>(y[i]);
        }
    }
}
struct AddExponentials {
    Exponentials* all;
    template <int N> DEVICE void operator()(int column, const float (&x)[N]) const { add(*all, x); }
};
struct WriteLogarithms {
    X_TYPE* to;
    float log_sum;
    template <int N> DEVICE void operator()(int column, const float (&x)[N]) const {
        float y[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            y[i] = x[i] - log_sum;
        }
        put_numbers(to + column, y);
    }
};
struct AddUp {
    float* sum;
    template <int N> DEVICE void operator()(int column, const float (&x)[N]) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            *sum += x[i];
        }
    }
};
// dx = slope p + dlog, less even everywhere and dl at the label.
struct WriteGradient {
    X_TYPE* to;
    const X_TYPE* dlog;
    float log_sum;
    float slope;
    float dl;
    float even;
    int label;
    template <int N> DEVICE void operator()(int column, const float (&x)[N]) const {
        float y[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            y[i] = expf(x[i] - log_sum) * slope;
            if (dlog) {
                y[i] += widen(dlog[column + i]);
            }
            if (column + i == label) {
                y[i] -= dl;
            }
            y[i] -= even;
        }
        put_numbers(to + column, y);
    }
};

// Softmax and cross entropy, the scores read once, with smoothing s twice: log Σ exp x, and w (log Σ exp x - (1 - s) x[label] - s/K Σ x) of each
// position. logs, where the logarithms go, may be absent.
RESIDENT_KERNEL(cross_entropy_forward, THREADS, 512,
       (const X_TYPE* x, const LABEL_TYPE* labels, const W_TYPE* weights, float* log_sums, float* losses, float* used, X_TYPE* logs,
        i64 pitch, i64 positions, i32 classes, i64 sequence, i32 ignores, i64 ignored,
        float smoothing)) {
    SHARED float scratch[33];
    i64 position = first_position();
    bool here = position < positions;
    const X_TYPE* row = x + position * pitch;
    Exponentials mine = {-INFINITE, 0};
    if (here) {
        each_of_row(row, classes, AddExponentials{&mine});
    }
    float scaled;
    float sum;
    float all = log_sum(mine, scratch, scaled, sum);
    float scores = 0;
    if (smoothing > 0) {
        if (here) {
            each_of_row(row, classes, AddUp{&scores});
        }
        scores = group_fold(scores, Sum(), 0.0f, scratch);
    }
    if (here && member() == 0) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float weight = weight_of(label, weights);
        log_sums[position] = all;
        used[position] = weight;
        losses[position] = weight == 0 ? 0 : label < 0 ? NOT_A_NUMBER : weight * (all - expected(widen(row[label]), scores, smoothing, classes));
    }
    if (here && logs) {
        each_of_row(row, classes, WriteLogarithms{logs + position * classes, all});
    }
}

// dx = w dl (p - target) + dlog - p Σ dlog, the scores read once. each: dloss has a number for each position. dlog may be absent. Rows of x and of dx are pitch and
// dx_pitch long, zeros behind those of dx.
RESIDENT_KERNEL(cross_entropy_backward, THREADS, 512,
       (const X_TYPE* x, const LABEL_TYPE* labels, const W_TYPE* weights, const float* log_sums, const float* divisor,
        const float* dloss, const X_TYPE* dlog, X_TYPE* dx, i64 pitch, i64 dx_pitch, i32 each, i64 positions, i32 classes, i64 sequence, i32 ignores,
        i64 ignored, float smoothing)) {
    SHARED float scratch[33];
    i64 position = first_position();
    bool here = position < positions;
    float dlogs = 0;
    if (dlog) {
        if (here) {
            each_of_row(dlog + position * classes, classes, AddUp{&dlogs});
        }
        dlogs = group_fold(dlogs, Sum(), 0.0f, scratch);
    }
    if (here) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float dl = upstream_of(dloss, divisor, each, position, weight_of(label, weights));
        X_TYPE* to = dx + position * dx_pitch;
        for (i64 k = classes + member(); k < dx_pitch; k += GROUP) {
            to[k] = narrow<X_TYPE>(0.0f);
        }
        if (dl == 0 && !dlog) {
            // rows that do not count need not be read; what they hold may be anything
            for (int k = member(); k < classes; k += GROUP) {
                to[k] = narrow<X_TYPE>(0.0f);
            }
        } else {
            const X_TYPE* up = dlog ? dlog + position * classes : dlog;
            each_of_row(x + position * pitch, classes, WriteGradient{to, up, log_sums[position], dl - dlogs, dl * (1 - smoothing),
                    dl * (smoothing / classes), label});
        }
    }
}

// --- scores of some classes, of which other ranks have the others: those from `first` on, `own` of `classes`

// Of each position the largest score, Σ exp(x - largest), and what the scores here add to the expected one: three arrays, one behind the other.
RESIDENT_KERNEL(cut_cross_entropy_parts, THREADS, 512,
       (const X_TYPE* x, const LABEL_TYPE* labels, float* parts, i64 positions, i32 own, i32 first, i32 classes, i64 sequence, i32 ignores, i64 ignored,
        float smoothing)) {
    SHARED float scratch[33];
    i64 position = first_position();
    bool here = position < positions;
    const X_TYPE* row = x + position * own;
    Exponentials mine = {-INFINITE, 0};
    float scores = 0;
    if (here) {
        each_of_row(row, own, AddExponentials{&mine});
    }
    if (here && smoothing > 0) {
        each_of_row(row, own, AddUp{&scores});
    }
    float scaled;
    float sum;
    log_sum(mine, scratch, scaled, sum);
    float max = group_fold(mine.max, Max(), -INFINITE, scratch);
    scores = group_fold(scores, Sum(), 0.0f, scratch);
    if (here && member() == 0) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        int at = label < 0 ? -1 : label - first;
        float at_label = at >= 0 && at < own ? widen(row[at]) : 0;
        parts[position] = max;
        parts[positions + position] = sum;
        parts[2 * positions + position] = label < 0 ? 0 : expected(at_label, scores, smoothing, classes);
    }
}

// From log Σ exp x and the expected score of each position, which are the first two of three arrays: losses, and how much positions count.
KERNEL(cut_cross_entropy_losses, THREADS,
       (const LABEL_TYPE* labels, const float* parts, float* log_sums, float* losses, float* used, i64 positions, i32 classes, i64 sequence,
        i32 ignores, i64 ignored)) {
    for_packs<1>(positions, [&](i64 position, int) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float weight = weight_of(label, (const W_TYPE*)0);
        log_sums[position] = parts[position];
        used[position] = weight;
        losses[position] = weight == 0 ? 0 : label < 0 ? NOT_A_NUMBER : parts[position] - parts[positions + position];
    });
}

RESIDENT_KERNEL(cut_cross_entropy_backward, THREADS, 512,
       (const X_TYPE* x, const LABEL_TYPE* labels, const float* log_sums, const float* divisor, const float* dloss, X_TYPE* dx, i32 each, i64 positions,
        i32 own, i32 first, i32 classes, i64 sequence, i32 ignores, i64 ignored, float smoothing)) {
    i64 position = first_position();
    if (position < positions) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float dl = upstream_of(dloss, divisor, each, position, weight_of(label, (const W_TYPE*)0));
        X_TYPE* to = dx + position * own;
        if (dl == 0) {
            for (int k = member(); k < own; k += GROUP) {
                to[k] = narrow<X_TYPE>(0.0f);
            }
        } else {
            each_of_row(x + position * own, own, WriteGradient{to, (const X_TYPE*)0, log_sums[position], dl, dl * (1 - smoothing),
                    dl * (smoothing / classes), label < 0 ? -1 : label - first});
        }
    }
}

// What a position's gradient is made of besides its scores and log_sums: dl, and its label.
KERNEL(cross_entropy_slopes, THREADS,
       (const LABEL_TYPE* labels, const W_TYPE* weights, const float* divisor, const float* dloss, float* slopes, i32* targets, i32 each,
        i64 positions, i32 classes, i64 sequence, i32 ignores, i64 ignored)) {
    i64 position = block_index() * THREADS + thread_index();
    if (position < positions) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        slopes[position] = upstream_of(dloss, divisor, each, position, weight_of(label, weights));
        targets[position] = label;
    }
}

// The same where other axes lie behind the classes: a thread for each position, neighbours side by side in memory.
KERNEL(cross_entropy_forward_columns, THREADS,
       (const X_TYPE* x, const LABEL_TYPE* labels, const W_TYPE* weights, float* log_sums, float* losses, float* used, X_TYPE* logs,
        i64 positions, i64 inner, i32 classes, i64 sequence, i32 ignores, i64 ignored,
        float smoothing)) {
    i64 position = block_index() * THREADS + thread_index();
    if (position < positions) {
        i64 start = position / inner * classes * inner + position % inner;
        Exponentials mine = {-INFINITE, 0};
        float scores = 0;
        for (int k = 0; k < classes; k++) {
            float one[1] = {widen(x[start + k * inner])};
            add(mine, one);
            scores += one[0];
        }
        float all = mine.max + logf(mine.sum);
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float weight = weight_of(label, weights);
        log_sums[position] = all;
        used[position] = weight;
        losses[position] = weight == 0 ? 0 : label < 0 ? NOT_A_NUMBER : weight * (all - expected(widen(x[start + label * inner]), scores, smoothing, classes));
        for (int k = 0; logs && k < classes; k++) {
            logs[start + k * inner] = narrow<X_TYPE>(widen(x[start + k * inner]) - all);
        }
    }
}

KERNEL(cross_entropy_backward_columns, THREADS,
       (const X_TYPE* x, const LABEL_TYPE* labels, const W_TYPE* weights, const float* log_sums, const float* divisor,
        const float* dloss, const X_TYPE* dlog, X_TYPE* dx, i32 each, i64 positions, i64 inner, i32 classes, i64 sequence,
        i32 ignores, i64 ignored, float smoothing)) {
    i64 position = block_index() * THREADS + thread_index();
    if (position < positions) {
        i64 start = position / inner * classes * inner + position % inner;
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float dl = upstream_of(dloss, divisor, each, position, weight_of(label, weights));
        float slope = dl;
        for (int k = 0; dlog && k < classes; k++) {
            slope -= widen(dlog[start + k * inner]);
        }
        for (int k = 0; k < classes; k++) {
            i64 at = start + k * inner;
            float y = 0;
            if (dl != 0 || dlog) {
                y = expf(widen(x[at]) - log_sums[position]) * slope + (dlog ? widen(dlog[at]) : 0) - (k == label ? dl * (1 - smoothing) : 0) - dl * (smoothing / classes);
            }
            dx[at] = narrow<X_TYPE>(y);
        }
    }
}

// -w x[label], x being logarithms.
KERNEL(likelihood_forward, THREADS,
       (const X_TYPE* x, const LABEL_TYPE* labels, const W_TYPE* weights, float* losses, float* used, i64 positions, i64 inner,
        i32 classes, i64 sequence, i32 ignores, i64 ignored)) {
    i64 position = block_index() * THREADS + thread_index();
    if (position < positions) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float weight = weight_of(label, weights);
        i64 start = position / inner * classes * inner + position % inner;
        used[position] = weight;
        losses[position] = weight == 0 ? 0 : label < 0 ? NOT_A_NUMBER : -weight * widen(x[start + label * inner]);
    }
}

// Into zeros. Where a label is no class, all classes' gradients are NaN.
KERNEL(likelihood_backward, THREADS,
       (const LABEL_TYPE* labels, const W_TYPE* weights, const float* divisor, const float* dloss, X_TYPE* dx, i32 each,
        i64 positions, i64 inner, i32 classes, i64 sequence, i32 ignores, i64 ignored)) {
    i64 position = block_index() * THREADS + thread_index();
    if (position < positions) {
        int label = label_of(LabelRule{labels, sequence, ignored, ignores, classes}, position);
        float dl = upstream_of(dloss, divisor, each, position, weight_of(label, weights));
        i64 start = position / inner * classes * inner + position % inner;
        if (label >= 0 && dl != 0) {
            dx[start + label * inner] = narrow<X_TYPE>(-dl);
        }
        for (int k = 0; label == BAD_LABEL && k < classes; k++) {
            dx[start + k * inner] = narrow<X_TYPE>(NOT_A_NUMBER);
        }
    }
}

// --- the distance of two distributions

// How much a position counts: by labels, or by weights of the positions, or 1.
DEVICE float position_weight(const LabelRule& rule, const W_TYPE* weights, i64 position) {
    if (rule.labels) {
        int label = label_of(rule, position);
        return label == NO_LABEL ? 0 : label == BAD_LABEL ? NOT_A_NUMBER : 1;
    }
    return weights ? widen(weights[position]) : 1;
}

// Of each position w Σ p (log p - log q), student and teacher read once: with e = exp(t - max), p = e / Σ e and log p - log q = t - x less
// the difference of their log Σ exp. Scores are multiplied by inverse, 1 / T.
KERNEL(kl_forward, THREADS,
       (const X_TYPE* x, const T_TYPE* t, const LABEL_TYPE* labels, const W_TYPE* weights, float* student_sums, float* teacher_sums,
        float* losses, float* used, float inverse, i64 positions, i32 classes, i64 sequence, i32 ignores, i64 ignored)) {
    SHARED float scratch[33];
    i64 position = first_position();
    int n = position < positions ? classes : 0;
    Exponentials student = {-INFINITE, 0};
    Exponentials teacher = {-INFINITE, 0};
    float differences = 0;
#pragma unroll 2
    for (int k = member() * PACK; k < n; k += GROUP * PACK) {
        float xs[PACK];
        float ts[PACK];
        load(x + position * classes + k, xs);
        load(t + position * classes + k, ts);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            xs[i] *= inverse;
            ts[i] *= inverse;
        }
        add(student, xs);
        float before = teacher.max;
        add(teacher, ts);
        differences *= teacher.max > before ? expf(before - teacher.max) : 1;
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            float e = teacher.max == -INFINITE ? 0 : expf(ts[i] - teacher.max);
            // a class that the teacher excludes adds nothing, whatever the student says
            differences += e == 0 ? 0 : e * (ts[i] - xs[i]);
        }
    }
    float scaled;
    float sum;
    float of_student = log_sum(student, scratch, scaled, sum);
    float of_teacher = log_sum(teacher, scratch, scaled, sum);
    differences = group_fold(differences == 0 ? 0 : differences * scaled, Sum(), 0.0f, scratch);
    if (n && member() == 0) {
        float weight = position_weight(LabelRule{labels, sequence, ignored, ignores, classes}, weights, position);
        student_sums[position] = of_student;
        teacher_sums[position] = of_teacher;
        used[position] = weight;
        losses[position] = weight == 0 ? 0 : weight * (differences / sum + of_student - of_teacher);
    }
}

// dx = T dl (q - p) w / Σ w.
KERNEL(kl_backward, THREADS,
       (const X_TYPE* x, const T_TYPE* t, const LABEL_TYPE* labels, const W_TYPE* weights, const float* student_sums,
        const float* teacher_sums, const float* divisor, const float* dloss, X_TYPE* dx, float temperature, float inverse,
        i64 positions, i32 classes, i64 sequence, i32 ignores, i64 ignored)) {
    i64 position = first_position();
    int n = position < positions ? classes : 0;
    float weight = n ? position_weight(LabelRule{labels, sequence, ignored, ignores, classes}, weights, position) : 0;
    float slope = weight == 0 ? 0 : temperature * dloss[0] * weight / divisor[0];
    float of_student = n ? student_sums[position] : 0;
    float of_teacher = n ? teacher_sums[position] : 0;
#pragma unroll 2
    for (int k = member() * PACK; k < n; k += GROUP * PACK) {
        float y[PACK];
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            y[i] = 0;
        }
        if (slope != 0) {
            float ts[PACK];
            load(x + position * classes + k, y);
            load(t + position * classes + k, ts);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                y[i] = slope * (expf(y[i] * inverse - of_student) - expf(ts[i] * inverse - of_teacher));
            }
        }
        store(dx + position * classes + k, y);
    }
}
