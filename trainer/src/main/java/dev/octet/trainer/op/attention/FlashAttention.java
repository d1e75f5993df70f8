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
 * <tr><td>64</td><td>241 / 242 / 255</td><td>54 / 54 / 54</td></tr>
 * <tr><td>80</td><td>246 / 255 / 227</td><td>55 / 77 / 55</td></tr>
 * <tr><td>96</td><td>240 / 248 / 243</td><td>52 / 78 / 52</td></tr>
 * <tr><td>128</td><td>228 / 212 / 255</td><td>85 / 68 / 68</td></tr>
 * </table>
 *
 * <p>A mask of truth values that is the same for all queries and heads, as padding is, costs a bit for each key: tiles whose keys are all there are computed as
 * without a mask. With other masks, the keys' gradient of heads above 96 spills up to five registers.
 */
final class FlashAttention {
    /** As in the source. */
    private static final int WARPS = 4;

    private static final int THREADS = 32 * WARPS;

    /** Largest head whose gradients' sums fit into the registers next to a tile. */
    private static final int LARGEST = 128;

    /** First capability whose compiler finds registers for tiles of 32 queries beside heads of 128. */
    private static final int HOPPER = 90;

    /**
     * Rows of the tiles.
     *
     * @param m times 16 queries that a warp has forward
     * @param queryTiles times 16 queries that a warp has backward
     * @param keyTiles times 16 keys that a warp has backward
     * @param keys that pass by forward
     * @param queries that pass by a block of keys
     * @param backKeys that pass by a block of queries
     */
    record Tiles(int head, int m, int queryTiles, int keyTiles, int keys, int queries, int backKeys) {
        static Tiles of(int head, Masking masking, int capability) {
            if (masking == Masking.BY_QUERY) {
                return ofMasked(head);
            }
            if (head <= 64) {
                return new Tiles(head, 2, 2, 2, 64, 32, 32);
            }
            if (head <= 80) {
                return masking == Masking.BY_KEY
                        ? new Tiles(head, 2, 2, 1, 48, 32, 32)
                        : new Tiles(head, 2, 2, 1, 48, 48, 48);
            }
            if (head <= 96) {
                return new Tiles(head, 2, 1, 1, 32, 32, 64);
            }
            return new Tiles(head, 1, 1, 1, 64, capability < HOPPER ? 16 : 32, 32);
        }

        /** Masks take registers, too. */
        private static Tiles ofMasked(int head) {
            if (head <= 80) {
                return new Tiles(head, 2, 1, 1, 32, 32, head <= 64 ? 64 : 32);
            }
            return head <= 96 ? new Tiles(head, 1, 1, 1, 64, 32, 32) : new Tiles(head, 1, 1, 1, 32, 16, 16);
        }

        /** A block for each of some rows, of which a warp has as many, with rows in shared memory. */
        private Grid grid(int length, int tilesOfWarp, int heads, int batch, int sharedTiles, int passing) {
            int rows = tilesOfWarp * 16 * WARPS;
            int padded = Math.ceilDiv(head, 16) * 16;
            int shared = (sharedTiles * rows + 4 * passing) * (padded + 8) * 2;
            return new Grid(Math.ceilDiv(length, rows), heads, batch, THREADS, shared);
        }

        Grid forward(Attention op) {
            return grid(op.queries(), m, op.heads(), op.batch(), 1, keys);
        }

        Grid queries(Attention op) {
            return grid(op.queries(), queryTiles, op.heads(), op.batch(), 2, backKeys);
        }

        Grid keys(Attention op) {
            return grid(op.keys(), keyTiles, op.keyHeads(), op.batch(), 2, queries);
        }
    }

    /** What a mask depends on. */
    enum Masking {
        NONE,
        /** Truth values, the same for all queries and heads. */
        BY_KEY,
        BY_QUERY;

        static Masking of(Attention op) {
            if (op.mask() == null) {
                return NONE;
            }
            boolean same = op.startMask(0, 1, 0) == 0 && op.startMask(0, 0, 1) == 0;
            return same && op.mask().dtype() == DType.BOOL ? BY_KEY : BY_QUERY;
        }
    }

    private final Attention op;
    private final Frame<CudaTensor> frame;
    private final CudaStream cuda;
    private final Tiles tiles;
    private final long steps;
    private final AttentionLaunch launches;

    FlashAttention(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        this(op, frame, cuda, Tiles.of(op.size(), Masking.of(op), cuda.capability()));
    }

    FlashAttention(Attention op, Frame<CudaTensor> frame, CudaStream cuda, Tiles tiles) {
        this.op = op;
        this.frame = frame;
        this.cuda = cuda;
        Masking masking = Masking.of(op);
        DType mask = op.mask() == null ? DType.F32 : op.mask().dtype();
        this.tiles = tiles;
        CudaSource source = CudaSource.of(FlashAttention.class, "flash.cu")
                .define("TYPE", CudaSource.type(op.q().dtype()))
                .define("HEAD", op.size())
                .define("CAUSAL", op.causal() ? 1 : 0)
                .define("M_TILES", tiles.m)
                .define("QUERY_TILES", tiles.queryTiles)
                .define("KEY_TILES", tiles.keyTiles)
                .define("KEYS", tiles.keys)
                .define("QUERIES", tiles.queries)
                .define("BACK_KEYS", tiles.backKeys)
                .define("MASKED", masking == Masking.NONE ? 0 : 1)
                .define("KEYWISE", masking == Masking.BY_KEY ? 1 : 0)
                .define("MASK_TYPE", CudaSource.type(mask))
                .define("TRUTH", mask == DType.BOOL ? 1 : 0);
        steps = PlainAttention.steps(op, frame, cuda);
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
        launches.forward("flash_forward", tiles.forward(op))
                .value("scale", op.scale())
                .launch();
    }

    void backward() {
        long dots = PlainAttention.dots(op, frame, cuda, steps);
        if (frame.wantsGradient(0)) {
            launches.queries("flash_queries", tiles.queries(op), dots)
                    .value("scale", op.scale())
                    .launch();
        }
        if (frame.wantsGradient(1) || frame.wantsGradient(2)) {
            launches.keys("flash_keys", tiles.keys(op), dots)
                    .value("scale", op.scale())
                    .launch();
        }
        if (op.mask() != null && frame.wantsGradient(3)) {
            new PlainAttention(op, frame, cuda).maskGradient(frame.gradient(3), dots);
        }
    }
}
