// A driver and a cublasLt for machines without a GPU: device memory is the host's, work runs at once, or is recorded while a graph is.
// It checks what the real ones would fail at, and ends the process where they would do something undefined. Function names, arguments and
// codes: CUDA driver API, cublasLt.h.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef uint64_t Address;
typedef std::vector<std::function<void()>> Graph;

static const int OUT_OF_MEMORY = 2, INVALID = 1, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700;
static int sticky = 0;
static std::map<Address, size_t> memory;
static Graph* recording = nullptr;
static __thread int current = 0;

static int number(const char* name, int usual) {
    const char* text = getenv(name);
    return text ? atoi(text) : usual;
}
// FAKE_IDLE=1: a large GPU that has every kernel and computes nothing, to try what starts and reports measurements.
static const bool idle = number("FAKE_IDLE", 0) != 0;
static const size_t TOTAL = idle ? (size_t)64 << 30 : (size_t)256 << 20;
static void die(const char* what) {
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
}
static size_t used() {
    size_t sum = 0;
    for (auto& m : memory) sum += m.second;
    return sum;
}
static void within(Address at, size_t bytes) {
    auto m = memory.upper_bound(at);
    if (m == memory.begin()) die("address outside of device memory");
    --m;
    if (at + bytes > m->first + m->second) die("access behind the end of an allocation");
}
#define CONTEXT \
    if (!current) return 201; \
    if (sticky) return sticky

static int put(void* stream, std::function<void()> f, bool transfer = false) {
    CONTEXT;
    if (idle && !transfer) return 0;
    if (stream != (void*)0x57) die("work on another stream");
    if (recording) recording->push_back(f);
    else f();
    return 0;
}

API int cuInit(unsigned) { return number("FAKE_INIT", 0); }
API int cuDriverGetVersion(int* v) { return *v = number("FAKE_VERSION", 13000), 0; }
API int cuDeviceGetCount(int* n) { return *n = number("FAKE_COUNT", 1), 0; }
API int cuDeviceGet(int* d, int ordinal) { return *d = ordinal, 0; }
API int cuDeviceGetName(char* name, int n, int) { return snprintf(name, n, "Fake GPU"), 0; }
API int cuDeviceTotalMem_v2(size_t* n, int) { return *n = TOTAL, 0; }
API int cuDeviceGetAttribute(int* v, int a, int) {
    int capability = number("FAKE_CAPABILITY", 90);
    *v = a == 75 ? capability / 10 : a == 76 ? capability % 10 : a == 16 ? 132 : a == 97 ? 232448 : -1;
    return *v < 0 ? INVALID : 0;
}
API int cuDevicePrimaryCtxRetain(void** c, int) { return *c = (void*)0xC0, 0; }
API int cuDevicePrimaryCtxRelease_v2(int) { return idle ? 0 : (printf("released, %zu bytes left\n", used()), fflush(stdout), 0); }
API int cuCtxSetCurrent(void* c) { return current = c == (void*)0xC0, 0; }
API int cuStreamCreate(void** s, unsigned flags) {
    CONTEXT;
    if (flags != 1) die("a stream that waits for the default one");
    return *s = (void*)0x57, 0;
}
API int cuStreamDestroy_v2(void*) { return 0; }
API int cuStreamSynchronize(void*) {
    CONTEXT;
    if (recording) return 900;
    return 0;
}
API int cuStreamBeginCapture_v2(void*, int mode) {
    CONTEXT;
    if (mode != 1) die("capture is not thread-local");
    return recording = new Graph(), 0;
}
API int cuStreamEndCapture(void*, void** g) { return *g = recording, recording = nullptr, 0; }
API int cuGraphInstantiateWithFlags(void** e, void* g, unsigned long long flags) {
    if (flags) die("flags of a graph");
    return *e = new Graph(*(Graph*)g), 0;
}
API int cuGraphUpload(void*, void*) { return 0; }
API int cuGraphLaunch(void* e, void*) {
    CONTEXT;
    for (auto& f : *(Graph*)e) f();
    return 0;
}
API int cuGraphDestroy(void* g) { return delete (Graph*)g, 0; }
API int cuGraphExecDestroy(void* g) { return delete (Graph*)g, 0; }

API int cuMemGetInfo_v2(size_t* free, size_t* total) { return *total = TOTAL, *free = TOTAL - used(), 0; }
API int cuMemAlloc_v2(Address* p, size_t n) {
    CONTEXT;
    if (recording) return 900;
    if (used() + n > TOTAL) return OUT_OF_MEMORY;
    void* m = aligned_alloc(512, (n + 511) / 512 * 512);
    if (!idle) memset(m, 0xAA, n);
    return memory[*p = (Address)m] = n, 0;
}
API int cuMemFree_v2(Address p) {
    CONTEXT;
    if (!memory.erase(p)) die("freed what was not allocated");
    return free((void*)p), 0;
}
API int cuMemAllocHost_v2(void** p, size_t n) {
    CONTEXT;
    return *p = malloc(n), memset(*p, 0xBB, n), 0;
}
API int cuMemFreeHost(void* p) { return free(p), 0; }
API int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t n, void* s) {
    return put(s, [=] { within(to, n), memcpy((void*)to, from, n); }, true);
}
API int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t n, void* s) {
    return put(s, [=] { within(from, n), memcpy(to, (void*)from, n); }, true);
}
API int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, void* s) {
    return put(s, [=] { within(to, n), within(from, n), memcpy((void*)to, (void*)from, n); });
}
API int cuMemsetD8Async(Address at, unsigned char x, size_t n, void* s) {
    return put(s, [=] { within(at, n), memset((void*)at, x, n); });
}
API int cuMemsetD32Async(Address at, unsigned x, size_t n, void* s) {
    if (at % 4) return INVALID;
    return put(s, [=] {
        within(at, 4 * n);
        for (size_t i = 0; i < n; i++) ((unsigned*)at)[i] = x;
    });
}

API int cuDeviceGetPCIBusId(char* id, int n, int) { return snprintf(id, n, "0000:17:00.0"), 0; }
API int nvmlInit_v2() { return 0; }
API int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** d) { return *d = (void*)0x91, strcmp(id, "0000:17:00.0") ? 2 : 0; }
API int nvmlDeviceGetClockInfo(void* d, int kind, unsigned* mhz) { return *mhz = 1980, d != (void*)0x91 || kind != 1; }

API int cuEventCreate(void** e, unsigned) { return *e = malloc(1), 0; }
API int cuEventDestroy_v2(void* e) { return free(e), 0; }
API int cuEventRecord(void*, void*) { CONTEXT; return 0; }
API int cuEventSynchronize(void*) { CONTEXT; return 0; }
API int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 0.5f, 0; }

// Modules: the text says which kernels there are.
API int cuModuleLoadData(void** m, const void* image) {
    CONTEXT;
    if (recording) return 900;
    if (memcmp(image, "\177ELF", 4)) return 218;
    return *m = (void*)0x40, 0;
}
API int cuModuleUnload(void*) { return 0; }
API int cuModuleGetFunction(void** f, void*, const char* name) {
    if (!idle && strcmp(name, "mix") && strcmp(name, "lose")) return NOT_FOUND;
    return *f = strdup(name), 0;
}
// Of the 48 KiB that a launch has without opt-in, its kernels' static arrays take 12.
static int shared_bytes = (48 - 12) << 10;
API int cuFuncSetAttribute(void*, int a, int v) {
    if (a != 8) return INVALID;
    return shared_bytes = v, 0;
}
API int cuLaunchKernel(void* f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* s,
                       void** args, void** extra) {
    CONTEXT;
    if (by != 1 || bz != 1 || extra || (int)shared > shared_bytes) return INVALID;
    if (idle) return 0;
    if (!strcmp((const char*)f, "lose")) return sticky = ILLEGAL_ADDRESS, 0;
    // mix(float* to, i64 count, int add, float times, double plus)
    float* to = *(float**)args[0];
    int64_t count = *(int64_t*)args[1];
    int add = *(int*)args[2];
    float times = *(float*)args[3];
    double plus = *(double*)args[4];
    return put(s, [=] {
        within((Address)to, 4 * count);
        for (int64_t i = 0; i < count; i++)
            to[i] = (to[i] + add) * times + (float)plus + x * 1000 + y * 100 + z * 10 + bx / 32;
    });
}

// --- cublasLt, column-major ----------------------------------------------------------------------------------------------------

struct Product {
    int compute, scale, transposed[2] = {0, 0}, epilogue = 1, bias_type = 0;
    Address bias = 0, scales[2] = {0, 0};
    char fast = 0;
};
struct Layout {
    int type;
    uint64_t rows, cols;
    int64_t leading;
    int batch = 1;
    int64_t stride = 0;
};
struct Result {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
static int asked = 0;

API size_t cublasLtGetVersion() { return number("FAKE_LT", 130100); }
API int cublasLtCreate(void** h) { return *h = (void*)0x17, 0; }
API int cublasLtDestroy(void*) { return 0; }
API int cublasLtMatmulDescCreate(Product** p, int compute, int scale) {
    return *p = new Product(), (*p)->compute = compute, (*p)->scale = scale, 0;
}
API int cublasLtMatmulDescDestroy(Product* p) { return delete p, 0; }
API int cublasLtMatmulDescSetAttribute(Product* p, int a, const void* v, size_t n) {
    switch (a) {
    case 3: case 4: return n == 4 ? memcpy(&p->transposed[a - 3], v, 4), 0 : 7;
    case 7: return n == 4 ? memcpy(&p->epilogue, v, 4), 0 : 7;
    case 8: return n == 8 ? memcpy(&p->bias, v, 8), 0 : 7;
    case 17: case 18: return n == 8 ? memcpy(&p->scales[a - 17], v, 8), 0 : 7;
    case 25: return n == 1 ? memcpy(&p->fast, v, 1), 0 : 7;
    case 26: return n == 4 ? memcpy(&p->bias_type, v, 4), 0 : 7;
    }
    return idle ? 0 : 7;
}
API int cublasLtMatmulDescGetAttribute(Product*, int, void*, size_t, size_t*) { return 15; }
API int cublasLtMatrixLayoutCreate(Layout** l, int type, uint64_t rows, uint64_t cols, int64_t leading) {
    return *l = new Layout{type, rows, cols, leading}, leading < (int64_t)rows ? 7 : 0;
}
API int cublasLtMatrixLayoutDestroy(Layout* l) { return delete l, 0; }
API int cublasLtMatrixLayoutSetAttribute(Layout* l, int a, const void* v, size_t n) {
    if (a == 5 && n == 4) return memcpy(&l->batch, v, 4), 0;
    if (a == 6 && n == 8) return memcpy(&l->stride, v, 8), 0;
    return 7;
}
API int cublasLtMatrixLayoutGetAttribute(Layout*, int, void*, size_t, size_t*) { return 15; }
API int cublasLtMatmulPreferenceCreate(void** p) { return *p = malloc(1), 0; }
API int cublasLtMatmulPreferenceDestroy(void* p) { return free(p), 0; }
API int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
API int cublasLtMatmulPreferenceGetAttribute(void*, int, void*, size_t, size_t*) { return 15; }
API int cublasLtMatmulAlgoGetHeuristic(void*, Product*, Layout* a, Layout* b, Layout*, Layout*, void*, int wanted, Result* r, int* n) {
    if (a->rows == 13 || (b->type >= 28 && b->cols == 13)) return 15;
    *n = wanted < 3 ? wanted : 3;
    for (int i = 0; i < *n; i++) memset(&r[i], 0, sizeof(Result)), r[i].algorithm[0] = 0xA1 + i;
    if (!idle) printf("asked for algorithms %d\n", ++asked);
    return fflush(stdout), 0;
}
API int cublasLtMatmulAlgoCheck(void*, Product*, Layout*, Layout*, Layout*, Layout*, const uint64_t* algorithm, Result* r) {
    memset(r, 0, sizeof(Result));
    return algorithm[0] >= 0xA1 && algorithm[0] <= 0xA3 ? 0 : 7;
}
static size_t bytes(int type) { return type == 0 ? 4 : type == 14 ? 2 : 1; }
static float get(const void* base, int type, int64_t i) {
    if (type == 0) return ((const float*)base)[i];
    if (type == 14) {
        uint32_t bits = (uint32_t)((const uint16_t*)base)[i] << 16;
        float x;
        return memcpy(&x, &bits, 4), x;
    }
    // E4M3 and E5M2, normal numbers and zero
    uint8_t c = ((const uint8_t*)base)[i];
    int mantissa = type == 28 ? 3 : 2, bias = type == 28 ? 7 : 15;
    int exponent = (c & 0x7f) >> mantissa, fraction = c & ((1 << mantissa) - 1);
    float x = exponent ? (1 + fraction / (float)(1 << mantissa)) * __builtin_exp2f(exponent - bias) : 0;
    return c & 0x80 ? -x : x;
}
API int cublasLtMatmul(void*, Product* p, const float* alpha, const void* A, Layout* a, const void* B, Layout* b, const float* beta,
                       const void* C, Layout* c, void* D, Layout* d, const uint64_t* algorithm, void* workspace, size_t size, void* s) {
    CONTEXT;
    if (algorithm[0] < 0xA1 || algorithm[0] > 0xA3) return 7;
    if (idle) return 0;
    if (algorithm[0] == 0xA2) return 15; // a proposal that turns out not to work
    if (C != D || c != d) die("c is not d");
    within((Address)workspace, size);
    if ((Address)workspace % 256) return 7;
    float al = *alpha, be = *beta;
    Product q = *p;
    Layout la = *a, lb = *b, ld = *d;
    if ((la.type >= 28) && (!q.transposed[0] || q.transposed[1])) return 15;
    return put(s, [=] {
        uint64_t m = ld.rows, n = ld.cols, k = q.transposed[0] ? la.rows : la.cols;
        if ((q.transposed[0] ? la.cols : la.rows) != m || (q.transposed[1] ? lb.cols : lb.rows) != k ||
            (q.transposed[1] ? lb.rows : lb.cols) != n)
            die("shapes of a product do not fit");
        float scale = al * (q.scales[0] ? *(float*)q.scales[0] : 1) * (q.scales[1] ? *(float*)q.scales[1] : 1);
        for (int batch = 0; batch < ld.batch; batch++)
            for (uint64_t j = 0; j < n; j++)
                for (uint64_t i = 0; i < m; i++) {
                    double sum = 0;
                    for (uint64_t l = 0; l < k; l++) {
                        int64_t ia = q.transposed[0] ? i * la.leading + l : l * la.leading + i;
                        int64_t ib = q.transposed[1] ? l * lb.leading + j : j * lb.leading + l;
                        within((Address)A + (ia + batch * la.stride) * bytes(la.type), bytes(la.type));
                        within((Address)B + (ib + batch * lb.stride) * bytes(lb.type), bytes(lb.type));
                        sum += (double)get(A, la.type, ia + batch * la.stride) * get(B, lb.type, ib + batch * lb.stride);
                    }
                    int64_t id = j * ld.leading + i + batch * ld.stride;
                    within((Address)D + id * bytes(ld.type), bytes(ld.type));
                    float x = (float)(scale * sum) + (q.epilogue == 4 ? get((void*)q.bias, q.bias_type, i) : 0);
                    if (be != 0) x += be * get(D, ld.type, id);
                    if (ld.type == 0) ((float*)D)[id] = x;
                    else {
                        uint32_t bits;
                        memcpy(&bits, &x, 4);
                        ((uint16_t*)D)[id] = (uint16_t)(bits >> 16); // the tests' results are exact in BF16
                    }
                }
    });
}
