// The machine of octet.cuh on a processor, for tests: the threads of a block are fibers of one thread of the operating system, and they
// change only where a GPU's threads wait for each other. A kernel without barriers and shuffles is a plain loop.
//
// What is undefined on a GPU is an error here: a barrier that part of a block never reaches, lanes that part before a shuffle, indices past
// a shared or local array, misaligned vectors, overflowing integers. Shared memory holds garbage when a block starts: each library has a
// kernel's shared arrays, and nothing else, in its .bss. Asynchronous copies arrive as late as they may, or at once.
//
// With OCTET_WATCHED, compiled with -fsanitize=thread, each access to memory is held against those before it: two threads that touch a byte, one of them to write it,
// with no barrier between that both passed, race, in whatever order they run here. A shuffle orders no memory (CUDA programming guide, warp shuffle functions),
// and nothing orders two blocks. The sanitizer's own library is not linked.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace octet {

enum Status { NEW, RUNNABLE, AT_WARP, AT_BLOCK, ENDED, FAILED };

// What a lane shows to the others at a shuffle, and what its instruction is.
struct Shown {
    const char* what;
    union {
        u8 bytes[32];
        u64 words[4];
        double aligned;
    };
};

struct PendingCopy {
    void* to;
    const void* from;
    bool valid;
    i64 group;
};

struct Thread {
    Status status;
    void* at;    // stack pointer while it waits
    u8* stack;   // lowest address; 0 before it starts and when it ended
    u64 turn;    // warp instructions so far: a lane that reads turn n's values may show those of turn n + 1, no more
    Shown shown[2];
    PendingCopy* copies;
    int copy_count, copy_room;
    i64 group; // of asynchronous copies, the one that is being filled
    i64 newest; // group of the newest copy
    u32 phase; // barriers of the block that it has passed
    u32 order; // barriers of the warp
    bool unwaited; // whether copies of it may still be under way
};

const i64 STACK = 256 << 10;
const int ZONE = 256;
const u8 ZONE_FILL = 0xA5;

// The state of a launch. It lies on the heap, as .bss is the kernels'.
struct Machine {
    void (*call)(void**);
    const char* kernel;
    void** parameters;
    i64 grid[3];
    i64 block[3];
    i64 block_number;
    int threads;
    int thread; // that runs
    int shared_bytes;
    u8* shared;
    i64 shared_room;
    bool late;  // whether asynchronous copies arrive late
    u8 garbage; // bytes of shared memory when a block starts: a large number, or NaN, by the order
    void* scheduler;
    Thread all[1024];
    u8* free_stacks[1024];
    int free_count;
    bool inside; // whether a fiber runs
    bool failed;
    char message[2048];
};

__attribute__((section(".data"))) static Machine* machine = 0;

// --- fibers --------------------------------------------------------------------------------------------------------------------

// Saves what calls preserve, keeps the stack pointer in *save and goes on at another.
extern "C" __attribute__((visibility("hidden"))) void octet_switch(void** save, void* to);
extern "C" __attribute__((visibility("hidden"))) void octet_start();

#if defined(__x86_64__)
asm(R"(
.text
.type octet_switch, @function
octet_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size octet_switch, .-octet_switch
.type octet_start, @function
octet_start:
    xorl %ebp, %ebp
    call *%rbx
    ud2
.size octet_start, .-octet_start
)");
inline void* first_frame(u8* top, void (*body)()) {
    // r15, r14, r13, r12, rbx, rbp, return address; behind them the stack is a multiple of 16, as a call wants it
    u64* frame = (u64*)top - 9;
    memset(frame, 0, 72);
    frame[4] = (u64)body;
    frame[6] = (u64)octet_start;
    return frame;
}
#elif defined(__aarch64__)
asm(R"(
.text
.type octet_switch, %function
octet_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size octet_switch, .-octet_switch
.type octet_start, %function
octet_start:
    blr x19
    brk #0
.size octet_start, .-octet_start
)");
inline void* first_frame(u8* top, void (*body)()) {
    u64* frame = (u64*)top - 20;
    memset(frame, 0, 160);
    frame[0] = (u64)body;
    frame[11] = (u64)octet_start;
    return frame;
}
#else
#error "fibers are written for x86-64 and AArch64 only"
#endif

inline Thread& self() { return machine->all[machine->thread]; }

// Back to the scheduler.
__attribute__((noinline)) inline void leave(Status status) {
    Thread& t = self();
    t.status = status;
    octet_switch(&t.at, machine->scheduler);
    asm volatile("" ::: "memory"); // other threads ran
}

inline const char* place(char* text, int room, int thread) {
    snprintf(text, room, "kernel %s, block (%lld, %lld, %lld), thread %d", machine->kernel, machine->block[0], machine->block[1],
             machine->block[2], thread);
    return text;
}

// Ends the launch with a message: where, what.
__attribute__((noinline)) inline void fail(const char* what, int thread) {
    if (!machine->failed) {
        char where[512];
        snprintf(machine->message, sizeof machine->message, "%s: %s", place(where, sizeof where, thread), what);
        machine->failed = true;
    }
}
__attribute__((noinline)) inline void fail_here(const char* what) {
    fail(what, machine->thread);
    leave(FAILED);
    abort();
}

extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

// --- races ---------------------------------------------------------------------------------------------------------------------

enum Touch { READ, WRITE, ATOMIC };

#ifdef OCTET_WATCHED
#define UNWATCHED __attribute__((noinline, no_sanitize("thread"), no_sanitize("undefined")))

// Who touched a byte, and when: block (from 1), thread, barriers of the block, barriers of the warp. 0 for nobody.
struct Stamp {
    u32 block;
    u16 thread;
    u16 phase;
    u32 order;
};
// Of a byte: who wrote it last, changed it atomically last, and two that read it.
struct Cell {
    Stamp of[4];
};
enum { WROTE, CHANGED, READS, READS_TOO };

const i64 PAGE = 1024;
struct Page {
    i64 number;
    Cell cells[PAGE];
};
const int PAGES = 1 << 18;
__attribute__((section(".data"))) static Page** pages = 0;
__attribute__((section(".data"))) static Page* last_page = 0;

UNWATCHED inline void forget_touches() {
    if (pages == 0) {
        pages = (Page**)calloc(PAGES, sizeof(Page*));
    }
    for (int i = 0; i < PAGES; i++) {
        if (pages[i] != 0) {
            free(pages[i]);
            pages[i] = 0;
        }
    }
    last_page = 0;
}

UNWATCHED inline Cell* cell_of(u64 at) {
    i64 number = (i64)(at / PAGE);
    if (last_page == 0 || last_page->number != number) {
        u64 slot = (u64)number * 0x9e3779b97f4a7c15ull >> 46;
        while (pages[slot] != 0 && pages[slot]->number != number) {
            slot = (slot + 1) % PAGES;
        }
        if (pages[slot] == 0) {
            pages[slot] = (Page*)calloc(1, sizeof(Page));
            pages[slot]->number = number;
        }
        last_page = pages[slot];
    }
    return &last_page->cells[at % PAGE];
}

// Whether nothing orders two touches.
UNWATCHED inline bool parted(const Stamp& before, const Stamp& now, bool shared) {
    if (before.block != now.block) {
        return before.block != 0 && !shared; // a block's shared memory is its own
    }
    return before.thread != now.thread && before.phase == now.phase
           && (before.thread / WARP != now.thread / WARP || before.order == now.order);
}

UNWATCHED inline void touch(const void* p, i64 bytes, Touch how) {
    Machine* m = machine;
    if (m == 0 || !m->inside || m->failed) {
        return;
    }
    Thread& t = m->all[m->thread];
    const u8* at = (const u8*)p;
    if ((at >= t.stack && at < t.stack + STACK) || (at >= (const u8*)m && at < (const u8*)(m + 1))) {
        return;
    }
    bool fixed = at >= (const u8*)__bss_start && at < (const u8*)_end;
    bool dynamic = at >= m->shared && at < m->shared + m->shared_bytes;
    Stamp now = {(u32)m->block_number + 1, (u16)m->thread, (u16)t.phase, t.order};
    for (i64 i = 0; i < bytes; i++) {
        Cell* c = cell_of((u64)(at + i));
        for (int k = how == READ ? CHANGED : READS_TOO; k >= 0; k--) {
            if (!(how == ATOMIC && k == CHANGED) && parted(c->of[k], now, fixed || dynamic)) {
                const char* did[] = {"wrote", "changed", "read", "read"};
                const char* does[] = {"reads", "writes", "changes"};
                char text[512];
                snprintf(text, sizeof text, "%s byte %lld of %s memory that thread %d of block %u %s, and no barrier is between", does[how],
                         (i64)(fixed ? at + i - (const u8*)__bss_start : dynamic ? at + i - m->shared : (i64)(u64)(at + i)),
                         fixed ? "shared" : dynamic ? "dynamic shared" : "global", c->of[k].thread, c->of[k].block - 1, did[k]);
                fail_here(text);
            }
        }
        if (how == WRITE) {
            c->of[WROTE] = now;
        } else if (how == ATOMIC) {
            c->of[CHANGED] = now;
        } else if (parted(c->of[READS], now, fixed || dynamic)) {
            c->of[READS_TOO] = now; // two that differ: one of them is not who writes
        } else {
            c->of[READS] = now;
        }
    }
}
#else
#define UNWATCHED
inline void forget_touches() {}
inline void touch(const void*, i64, Touch) {}
#endif

UNWATCHED inline void land(Thread& t, i64 before) {
    int kept = 0;
    for (int i = 0; i < t.copy_count; i++) {
        PendingCopy& c = t.copies[i];
        if (c.group >= before) {
            t.copies[kept++] = c;
        } else if (c.valid) {
            touch(c.from, 16, READ);
            touch(c.to, 16, WRITE);
            memcpy(c.to, c.from, 16);
        } else {
            touch(c.to, 16, WRITE);
            memset(c.to, 0, 16);
        }
    }
    t.copy_count = kept;
}

__attribute__((noinline)) inline void body() {
    machine->call(machine->parameters);
    if (self().unwaited) {
        fail_here("ends with asynchronous copies that it has not committed and waited for");
    }
    leave(ENDED);
    abort();
}

inline void run(int thread) {
    Thread& t = machine->all[thread];
    if (t.status == NEW) {
        if (machine->free_count == 0) {
            machine->free_stacks[machine->free_count++] =
                (u8*)mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        }
        t.stack = machine->free_stacks[--machine->free_count];
        *(u64*)t.stack = 0x7057ac6b0770115aull;
        t.at = first_frame(t.stack + STACK, body);
    }
    machine->thread = thread;
    t.status = RUNNABLE;
    machine->inside = true;
    octet_switch(&machine->scheduler, t.at);
    machine->inside = false;
    if (*(u64*)t.stack != 0x7057ac6b0770115aull) {
        fail("more than 256 KiB of local variables", thread);
    }
    if (t.status == ENDED) {
        machine->free_stacks[machine->free_count++] = t.stack;
        t.stack = 0;
    }
}

// An order of 0 .. n - 1: i -> (step i + first) mod n.
struct Order {
    i64 n, step, first;
    i64 at(i64 i) const { return (i64)(((unsigned __int128)i * step + first) % n); }
};
// seed 0: as counted; 1: backwards; others: mixed.
inline Order order(i64 n, u32 seed) {
    if (seed == 0) {
        return {n, 1, 0};
    }
    if (seed == 1) {
        return {n, n - 1 > 0 ? n - 1 : 1, n - 1};
    }
    i64 step = (i64)((seed * 2654435761ull) % n) | 1;
    for (;; step++) {
        i64 a = step, b = n;
        while (b != 0) {
            i64 c = a % b;
            a = b;
            b = c;
        }
        if (a == 1) {
            return {n, step, (i64)(seed % n)};
        }
    }
}

// Runs a warp until each lane ended or is at a barrier of the block.
inline void run_warp(int first, const Order& lanes) {
    for (;;) {
        for (int i = 0; i < WARP; i++) {
            int thread = first + (int)lanes.at(i);
            Thread& t = machine->all[thread];
            if (t.status == NEW || t.status == RUNNABLE) {
                run(thread);
                if (machine->failed) {
                    return;
                }
            }
        }
        int waiting = 0;
        int one = -1, other = -1;
        for (int i = 0; i < WARP; i++) {
            if (machine->all[first + i].status == AT_WARP) {
                waiting++;
                one = first + i;
            } else {
                other = first + i;
            }
        }
        if (waiting == 0) {
            return;
        }
        const char* what = machine->all[one].shown[machine->all[one].turn & 1].what;
        char text[512];
        if (waiting < WARP) {
            Status s = machine->all[other].status;
            snprintf(text, sizeof text, "waits for its warp at %s, and thread %d %s", what, other,
                     s == ENDED ? "has ended" : "waits at a barrier of the block");
            fail(text, one);
            return;
        }
        for (int i = 0; i < WARP; i++) {
            Thread& t = machine->all[first + i];
            const char* its = t.shown[t.turn & 1].what;
            if (strcmp(its, what) != 0) {
                snprintf(text, sizeof text, "waits for its warp at %s, and thread %d at %s", what, first + i, its);
                fail(text, one);
                return;
            }
        }
        for (int i = 0; i < WARP; i++) {
            machine->all[first + i].status = RUNNABLE;
        }
    }
}

inline void run_block(u32 seed) {
    memset(__bss_start, machine->garbage, _end - __bss_start);
    memset(machine->shared, machine->garbage, machine->shared_bytes);
    memset(machine->shared + machine->shared_bytes, ZONE_FILL, ZONE);
    int warps = machine->threads / WARP;
    Order by_warp = order(warps, seed);
    Order lanes = order(WARP, seed);
    for (int i = 0; i < machine->threads; i++) {
        Thread& t = machine->all[i];
        t.status = NEW;
        t.turn = 0;
        t.copy_count = 0;
        t.group = 0;
        t.unwaited = false;
        t.phase = 0;
        t.order = 0;
    }
    for (;;) {
        for (int w = 0; w < warps; w++) {
            run_warp((int)by_warp.at(w) * WARP, lanes);
            if (machine->failed) {
                return;
            }
        }
        int ended = -1, waiting = -1;
        for (int i = 0; i < machine->threads; i++) {
            (machine->all[i].status == ENDED ? ended : waiting) = i;
        }
        if (waiting >= 0 && ended >= 0) {
            char text[128];
            snprintf(text, sizeof text, "waits at a barrier of the block, and thread %d has ended", ended);
            fail(text, waiting);
            return;
        }
        if (waiting < 0) {
            break;
        }
        for (int i = 0; i < machine->threads; i++) {
            machine->all[i].status = RUNNABLE;
        }
    }
    for (int i = 0; i < ZONE; i++) {
        if (machine->shared[machine->shared_bytes + i] != ZONE_FILL) {
            char text[128];
            snprintf(text, sizeof text, "byte %d behind the dynamic shared memory of %d bytes was written", i, machine->shared_bytes);
            fail(text, 0);
            return;
        }
    }
}

// What a launch says of itself in the block that is passed to it.
struct Launch {
    i64 grid_x;
    i32 grid_y, grid_z, threads, shared_bytes;
    u32 seed;
};

// Bytes of the shared arrays of all kernels of the source.
extern "C" __attribute__((visibility("default"))) i64 octet_shared_bytes() { return _end - __bss_start; }

extern "C" __attribute__((visibility("default"))) const char* octet_launch(
    void (*call)(void**), const char* kernel, const Launch* launch, void** parameters) {
    if (machine == 0) {
        machine = (Machine*)calloc(1, sizeof(Machine));
    }
    Machine& m = *machine;
    m.call = call;
    m.kernel = kernel;
    m.parameters = parameters;
    m.grid[0] = launch->grid_x;
    m.grid[1] = launch->grid_y;
    m.grid[2] = launch->grid_z;
    m.threads = launch->threads;
    m.shared_bytes = launch->shared_bytes;
    m.late = launch->seed == 0;
    m.garbage = launch->seed == 0 ? 0x77 : 0xff;
    m.failed = false;
    if (m.shared == 0 || m.shared_room < m.shared_bytes + ZONE) {
        free(m.shared);
        m.shared_room = (m.shared_bytes + ZONE + 1023) / 1024 * 1024;
        m.shared = (u8*)aligned_alloc(1024, m.shared_room);
    }
    i64 blocks = m.grid[0] * m.grid[1] * m.grid[2];
    forget_touches();
    Order all = order(blocks, launch->seed);
    for (i64 i = 0; i < blocks && !m.failed; i++) {
        i64 b = all.at(i);
        m.block[0] = b % m.grid[0];
        m.block[1] = b / m.grid[0] % m.grid[1];
        m.block[2] = b / m.grid[0] / m.grid[1];
        m.block_number = b;
        run_block(launch->seed);
    }
    if (m.failed) {
        // fibers that never ended: their stacks are free again
        for (int i = 0; i < m.threads; i++) {
            if (m.all[i].stack != 0) {
                m.free_stacks[m.free_count++] = m.all[i].stack;
                m.all[i].stack = 0;
            }
        }
        return m.message;
    }
    return 0;
}

// --- kernels as functions that are called with pointers to their arguments -----------------------------------------------------

template <typename T> struct Plain {
    typedef T Type;
};
template <typename T> struct Plain<const T> {
    typedef T Type;
};
template <typename T> struct Letter; // only what a launch can pass
template <typename T> struct Letter<T*> {
    static const char IT = 'l';
};
template <> struct Letter<i64> {
    static const char IT = 'l';
};
template <> struct Letter<u64> {
    static const char IT = 'l';
};
template <> struct Letter<i32> {
    static const char IT = 'i';
};
template <> struct Letter<u32> {
    static const char IT = 'i';
};
template <> struct Letter<float> {
    static const char IT = 'f';
};
template <> struct Letter<double> {
    static const char IT = 'd';
};

template <int... I> struct Numbers {};
template <int N, int... I> struct Counted : Counted<N - 1, N - 1, I...> {};
template <int... I> struct Counted<0, I...> {
    typedef Numbers<I...> All;
};
template <typename... A, int... I> void call(void (*kernel)(A...), void** parameters, Numbers<I...>) {
    kernel(*(typename Plain<A>::Type*)parameters[I]...);
}
template <typename... A> void call(void (*kernel)(A...), void** parameters) {
    call(kernel, parameters, typename Counted<sizeof...(A)>::All());
}
// May be asked while another thread runs a kernel.
template <typename... A> UNWATCHED void letters(void (*)(A...), char* to) {
    char all[] = {Letter<typename Plain<A>::Type>::IT..., 0};
    memcpy(to, all, sizeof all);
}

// --- what lanes show each other ------------------------------------------------------------------------------------------------

// Shows a value to the warp and waits until all lanes have shown theirs.
template <typename T> inline u64 show(const char* what, const T& x) {
    static_assert(sizeof(T) <= 32, "a warp's lanes exchange 32 bytes at most");
    Thread& t = self();
    t.turn++;
    Shown& s = t.shown[t.turn & 1];
    s.what = what;
    memcpy(s.bytes, &x, sizeof(T));
    leave(AT_WARP);
    return t.turn;
}
// What a lane has shown in a turn.
template <typename T> inline T seen(u64 turn, int lane) {
    T x;
    memcpy(&x, machine->all[machine->thread / WARP * WARP + lane].shown[turn & 1].bytes, sizeof(T));
    return x;
}
template <typename T> inline T exchange(const char* what, T x, int lane) {
    u64 turn = show(what, x);
    if (lane < 0 || lane >= WARP) {
        fail_here("shuffles from a lane outside 0 .. 31");
    }
    return seen<T>(turn, lane);
}
inline int own_lane() { return machine->thread % WARP; }

inline void check_shared(const void* p, int alignment, int bytes) {
    const u8* at = (const u8*)p;
    bool dynamic = at >= machine->shared && at + bytes <= machine->shared + machine->shared_bytes;
    bool fixed = at >= (u8*)__bss_start && at + bytes <= (u8*)_end;
    if (!dynamic && !fixed) {
        fail_here("an address that must be in shared memory is not");
    }
    if ((u64)at % alignment != 0) {
        fail_here("an address in shared memory is not a multiple of 16");
    }
}

} // namespace octet

// --- the machine ---------------------------------------------------------------------------------------------------------------

#define DEVICE inline
#define CALLED static __attribute__((noinline))
#define SHARED static
#define DYNAMIC_SHARED(name) u8* const name = octet::machine->shared
#define KERNEL(name, threads, arguments)                                                                                              \
    static void name arguments;                                                                                                       \
    extern "C" __attribute__((visibility("default"))) void octet_call_##name(void** parameters) { octet::call(name, parameters); }    \
    extern "C" UNWATCHED __attribute__((visibility("default"))) int octet_about_##name(char* letters) {                                         \
        octet::letters(name, letters);                                                                                                \
        return threads;                                                                                                               \
    }                                                                                                                                 \
    static void name arguments

#define RESIDENT_KERNEL(name, threads, resident, arguments) KERNEL(name, threads, arguments)

DEVICE int thread_index() { return octet::machine->thread; }
DEVICE int thread_count() { return octet::machine->threads; }
DEVICE i64 block_index() { return octet::machine->block[0]; }
DEVICE i64 block_index_y() { return octet::machine->block[1]; }
DEVICE i64 block_index_z() { return octet::machine->block[2]; }
DEVICE i64 block_count() { return octet::machine->grid[0]; }
DEVICE void block_barrier() {
    octet::leave(octet::AT_BLOCK);
    octet::self().phase++;
}
DEVICE void warp_barrier() {
    octet::show("a barrier of the warp", 0);
    octet::self().order++;
}

DEVICE float shuffle_xor(float x, int mask) { return octet::exchange("shuffle_xor(float)", x, octet::own_lane() ^ mask); }
DEVICE double shuffle_xor(double x, int mask) { return octet::exchange("shuffle_xor(double)", x, octet::own_lane() ^ mask); }
DEVICE int shuffle_xor(int x, int mask) { return octet::exchange("shuffle_xor(int)", x, octet::own_lane() ^ mask); }
DEVICE u32 lane_bits(bool x) {
    u32 bits = x ? 1u << octet::own_lane() : 0;
    for (int mask = 1; mask < WARP; mask *= 2) {
        bits |= (u32)octet::exchange("lane_bits(bool)", (int)bits, octet::own_lane() ^ mask);
    }
    return bits;
}
DEVICE float shuffle_up(float x, int by) {
    return octet::exchange("shuffle_up(float)", x, octet::own_lane() >= by ? octet::own_lane() - by : octet::own_lane());
}
DEVICE double shuffle_up(double x, int by) {
    return octet::exchange("shuffle_up(double)", x, octet::own_lane() >= by ? octet::own_lane() - by : octet::own_lane());
}
DEVICE float shuffle(float x, int lane) { return octet::exchange("shuffle(float)", x, lane & (WARP - 1)); }
DEVICE double shuffle(double x, int lane) { return octet::exchange("shuffle(double)", x, lane & (WARP - 1)); }
DEVICE int shuffle(int x, int lane) { return octet::exchange("shuffle(int)", x, lane & (WARP - 1)); }

DEVICE u32 float_bits(float x) {
    u32 r;
    memcpy(&r, &x, 4);
    return r;
}
DEVICE float bits_float(u32 x) {
    float r;
    memcpy(&r, &x, 4);
    return r;
}

DEVICE UNWATCHED void atomic_max(int* at, int x) {
    octet::touch(at, 4, octet::ATOMIC);
    *at = x > *at ? x : *at;
}
DEVICE UNWATCHED void atomic_add(int* at, int x) {
    octet::touch(at, 4, octet::ATOMIC);
    *at += x;
}
DEVICE UNWATCHED int atomic_next(int* at) {
    octet::touch(at, 4, octet::ATOMIC);
    return (*at)++;
}
DEVICE void memory_fence() {}

DEVICE u16 bf16_bits(float x) {
    u32 bits = float_bits(x);
    return x != x ? 0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
DEVICE u16 f16_bits(float x) {
    u32 bits = float_bits(x);
    u32 sign = (bits >> 16) & 0x8000;
    u32 magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000) { // 65520, half-way to the number behind the largest
        return (u16)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { // below 2^-14: in units of 2^-24, rounded by an addition
        return (u16)(sign | (u32)rintf(bits_float(magnitude) * 0x1p24f));
    }
    return (u16)(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
}
DEVICE float f16_value(u16 x) {
    u32 magnitude = x & 0x7fff;
    float value = magnitude >= 0x7c00 ? bits_float(0x7f800000 | (magnitude & 0x3ff) << 13)
                  : magnitude < 0x400 ? (float)magnitude * 0x1p-24f
                                      : bits_float((magnitude << 13) + 0x38000000);
    return x & 0x8000 ? -value : value;
}

DEVICE u32 pair_bits(float a, float b, bf16) { return bf16_bits(a) | (u32)bf16_bits(b) << 16; }
DEVICE u32 pair_bits(float a, float b, f16) { return f16_bits(a) | (u32)f16_bits(b) << 16; }

// The compiler is told not to contract; with OCTET_CONTRACTED it may, but not these.
#ifdef OCTET_CONTRACTED
DEVICE float apart(float x) {
    asm volatile("" : "+x"(x));
    return x;
}
#else
DEVICE float apart(float x) { return x; }
#endif
DEVICE float exact_multiply(float a, float b) { return apart(a * b); }
DEVICE float exact_add(float a, float b) { return apart(a + b); }
DEVICE float exact_divide(float a, float b) { return a / b; }
DEVICE float fast_exp(float x) { return expf(x); }
DEVICE float fast_exp2(float x) { return x < -126 ? 0 : exp2f(x); }
DEVICE float larger(float a, float b) { return b > a || a != a ? b : a; } // a C library's gives NaN for signalling ones
DEVICE float fast_reciprocal(float x) { return fabsf(x) > 0x1p126f ? copysignf(0, x) : 1 / x; }

DEVICE UNWATCHED void copy_async_16(void* shared, const void* global, bool valid = true) {
    using namespace octet;
    check_shared(shared, 16, 16);
    if ((u64)global % 16 != 0) {
        fail_here("an asynchronous copy from an address that is not a multiple of 16");
    }
    Thread& t = self();
    if (t.copy_count == t.copy_room) {
        t.copy_room = 2 * t.copy_room + 16;
        t.copies = (PendingCopy*)realloc(t.copies, t.copy_room * sizeof(PendingCopy));
    }
    t.copies[t.copy_count++] = {shared, global, valid, t.group};
    t.newest = t.group;
    t.unwaited = true;
    if (!machine->late) {
        land(t, t.group + 1);
    }
}
DEVICE void copy_async_commit() { octet::self().group++; }
template <int PENDING> DEVICE void copy_async_wait() {
    octet::Thread& t = octet::self();
    octet::land(t, t.group - PENDING);
    t.unwaited = t.unwaited && t.newest >= t.group - PENDING;
}

DEVICE void load_matrix_4(u32 (&r)[4], const void* row) {
    octet::check_shared(row, 16, 16);
    u64 turn = octet::show("load_matrix_4", row);
    int l = octet::own_lane();
    for (int i = 0; i < 4; i++) {
        const u16* from = (const u16*)octet::seen<const void*>(turn, 8 * i + l / 4) + 2 * (l % 4);
        r[i] = from[0] | (u32)from[1] << 16;
    }
    octet::show("load_matrix_4", row); // all have read
}
DEVICE void load_matrix_4_transposed(u32 (&r)[4], const void* row) {
    octet::check_shared(row, 16, 16);
    u64 turn = octet::show("load_matrix_4_transposed", row);
    int l = octet::own_lane();
    for (int i = 0; i < 4; i++) {
        const u16* first = (const u16*)octet::seen<const void*>(turn, 8 * i + 2 * (l % 4));
        const u16* second = (const u16*)octet::seen<const void*>(turn, 8 * i + 2 * (l % 4) + 1);
        r[i] = first[l / 4] | (u32)second[l / 4] << 16;
    }
    octet::show("load_matrix_4_transposed", row);
}

namespace octet {
struct Operands {
    u32 a[4], b[2];
};
template <typename T> inline float half_of(u32 pair, int which);
template <> inline float half_of<bf16>(u32 pair, int which) { return bits_float(which == 0 ? pair << 16 : pair & 0xffff0000u); }
template <> inline float half_of<f16>(u32 pair, int which) { return f16_value((u16)(pair >> 16 * which)); }

template <typename T> inline void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    Operands own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    u64 turn = show("multiply_16816", own);
    int g = own_lane() / 4, t = own_lane() % 4;
    for (int i = 0; i < 4; i++) {
        int row = g, col = 2 * t + i % 2;
        for (int k = 0; k < 16; k++) {
            Operands left = seen<Operands>(turn, row * 4 + k % 8 / 2);
            Operands right = seen<Operands>(turn, col * 4 + k % 8 / 2);
            d[i] += half_of<T>(left.a[k / 8 * 2 + i / 2], k % 2) * half_of<T>(right.b[k / 8], k % 2);
        }
    }
}
} // namespace octet

DEVICE void multiply_16816(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], bf16) { octet::multiply<bf16>(d, a, b); }
DEVICE void multiply_16816(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], f16) { octet::multiply<f16>(d, a, b); }

// --- CUDA's own names that C++ lacks ---------------------------------------------------------------------------------------------

inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
#define OCTET_ORDERED(T)                                                                                                              \
    inline T max(T a, T b) { return a > b ? a : b; }                                                                                  \
    inline T min(T a, T b) { return a < b ? a : b; }
OCTET_ORDERED(i32)
OCTET_ORDERED(u32)
OCTET_ORDERED(i64)
OCTET_ORDERED(u64)
inline i64 max(i64 a, i32 b) { return max(a, (i64)b); }
inline i64 max(i32 a, i64 b) { return max((i64)a, b); }
inline i64 min(i64 a, i32 b) { return min(a, (i64)b); }
inline i64 min(i32 a, i64 b) { return min((i64)a, b); }

// --- what the compiler's sanitizer calls (-fsanitize; its own library is not linked) ---------------------------------------------

namespace octet {
struct SourcePlace {
    const char* file;
    u32 line, column;
};
__attribute__((noinline)) inline void fail_at(const SourcePlace* at, const char* what) {
    const char* file = strrchr(at->file, '/');
    char text[512];
    snprintf(text, sizeof text, "%s:%u: %s", file ? file + 1 : at->file, at->line, what);
    fail_here(text);
}
} // namespace octet

#define OCTET_REPORT(name, what, ...)                                                                                                 \
    extern "C" __attribute__((visibility("hidden"), used)) void __ubsan_handle_##name(octet::SourcePlace* at, ##__VA_ARGS__) {        \
        octet::fail_at(at, what);                                                                                                     \
    }
OCTET_REPORT(type_mismatch_v1, "an address that is null or not a multiple of its element's alignment", void*)
OCTET_REPORT(out_of_bounds, "an index outside its array", void*)
OCTET_REPORT(shift_out_of_bounds, "a shift by more bits than there are", void*, void*)
OCTET_REPORT(add_overflow, "a signed sum overflows", void*, void*)
OCTET_REPORT(sub_overflow, "a signed difference overflows", void*, void*)
OCTET_REPORT(mul_overflow, "a signed product overflows", void*, void*)
OCTET_REPORT(negate_overflow, "a signed negation overflows", void*)
OCTET_REPORT(divrem_overflow, "an integer is divided by zero", void*, void*)

#ifdef OCTET_WATCHED
// --- what -fsanitize=thread calls ------------------------------------------------------------------------------------------------

#define OCTET_HOOK extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"), no_sanitize("undefined")))
OCTET_HOOK void __tsan_init() {}
OCTET_HOOK void __tsan_func_entry(void*) {}
OCTET_HOOK void __tsan_func_exit() {}
OCTET_HOOK void __tsan_read_range(void* p, unsigned long n) { octet::touch(p, (i64)n, octet::READ); }
OCTET_HOOK void __tsan_write_range(void* p, unsigned long n) { octet::touch(p, (i64)n, octet::WRITE); }
OCTET_HOOK void __tsan_vptr_update(void**, void*) {}
#define OCTET_TOUCHES(N)                                                                                                              \
    OCTET_HOOK void __tsan_read##N(void* p) { octet::touch(p, N, octet::READ); }                                                      \
    OCTET_HOOK void __tsan_write##N(void* p) { octet::touch(p, N, octet::WRITE); }                                                    \
    OCTET_HOOK void __tsan_unaligned_read##N(void* p) { octet::touch(p, N, octet::READ); }                                            \
    OCTET_HOOK void __tsan_unaligned_write##N(void* p) { octet::touch(p, N, octet::WRITE); }                                          \
    OCTET_HOOK void __tsan_volatile_read##N(void* p) { octet::touch(p, N, octet::READ); }                                             \
    OCTET_HOOK void __tsan_volatile_write##N(void* p) { octet::touch(p, N, octet::WRITE); }
OCTET_TOUCHES(1)
OCTET_TOUCHES(2)
OCTET_TOUCHES(4)
OCTET_TOUCHES(8)
OCTET_TOUCHES(16)
#endif
