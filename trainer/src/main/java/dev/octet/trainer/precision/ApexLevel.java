package dev.octet.trainer.precision;

import dev.octet.formats.tensor.DType;

/**
 * The optimisation levels of Apex's amp, with what each stands for.
 *
 * <p>One difference: Octet keeps F32 masters of all parameters at every level. O3 has none in Apex (parameters are updated in F16 there).
 */
public enum ApexLevel {
    /** Everything in F32. */
    O0(DType.F32, AutocastList.ALL, false, 1),
    /** Functions are patched: products in F16, sensitive functions in F32. */
    O1(DType.F16, AutocastList.APEX, true, 0),
    /** The model in F16 with F32 batch normalisation and F32 masters. */
    O2(DType.F16, AutocastList.ALL_BUT_BATCH_NORM, false, 0),
    /** The model in F16. */
    O3(DType.F16, AutocastList.ALL, false, 1);

    private final DType low;
    private final AutocastList list;
    private final boolean patchesFunctions;
    private final float lossScale;

    ApexLevel(DType low, AutocastList list, boolean patchesFunctions, float lossScale) {
        this.low = low;
        this.list = list;
        this.patchesFunctions = patchesFunctions;
        this.lossScale = lossScale;
    }

    /** The level's policy with its own setting for batch normalisation. */
    public Autocast policy() {
        return new Autocast(name(), low, list);
    }

    /**
     * The level's policy.
     *
     * @param keepBatchNormF32 whether batch normalisation stays in F32; levels with a narrow model only
     */
    public Autocast policy(boolean keepBatchNormF32) {
        return new Autocast(name(), low, keepBatchNormF32 ? AutocastList.ALL_BUT_BATCH_NORM : AutocastList.ALL);
    }

    /** Whether single functions are narrowed instead of the model, which excludes the model's settings. */
    public boolean patchesFunctions() {
        return patchesFunctions;
    }

    /** The level's loss scaling. */
    public LossScaling lossScaling() {
        return lossScale == 0 ? LossScaling.ApexScaler.DEFAULT : new LossScaling.Fixed(lossScale);
    }
}
