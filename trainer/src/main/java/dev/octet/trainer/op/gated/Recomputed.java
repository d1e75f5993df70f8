package dev.octet.trainer.op.gated;

import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.Map;

/**
 * The operands of a step, some of them made again elsewhere.
 *
 * @param inputs those by which inputs are replaced, by their numbers
 * @param outputs the same of outputs
 */
record Recomputed(Frame<CudaTensor> of, Map<Integer, CudaTensor> inputs, Map<Integer, CudaTensor> outputs)
        implements Frame<CudaTensor> {
    @Override
    public boolean hasInput(int i) {
        return inputs.containsKey(i) || of.hasInput(i);
    }

    @Override
    public CudaTensor input(int i) {
        CudaTensor made = inputs.get(i);
        return made == null ? of.input(i) : made;
    }

    @Override
    public CudaTensor output(int j) {
        CudaTensor made = outputs.get(j);
        return made == null ? of.output(j) : made;
    }

    @Override
    public boolean hasUpstream(int j) {
        return of.hasUpstream(j);
    }

    @Override
    public CudaTensor upstream(int j) {
        return of.upstream(j);
    }

    @Override
    public boolean wantsGradient(int i) {
        return of.wantsGradient(i);
    }

    @Override
    public CudaTensor gradient(int i) {
        return of.gradient(i);
    }

    @Override
    public boolean accumulates(int i) {
        return of.accumulates(i);
    }
}
