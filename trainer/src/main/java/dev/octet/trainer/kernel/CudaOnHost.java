package dev.octet.trainer.kernel;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToIntFunction;

/**
 * The CPU twin of an operator, as a twin for GPUs: operands are copied to memory of the host, and results back. For steps that do what only the host can, as an exchange
 * between processes: the GPU waits meanwhile.
 *
 * @param twin must not compute matrix products
 * @param inputs how many inputs the operator has
 */
public record CudaOnHost<O extends Op>(CpuKernel<O> twin, ToIntFunction<O> inputs) implements CudaKernel<O> {
    private static final CpuContext HOST = new CpuContext(Parallel.ALONE, new NoProducts());

    @Override
    public void forward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        List<CudaTensor> read = new ArrayList<>();
        for (int i = 0; i < inputs.applyAsInt(op); i++) {
            if (frame.hasInput(i) && op.forwardReadsInput(i)) {
                read.add(frame.input(i));
            }
        }
        List<CudaTensor> written = new ArrayList<>();
        for (int j = 0; j < op.outputs().size() + op.saved().size(); j++) {
            written.add(frame.output(j));
        }
        cuda.onHost(new CudaHostCall(
                op.type(), read, written, copies -> twin.forward(op, new Copies(frame, copies), HOST)));
    }

    @Override
    public void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        List<CudaTensor> read = new ArrayList<>();
        List<CudaTensor> written = new ArrayList<>();
        for (int i = 0; i < inputs.applyAsInt(op); i++) {
            if (frame.hasInput(i) && op.backwardReadsInput(i)) {
                read.add(frame.input(i));
            }
            if (op.isDifferentiable(i) && frame.wantsGradient(i)) {
                written.add(frame.gradient(i));
                if (frame.accumulates(i)) {
                    read.add(frame.gradient(i));
                }
            }
        }
        for (int j = 0; j < op.outputs().size() + op.saved().size(); j++) {
            if (j >= op.outputs().size() || op.backwardReadsOutput(j)) {
                read.add(frame.output(j));
            }
            if (frame.hasUpstream(j)) {
                read.add(frame.upstream(j));
            }
        }
        cuda.onHost(new CudaHostCall(
                op.type() + " backward", read, written, copies -> twin.backward(op, new Copies(frame, copies), HOST)));
    }

    private static final class NoProducts implements MatrixProducts {
        @Override
        public String name() {
            return "none";
        }

        @Override
        public void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c) {
            throw none();
        }

        @Override
        public void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel) {
            throw none();
        }

        private static IllegalStateException none() {
            return new IllegalStateException("a step on the host beside a GPU multiplies matrices");
        }
    }

    /** The operands in memory of the host. */
    private record Copies(Frame<CudaTensor> frame, Function<CudaTensor, CpuTensor> of) implements Frame<CpuTensor> {
        @Override
        public boolean hasInput(int i) {
            return frame.hasInput(i);
        }

        @Override
        public CpuTensor input(int i) {
            return of.apply(frame.input(i));
        }

        @Override
        public CpuTensor output(int j) {
            return of.apply(frame.output(j));
        }

        @Override
        public boolean hasUpstream(int j) {
            return frame.hasUpstream(j);
        }

        @Override
        public CpuTensor upstream(int j) {
            return of.apply(frame.upstream(j));
        }

        @Override
        public boolean wantsGradient(int i) {
            return frame.wantsGradient(i);
        }

        @Override
        public CpuTensor gradient(int i) {
            return of.apply(frame.gradient(i));
        }

        @Override
        public boolean accumulates(int i) {
            return frame.accumulates(i);
        }
    }
}
