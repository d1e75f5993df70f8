/* Shows one library an older processor, at the full speed of this one. Linux, x86-64. For measurements only.
 *
 * ONNX Runtime chooses its kernels by CPUID and has no switch. older_processor.py makes a copy of its library in which every CPUID (0F A2) is
 * UD2 (0F 0B), an instruction that faults. This file, loaded with LD_PRELOAD, answers the fault as CPUID would, without the features of
 * OLDER_PROCESSOR:
 *   avx512     no VNNI, no AVX-VNNI, no AMX, no BF16, no FP16: Skylake-X
 *   avx2-vnni  no AVX-512, no AMX: Alder Lake
 *   avx2       nor AVX-VNNI: Haswell to Zen 3
 *   native     nothing is hidden (to see that the detour changes nothing)
 * Only the library's start runs CPUID, so its kernels run at full speed. A JVM keeps a handler that was there before it and hands on faults that
 * are not its own.
 * Build: cc -O2 -shared -fPIC -o older_processor.so older_processor.c
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static int avx512, vnni, avx_vnni; /* what stays visible */

#define BIT(n) (1u << (n))

static void answer(uint32_t leaf, uint32_t subleaf, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
    __cpuid_count(leaf, subleaf, *a, *b, *c, *d);
    /* Intel SDM volume 2, CPUID, leaf 07H */
    if (leaf == 7 && subleaf == 0) {
        if (!avx512) {
            *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)); /* F DQ IFMA PF ER CD BW VL */
            *c &= ~(BIT(1) | BIT(6) | BIT(12) | BIT(14));                                           /* VBMI VBMI2 BITALG VPOPCNTDQ */
            *d &= ~(BIT(2) | BIT(3) | BIT(8));                                                      /* 4VNNIW 4FMAPS VP2INTERSECT */
        }
        if (!vnni) {
            *c &= ~BIT(11);                                   /* AVX512_VNNI */
            *d &= ~(BIT(22) | BIT(23) | BIT(24) | BIT(25));   /* AMX_BF16 AVX512_FP16 AMX_TILE AMX_INT8 */
        }
    }
    if (leaf == 7 && subleaf == 1) {
        if (!vnni) {
            *a &= ~(BIT(5) | BIT(21));                              /* AVX512_BF16 AMX_FP16 */
            *d &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19)); /* AVX_VNNI_INT8 AVX_NE_CONVERT AMX_COMPLEX AVX_VNNI_INT16 AVX10 */
        }
        if (!avx_vnni) *a &= ~(BIT(4) | BIT(23)); /* AVX_VNNI AVX_IFMA */
    }
}

static struct sigaction before;

static void on_fault(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    if (at[0] == 0x0f && at[1] == 0x0b) {
        uint32_t a, b, c, d;
        answer((uint32_t)r[REG_RAX], (uint32_t)r[REG_RCX], &a, &b, &c, &d);
        r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
        r[REG_RIP] += 2;
    } else if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
        before.sa_sigaction(signal, info, context);
    } else {
        sigaction(signal, &before, NULL); /* faults again, as it would have */
    }
}

__attribute__((constructor)) static void start(void) {
    const char *shown = getenv("OLDER_PROCESSOR");
    if (!shown) return;
    int native = !strcmp(shown, "native");
    avx512 = native || !strcmp(shown, "avx512");
    vnni = native;
    avx_vnni = native || !strcmp(shown, "avx2-vnni");
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &action, &before);
}
