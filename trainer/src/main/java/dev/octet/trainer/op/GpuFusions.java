package dev.octet.trainer.op;

import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.op.cast.CastFusion;
import dev.octet.trainer.op.fp8.ActivationFusion;
import dev.octet.trainer.op.fp8.DelayedCastFusion;
import dev.octet.trainer.op.fp8.GatedFusion;
import dev.octet.trainer.op.fp8.GatedGradientFusion;
import dev.octet.trainer.op.fp8.GeluGradientFusion;
import dev.octet.trainer.op.fp8.RunsFusion;
import dev.octet.trainer.op.fp8.ScoreGradientFusion;
import dev.octet.trainer.op.norm.RowNormFusion;
import dev.octet.trainer.op.norm.RowNormGradientFusion;
import dev.octet.trainer.op.product.LinearGradientFusion;
import dev.octet.trainer.op.rotary.RotaryFusion;
import dev.octet.trainer.op.update.AdafactorStepCuda;
import dev.octet.trainer.op.update.AdamStepCuda;
import dev.octet.trainer.op.update.CodedSquareSumCuda;
import dev.octet.trainer.op.update.CodedStepCuda;
import dev.octet.trainer.op.update.LionStepCuda;
import dev.octet.trainer.op.update.SgdStepCuda;
import dev.octet.trainer.op.update.SquareSumCuda;
import dev.octet.trainer.op.update.TrustRatioCuda;
import dev.octet.trainer.op.update.UpdateRmsCuda;
import dev.octet.trainer.op.update.WeightAverageCuda;
import java.util.List;

/** Steps that a GPU does together. One more is one class next to the twins it stands for and one row here. */
public final class GpuFusions {
    /** In the order in which they are tried. */
    public static final List<CudaFusion> ALL = List.of(
            new RowNormFusion(),
            new RowNormGradientFusion(),
            new ScoreGradientFusion(),
            new GatedFusion(),
            new GatedGradientFusion(),
            new RunsFusion(),
            new ActivationFusion(),
            new GeluGradientFusion(),
            new RotaryFusion(),
            new LinearGradientFusion(),
            new CastFusion(),
            new DelayedCastFusion(),
            new SquareSumCuda(),
            new CodedSquareSumCuda(),
            new CodedStepCuda(),
            new UpdateRmsCuda(),
            new TrustRatioCuda(),
            new AdamStepCuda(),
            new AdafactorStepCuda(),
            new SgdStepCuda(),
            new LionStepCuda(),
            new WeightAverageCuda());

    private GpuFusions() {}
}
