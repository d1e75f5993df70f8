package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** The CUDA twins of Muon's operators: a launch for each matrix. */
final class MuonCuda {
    private static final CudaSource SOURCE = CudaSource.of(MuonCuda.class, "muon.cu");

    private MuonCuda() {}

    static void momentum(MuonMomentum op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.g().count() > 0) {
            cuda.launch(
                    SOURCE,
                    "muon_momentum_" + frame.input(0).suffix(),
                    Grid.over(op.g().count(), 256, 4),
                    frame.input(0),
                    frame.input(1),
                    frame.input(2),
                    frame.input(3),
                    CudaSource.code(op.to()),
                    frame.output(0),
                    frame.output(1),
                    op.g().count(),
                    op.momentum(),
                    op.nesterov() ? 1 : 0);
        }
    }

    static void scale(MuonScale op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.x().count() > 0) {
            cuda.launch(
                    SOURCE,
                    "muon_scale_" + frame.input(0).suffix(),
                    Grid.over(op.x().count(), 256, 4),
                    frame.input(0),
                    frame.input(1),
                    frame.output(0),
                    op.x().count(),
                    op.eps());
        }
    }

    static void step(MuonStep op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.p().count() > 0) {
            cuda.launch(
                    SOURCE,
                    "muon_" + frame.input(0).suffix(),
                    Grid.over(op.p().count(), 256, 4),
                    frame.input(0),
                    CudaSource.code(op.o().dtype()),
                    frame.input(1),
                    frame.input(2),
                    frame.input(3),
                    frame.output(0),
                    op.p().count(),
                    op.weightDecay(),
                    op.adjustment());
        }
    }
}
