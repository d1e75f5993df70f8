// Included by every kernel of Octet: element types, conversions, reductions, and the few instructions that C++ lacks.
//
// No CUDA header is included, so that the run-time compiler needs none. Everything that only a GPU can do is in the section "the
// machine", and again for CPUs in octet_host.h: the tests run each kernel on a CPU, too.
//
// Rules for kernels:
//   * KERNEL(name, threads, (arguments)) { .. } defines a kernel, RESIDENT_KERNEL one that keeps more in registers; a kernel for several element types ends in _f32, _bf16, _f16.
//   * All threads of a block reach every barrier, shuffle and reduction: no thread returns before.
//   * Sums are in a fixed order: no floating-point atomics.
//   * Nothing is contracted: a product that is to be added with one rounding is written as fmaf. A kernel without transcendental functions
//     therefore gives the same bits on every machine.
#pragma once

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;
typedef int i32;
typedef float f32;
typedef double f64;

struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};
struct e4m3 {
    u8 bits;
};
struct e5m2 {
    u8 bits;
};
typedef u8 boolean; // BOOL: one byte, 0 or 1

#define WARP 32

#ifdef OCTET_HOST
#include "octet_host.h"
#else

// --- the machine ---------------------------------------------------------------------------------------------------------------

// At least `resident` threads at a time on a multiprocessor, which leaves each 65536 / resident registers. Without a minimum ptxas aims at
// the most threads that fit, with 32 registers, and spills.
#define RESIDENT_KERNEL(name, threads, resident, arguments)                                                                           \
    extern "C" __global__ void __launch_bounds__(threads, (threads) < (resident) ? (resident) / (threads) : 1) name arguments
#define KERNEL(name, threads, arguments) RESIDENT_KERNEL(name, threads, 1024, arguments)
#define DEVICE __device__ __forceinline__
// A function that is called: where many conditions are the same for a whole kernel, compilers would else make a loop for each of their combinations.
#define CALLED __device__ __noinline__
#define SHARED __shared__
// Dynamic shared memory, as bytes.
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) u8 name[]

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int thread_count() { return blockDim.x; }
DEVICE i64 block_index() { return blockIdx.x; }
DEVICE i64 block_index_y() { return blockIdx.y; }
DEVICE i64 block_index_z() { return blockIdx.z; }
DEVICE i64 block_count() { return gridDim.x; }
DEVICE void block_barrier() { __syncthreads(); }
DEVICE void warp_barrier() { __syncwarp(); }

DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE double shuffle_xor(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE int shuffle_xor(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE float shuffle_up(float x, int by) { return __shfl_up_sync(0xffffffffu, x, by); }
DEVICE double shuffle_up(double x, int by) { return __shfl_up_sync(0xffffffffu, x, by); }
DEVICE float shuffle(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE double shuffle(double x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE int shuffle(int x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
// A bit for each lane.
DEVICE u32 lane_bits(bool x) { return __ballot_sync(0xffffffffu, x); }

DEVICE u32 float_bits(float x) { return __float_as_uint(x); }
DEVICE float bits_float(u32 x) { return __uint_as_float(x); }

// Integer maximum and sum in memory: exact in any order.
DEVICE void atomic_max(int* at, int x) { atomicMax(at, x); }
DEVICE void atomic_add(int* at, int x) { atomicAdd(at, x); }
DEVICE int atomic_next(int* at) { return atomicAdd(at, 1); }
DEVICE void memory_fence() { __threadfence(); }

// To nearest, ties to even.
DEVICE u16 bf16_bits(float x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
DEVICE u16 f16_bits(float x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
// Two numbers in one register, the first in the low half, as operands of matrix instructions.
DEVICE u32 pair_bits(float a, float b, bf16) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}
DEVICE u32 pair_bits(float a, float b, f16) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}
DEVICE float f16_value(u16 x) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
}

// Arithmetic whose rounding a recipe fixes: never contracted, never approximated, whatever the compiler's options.
DEVICE float exact_multiply(float a, float b) { return __fmul_rn(a, b); }
DEVICE float exact_add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float exact_divide(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float fast_exp(float x) { return __expf(x); }
// 2^x to about two units in the last place, results below 2^-126 as 0.
DEVICE float fast_exp2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
// The larger number; the other one where one is NaN, of any kind.
DEVICE float larger(float a, float b) { return fmaxf(a, b); }
// 1 / x to one unit in the last place, of numbers above 2^126 as 0.
DEVICE float fast_reciprocal(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// The codes of two numbers, the first in the low byte; saturating. Hardware writes NaN as 0x7f: for E5M2 the callers correct it.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
#define HAS_FP8 1
DEVICE u16 e4m3_pair(float a, float b) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a));
    return r;
}
DEVICE u16 e5m2_pair(float a, float b) {
    u16 r;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a));
    return r;
}
#endif

// Copies 16 bytes from global to shared memory asynchronously; addresses are multiples of 16. If valid is 0, zeros are written.
DEVICE void copy_async_16(void* shared, const void* global, bool valid = true) {
    u32 to = (u32)__cvta_generic_to_shared(shared);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes));
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;"); }
// Waits until at most PENDING groups are in flight; a barrier must follow before other threads' copies are read.
template <int PENDING> DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING)); }

// Loads four 8x8 matrices of 16-bit elements: lane l has the address of row l % 8 of matrix l / 8 and receives of each the elements
// [l / 4][2 (l % 4)] and the next; transposed, elements [2 (l % 4)][l / 4] and [2 (l % 4) + 1][l / 4].
DEVICE void load_matrix_4(u32 (&r)[4], const void* row) {
    u32 at = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
DEVICE void load_matrix_4_transposed(u32 (&r)[4], const void* row) {
    u32 at = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// d += a b with a [16, 16], b [16, 8], d [16, 8] over the lanes of a warp, g = lane / 4, t = lane % 4:
// a[0] = rows g, cols 2t, 2t+1; a[1] = rows g+8; a[2] = cols + 8; a[3] = rows g+8, cols + 8; b[0] = rows 2t, 2t+1, col g; b[1] = rows + 8;
// d[0], d[1] = row g, cols 2t, 2t+1; d[2], d[3] = row g+8. (PTX ISA, mma.m16n8k16.)
DEVICE void multiply_16816(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void multiply_16816(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], f16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// --- numbers -------------------------------------------------------------------------------------------------------------------

#define INFINITE bits_float(0x7f800000u)

DEVICE bool is_nan(float x) { return x != x; }
DEVICE bool is_finite(float x) { return (float_bits(x) & 0x7f800000u) != 0x7f800000u; }

// The code of a number by integer arithmetic alone: nearest even, saturating (infinity becomes the largest number), NaN as
// NAN_CODE. Used on machines without the instruction. M mantissa bits, exponent bias B, largest code MAX.
template <int M, int B, u32 MAX, u32 NAN_CODE> DEVICE u8 encode_fp8(float x) {
    u32 bits = float_bits(x);
    u32 sign = (bits >> 24) & 0x80;
    u32 magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return NAN_CODE;
    }
    int exponent = (int)(magnitude >> 23) - 127;
    u32 code;
    if (exponent >= 1 - B) {
        u32 drop = 23 - M;
        u32 rebiased = magnitude - ((u32)(127 - B) << 23);
        code = (rebiased + (1u << (drop - 1)) - 1 + ((rebiased >> drop) & 1)) >> drop;
        code = code > MAX || magnitude == 0x7f800000u ? MAX : code;
    } else {
        // subnormal: in units of 2^(1 - B - M)
        int shift = 23 - M + (1 - B - exponent);
        if (exponent == -127 || shift > 24) {
            code = 0;
        } else {
            u32 whole = (magnitude & 0x7fffffu) | 0x800000u;
            code = (whole + (1u << (shift - 1)) - 1 + ((whole >> shift) & 1)) >> shift;
        }
    }
    return (u8)(sign | code);
}

// Two codes, the first in the low byte.
template <typename C> DEVICE u16 encode_pair(float a, float b);
template <> DEVICE u16 encode_pair<e4m3>(float a, float b) {
#ifdef HAS_FP8
    return e4m3_pair(a, b);
#else
    return (u16)(encode_fp8<3, 7, 0x7e, 0x7f>(a) | encode_fp8<3, 7, 0x7e, 0x7f>(b) << 8);
#endif
}
template <> DEVICE u16 encode_pair<e5m2>(float a, float b) {
#ifdef HAS_FP8
    u16 r = e5m2_pair(a, b);
    // Octet's NaN is the quiet one, 0x7e
    r = is_nan(a) ? (u16)((r & 0xff00) | 0x7e) : r;
    return is_nan(b) ? (u16)((r & 0xff) | 0x7e00) : r;
#else
    return (u16)(encode_fp8<2, 15, 0x7b, 0x7e>(a) | encode_fp8<2, 15, 0x7b, 0x7e>(b) << 8);
#endif
}

DEVICE float decode_e4m3(u8 code) {
    u32 magnitude = code & 0x7f;
    float x = magnitude == 0x7f ? bits_float(0x7fc00000u) : bits_float(magnitude << 20) * 0x1p120f;
    return code & 0x80 ? -x : x;
}
// E5M2 is the upper byte of F16.
DEVICE float decode_e5m2(u8 code) { return f16_value((u16)(code << 8)); }

DEVICE float widen(float x) { return x; }
DEVICE float widen(double x) { return (float)x; }
DEVICE float widen(bf16 x) { return bits_float((u32)x.bits << 16); }
DEVICE float widen(f16 x) { return f16_value(x.bits); }
DEVICE float widen(e4m3 x) { return decode_e4m3(x.bits); }
DEVICE float widen(e5m2 x) { return decode_e5m2(x.bits); }
DEVICE float widen(i64 x) { return (float)x; }
DEVICE float widen(i32 x) { return (float)x; }
DEVICE float widen(u8 x) { return (float)x; }
DEVICE float widen(i8 x) { return (float)x; }

// Rounds floats to nearest even, truncates integers.
template <typename T> DEVICE T narrow(float x);
template <> DEVICE float narrow<float>(float x) { return x; }
template <> DEVICE double narrow<double>(float x) { return x; }
template <> DEVICE bf16 narrow<bf16>(float x) { return bf16{bf16_bits(x)}; }
template <> DEVICE f16 narrow<f16>(float x) { return f16{f16_bits(x)}; }
template <> DEVICE e4m3 narrow<e4m3>(float x) { return e4m3{(u8)encode_pair<e4m3>(x, 0)}; }
template <> DEVICE e5m2 narrow<e5m2>(float x) { return e5m2{(u8)encode_pair<e5m2>(x, 0)}; }
template <> DEVICE i64 narrow<i64>(float x) { return (i64)x; }
template <> DEVICE i32 narrow<i32>(float x) { return (i32)x; }
template <> DEVICE u8 narrow<u8>(float x) { return (u8)(i32)x; }
template <> DEVICE i8 narrow<i8>(float x) { return (i8)(i32)x; }

// A number in a type that a recipe rounds it to: 1 BF16, 2 F16, 0 as it is.
DEVICE float rounded(float x, int type) { return type == 1 ? widen(narrow<bf16>(x)) : type == 2 ? widen(narrow<f16>(x)) : x; }

template <typename R> DEVICE R sigmoid(R x) { return 1 / (1 + exp(-x)); }

// x Φ(x), or its approximation by tanh (Hendrycks and Gimpel, arXiv:1606.08415), and the derivative, for numbers of type T. For types of 16 bits
// they are made of one power and one reciprocal, good to a few units of F32 for Φ, which is far below what rounding to the type leaves:
// Φ by a polynomial (Abramowitz and Stegun 7.1.26, an absolute error of 1.5e-7 / 2), (1 + tanh u) / 2 as 1 / (1 + exp(-2 u)).
#define GELU_SLOPE 0.7978845608028654f // √(2/π)
#define GELU_CUBE 0.044715f
// Φ(x) and exp(-x²/2).
DEVICE float normal_share(float x, float& density) {
    float z = fabsf(x) * 0.7071067811865476f;
    float t = fast_reciprocal(fmaf(0.3275911f, z, 1.0f));
    density = fast_exp2(-0.7213475204444817f * x * x); // log2(e) / 2
    float tail = fmaf(1.061405429f, t, -1.453152027f);
    tail = fmaf(tail, t, 1.421413741f);
    tail = fmaf(tail, t, -0.284496736f);
    tail = fmaf(tail, t, 0.254829592f);
    tail = 0.5f * tail * t * density;
    return x < 0 ? tail : 1.0f - tail;
}
// (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
DEVICE float tanh_share(float x) {
    float u = fmaf(GELU_CUBE * x * x, x, x);
    return fast_reciprocal(1.0f + fast_exp2(-2 * GELU_SLOPE * 1.44269504f * u));
}
template <typename T> DEVICE float gelu(float x, bool by_tanh) {
    if (sizeof(T) == 2) {
        float density;
        return x * (by_tanh ? tanh_share(x) : normal_share(x, density));
    }
    if (by_tanh) {
        return x * fmaf(0.5f, tanhf(GELU_SLOPE * fmaf(GELU_CUBE * x * x, x, x)), 0.5f);
    }
    return x * fmaf(0.5f, erff(x * 0.7071067811865476f), 0.5f);
}
template <typename T> DEVICE float gelu_derivative(float x, bool by_tanh) {
    if (sizeof(T) == 2) {
        if (by_tanh) {
            float s = tanh_share(x);
            return fmaf(2 * GELU_SLOPE * x * fmaf(3 * GELU_CUBE * x, x, 1.0f), fmaf(-s, s, s), s);
        }
        float density;
        float share = normal_share(x, density);
        return fmaf(x * density, 0.3989422804014327f, share);
    }
    if (by_tanh) {
        float t = tanhf(GELU_SLOPE * fmaf(GELU_CUBE * x * x, x, x));
        return fmaf(0.5f * x * fmaf(-t, t, 1.0f), GELU_SLOPE * fmaf(3 * GELU_CUBE * x, x, 1.0f), fmaf(0.5f, t, 0.5f));
    }
    return fmaf(x * expf(-0.5f * x * x), 0.3989422804014327f, fmaf(0.5f, erff(x * 0.7071067811865476f), 0.5f));
}

// --- elements ------------------------------------------------------------------------------------------------------------------

// N elements loaded or stored in one access: at most 16 bytes, at an address aligned to their total size.
template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
    T at[N];
};
// As many elements as fit 16 bytes.
template <typename T> struct Wide {
    static const int N = 16 / sizeof(T);
    typedef Pack<T, N> Elements;
};

template <int N, typename T> DEVICE void load(const T* from, float (&to)[N]) {
    Pack<T, N> p = *(const Pack<T, N>*)from;
#pragma unroll
    for (int i = 0; i < N; i++) {
        to[i] = widen(p.at[i]);
    }
}
// Numbers of 16 bits are rounded in pairs, as the machine does it.
template <int N, typename T> DEVICE void store_pairs(T* to, const float (&from)[N]) {
    Pack<u32, N / 2> p;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        p.at[i] = pair_bits(from[2 * i], from[2 * i + 1], T());
    }
    *(Pack<u32, N / 2>*)to = p;
}
template <int N, typename T> DEVICE void store(T* to, const float (&from)[N]) {
    Pack<T, N> p;
#pragma unroll
    for (int i = 0; i < N; i++) {
        p.at[i] = narrow<T>(from[i]);
    }
    *(Pack<T, N>*)to = p;
}
DEVICE void store(bf16* to, const float (&from)[1]) { *to = narrow<bf16>(from[0]); }
DEVICE void store(f16* to, const float (&from)[1]) { *to = narrow<f16>(from[0]); }
template <int N> DEVICE void store(bf16* to, const float (&from)[N]) { store_pairs<N>(to, from); }
template <int N> DEVICE void store(f16* to, const float (&from)[N]) { store_pairs<N>(to, from); }
// Each number as a T holds it.
template <typename T, int N> DEVICE void round_all(float (&v)[N]) {
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            u32 pair = pair_bits(v[2 * i], v[2 * i + 1], T());
            v[2 * i] = widen(T{(u16)pair});
            v[2 * i + 1] = widen(T{(u16)(pair >> 16)});
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = widen(narrow<T>(v[i]));
        }
    }
}
// What a gated MLP does to its gate: Gelu, by tanh or not, or SiLU. Each number is rounded to T as it is where steps run one by one: of SiLU the sigmoid s, too.
#define GATE_GELU 0
#define GATE_TANH 1
#define GATE_SILU 2
template <typename T, int N> DEVICE void activate(int activation, const float (&x)[N], float (&s)[N], float (&a)[N]) {
    if (activation == GATE_SILU) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            s[i] = sigmoid(x[i]);
        }
        round_all<T>(s);
#pragma unroll
        for (int i = 0; i < N; i++) {
            a[i] = x[i] * s[i];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            a[i] = gelu<T>(x[i], activation == GATE_TANH);
        }
    }
    round_all<T>(a);
}
// From g = dL/dy of y = act(x) u: the gradient of x in the place of x, that of u in the place of u.
template <typename T, int N> DEVICE void gated_gradient(int activation, float (&x)[N], float (&u)[N], const float (&g)[N]) {
    float s[N], a[N], d[N];
    activate<T>(activation, x, s, a);
#pragma unroll
    for (int i = 0; i < N; i++) {
        d[i] = g[i] * u[i];
        u[i] = g[i] * a[i];
    }
    round_all<T>(d);
    round_all<T>(u);
    if (activation == GATE_SILU) {
        // the gradient that goes past the sigmoid, that of the sigmoid, and what of it goes through
#pragma unroll
        for (int i = 0; i < N; i++) {
            a[i] = d[i] * s[i];
            d[i] *= x[i];
        }
        round_all<T>(a);
        round_all<T>(d);
#pragma unroll
        for (int i = 0; i < N; i++) {
            d[i] = d[i] * s[i] * (1 - s[i]);
        }
        round_all<T>(d);
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = a[i] + d[i];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = d[i] * gelu_derivative<T>(x[i], activation == GATE_TANH);
        }
    }
    round_all<T>(x);
}
// Codes are computed in pairs.
template <typename C, int N> DEVICE void store_codes(C* to, const float (&from)[N]) {
    Pack<u16, N / 2> p;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        p.at[i] = encode_pair<C>(from[2 * i], from[2 * i + 1]);
    }
    *(Pack<u16, N / 2>*)to = p;
}
DEVICE void store(e4m3* to, const float (&from)[1]) { *to = narrow<e4m3>(from[0]); }
DEVICE void store(e5m2* to, const float (&from)[1]) { *to = narrow<e5m2>(from[0]); }
template <int N> DEVICE void store(e4m3* to, const float (&from)[N]) { store_codes<e4m3, N>(to, from); }
template <int N> DEVICE void store(e5m2* to, const float (&from)[N]) { store_codes<e5m2, N>(to, from); }
DEVICE bool is_aligned(const void* p, int bytes) { return ((u64)p & (bytes - 1)) == 0; }

// The 16 bytes at any address, by aligned accesses, of which none lies wholly outside of [begin, end), what may be read. Bytes outside are
// any.
struct Bytes16 {
    u64 at[2];
};
DEVICE Bytes16 bytes_16(i64 address, i64 begin, i64 end) {
    typedef Pack<u64, 2> Unit;
    i64 unit = address & ~(i64)15;
    int behind = (int)(address - unit);
    Unit low = {{0, 0}};
    Unit high = {{0, 0}};
    if (unit < end && unit + 16 > begin) {
        low = *(const Unit*)unit;
    }
    if (behind && unit + 16 < end && unit + 32 > begin) {
        high = *(const Unit*)(unit + 16);
    }
    u64 a = behind & 8 ? low.at[1] : low.at[0];
    u64 b = behind & 8 ? high.at[0] : low.at[1];
    u64 c = behind & 8 ? high.at[1] : high.at[0];
    int bits = behind % 8 * 8;
    if (bits) {
        a = a >> bits | b << (64 - bits);
        b = b >> bits | c << (64 - bits);
    }
    return Bytes16{{a, b}};
}

// Loads or stores the first n of N elements; all N in one access.
template <int N, typename T> DEVICE void load_some(const T* from, float (&to)[N], int n) {
    if (n == N) {
        load<N>(from, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        to[i] = i < n ? widen(from[i]) : 0.0f;
    }
}
template <int N, typename T> DEVICE void store_some(T* to, const float (&from)[N], int n) {
    if (n == N) {
        store<N>(to, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i < n) {
            to[i] = narrow<T>(from[i]);
        }
    }
}

// Calls body(first, how many) for every N elements of n, with a grid of any size.
template <int N, typename Body> DEVICE void for_packs(i64 n, Body body) {
    i64 step = block_count() * thread_count() * N;
    for (i64 at = (block_index() * thread_count() + thread_index()) * N; at < n; at += step) {
        body(at, n - at < N ? (int)(n - at) : N);
    }
}

// a / b for nonnegative numbers; most fit 32 bits, where division is much cheaper.
DEVICE i64 quotient(i64 a, i64 b) { return (u64)(a | b) >> 32 == 0 ? (i64)((u32)a / (u32)b) : a / b; }

// Offset of position i of a shape in a tensor. Given are the lengths of the axes, outermost first, and the tensor's strides, 0 where it is
// repeated.
DEVICE i64 place(i64 i, int rank, const i64* lengths, const i64* steps) {
    i64 at = 0;
    for (int d = rank - 1; d > 0; d--) {
        i64 outer = quotient(i, lengths[d]);
        at += (i - outer * lengths[d]) * steps[d];
        i = outer;
    }
    return rank == 0 ? 0 : at + i * steps[0];
}

// Reads elements of a type given at run time, as F64: for operators with operands of different types, and for rare types. Types are
// numbered by CudaSource.code.
DEVICE double read_number(int type, const void* p, i64 i) {
    switch (type) {
    case 0: return ((const f32*)p)[i];
    case 1: return widen(((const bf16*)p)[i]);
    case 2: return widen(((const f16*)p)[i]);
    case 3: return ((const f64*)p)[i];
    case 4: return (double)((const i64*)p)[i];
    case 5: return ((const i32*)p)[i];
    case 6: return ((const i8*)p)[i];
    default: return ((const u8*)p)[i];
    }
}
DEVICE void write_number(int type, void* p, i64 i, double x) {
    switch (type) {
    case 0: ((f32*)p)[i] = (float)x; break;
    case 1: ((bf16*)p)[i] = narrow<bf16>((float)x); break;
    case 2: ((f16*)p)[i] = narrow<f16>((float)x); break;
    case 3: ((f64*)p)[i] = x; break;
    case 4: ((i64*)p)[i] = (i64)x; break;
    case 5: ((i32*)p)[i] = (i32)x; break;
    default: ((u8*)p)[i] = (u8)(i64)x; break;
    }
}

// --- sums and maxima -----------------------------------------------------------------------------------------------------------

DEVICE int lane() { return thread_index() % WARP; }
DEVICE int warp() { return thread_index() / WARP; }

struct Sum {
    template <typename T> DEVICE T operator()(T a, T b) const { return a + b; }
};
// Ignores NaN unless both are NaN.
struct Max {
    template <typename T> DEVICE T operator()(T a, T b) const { return b > a || a != a ? b : a; }
    DEVICE float operator()(float a, float b) const { return larger(a, b); }
};
struct Min {
    template <typename T> DEVICE T operator()(T a, T b) const { return b < a || a != a ? b : a; }
};

// The same in all lanes.
template <typename F, typename T> DEVICE T warp_fold(T x, F fold) {
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        x = fold(x, shuffle_xor(x, mask));
    }
    return x;
}

// The same in all threads. scratch: 33 numbers in shared memory, free for reuse afterwards.
template <typename F, typename T> DEVICE T block_fold(T x, F fold, T neutral, T* scratch) {
    x = warp_fold(x, fold);
    if (lane() == 0) {
        scratch[warp()] = x;
    }
    block_barrier();
    if (warp() == 0) {
        T y = lane() < thread_count() / WARP ? scratch[lane()] : neutral;
        y = warp_fold(y, fold);
        if (lane() == 0) {
            scratch[32] = y;
        }
    }
    block_barrier();
    T all = scratch[32];
    block_barrier();
    return all;
}

// Raises *amax, which is at least 0, to the block's largest magnitude, ignoring NaN: nonnegative floats have the same order as
// their bits. All threads of the block must call it.
DEVICE void raise_amax(float* amax, float magnitude, float* scratch) {
    float largest = block_fold(magnitude, Max(), 0.0f, scratch);
    if (thread_index() == 0 && largest > 0) {
        atomic_max((int*)amax, (int)float_bits(largest));
    }
}

// CounterRandom.
DEVICE u64 random_mix(u64 z) {
    u64 a = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    u64 b = (a ^ (a >> 27)) * 0x94D049BB133111EBull;
    return b ^ (b >> 31);
}
DEVICE u64 random_key(u64 key, i64 counter) { return random_mix(key + 0x9E3779B97F4A7C15ull * (u64)(counter + 1)); }
DEVICE int random_bits(u64 key, i64 position, int bits) { return (int)(random_key(key, position) >> (64 - bits)); }

// MsampScale: the multiplier after before. quirks: 1 for the library's own.
DEVICE float msamp_scale(float amax, float before, float format_max, int quirks) {
    float quotient = quirks ? exact_multiply(exact_divide(1.0f, amax), format_max) : exact_divide(format_max, amax);
    if (!(amax > 0)) {
        return before;
    }
    if (!is_finite(amax)) {
        return quirks ? exact_divide(1.0f, before) : before;
    }
    if (!is_finite(quotient)) {
        return quirks ? quotient : bits_float(253u << 23);
    }
    int exponent = quirks ? (int)floor((double)(float)(log((double)quotient) / log(2.0)))
                          : (int)(float_bits(quotient) >> 23) - 127;
    return bits_float((u32)((exponent > 126 && !quirks ? 126 : exponent) + 127) << 23);
}

// Instances of a macro M(suffix, type) for each float type; of M(suffix, type, suffix of codes, type of codes) for each type of codes.
//
// A source with kernels for many types is compiled in parts (CudaSource.part), so that a run compiles those it launches: kernels of a float
// type (PART_FLOAT), of a float type and one of codes (PART_CODE, too), and the rest (PART_REST), which lies in #if HAS_REST.
#if defined(PART_FLOAT)
#define HAS_REST 0
#define INSTANCE(M, T) M(T, T)
#define FLOAT_TYPES(M) INSTANCE(M, PART_FLOAT)
#elif defined(PART_REST)
#define HAS_REST 1
#define FLOAT_TYPES(M)
#else
#define HAS_REST 1
#define FLOAT_TYPES(M) M(f32, f32) M(bf16, bf16) M(f16, f16)
#endif
#if defined(PART_CODE)
#define INSTANCE_OF_CODES(M, S, T, C) M(S, T, C, C)
#define CODE_TYPES(M, S, T) INSTANCE_OF_CODES(M, S, T, PART_CODE)
#elif defined(PART_FLOAT)
#define CODE_TYPES(M, S, T)
#else
#define CODE_TYPES(M, S, T) M(S, T, e4m3, e4m3) M(S, T, e5m2, e5m2)
#endif
