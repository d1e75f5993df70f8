package dev.octet.trainer.kernel;

import java.util.Arrays;

/**
 * Gradients of broadcast operands: one sweep over the result computes the gradients of all operands tile by tile, and sums those of
 * repeated elements. Work is split along the outermost axis by size alone; where an operand is repeated along that axis (a bias), each
 * piece has its own sums, which are added in piece order. Thus results are bitwise independent of the number of threads.
 */
public final class RepeatedGradient {
    /** Maximum number of pieces of a sum. */
    private static final long PIECES = 64;

    /** Maximum total number of elements of an operand's sums over all pieces: 32 MiB. */
    private static final long SUMS = 8L << 20;

    private RepeatedGradient() {}

    /** Computes one tile. */
    public interface Tiles {
        /**
         * Computes the requested gradients at elements {@code from .. from + n - 1} of the result.
         *
         * @param scratch tiles for the upstream gradient and the operands
         * @param gradients one tile per operand; those not requested are left unchanged
         */
        void compute(long from, int n, float[][] scratch, float[][] gradients);
    }

    /** Computes and writes the requested gradients of the operands {@code 0 .. operands - 1}. */
    public static void run(Broadcast broadcast, int operands, Frame<CpuTensor> frame, CpuContext cpu, Tiles tiles) {
        run(Fold.SUM, broadcast, operands, frame, cpu, tiles);
    }

    /**
     * Folds tile values of repeated elements of one operand.
     *
     * @param target receives the operand's elements, row-major
     */
    public static void fold(Fold fold, Broadcast broadcast, float[] target, CpuContext cpu, Tiles tiles) {
        run(fold, broadcast, 1, new OneGradient(CpuTensor.of(target)), cpu, tiles);
    }

    private static void run(
            Fold fold, Broadcast broadcast, int operands, Frame<CpuTensor> frame, CpuContext cpu, Tiles tiles) {
        boolean summed = false;
        long largest = 1;
        for (int k = 0; k < operands; k++) {
            if (frame.wantsGradient(k) && !broadcast.isWhole(k)) {
                summed = true;
                if (broadcast.outerStride(k) == 0) {
                    largest = Math.max(largest, frame.gradient(k).count());
                }
            }
        }
        long count = broadcast.count();
        if (!summed) {
            cpu.parallel()
                    .ranges(
                            count,
                            CpuContext.GRAIN,
                            (from, to) -> new Piece(fold, broadcast, operands, frame, tiles).run(from, to));
            return;
        }
        if (count == 0) {
            for (int k = 0; k < operands; k++) {
                if (frame.wantsGradient(k)) {
                    CpuTensor empty = frame.gradient(k);
                    float[] start = new float[Math.toIntExact(empty.count())];
                    Arrays.fill(start, fold.start());
                    empty.write(0, start, 0, start.length);
                }
            }
            return;
        }
        long rows = broadcast.outerLength();
        long rowLength = count / rows;
        long mostPieces = Math.max(1, Math.min(PIECES, SUMS / largest));
        long grain = Math.max(Math.ceilDiv(rows, mostPieces), Math.ceilDiv(CpuContext.GRAIN, rowLength));
        Piece[] pieces = new Piece[(int) Math.ceilDiv(rows, grain)];
        cpu.parallel().ranges(rows, grain, (from, to) -> {
            Piece piece = new Piece(fold, broadcast, operands, frame, tiles);
            piece.startSums(from, to);
            piece.run(from * rowLength, to * rowLength);
            piece.writeSlices();
            pieces[(int) (from / grain)] = piece;
        });
        for (int k = 0; k < operands; k++) {
            if (frame.wantsGradient(k) && !broadcast.isWhole(k) && broadcast.outerStride(k) == 0) {
                writeTotal(fold, frame.gradient(k), k, pieces);
            }
        }
    }

    private static void writeTotal(Fold fold, CpuTensor gradient, int k, Piece[] pieces) {
        float[] total = pieces[0].sums[k];
        for (int p = 1; p < pieces.length; p++) {
            fold.into(total, 0, pieces[p].sums[k], 0, total.length);
        }
        gradient.write(0, total, 0, total.length);
    }

    /** A frame with only the target of a fold. */
    private record OneGradient(CpuTensor target) implements Frame<CpuTensor> {
        @Override
        public boolean hasInput(int i) {
            return false;
        }

        @Override
        public CpuTensor input(int i) {
            throw new IllegalStateException("no inputs");
        }

        @Override
        public CpuTensor output(int j) {
            throw new IllegalStateException("no outputs");
        }

        @Override
        public boolean hasUpstream(int j) {
            return false;
        }

        @Override
        public CpuTensor upstream(int j) {
            throw new IllegalStateException("no upstream");
        }

        @Override
        public boolean wantsGradient(int i) {
            return i == 0;
        }

        @Override
        public CpuTensor gradient(int i) {
            return target;
        }

        @Override
        public boolean accumulates(int i) {
            return false;
        }
    }

    private static final class Piece {
        private final Fold fold;
        private final Broadcast broadcast;
        private final Frame<CpuTensor> frame;
        private final Tiles tiles;
        private final float[][] scratch;
        private final float[][] gradients;

        /** Sums of this piece for each operand whose gradient is summed; null for other operands. */
        private final float[][] sums;

        private final long[] base;

        Piece(Fold fold, Broadcast broadcast, int operands, Frame<CpuTensor> frame, Tiles tiles) {
            this.fold = fold;
            this.broadcast = broadcast;
            this.frame = frame;
            this.tiles = tiles;
            scratch = new float[operands + 1][CpuContext.TILE];
            gradients = new float[operands][CpuContext.TILE];
            sums = new float[operands][];
            base = new long[operands];
        }

        private boolean isSummed(int k) {
            return frame.wantsGradient(k) && !broadcast.isWhole(k);
        }

        void startSums(long firstRow, long endRow) {
            for (int k = 0; k < sums.length; k++) {
                if (isSummed(k)) {
                    long stride = broadcast.outerStride(k);
                    long length = stride == 0 ? frame.gradient(k).count() : stride * (endRow - firstRow);
                    sums[k] = new float[Math.toIntExact(length)];
                    Arrays.fill(sums[k], fold.start());
                    base[k] = stride * firstRow;
                }
            }
        }

        void run(long from, long to) {
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                tiles.compute(at, n, scratch, gradients);
                for (int k = 0; k < gradients.length; k++) {
                    if (!frame.wantsGradient(k)) {
                        continue;
                    }
                    if (broadcast.isWhole(k)) {
                        frame.gradient(k).write(at, gradients[k], 0, n);
                    } else {
                        broadcast.fold(fold, k, gradients[k], at, n, sums[k], base[k]);
                    }
                }
            }
        }

        /** Writes the sums that belong to this piece alone. */
        void writeSlices() {
            for (int k = 0; k < sums.length; k++) {
                if (isSummed(k) && broadcast.outerStride(k) != 0) {
                    frame.gradient(k).write(base[k], sums[k], 0, sums[k].length);
                }
            }
        }
    }
}
