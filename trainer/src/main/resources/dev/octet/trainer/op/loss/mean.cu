// What the losses of many rows become: one number. In F64, in an order that only their number fixes.
#include "octet.cuh"

// One block of 1024 threads. sum(losses) / divisor * scale goes to loss, which may be absent; the divisor, which is sum(weights) or, without
// weights, 1, is kept.
KERNEL(loss_mean, 1024, (const float* losses, const float* weights, i64 count, float scale, float* loss, float* divisor)) {
    SHARED double scratch[33];
    double sum = 0;
    double all = 0;
    for (i64 i = thread_index(); i < count; i += 1024) {
        sum += loss ? (double)losses[i] : 0;
        all += weights ? (double)weights[i] : 0;
    }
    sum = block_fold(sum, Sum(), 0.0, scratch);
    all = block_fold(all, Sum(), 0.0, scratch);
    if (thread_index() == 0) {
        float by = weights ? (float)all : 1.0f;
        divisor[0] = by;
        if (loss) {
            loss[0] = (float)(sum * scale / by);
        }
    }
}
