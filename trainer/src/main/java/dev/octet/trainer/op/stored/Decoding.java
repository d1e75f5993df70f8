package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.ScaleTensor.Direction;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.merge.LowRank;
import dev.octet.quant.scale.ScaleNumbers;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The decoding that is law: one element after the other, as {@link WeightForm} describes it.
 *
 * @param w what the operands mean
 * @param first number of the first operand
 */
record Decoding(StoredMatrix w, int first) {
    /** All elements, row-major; F32 numbers. */
    double[] elements(Frame<double[]> frame) {
        return switch (w) {
            case StoredMatrix.Floats _ -> frame.input(first);
            case StoredMatrix.Merged merged -> merged(merged, frame);
            case StoredMatrix.Codes(WeightForm form) -> {
                double[] zeroPoints = form.zeroPointRows() > 0 ? frame.input(first + 2) : new double[0];
                yield decoded(form, frame.input(first), frame.input(first + 1), zeroPoints);
            }
        };
    }

    /** The sum rounded by the writer's own quantiser, whose bits there is no other way to have. */
    private double[] merged(StoredMatrix.Merged merged, Frame<double[]> frame) {
        List<MergedTiles.Summand> summands = new ArrayList<>();
        int at = first;
        for (StoredMatrix.Member member : merged.members()) {
            double[] base = new Decoding(member.base(), at).elements(frame);
            int factors = at + member.base().operands().size();
            int cols = member.base().cols();
            summands.add(new MergedTiles.Summand(
                    (from, to, floats) -> {
                        for (long i = from * cols; i < to * cols; i++) {
                            floats.set(
                                    Tensor.F32_LE, (i - from * cols) * Float.BYTES, (float) base[Math.toIntExact(i)]);
                        }
                    },
                    LowRank.of(
                            floats(frame.input(factors)),
                            floats(frame.input(factors + 1)),
                            member.base().shape(),
                            member.orientation(),
                            member.factor()),
                    member.base().rows(),
                    cols));
            at += member.operands().size();
        }
        MergedTiles tiles = new MergedTiles(merged, summands);
        tiles.prepare(Parallel.ALONE);
        double[] elements = new double[merged.rows() * merged.cols()];
        MemorySegment bytes = MemorySegment.ofArray(new byte[elements.length * Float.BYTES]);
        tiles.read(0, merged.rows(), DType.F32, bytes);
        for (int i = 0; i < elements.length; i++) {
            elements[i] = bytes.get(Tensor.F32_LE, (long) i * Float.BYTES);
        }
        return elements;
    }

    private static float[] floats(double[] values) {
        float[] floats = new float[values.length];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = (float) values[i];
        }
        return floats;
    }

    /** Elements rounded to a narrow type. */
    double[] elements(Frame<double[]> frame, DType type) {
        double[] all = elements(frame);
        if (type == DType.F32) {
            return all;
        }
        MemorySegment one = MemorySegment.ofArray(new byte[2]);
        double[] rounded = new double[all.length];
        for (int i = 0; i < all.length; i++) {
            Floats.set(type, one, 0, (float) all[i]);
            rounded[i] = Floats.get(type, one, 0);
        }
        return rounded;
    }

    private static double[] decoded(WeightForm form, double[] codes, double[] scales, double[] zeroPoints) {
        Blocks blocks = form.blocks();
        int rows = Math.toIntExact(form.shape().dim(0));
        int cols = Math.toIntExact(form.shape().dim(1));
        float[] values = CodeTables.codes(form);
        double[] elements = new double[rows * cols];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                int scale = (int) blocks.scaleOf((long) r * cols + c);
                float code = values[code(form, codes, r, c)] - zeroPoint(form, zeroPoints, r, c, scale);
                elements[r * cols + c] = code * scale(form, scales, scale);
            }
        }
        return elements;
    }

    private static int code(WeightForm form, double[] bytes, int row, int col) {
        int start = Math.toIntExact(row * form.rowBytes());
        boolean half =
                form.codes().bits() == 4 && (form.inWords() || form.codes().bytes(2) == 1);
        int b = (int) bytes[start + (half ? col / 2 : col)];
        return half ? (b >> (col % 2 * 4)) & 15 : b;
    }

    private static float zeroPoint(WeightForm form, double[] bytes, int row, int col, int scale) {
        if (form.zeroPointRows() == 0) {
            return 0;
        }
        if (form.zeroPointRows() == 1) {
            return (byte) (int) bytes[scale];
        }
        int groups = Math.toIntExact(form.blocks().gridCols());
        int bits = form.codes().bits();
        int group = col / Math.toIntExact(form.blocks().blockCols());
        int bit = row % form.zeroPointRows() * bits;
        int at = (row / form.zeroPointRows() * groups + group) * Integer.BYTES + bit / 8;
        int code = ((int) bytes[at] >> (bit % 8)) & ((1 << bits) - 1);
        return code - (1 << (bits - 1));
    }

    private static float scale(WeightForm form, double[] bytes, int index) {
        int width = form.scale().bits() / 8;
        byte[] stored = new byte[width];
        for (int i = 0; i < width; i++) {
            stored[i] = (byte) (int) bytes[index * width + i];
        }
        MemorySegment f32 = MemorySegment.ofArray(new byte[Float.BYTES]);
        ScaleNumbers.read(form.scale(), MemorySegment.ofArray(stored), 1, f32);
        float scale = f32.get(Tensor.F32_LE, 0);
        scale = form.direction() == Direction.DIVISOR ? 1 / scale : scale;
        WeightForm.Second second = form.second();
        if (second == null) {
            return scale;
        }
        return second.direction() == Direction.DIVISOR ? scale / second.value() : scale * second.value();
    }
}
