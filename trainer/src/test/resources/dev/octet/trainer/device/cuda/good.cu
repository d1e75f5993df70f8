// variants: NAME=add_one; BY=3 NAME=add_three
#include "octet.cuh"

#ifndef NAME
#define NAME add_one
#endif
#ifndef BY
#define BY 1
#endif

KERNEL(NAME, 128, (f32* x, i64 count)) {
    i64 i = block_index() * thread_count() + thread_index();
    if (i < count) {
        x[i] = x[i] + (f32)BY;
    }
}
