package dev.octet.trainer.op.attention;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Attention on tensor cores: BF16 and F16, heads of up to 128 elements in steps of 8, with or without a mask. A head is padded to a multiple of 16 in shared
 * memory only: 80 elements are five steps of a product, not eight.
 *
 * <p>Tiles are as large as the registers of 128 threads allow without spilling. Registers of a thread, forward / queries' gradient / keys'
 * gradient, and KiB of dynamic shared memory of a block, as nvcc 13.0 gives them for sm_90a, BF16, causal, without a mask:
 *
 * <table>
 * <caption>Resources by head size</caption>
 * <tr><th>head</th><th>registers</th><th>KiB</th></tr>
 * <tr><td>64</td><td>250 / 168 / 243</td><td>36 / 54 / 54</td></tr>
 * <tr><td>80</td><td>218 / 238 / 196</td><td>33 / 66 / 44</td></tr>
 * <tr><td>96</td><td>238 / 244 / 234</td><td>39 / 78 / 52</td></tr>
 * <tr><td>128</td><td>242 / 166 / 250</td><td>51 / 68 / 68</td></tr>
 * </table>
 *
 * <p>With a mask, the keys' gradient of heads above 96 spills up to five registers.
 */
final class FlashAttention {
    /** As in the source. */
    private static final int WARPS = 4;

    private static final int THREADS = 32 * WARPS;
    private static final int BACK_ROWS = 16 * WARPS;

    /** Largest head whose gradients' sums fit into the registers next to a tile. */
    private static final int LARGEST = 128;

    /** First capability whose compiler finds registers for tiles of 32 queries beside heads of 128. */
    private static final int HOPPER = 90;

    /**
     * Rows of the tiles.
     *
     * @param m times 16 queries that a warp has forward
     * @param keys that pass by forward
     * @param queries that pass by a block of keys
     * @param backKeys that pass by a block of queries
     */
    private record Tiles(int head, int m, int keys, int queries, int backKeys) {
        static Tiles of(int head, boolean masked, int capability) {
            if (masked) {
                return ofMasked(head);
            }
            if (head <= 64) {
                return new Tiles(head, 2, 64, 64, 64);
            }
            if (head <= 96) {
                return new Tiles(head, 2, 32, 32, 64);
            }
            return new Tiles(head, 1, 64, capability < HOPPER ? 16 : 32, 32);
        }

        /** Masks take registers, too. */
        private static Tiles ofMasked(int head) {
            if (head <= 80) {
                return new Tiles(head, 2, 32, 32, head <= 64 ? 64 : 32);
            }
            return head <= 96 ? new Tiles(head, 1, 64, 32, 32) : new Tiles(head, 1, 32, 16, 16);
        }

        int forwardRows() {
            return m * 16 * WARPS;
        }

        /** Bytes of shared memory for as many rows. */
        int bytes(int rows) {
            int padded = Math.ceilDiv(head, 16) * 16;
            return rows * (padded + 8) * 2;
        }
    }

    private final Attention op;
    private final Frame<CudaTensor> frame;
    private final CudaStream cuda;
    private final Tiles tiles;
    private final long steps;
    private final AttentionLaunch launches;

    FlashAttention(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        this.op = op;
        this.frame = frame;
        this.cuda = cuda;
        boolean masked = op.mask() != null;
        DType mask = op.mask() == null ? DType.F32 : op.mask().dtype();
        tiles = Tiles.of(op.size(), masked, cuda.capability());
        CudaSource source = CudaSource.of(FlashAttention.class, "flash.cu")
                .define("TYPE", CudaSource.type(op.q().dtype()))
                .define("HEAD", op.size())
                .define("CAUSAL", op.causal() ? 1 : 0)
                .define("M_TILES", tiles.m)
                .define("KEYS", tiles.keys)
                .define("QUERIES", tiles.queries)
                .define("BACK_KEYS", tiles.backKeys)
                .define("MASKED", masked ? 1 : 0)
                .define("MASK_TYPE", CudaSource.type(mask))
                .define("TRUTH", mask == DType.BOOL ? 1 : 0);
        steps = PlainAttention.steps(op, cuda);
        launches = new AttentionLaunch(op, frame, cuda, source, steps);
    }

    /** Whether the operator is of the kind that this computes. Scores are compared before they are scaled, so the scale is positive. */
    static boolean computes(Attention op) {
        DType type = op.q().dtype();
        return (type == DType.BF16 || type == DType.F16)
                && op.size() == op.valueSize()
                && op.size() % 8 == 0
                && op.size() > 0
                && op.size() <= LARGEST
                && op.keys() > 0
                && op.scale() > 0;
    }

    void forward() {
        Grid grid = new Grid(
                Math.ceilDiv(op.queries(), tiles.forwardRows()),
                op.heads(),
                op.batch(),
                THREADS,
                tiles.bytes(tiles.forwardRows() + 2 * tiles.keys));
        launches.forward("flash_forward", grid).value("scale", op.scale()).launch();
    }

    /** A block for each of some rows, with as many rows in shared memory. */
    private Grid backGrid(int length, int heads, int sharedRows) {
        return new Grid(Math.ceilDiv(length, BACK_ROWS), heads, op.batch(), THREADS, tiles.bytes(sharedRows));
    }

    void backward() {
        long dots = PlainAttention.dots(op, frame, cuda, steps);
        if (frame.wantsGradient(0)) {
            Grid grid = backGrid(op.queries(), op.heads(), 2 * BACK_ROWS + 4 * tiles.backKeys);
            launches.queries("flash_queries", grid, dots)
                    .value("scale", op.scale())
                    .launch();
        }
        if (frame.wantsGradient(1) || frame.wantsGradient(2)) {
            Grid grid = backGrid(op.keys(), op.keyHeads(), 2 * BACK_ROWS + 4 * tiles.queries);
            launches.keys("flash_keys", grid, dots).value("scale", op.scale()).launch();
        }
        if (op.mask() != null && frame.wantsGradient(3)) {
            new PlainAttention(op, frame, cuda).maskGradient(frame.gradient(3), dots);
        }
    }
}
