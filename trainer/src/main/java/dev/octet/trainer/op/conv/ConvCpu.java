package dev.octet.trainer.op.conv;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * Taps of some rows of outputs are laid out as a matrix [taps, outputs], and a product does the rest: y = w·taps, dtaps = wᵀ·dy,
 * dw = dy·tapsᵀ. Kernels of one element, moved by one, need no such matrix: it is x itself.
 *
 * <p>A piece is a group of a sample; the gradient of w is summed within a fixed number of parts of the batch, then over the parts.
 */
final class ConvCpu implements CpuKernel<Conv> {
    /** Elements of a matrix of taps: half a second-level cache of 1 MiB. */
    private static final int BLOCK = 1 << 17;

    /** Most parts of the batch: each has sums of its own for the gradient of w. */
    private static final int PARTS = 8;

    private static final Scratch TAPS = new Scratch();
    private static final Scratch SUMS = new Scratch();

    /** Rows {@code from .. from + rows - 1} of the outputs of group {@code g} of sample {@code n}. */
    private record Block(Conv op, int n, int g, int from, int rows) {
        int outputs() {
            return rows * op.columns().out();
        }

        /** First element in y of the block's first filter. */
        long y() {
            return (long) (n * op.filters() + g * op.groupFilters()) * op.outPlane()
                    + (long) from * op.columns().out();
        }

        /** First element in x of the group's first channel. */
        long x() {
            return (long) (n * op.channels() + g * op.groupChannels()) * op.inPlane();
        }

        /** First element in w of the group's first filter. */
        long w() {
            return (long) g * op.groupFilters() * op.taps();
        }
    }

    private static boolean isDirect(Conv op) {
        return op.rows().isIdentity() && op.columns().isIdentity();
    }

    private static int blockRows(Conv op) {
        if (isDirect(op)) {
            return Math.max(1, op.rows().out());
        }
        long row = Math.max(1, (long) op.taps() * op.columns().out());
        return (int) Math.max(1, Math.min(op.rows().out(), BLOCK / row));
    }

    private static MemorySegment from(CpuTensor t, long element) {
        return t.bytes().asSlice(element * t.dtype().bits() / 8);
    }

    @Override
    public void forward(Conv op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor w = frame.input(1);
        CpuTensor y = frame.output(0);
        int height = blockRows(op);
        cpu.parallel().pieces(op.batch() * op.groups(), piece -> {
            if (op.hasBias()) {
                fill(op, frame.input(2), y, piece / op.groups(), piece % op.groups());
            }
            for (int r = 0; r < op.rows().out(); r += height) {
                Block block = block(op, piece, r, height);
                int width = block.outputs();
                Call product = new Call(
                        false,
                        false,
                        op.groupFilters(),
                        width,
                        op.taps(),
                        op.taps(),
                        isDirect(op) ? op.outPlane() : width,
                        op.outPlane(),
                        w.dtype(),
                        y.dtype(),
                        op.hasBias());
                cpu.gemm().single(product, from(w, block.w()), taps(block, frame.input(0)), from(y, block.y()));
            }
        });
    }

    private static Block block(Conv op, int piece, int row, int height) {
        return new Block(
                op,
                piece / op.groups(),
                piece % op.groups(),
                row,
                Math.min(height, op.rows().out() - row));
    }

    private static void fill(Conv op, CpuTensor bias, CpuTensor y, int n, int g) {
        float[] plane = new float[op.outPlane()];
        float[] one = new float[1];
        for (int f = g * op.groupFilters(); f < (g + 1) * op.groupFilters(); f++) {
            bias.read(f, one, 0, 1);
            Arrays.fill(plane, one[0]);
            y.write((long) (n * op.filters() + f) * op.outPlane(), plane, 0, plane.length);
        }
    }

    /** The matrix of taps [taps, outputs] of a block, in the type of x. */
    private static MemorySegment taps(Block block, CpuTensor x) {
        Conv op = block.op();
        if (isDirect(op)) {
            return from(x, block.x());
        }
        CpuTensor taps = TAPS.room(new OperandType(x.dtype(), Shape.of(op.taps(), block.outputs())));
        float[] plane = new float[op.inPlane()];
        float[] outputs = new float[block.outputs()];
        int tap = 0;
        for (int c = 0; c < op.groupChannels(); c++) {
            x.read(block.x() + (long) c * op.inPlane(), plane, 0, plane.length);
            for (int i = 0; i < op.rows().kernel(); i++) {
                for (int j = 0; j < op.columns().kernel(); j++) {
                    gather(block, plane, i, j, outputs);
                    taps.write((long) tap++ * outputs.length, outputs, 0, outputs.length);
                }
            }
        }
        return taps.bytes();
    }

    private static void gather(Block block, float[] plane, int i, int j, float[] outputs) {
        Window rows = block.op().rows();
        Window columns = block.op().columns();
        int first = columns.first(j);
        int end = columns.end(j);
        for (int r = 0; r < block.rows(); r++) {
            int row = rows.at(block.from() + r, i);
            int to = r * columns.out();
            if (row < 0 || row >= rows.in() || first == end) {
                Arrays.fill(outputs, to, to + columns.out(), 0);
                continue;
            }
            Arrays.fill(outputs, to, to + first, 0);
            int at = row * columns.in() + columns.at(first, j);
            if (columns.stride() == 1) {
                System.arraycopy(plane, at, outputs, to + first, end - first);
            } else {
                for (int c = first; c < end; c++, at += columns.stride()) {
                    outputs[to + c] = plane[at];
                }
            }
            Arrays.fill(outputs, to + end, to + columns.out(), 0);
        }
    }

    private static void scatter(Block block, float[] plane, int start, int i, int j, float[] outputs) {
        Window rows = block.op().rows();
        Window columns = block.op().columns();
        int first = columns.first(j);
        int end = columns.end(j);
        for (int r = 0; r < block.rows(); r++) {
            int row = rows.at(block.from() + r, i);
            if (row < 0 || row >= rows.in()) {
                continue;
            }
            int from = r * columns.out();
            int at = start + row * columns.in() + columns.at(0, j);
            if (columns.stride() == 1) { // the same with a stride that the compiler knows
                for (int c = first; c < end; c++) {
                    plane[at + c] += outputs[from + c];
                }
            } else {
                for (int c = first; c < end; c++) {
                    plane[at + c * columns.stride()] += outputs[from + c];
                }
            }
        }
    }

    @Override
    public void backward(Conv op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (frame.wantsGradient(0)) {
            cpu.parallel().pieces(op.batch() * op.groups(), piece -> inputGradient(op, frame, piece, cpu));
        }
        if (frame.wantsGradient(1)) {
            weightGradient(op, frame, cpu);
        }
        if (op.hasBias() && frame.wantsGradient(2)) {
            biasGradient(op, frame, cpu);
        }
    }

    private static void inputGradient(Conv op, Frame<CpuTensor> frame, int piece, CpuContext cpu) {
        CpuTensor w = frame.input(1);
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        int height = blockRows(op);
        float[] planes = new float[op.groupChannels() * op.inPlane()];
        for (int r = 0; r < op.rows().out(); r += height) {
            Block block = block(op, piece, r, height);
            CpuTensor dtaps = SUMS.room(new OperandType(DType.F32, Shape.of(op.taps(), block.outputs())));
            Call product = new Call(
                    true,
                    false,
                    op.taps(),
                    block.outputs(),
                    op.groupFilters(),
                    op.taps(),
                    op.outPlane(),
                    block.outputs(),
                    w.dtype(),
                    DType.F32,
                    false);
            cpu.gemm().single(product, from(w, block.w()), from(dy, block.y()), dtaps.bytes());
            addTaps(block, dtaps, planes);
        }
        dx.write(block(op, piece, 0, height).x(), planes, 0, planes.length);
    }

    private static void addTaps(Block block, CpuTensor dtaps, float[] planes) {
        Conv op = block.op();
        float[] outputs = new float[block.outputs()];
        int tap = 0;
        for (int c = 0; c < op.groupChannels(); c++) {
            for (int i = 0; i < op.rows().kernel(); i++) {
                for (int j = 0; j < op.columns().kernel(); j++) {
                    dtaps.read((long) tap++ * outputs.length, outputs, 0, outputs.length);
                    scatter(block, planes, c * op.inPlane(), i, j, outputs);
                }
            }
        }
    }

    private static void weightGradient(Conv op, Frame<CpuTensor> frame, CpuContext cpu) {
        int parts = Math.min(PARTS, op.batch());
        int length = op.groupFilters() * op.taps();
        float[][] sums = new float[parts * op.groups()][];
        cpu.parallel().pieces(sums.length, piece -> {
            int part = piece / op.groups();
            CpuTensor dw = SUMS.room(new OperandType(DType.F32, Shape.of(op.groupFilters(), op.taps())));
            dw.bytes().fill((byte) 0);
            for (int n = part * op.batch() / parts; n < (part + 1) * op.batch() / parts; n++) {
                addWeightGradient(op, frame, n, piece % op.groups(), dw, cpu);
            }
            sums[piece] = new float[length];
            dw.read(0, sums[piece], 0, length);
        });
        for (int g = 0; g < op.groups(); g++) {
            float[] total = sums[g];
            for (int part = 1; part < parts; part++) {
                float[] more = sums[part * op.groups() + g];
                for (int i = 0; i < length; i++) {
                    total[i] += more[i];
                }
            }
            frame.gradient(1).write((long) g * length, total, 0, length);
        }
    }

    private static void addWeightGradient(Conv op, Frame<CpuTensor> frame, int n, int g, CpuTensor dw, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        int height = blockRows(op);
        for (int r = 0; r < op.rows().out(); r += height) {
            Block block = block(op, n * op.groups() + g, r, height);
            Call product = new Call(
                    false,
                    true,
                    op.groupFilters(),
                    op.taps(),
                    block.outputs(),
                    op.outPlane(),
                    isDirect(op) ? op.outPlane() : block.outputs(),
                    op.taps(),
                    dy.dtype(),
                    DType.F32,
                    true);
            cpu.gemm().single(product, from(dy, block.y()), taps(block, frame.input(0)), dw.bytes());
        }
    }

    private static void biasGradient(Conv op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        float[] sums = new float[op.filters()];
        cpu.parallel().pieces(op.filters(), f -> {
            float[] plane = new float[op.outPlane()];
            double sum = 0;
            for (int n = 0; n < op.batch(); n++) {
                dy.read((long) (n * op.filters() + f) * op.outPlane(), plane, 0, plane.length);
                for (float x : plane) {
                    sum += x;
                }
            }
            sums[f] = (float) sum;
        });
        frame.gradient(2).write(0, sums, 0, sums.length);
    }
}
