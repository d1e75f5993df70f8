// NCCL's interface (nccl.h of 2.27) among the threads of a process: a communicator's ranks are threads, device memory is that of the host. It checks
// what a binding can get wrong: an id that is not passed by value, numbers of types and operations, calls outside of a group, a stream it does not know.
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

enum Result { SUCCESS = 0, REMOTE = 6, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
struct Id { unsigned char bytes[128]; };
struct World {
    int size = 0, here = 0, turn = 0, left = 0;
    std::vector<const float*> data;
    bool aborted = false;
};
struct Comm { World* world; int rank; };
struct Call { const float* from; float* to; size_t count; Comm* comm; };

static std::mutex lock;
static std::condition_variable changed;
static std::map<uint32_t, World*> worlds;
static uint32_t made = 0;
static thread_local int depth = 0;
static thread_local std::vector<Call> calls;

static unsigned char pattern(uint32_t number, int i) { return static_cast<unsigned char>(number * 31 + i * 7 + 1); }

// All ranks come here; false where one has gone.
static bool meet(World* world, std::unique_lock<std::mutex>& held) {
    int turn = world->turn;
    if (++world->here == world->size) {
        world->here = 0;
        world->turn++;
        changed.notify_all();
        return !world->aborted;
    }
    bool came = changed.wait_for(held, std::chrono::seconds(20), [&] { return world->turn != turn || world->aborted; });
    return came && !world->aborted;
}

extern "C" {
__attribute__((visibility("default"))) int ncclGetVersion(int* version) { *version = 22703; return SUCCESS; }
__attribute__((visibility("default"))) const char* ncclGetErrorString(int code) {
    return code == INVALID_ARGUMENT ? "invalid argument" : code == INVALID_USAGE ? "invalid usage" : code == REMOTE ? "remote process exited" : "no error";
}
__attribute__((visibility("default"))) int ncclGetUniqueId(Id* id) {
    std::unique_lock<std::mutex> held(lock);
    uint32_t number = ++made;
    for (int i = 0; i < 124; i++) id->bytes[i] = pattern(number, i);
    memcpy(id->bytes + 124, &number, 4);
    return SUCCESS;
}
__attribute__((visibility("default"))) int ncclCommInitRank(Comm** comm, int size, Id id, int rank) {
    uint32_t number;
    memcpy(&number, id.bytes + 124, 4);
    for (int i = 0; i < 124; i++) if (id.bytes[i] != pattern(number, i)) return INVALID_ARGUMENT;
    if (size > 4) return INVALID_USAGE;
    if (rank < 0 || rank >= size) return INVALID_ARGUMENT;
    std::unique_lock<std::mutex> held(lock);
    World*& world = worlds[number];
    if (!world) { world = new World; world->size = size; world->data.resize(size); }
    *comm = new Comm{world, rank};
    return meet(world, held) ? SUCCESS : REMOTE;
}
__attribute__((visibility("default"))) int ncclGroupStart() { depth++; return SUCCESS; }
__attribute__((visibility("default"))) int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, Comm* comm, void* stream) {
    if (type != 7 || operation != 4 || stream != nullptr) return INVALID_ARGUMENT;
    if (depth == 0) return INVALID_USAGE;
    calls.push_back({static_cast<const float*>(from), static_cast<float*>(to), count, comm});
    return SUCCESS;
}
__attribute__((visibility("default"))) int ncclGroupEnd() {
    if (--depth > 0) return SUCCESS;
    std::vector<Call> due;
    due.swap(calls);
    for (Call& c : due) {
        World* world = c.comm->world;
        std::unique_lock<std::mutex> held(lock);
        world->data[c.comm->rank] = c.from;
        if (!meet(world, held)) return REMOTE;
        std::vector<const float*> data = world->data;
        held.unlock();
        std::vector<float> sums(c.count);
        for (size_t i = 0; i < c.count; i++) {
            // a ring begins elsewhere with each chunk
            size_t first = i / 64 % world->size;
            float sum = data[first][i];
            for (int r = 1; r < world->size; r++) sum += data[(first + r) % world->size][i];
            sums[i] = sum / world->size;
        }
        held.lock();
        if (!meet(world, held)) return REMOTE;
        memcpy(c.to, sums.data(), c.count * sizeof(float));
        if (!meet(world, held)) return REMOTE;
    }
    return SUCCESS;
}
__attribute__((visibility("default"))) int ncclCommGetAsyncError(Comm* comm, int* code) {
    std::unique_lock<std::mutex> held(lock);
    *code = comm->world->aborted ? REMOTE : SUCCESS;
    return SUCCESS;
}
__attribute__((visibility("default"))) int ncclCommDestroy(Comm* comm) { delete comm; return SUCCESS; }
__attribute__((visibility("default"))) int ncclCommAbort(Comm* comm) {
    std::unique_lock<std::mutex> held(lock);
    comm->world->aborted = true;
    changed.notify_all();
    delete comm;
    return SUCCESS;
}
}
