package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Scratch;
import dev.octet.trainer.op.experts.ExpertGroup;
import org.jspecify.annotations.Nullable;

/** Expert by expert what {@link Fp8LinearCpu} computes, with all threads; nothing for an expert without rows. */
public final class Fp8GroupedLinearCpu implements CpuKernel<Fp8GroupedLinear> {
    private static final Fp8LinearCpu EXPERT = new Fp8LinearCpu();
    private static final Scratch CODES = new Scratch();

    @Override
    public void forward(Fp8GroupedLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] quantScales = new float[op.experts()];
        for (int e = 0; e < op.experts(); e++) {
            ExpertGroup group = ExpertGroup.of(frame.input(Fp8GroupedLinear.OFFSETS), e);
            if (op.hasDelayedInput()) {
                // also of an expert without rows: backward finds all of them alike
                frame.input(Fp8GroupedLinear.at(e, Fp8GroupedLinear.X_QUANT_SCALE))
                        .read(0, quantScales, e, 1);
            }
            if (group.count() > 0) {
                Rows rows = new Rows(op, e, group, frame, cpu, quantScales[e]);
                if (op.records() > 0) {
                    rows.record(frame.output(Fp8GroupedLinear.RECORDED + e));
                }
                EXPERT.forward(op.expert(group.count()), rows, cpu);
            }
        }
        frame.output(Fp8GroupedLinear.X_QUANT_SCALES).write(0, quantScales, 0, quantScales.length);
    }

    @Override
    public void backward(Fp8GroupedLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] quantScales = new float[op.experts()];
        frame.output(Fp8GroupedLinear.X_QUANT_SCALES).read(0, quantScales, 0, quantScales.length);
        for (int e = 0; e < op.experts(); e++) {
            ExpertGroup group = ExpertGroup.of(frame.input(Fp8GroupedLinear.OFFSETS), e);
            if (group.count() > 0) {
                EXPERT.backward(op.expert(group.count()), new Rows(op, e, group, frame, cpu, quantScales[e]), cpu);
            } else {
                zero(frame, Fp8GroupedLinear.at(e, Fp8GroupedLinear.W));
                zero(frame, Fp8GroupedLinear.at(e, Fp8GroupedLinear.BIAS));
            }
        }
    }

    private static void zero(Frame<CpuTensor> frame, int i) {
        if (frame.wantsGradient(i) && !frame.accumulates(i)) {
            frame.gradient(i).bytes().fill((byte) 0);
        }
    }

    /** The operands of one expert's Linear. */
    private static final class Rows implements Frame<CpuTensor> {
        private final Fp8GroupedLinear op;
        private final Fp8Linear layer;
        private final int expert;
        private final ExpertGroup group;
        private final Frame<CpuTensor> all;
        private final CpuContext cpu;
        private final float quantScale;
        private @Nullable CodedMatrix form;
        private @Nullable CpuTensor codes;
        private @Nullable CpuTensor scales;

        Rows(
                Fp8GroupedLinear op,
                int expert,
                ExpertGroup group,
                Frame<CpuTensor> all,
                CpuContext cpu,
                float quantScale) {
            this.op = op;
            this.layer = op.expert(group.count());
            this.expert = expert;
            this.group = group;
            this.all = all;
            this.cpu = cpu;
            this.quantScale = quantScale;
        }

        private CpuTensor x() {
            return group.rowsOf(all.input(Fp8GroupedLinear.X), layer.in());
        }

        /** Keeps the amax of x: in a history as the pending one, which it raises, or by itself. */
        void record(CpuTensor to) {
            MatrixCodes whole = new MatrixCodes(CodedMatrix.whole(group.count(), layer.in()), cpu.parallel());
            float amax = whole.amax(x(), false)[0];
            if (op.hasDelayedInput()) {
                QuantizeFp8DelayedCpu.record(amax, to);
            } else {
                to.write(0, new float[] {amax}, 0, 1);
            }
        }

        /** Casts x as a product has it. */
        private void cast(CodedMatrix wanted) {
            if (wanted.equals(form)) {
                return;
            }
            CpuTensor x = x();
            MatrixCodes matrix = new MatrixCodes(wanted.blocks(), cpu.parallel());
            float[] quantScales = wanted.rule() == null
                    ? new float[] {quantScale}
                    : matrix.quantScales(x, wanted.format(), wanted.rule());
            CpuTensor made = CODES.room(x.type().as(wanted.format().dtype()));
            matrix.encode(x, quantScales, wanted.format(), made.bytes());
            form = wanted;
            codes = made;
            scales = CpuTensor.of(MatrixCodes.scales(quantScales));
        }

        private CpuTensor castInput(int i) {
            boolean own = i == Fp8Linear.X_CODES_WGRAD || i == Fp8Linear.X_SCALE_WGRAD;
            cast(requireNonNull(own ? layer.wgrad().right() : layer.fprop().left()));
            boolean isCodes = i == Fp8Linear.X_CODES || i == Fp8Linear.X_CODES_WGRAD;
            return requireNonNull(isCodes ? codes : scales);
        }

        @Override
        public boolean hasInput(int i) {
            int of = Fp8GroupedLinear.of(i, expert);
            return of >= 0 && all.hasInput(of);
        }

        @Override
        public CpuTensor input(int i) {
            if (i == Fp8Linear.X) {
                return x();
            }
            int of = Fp8GroupedLinear.of(i, expert);
            return of >= 0 ? all.input(of) : castInput(i);
        }

        @Override
        public CpuTensor output(int j) {
            return group.rowsOf(all.output(j), layer.out());
        }

        @Override
        public boolean hasUpstream(int j) {
            return all.hasUpstream(j);
        }

        @Override
        public CpuTensor upstream(int j) {
            return group.rowsOf(all.upstream(j), layer.out());
        }

        @Override
        public boolean wantsGradient(int i) {
            return all.wantsGradient(Fp8GroupedLinear.of(i, expert));
        }

        @Override
        public CpuTensor gradient(int i) {
            CpuTensor whole = all.gradient(Fp8GroupedLinear.of(i, expert));
            return i == Fp8Linear.X ? group.rowsOf(whole, layer.in()) : whole;
        }

        @Override
        public boolean accumulates(int i) {
            return all.accumulates(Fp8GroupedLinear.of(i, expert));
        }
    }
}
