// Permuted axes, by the width of an element: what the bytes mean does not matter.
#include "octet.cuh"

#define THREADS 256
// Side of a tile: a row of it is at least a sector of memory for the narrowest elements.
#define TILE 64

struct alignas(16) u128 {
    u64 low;
    u64 high;
};

// Where position i of some axes lies: axes by threes in the table, their length, and what one step along them is here and there.
struct Place {
    i64 from;
    i64 to;
};
DEVICE Place place(i64 i, const i64* axes, int count) {
    Place p = {0, 0};
    for (int d = count - 1; d >= 0; d--) {
        i64 length = axes[3 * d];
        i64 at = i % length;
        i /= length;
        p.from += at * axes[3 * d + 1];
        p.to += at * axes[3 * d + 2];
    }
    return p;
}

// Runs that stay together: GROUP threads (a power of two) copy each.
template <typename T>
DEVICE void copy_runs(const T* from, T* to, const i64* axes, int count, i64 rows, i64 run, int group) {
    i64 thread = block_index() * THREADS + thread_index();
    i64 row = thread / group;
    if (row < rows) {
        Place p = place(row, axes, count);
        for (i64 i = thread % group; i < run; i += group) {
            to[p.to + i] = from[p.from + i];
        }
    }
}

// to[r * to_step + c] = from[r + c * from_step] for r < rows, c < cols, tile by tile, for each position of the other axes.
template <typename T>
DEVICE void turn(
    const T* from, T* to, const i64* axes, int count, i64 rows, i64 cols, i64 from_step, i64 to_step, T (&tile)[TILE][TILE + 1]) {
    i64 across = (cols + TILE - 1) / TILE;
    i64 down = (rows + TILE - 1) / TILE;
    i64 block = block_index();
    i64 col = block % across * TILE;
    i64 row = block / across % down * TILE;
    Place p = place(block / across / down, axes, count);
    int x = thread_index() % TILE;
    int y = thread_index() / TILE;
#pragma unroll
    for (int k = 0; k < TILE; k += THREADS / TILE) {
        if (row + x < rows && col + y + k < cols) {
            tile[y + k][x] = from[p.from + row + x + (col + y + k) * from_step];
        }
    }
    block_barrier();
#pragma unroll
    for (int k = 0; k < TILE; k += THREADS / TILE) {
        if (row + y + k < rows && col + x < cols) {
            to[p.to + (row + y + k) * to_step + col + x] = tile[x][y + k];
        }
    }
}

#define RUNS(bits)                                                                                                                   \
    KERNEL(transpose_runs_##bits, THREADS,                                                                                           \
           (const u##bits* from, u##bits* to, const i64* axes, i32 count, i64 rows, i64 run, i32 group)) {                           \
        copy_runs(from, to, axes, count, rows, run, group);                                                                          \
    }
RUNS(8)
RUNS(16)
RUNS(32)
RUNS(64)
RUNS(128)

#define TILES(bits)                                                                                                                  \
    KERNEL(transpose_tiles_##bits, THREADS,                                                                                          \
           (const u##bits* from, u##bits* to, const i64* axes, i32 count, i64 rows, i64 cols, i64 from_step, i64 to_step)) {         \
        SHARED u##bits tile[TILE][TILE + 1];                                                                                         \
        turn(from, to, axes, count, rows, cols, from_step, to_step, tile);                                                           \
    }
TILES(8)
TILES(16)
TILES(32)
TILES(64)
