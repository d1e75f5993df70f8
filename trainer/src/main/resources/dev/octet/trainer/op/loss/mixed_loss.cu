// The mixture of two losses.
#include "octet.cuh"

KERNEL(mixed_loss_forward, WARP, (const float* a, const float* b, float* y, float of_a, float of_b)) {
    if (thread_index() == 0) {
        y[0] = of_a * a[0] + of_b * b[0];
    }
}

KERNEL(mixed_loss_backward, WARP, (const float* dy, float* dx, float weight)) {
    if (thread_index() == 0) {
        dx[0] = weight * dy[0];
    }
}
