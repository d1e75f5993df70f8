// A kernel that does not compile.
#include "octet.cuh"

KERNEL(bad, 128, (f32* at)) {
    at[0] = undeclared;
}
