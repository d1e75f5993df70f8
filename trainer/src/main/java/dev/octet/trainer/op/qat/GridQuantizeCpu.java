package dev.octet.trainer.op.qat;

import dev.octet.quant.block.Blocks;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Parallel;
import org.jspecify.annotations.Nullable;

/** Band of rows by band of rows. Sums of a band are F64 and are added up in the order of the bands. */
final class GridQuantizeCpu implements CpuKernel<GridQuantize> {
    @Override
    public void forward(GridQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        Steps steps = steps(op, frame);
        CpuTensor x = frame.input(GridQuantize.X);
        CpuTensor y = frame.output(0);
        Bands bands = new Bands(op.blocks());
        bands.each(cpu.parallel(), (_, from, to) -> {
            float[] tile = new float[bands.cols];
            for (long row = from; row < to; row++) {
                x.read(row * bands.cols, tile, 0, bands.cols);
                int first = bands.first(row);
                for (int c = 0; c < tile.length; c++) {
                    tile[c] = steps.value(tile[c], first + bands.columns[c]);
                }
                y.write(row * bands.cols, tile, 0, bands.cols);
            }
        });
    }

    @Override
    public void backward(GridQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (op.rule() == StepRule.PASSED) {
            if (frame.wantsGradient(GridQuantize.X)) {
                frame.gradient(GridQuantize.X)
                        .bytes()
                        .copyFrom(frame.upstream(0).bytes());
            }
            return;
        }
        Steps steps = steps(op, frame);
        CpuTensor x = frame.input(GridQuantize.X);
        CpuTensor up = frame.upstream(0);
        Bands bands = new Bands(op.blocks());
        CpuTensor dx = frame.wantsGradient(GridQuantize.X) ? frame.gradient(GridQuantize.X) : null;
        Sums step = sums(frame, GridQuantize.STEP, bands);
        Sums pre = sums(frame, GridQuantize.PRE, bands);
        Sums offset = sums(frame, GridQuantize.OFFSET, bands);
        bands.each(cpu.parallel(), (band, from, to) -> {
            float[] values = new float[bands.cols];
            float[] g = new float[bands.cols];
            for (long row = from; row < to; row++) {
                x.read(row * bands.cols, values, 0, bands.cols);
                up.read(row * bands.cols, g, 0, bands.cols);
                int first = bands.first(row);
                for (int c = 0; c < g.length; c++) {
                    int k = first + bands.columns[c];
                    if (step != null) {
                        step.add(band, k, (double) g[c] * steps.stepSlope(values[c], k));
                    }
                    if (pre != null) {
                        pre.add(band, k, (double) g[c] * steps.preSlope(values[c], k));
                    }
                    if (offset != null) {
                        offset.add(band, k, (double) g[c] * steps.offsetSlope(values[c], k));
                    }
                    g[c] *= steps.slope(values[c], k);
                }
                if (dx != null) {
                    dx.write(row * bands.cols, g, 0, bands.cols);
                }
            }
        });
        write(step, frame, GridQuantize.STEP, op.parameterFactor());
        write(pre, frame, GridQuantize.PRE, op.parameterFactor());
        write(offset, frame, GridQuantize.OFFSET, op.factor());
    }

    private static @Nullable Sums sums(Frame<CpuTensor> frame, int input, Bands bands) {
        return frame.wantsGradient(input) ? new Sums(bands) : null;
    }

    private static void write(@Nullable Sums sums, Frame<CpuTensor> frame, int input, double factor) {
        if (sums != null) {
            float[] all = sums.total(factor);
            frame.gradient(input).write(0, all, 0, all.length);
        }
    }

    private static Steps steps(GridQuantize op, Frame<CpuTensor> frame) {
        return Steps.of(
                op,
                floats(frame.input(GridQuantize.STEP)),
                frame.hasInput(GridQuantize.OFFSET) ? floats(frame.input(GridQuantize.OFFSET)) : null,
                frame.hasInput(GridQuantize.PRE) ? floats(frame.input(GridQuantize.PRE)) : null,
                frame.hasInput(GridQuantize.GLOBAL) ? floats(frame.input(GridQuantize.GLOBAL)) : null);
    }

    private static float[] floats(CpuTensor t) {
        float[] all = new float[Math.toIntExact(t.count())];
        t.read(0, all, 0, all.length);
        return all;
    }

    /** Rows in bands, whatever the number of threads; the block of an element is that of its row plus that of its column. */
    private static final class Bands {
        private final Blocks blocks;
        private final int cols;
        private final int[] columns;
        private final int height;
        private final int count;

        interface Body {
            void accept(int band, long from, long to);
        }

        Bands(Blocks blocks) {
            this.blocks = blocks;
            this.cols = Math.toIntExact(blocks.cols());
            this.columns = new int[cols];
            for (int c = 0; c < cols; c++) {
                columns[c] = (int) (c / blocks.blockCols());
            }
            this.height = Math.toIntExact(Math.clamp(CpuContext.GRAIN / Math.max(1, cols), 1, 1 << 20));
            this.count = cols == 0 ? 0 : Math.toIntExact(Math.ceilDiv(blocks.rows(), height));
        }

        int first(long row) {
            return (int) (row / blocks.blockRows() * blocks.gridCols());
        }

        void each(Parallel parallel, Body body) {
            parallel.pieces(
                    count,
                    band -> body.accept(
                            band, (long) band * height, Math.min(blocks.rows(), (long) (band + 1) * height)));
        }
    }

    /** A sum for each block, in parts for each band. */
    private static final class Sums {
        private final Bands bands;
        private final double[][] parts;
        private final int[] firsts;

        Sums(Bands bands) {
            this.bands = bands;
            this.parts = new double[bands.count][];
            this.firsts = new int[bands.count];
            for (int b = 0; b < parts.length; b++) {
                long last = Math.min(bands.blocks.rows(), (long) (b + 1) * bands.height) - 1;
                firsts[b] = bands.first((long) b * bands.height);
                parts[b] = new double[bands.first(last) + (int) bands.blocks.gridCols() - firsts[b]];
            }
        }

        void add(int band, int block, double x) {
            parts[band][block - firsts[band]] += x;
        }

        float[] total(double factor) {
            double[] sums = new double[Math.toIntExact(bands.blocks.scaleCount())];
            for (int b = 0; b < parts.length; b++) {
                for (int i = 0; i < parts[b].length; i++) {
                    sums[firsts[b] + i] += parts[b][i];
                }
            }
            float[] all = new float[sums.length];
            for (int i = 0; i < all.length; i++) {
                all[i] = (float) (sums[i] * factor);
            }
            return all;
        }
    }
}
