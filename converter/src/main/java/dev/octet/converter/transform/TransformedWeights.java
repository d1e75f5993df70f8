package dev.octet.converter.transform;

import dev.octet.converter.checkpoint.MergedWeights;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.transform.TransformedWeight;
import dev.octet.quant.transform.WeightStep;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What transforms do to the weights of a checkpoint, as they are streamed. */
public final class TransformedWeights implements MergedWeights {
    private final ModelTransform transform;
    private final TransformSources sources;
    private final TransformedWeight.Room room;

    /** @param room for weights whose rows a rotation mixes */
    public TransformedWeights(ModelTransform transform, TransformSources sources, TransformedWeight.Room room) {
        this.transform = transform;
        this.sources = sources;
        this.room = room;
    }

    @Override
    public Set<String> names() {
        return transform.steps().keySet();
    }

    @Override
    public Map<String, String> added() {
        return transform.added();
    }

    @Override
    public boolean measured() {
        return false;
    }

    @Override
    public String whenNotFinite() {
        return "look for NaN and infinity in the model (`octet inspect MODEL`), or leave the transform out";
    }

    @Override
    public WeightDelta delta(String name) {
        List<WeightStep> steps = transform.steps().get(name);
        if (steps == null) {
            throw new IllegalArgumentException("no transform changes '" + name + "'");
        }
        String base = transform.added().getOrDefault(name, name);
        return new TransformedWeight(
                steps,
                sources.weights().rows(base),
                sources.weights().rowCount(base),
                sources.weights().cols(base),
                room,
                sources.threads());
    }
}
