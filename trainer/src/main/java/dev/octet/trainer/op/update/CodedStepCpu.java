package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CpuState;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;

/** One pass, or two where a tensor has a scale. */
final class CodedStepCpu implements CpuKernel.Forward<CodedStep> {
    @Override
    public void forward(CodedStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        if (s.leftOut()) {
            keepAll(op, frame);
            return;
        }
        Tensors before = new Tensors(op, frame, s);
        List<CpuState> after = written(op, frame, s);
        long count = op.tensor().count();
        List<StateForm> forms = op.kept();
        boolean looksFirst = forms.stream().anyMatch(f -> f.scalesTensor() || f.sharesBlocks());
        if (looksFirst) {
            List<AtomicIntegerArray> blocks =
                    after.stream().map(CpuState::blocks).toList();
            float[][] largest = new float[after.size()][Math.toIntExact(Math.ceilDiv(count, (long) CpuContext.TILE))];
            tiles(count, cpu, () -> {
                Piece piece = new Piece(op, before, s);
                return (from, n) -> {
                    piece.compute(from, n);
                    for (int k = 0; k < largest.length; k++) {
                        if (after.get(k).scalesTensor()) {
                            largest[k][(int) (from / CpuContext.TILE)] = CpuState.amax(piece.kept(k), n);
                        }
                        after.get(k).raise(blocks.get(k), from, piece.kept(k), n);
                    }
                };
            });
            float[] amaxes = new float[largest.length];
            for (int k = 0; k < amaxes.length; k++) {
                amaxes[k] = CpuState.amax(largest[k], largest[k].length);
            }
            op.of().largest(amaxes);
            for (int k = 0; k < amaxes.length; k++) {
                if (after.get(k).scalesTensor()) {
                    after.get(k).rescale(amaxes[k]);
                }
                float[] each = new float[blocks.get(k).length()];
                for (int i = 0; i < each.length; i++) {
                    each[i] = Float.intBitsToFloat(blocks.get(k).get(i));
                }
                if (each.length > 0) {
                    after.get(k).rescale(op.of().largest(each));
                }
            }
        }
        tiles(count, cpu, () -> {
            Piece piece = new Piece(op, before, s);
            return (from, n) -> {
                piece.compute(from, n);
                for (int k = 0; k < after.size(); k++) {
                    after.get(k).write(from, piece.kept(k), n);
                }
            };
        });
    }

    private static List<CpuState> written(CodedStep op, Frame<CpuTensor> frame, StepScalars s) {
        List<CpuState> all = new ArrayList<>();
        List<StateForm> kept = op.kept();
        for (int k = 0; k < kept.size(); k++) {
            all.add(CpuState.of(kept.get(k), op.tensor(), frame::output, op.output(k), op.key(k, s.t())));
        }
        return all;
    }

    private static void keepAll(CodedStep op, Frame<CpuTensor> frame) {
        for (int j = 0; j < op.outputCount(); j++) {
            int parts = op.gradientInput();
            keep(frame, j < parts ? j : j + op.input(1) - op.output(1), j);
        }
    }

    /** The tensors as they were before the step. */
    private static final class Tensors {
        final CpuState p;
        final CpuState g;
        final List<CpuState> buffers = new ArrayList<>();

        Tensors(CodedStep op, Frame<CpuTensor> frame, StepScalars s) {
            p = CpuState.of(op.p(), op.tensor(), frame::input, 0, op.key(0, s.t()));
            g = CpuState.of(op.g(), op.tensor(), frame::input, op.gradientInput(), 0);
            for (int k = 0; k < op.buffers().size(); k++) {
                buffers.add(CpuState.of(op.buffers().get(k), op.tensor(), frame::input, op.input(k + 1), 0));
            }
        }
    }

    /** What one thread works with. */
    private static final class Piece {
        private final Tensors before;
        private final ElementStep.TileStep tile;
        private final float[] p = new float[CpuContext.TILE];
        private final float[] g = new float[CpuContext.TILE];
        private final float[][] buffers;

        Piece(CodedStep op, Tensors before, StepScalars s) {
            this.before = before;
            tile = op.rule().tile(s);
            buffers = new float[op.buffers().size()][CpuContext.TILE];
        }

        void compute(long from, int n) {
            before.p.read(from, p, n);
            before.g.read(from, g, n);
            for (int k = 0; k < buffers.length; k++) {
                before.buffers.get(k).read(from, buffers[k], n);
            }
            tile.run(p, g, buffers, n);
        }

        float[] kept(int k) {
            return k == 0 ? p : buffers[k - 1];
        }
    }
}
