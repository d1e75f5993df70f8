// cuDNN's backend interface (cudnn_graph.h of 9.24) on this processor: a graph of operations is computed one operation behind the other, with every tensor in
// memory. It checks what a binding can get wrong: types of attributes, descriptors that are not finished or already are, tensors without an address, a stream
// that was not set. The first of its two proposals says that its bits are not the same each time; 13 queries it refuses, as does 14 when they are executed.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

enum Status { SUCCESS = 0, BAD_PARAM = 2000, NULL_POINTER = 2002, NOT_FINALIZED = 2004, ATTRIBUTE_TYPE = 2010, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum Type { HANDLE = 0, DATA_TYPE = 1, BOOLEAN = 2, INT64 = 3, VOID_PTR = 6, HEUR_MODE = 8, NOTE = 11, POINTWISE = 14, DESCRIPTOR = 15, REDUCTION = 18, CHAR = 24 };
enum Kind { K_POINTWISE = 0, K_ENGINE = 2, K_CONFIG = 3, K_HEURISTIC = 4, K_PLAN = 5, K_OP_POINTWISE = 13, K_GRAPH = 15, K_PACK = 16, K_TENSOR = 17, K_MATMUL = 18,
            K_OP_MATMUL = 19, K_REDUCTION = 21, K_OP_REDUCTION = 22, K_OP_RESHAPE = 31, K_PROPERTIES = 38 };
enum Data { F32 = 0, F16 = 2, I32 = 4, BF16 = 9, BOOL = 11 };

struct Attribute {
    int type;
    std::vector<int64_t> values;
};
struct Descriptor {
    int kind;
    bool finished = false;
    std::map<int, Attribute> attributes;
    std::string text;
};
struct Handle {
    void* stream = nullptr;
};

static thread_local std::string last;
static int failed(int code, const std::string& why) {
    last = why;
    return code;
}
static int width(int type) { return type == BOOLEAN || type == CHAR ? 1 : type == HANDLE || type == INT64 || type == VOID_PTR || type == DESCRIPTOR ? 8 : 4; }

// attributes of each kind, with their types; those behind a bar may be absent
static const std::map<int, std::pair<std::map<int, int>, std::map<int, int>>> KINDS = {
    {K_POINTWISE, {{{0, POINTWISE}, {1, DATA_TYPE}}, {{9, INT64}}}},
    {K_HEURISTIC, {{{200, HEUR_MODE}, {201, DESCRIPTOR}}, {{204, DESCRIPTOR}}}},
    {K_PLAN, {{{401, DESCRIPTOR}}, {}}},
    {K_OP_POINTWISE, {{{750, DESCRIPTOR}, {751, DESCRIPTOR}, {753, DESCRIPTOR}}, {{752, DESCRIPTOR}, {758, DESCRIPTOR}}}},
    {K_GRAPH, {{{801, DESCRIPTOR}}, {{800, HANDLE}}}},
    {K_PACK, {{{1000, INT64}, {1001, VOID_PTR}, {1003, VOID_PTR}}, {}}},
    {K_TENSOR, {{{900, INT64}, {901, DATA_TYPE}, {902, INT64}, {903, INT64}, {906, INT64}}, {{907, BOOLEAN}, {908, BOOLEAN}}}},
    {K_MATMUL, {{{1500, DATA_TYPE}}, {}}},
    {K_OP_MATMUL, {{{1520, DESCRIPTOR}, {1521, DESCRIPTOR}, {1522, DESCRIPTOR}, {1523, DESCRIPTOR}}, {}}},
    {K_REDUCTION, {{{1600, REDUCTION}, {1601, DATA_TYPE}}, {}}},
    {K_OP_REDUCTION, {{{1610, DESCRIPTOR}, {1611, DESCRIPTOR}, {1612, DESCRIPTOR}}, {}}},
    {K_OP_RESHAPE, {{{2200, DESCRIPTOR}, {2201, DESCRIPTOR}}, {}}},
    {K_PROPERTIES, {{{2702, CHAR}}, {}}},
};

static int64_t one(const Descriptor* d, int name) { return d->attributes.at(name).values.at(0); }
static Descriptor* part(const Descriptor* d, int name) { return reinterpret_cast<Descriptor*>(one(d, name)); }
static bool has(const Descriptor* d, int name) { return d->attributes.count(name) != 0; }

API size_t cudnnGetVersion() { return 92400; }
API const char* cudnnGetErrorString(int code) {
    switch (code) {
        case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
        case NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
        case NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
        case ATTRIBUTE_TYPE: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
        case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
        case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
        default: return "CUDNN_STATUS_SUCCESS";
    }
}
API void cudnnGetLastErrorString(char* text, size_t most) {
    snprintf(text, most, "%s", last.c_str());
    last.clear();
}
API int cudnnCreate(Handle** handle) { return *handle = new Handle(), SUCCESS; }
API int cudnnDestroy(Handle* handle) { return delete handle, SUCCESS; }
API int cudnnSetStream(Handle* handle, void* stream) { return handle->stream = stream, SUCCESS; }

API int cudnnBackendCreateDescriptor(int kind, Descriptor** made) {
    if (!KINDS.count(kind) && kind != K_ENGINE && kind != K_CONFIG) return failed(BAD_PARAM, "no descriptor of kind " + std::to_string(kind));
    *made = new Descriptor{kind};
    return SUCCESS;
}
API int cudnnBackendDestroyDescriptor(Descriptor* d) { return delete d, SUCCESS; }

API int cudnnBackendSetAttribute(Descriptor* d, int name, int type, int64_t count, const void* elements) {
    if (!d || !elements) return failed(NULL_POINTER, "no descriptor or no elements");
    if (d->finished) return failed(BAD_PARAM, "set after it was finished");
    auto kind = KINDS.find(d->kind);
    if (kind == KINDS.end()) return failed(BAD_PARAM, "nothing of this descriptor is set");
    auto& [needed, optional] = kind->second;
    auto known = needed.find(name);
    if (known == needed.end() && (known = optional.find(name)) == optional.end())
        return failed(BAD_PARAM, "attribute " + std::to_string(name) + " is of another descriptor");
    if (known->second != type) return failed(ATTRIBUTE_TYPE, "attribute " + std::to_string(name) + " has type " + std::to_string(known->second));
    Attribute a{type, {}};
    for (int64_t i = 0; i < count; i++) {
        const char* at = static_cast<const char*>(elements) + i * width(type);
        int64_t value = 0;
        if (width(type) == 4) {
            int32_t word;
            memcpy(&word, at, 4);
            value = word;
        } else {
            memcpy(&value, at, width(type));
        }
        if (type == DESCRIPTOR && !reinterpret_cast<Descriptor*>(value)->finished) return failed(NOT_FINALIZED, "a part is not finished");
        a.values.push_back(value);
    }
    d->attributes[name] = a;
    return SUCCESS;
}

API int cudnnBackendFinalize(Descriptor* d) {
    if (d->finished) return failed(BAD_PARAM, "finished twice");
    auto kind = KINDS.find(d->kind);
    if (kind == KINDS.end()) return failed(BAD_PARAM, "only read");
    for (auto& [name, type] : kind->second.first)
        if (!has(d, name)) return failed(BAD_PARAM, "attribute " + std::to_string(name) + " is missing");
    if (d->kind == K_TENSOR) {
        if (d->attributes[902].values.size() != 4 || d->attributes[903].values.size() != 4) return failed(BAD_PARAM, "a tensor has four dimensions");
        if (d->attributes[902].values[2] == 13) return failed(NOT_SUPPORTED, "13 queries");
    }
    if (d->kind == K_HEURISTIC && has(part(d, 201), 800) == has(d, 204)) return failed(BAD_PARAM, "proposals are for a handle's GPU, or for properties");
    if (d->kind == K_PACK) {
        if (d->attributes[1000].values.size() != d->attributes[1001].values.size()) return failed(BAD_PARAM, "as many addresses as tensors");
        for (int64_t at : d->attributes[1001].values) if (!at) return failed(NULL_POINTER, "a tensor without an address");
    }
    d->finished = true;
    return SUCCESS;
}

API int cudnnBackendGetAttribute(Descriptor* d, int name, int type, int64_t wanted, int64_t* count, void* into) {
    if (d->kind != K_ENGINE && d->kind != K_CONFIG && !d->finished) return failed(NOT_FINALIZED, "read before it was finished");
    if (d->kind == K_HEURISTIC && name == 202 && type == DESCRIPTOR) {
        bool fallback = one(d, 200) == 2;
        *count = fallback ? 0 : 2;
        for (int64_t i = 0; i < wanted && i < *count; i++) {
            Descriptor* config = static_cast<Descriptor**>(into)[i];
            if (!config || config->kind != K_CONFIG) return failed(BAD_PARAM, "results go to engine configurations");
            config->finished = true;
            config->attributes[0] = {INT64, {i, one(d, 201)}};
        }
        return SUCCESS;
    }
    if (d->kind == K_CONFIG && name == 300 && type == DESCRIPTOR) {
        Descriptor* engine = static_cast<Descriptor**>(into)[0];
        if (!engine || engine->kind != K_ENGINE) return failed(BAD_PARAM, "an engine goes to an engine");
        engine->finished = true;
        engine->attributes[0] = d->attributes.at(0);
        return *count = 1, SUCCESS;
    }
    if (d->kind == K_ENGINE && name == 1303 && type == NOTE) {
        int32_t notes[] = {0, 4};
        *count = one(d, 0) == 0 ? 2 : 1; // tensor cores; the first: bits that are not the same each time
        for (int64_t i = 0; i < wanted && i < *count; i++) static_cast<int32_t*>(into)[i] = notes[i];
        return SUCCESS;
    }
    if (d->kind == K_ENGINE && name == 1301 && type == INT64) return *static_cast<int64_t*>(into) = 5 + one(d, 0), *count = 1, SUCCESS;
    if (d->kind == K_PLAN && name == 402 && type == INT64) return *static_cast<int64_t*>(into) = 1000, *count = 1, SUCCESS;
    return failed(BAD_PARAM, "attribute " + std::to_string(name) + " cannot be read here");
}

// ---- execution

static float of_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static uint16_t to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static float of_f16(uint16_t x) {
    int exponent = x >> 10 & 31, mantissa = x & 1023;
    float f = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent == 0 ? ldexpf(mantissa, -24) : ldexpf(mantissa + 1024, exponent - 25);
    return x >> 15 ? -f : f;
}
static uint16_t to_f16(float f) {
    uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    f = fabsf(f);
    if (f != f) return 0x7e00;
    if (f >= 65520) return sign | 0x7c00;
    int exponent = f == 0 ? -14 : ilogbf(f);
    if (exponent < -14) exponent = -14;
    int units = (int)nearbyintf(ldexpf(f, 10 - exponent)); // to even, in 2^(exponent - 10)
    return units < 1024 ? sign | units : sign | ((exponent + 15) << 10) + (units - 1024);
}

struct Tensor {
    int type;
    std::vector<int64_t> dims, strides;
    void* memory = nullptr;
    std::shared_ptr<std::vector<float>> own;

    float get(const int64_t* i) const {
        int64_t at = 0;
        for (int k = 0; k < 4; k++) at += i[k] * strides[k];
        if (own) return (*own)[at];
        switch (type) {
            case F32: return static_cast<float*>(memory)[at];
            case BF16: return of_bf16(static_cast<uint16_t*>(memory)[at]);
            default: return of_f16(static_cast<uint16_t*>(memory)[at]);
        }
    }
    void put(const int64_t* i, float x) {
        int64_t at = 0;
        for (int k = 0; k < 4; k++) at += i[k] * strides[k];
        if (own) {
            (*own)[at] = type == BF16 ? of_bf16(to_bf16(x)) : type == F16 ? of_f16(to_f16(x)) : x;
            return;
        }
        switch (type) {
            case F32: static_cast<float*>(memory)[at] = x; break;
            case BF16: static_cast<uint16_t*>(memory)[at] = to_bf16(x); break;
            default: static_cast<uint16_t*>(memory)[at] = to_f16(x);
        }
    }
    // of an element of a larger tensor: what has fewer elements is repeated, heads in groups of neighbours
    float spread(const int64_t* i, const std::vector<int64_t>& of) const {
        int64_t own_i[4];
        for (int k = 0; k < 4; k++) own_i[k] = dims[k] == 1 ? 0 : i[k] / (of[k] / dims[k]);
        return get(own_i);
    }
};

struct Run {
    std::map<int64_t, void*> addresses;
    std::map<int64_t, Tensor> tensors;
    std::string wrong;

    Tensor& of(Descriptor* d) {
        int64_t id = one(d, 906);
        auto found = tensors.find(id);
        if (found != tensors.end()) return found->second;
        Tensor t{(int)one(d, 901), d->attributes[902].values, d->attributes[903].values};
        if (has(d, 907) && one(d, 907)) {
            int64_t last = 0;
            for (int k = 0; k < 4; k++) last += (t.dims[k] - 1) * t.strides[k];
            t.own = std::make_shared<std::vector<float>>(last + 1, NAN);
        } else if (!addresses.count(id)) {
            wrong = "tensor " + std::to_string(id) + " has no address";
        } else {
            t.memory = addresses[id];
            if (!has(d, 908) && (uintptr_t)t.memory % one(d, 900)) wrong = "tensor " + std::to_string(id) + " is not aligned";
        }
        return tensors.emplace(id, t).first->second;
    }
};
template <class F> static void each(const std::vector<int64_t>& dims, F f) {
    int64_t i[4];
    for (i[0] = 0; i[0] < dims[0]; i[0]++)
        for (i[1] = 0; i[1] < dims[1]; i[1]++)
            for (i[2] = 0; i[2] < dims[2]; i[2]++)
                for (i[3] = 0; i[3] < dims[3]; i[3]++) f(i);
}

static void product(Run& run, Descriptor* op) {
    Tensor &a = run.of(part(op, 1520)), &b = run.of(part(op, 1521)), &c = run.of(part(op, 1522));
    if (!run.wrong.empty()) return;
    if (a.dims[3] != b.dims[2] || a.dims[2] != c.dims[2] || b.dims[3] != c.dims[3]) {
        run.wrong = "a product of other dimensions";
        return;
    }
    each(c.dims, [&](const int64_t* i) {
        int64_t ai[4] = {i[0], a.dims[1] == c.dims[1] ? i[1] : i[1] / (c.dims[1] / a.dims[1]), i[2], 0};
        int64_t bi[4] = {i[0], b.dims[1] == c.dims[1] ? i[1] : i[1] / (c.dims[1] / b.dims[1]), 0, i[3]};
        float sum = 0;
        for (int64_t k = 0; k < a.dims[3]; k++) {
            ai[3] = bi[2] = k;
            sum += a.get(ai) * b.get(bi);
        }
        c.put(i, sum);
    });
}
static void pointwise(Run& run, Descriptor* op) {
    Descriptor* how = part(op, 750);
    Tensor &x = run.of(part(op, 751)), &y = run.of(part(op, 753));
    Tensor* b = has(op, 752) ? &run.of(part(op, 752)) : nullptr;
    Tensor* t = has(op, 758) ? &run.of(part(op, 758)) : nullptr;
    if (!run.wrong.empty()) return;
    int64_t mode = one(how, 0);
    bool binary = mode == 0 || mode == 1 || mode == 6 || mode == 9 || mode == 303 || mode == 601;
    if (binary != (b != nullptr) || (mode == 601) != (t != nullptr) || (mode == 501) != has(how, 9)) {
        run.wrong = "operands of mode " + std::to_string(mode);
        return;
    }
    each(y.dims, [&](const int64_t* i) {
        float u = mode == 501 ? 0 : x.spread(i, y.dims), v = b ? b->spread(i, y.dims) : 0;
        float z = 0;
        switch (mode) {
            case 0: z = u + v; break;
            case 1: z = u * v; break;
            case 6: z = u / v; break;
            case 9: z = u - v; break;
            case 13: z = expf(u); break;
            case 15: z = logf(u); break;
            case 303: z = u >= v; break;
            case 501: z = (float)i[one(how, 9)]; break;
            case 601: z = t->spread(i, y.dims) != 0 ? u : v; break;
            default: run.wrong = "mode " + std::to_string(mode);
        }
        y.put(i, z);
    });
}
static void reduction(Run& run, Descriptor* op) {
    Tensor &x = run.of(part(op, 1610)), &y = run.of(part(op, 1611));
    if (!run.wrong.empty()) return;
    bool most = one(part(op, 1612), 1600) == 3;
    std::vector<int64_t> inner(4);
    for (int k = 0; k < 4; k++) inner[k] = x.dims[k] / y.dims[k];
    each(y.dims, [&](const int64_t* i) {
        float all = most ? -INFINITY : 0;
        each(inner, [&](const int64_t* j) {
            int64_t at[4];
            for (int k = 0; k < 4; k++) at[k] = i[k] * inner[k] + j[k];
            float z = x.get(at);
            all = most ? (z > all || z != z ? z : all) : all + z;
        });
        y.put(i, all);
    });
}
static void view(Run& run, Descriptor* op) {
    Tensor& x = run.of(part(op, 2200));
    if (!run.wrong.empty()) return;
    Descriptor* d = part(op, 2201);
    Tensor y{(int)one(d, 901), d->attributes[902].values, d->attributes[903].values, x.memory, x.own};
    if (x.own && y.type != x.type) { // converted as it is read
        y.own = std::make_shared<std::vector<float>>(*x.own);
        for (float& f : *y.own) f = y.type == BF16 ? of_bf16(to_bf16(f)) : of_f16(to_f16(f));
    }
    run.tensors[one(d, 906)] = y;
}

API int cudnnBackendExecute(Handle* handle, Descriptor* plan, Descriptor* pack) {
    if (!plan->finished || !pack->finished) return failed(NOT_FINALIZED, "executed before it was finished");
    if (!handle->stream) return failed(BAD_PARAM, "no stream");
    Descriptor* config = part(plan, 401);
    Descriptor* graph = reinterpret_cast<Descriptor*>(config->attributes.at(0).values.at(1));
    if (!has(graph, 800) || one(graph, 800) != reinterpret_cast<int64_t>(handle)) return failed(BAD_PARAM, "the plan is for another GPU");
    Run run;
    auto &ids = pack->attributes[1000].values, &at = pack->attributes[1001].values;
    for (size_t i = 0; i < ids.size(); i++) run.addresses[ids[i]] = reinterpret_cast<void*>(at[i]);
    memset(reinterpret_cast<void*>(one(pack, 1003)), 0x55, 1000); // its workspace
    for (int64_t op : graph->attributes[801].values) {
        Descriptor* d = reinterpret_cast<Descriptor*>(op);
        switch (d->kind) {
            case K_OP_MATMUL: product(run, d); break;
            case K_OP_POINTWISE: pointwise(run, d); break;
            case K_OP_REDUCTION: reduction(run, d); break;
            default: view(run, d);
        }
        if (!run.wrong.empty()) return failed(BAD_PARAM, run.wrong);
    }
    for (auto& [id, t] : run.tensors) if (t.dims[2] == 14) return failed(EXECUTION_FAILED, "14 queries");
    return SUCCESS;
}
