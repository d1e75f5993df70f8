package dev.octet.trainer.observe;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.op.fp8.CastFit;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.op.fp8.QuantizedMatrix;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What the features of a layer find of one tensor in the micro-batches of a step. */
public final class TensorBuffer {
    private final DebugPlan.Layer layer;
    private final ObservedTensor tensor;
    private final boolean parity;
    private final List<Feature.Reading> features;
    private final TensorMoments moments = new TensorMoments();
    private final Map<TensorStatistic, Double> ranges = new LinkedHashMap<>();
    private final Map<CastStatistic, CastFit> casts = new LinkedHashMap<>();
    private @Nullable CastFit nvfp4;
    private boolean fed;

    /**
     * An empty buffer.
     *
     * @param features of the tensor that work in this iteration
     * @param parity whether numbers are as Transformer Engine's code finds them where that is odd
     */
    public TensorBuffer(DebugPlan.Layer layer, ObservedTensor tensor, List<Feature.Reading> features, boolean parity) {
        this.layer = layer;
        this.tensor = tensor;
        this.features = List.copyOf(features);
        this.parity = parity;
    }

    /**
     * Adds the tensor of a micro-batch. Of weights only the first counts.
     *
     * @param live how the layer quantises it
     * @throws InvalidOptionException when a statistic is one of a recipe that the layer does not have
     */
    public void feed(Sample x, LiveCast live) {
        if (fed && tensor == ObservedTensor.WEIGHT) {
            return;
        }
        fed = true;
        for (Feature.Reading feature : features) {
            switch (feature) {
                case Feature.LogTensorStats f -> feed(x, f.stats());
                case Feature.LogFp8TensorStats f -> casts(x, live, f.stats());
                case Feature.LogNvfp4TensorStats _ -> {
                    CastFit fit = Nvfp4Cast.fit(x, tensor);
                    nvfp4 = nvfp4 == null ? fit : nvfp4.and(fit);
                }
                case Feature.DumpTensors _ -> {} // written as it is
            }
        }
    }

    private void feed(Sample x, List<TensorStatistic> stats) {
        moments.add(x);
        for (TensorStatistic s : stats) {
            if (s instanceof TensorStatistic.MaxBlockwiseDynamicRange range) {
                ranges.merge(s, TensorMoments.blockwise(x, range), Math::max);
            }
        }
    }

    /** Each cast is made once, whatever is asked of it. */
    private void casts(Sample x, LiveCast live, List<CastStatistic> stats) {
        Map<List<Object>, CastFit> made = new LinkedHashMap<>();
        for (CastStatistic s : stats) {
            CastFit fit = made.computeIfAbsent(List.of(s.recipe(), s.columnwise()), _ -> fit(x, live, s));
            casts.merge(s, fit, CastFit::and);
        }
    }

    private CastFit fit(Sample x, LiveCast live, CastStatistic s) {
        Optional<CastStatistic.WhatIf> recipe = s.recipe();
        if (!s.isOfLayer()) {
            return QuantizedMatrix.of(x.values(), whatIf(x, live, recipe.orElseThrow(), s.columnwise()))
                    .fit();
        }
        QuantizedMatrix codes = live.codes(x, s.columnwise());
        if (codes == null && live.isQuantised() && !s.columnwise() && recipe.isPresent()) {
            codes = live.codes(x, true); // delayed scaling has the same codes for both
        }
        if (codes == null || (s.isOfDelayed() && !live.isDelayed())) {
            throw layer.hasNoCast(tensor, s);
        }
        return codes.fit();
    }

    /** The codes that another recipe of Transformer Engine would give the tensor; in the format that it has in the layer. */
    private CodedMatrix whatIf(Sample x, LiveCast live, CastStatistic.WhatIf recipe, boolean columnwise) {
        Float8Format format = live.format(tensor);
        int axis = columnwise ? -2 : -1;
        return switch (recipe) {
            case FP8_CURRENT_SCALING ->
                coded(x, format, new Granularity.PerTensor(), new TransformerEngineScale(0, false, false));
            case MXFP8 ->
                coded(x, format, new Granularity.Mx(axis, TrainingRecipe.Mxfp8.SIZE), new TransformerEngineMxScale());
            case FP8_BLOCK_SCALING -> {
                int size = TrainingRecipe.BlockScaling.SIZE;
                // its recipe has runs of activations and gradients; its statistics make squares of every tensor
                boolean squares = parity || tensor == ObservedTensor.WEIGHT;
                yield coded(
                        x,
                        format,
                        squares ? new Granularity.PerBlock(size, size) : new Granularity.PerGroup(axis, size),
                        new TransformerEngineScale(0, true, true));
            }
            case FP8_DELAYED_SCALING -> throw new IllegalStateException("delayed scaling has no scales but its own");
        };
    }

    private static CodedMatrix coded(Sample x, Float8Format format, Granularity granularity, QuantScaleRule rule) {
        return new CodedMatrix(format, x.blocks(granularity), rule);
    }

    /** What was found; empty before anything was fed, or where only files are written. */
    public Optional<TensorReport> report() {
        if (!fed) {
            return Optional.empty();
        }
        Map<String, Double> values = new LinkedHashMap<>();
        for (Feature.Reading feature : features) {
            switch (feature) {
                case Feature.LogTensorStats f -> f.stats().forEach(s -> values.put(s.label(), value(s)));
                case Feature.LogFp8TensorStats f -> f.stats().forEach(s -> values.put(s.label(), value(s)));
                case Feature.LogNvfp4TensorStats f ->
                    f.stats().forEach(m -> values.put("nvfp4_" + m.label(), value(m, nvfp4())));
                case Feature.DumpTensors _ -> {}
            }
        }
        return values.isEmpty()
                ? Optional.empty()
                : Optional.of(new TensorReport(layer.module().name(), tensor, values));
    }

    private double value(TensorStatistic s) {
        return switch (s) {
            case TensorStatistic.OfAll all -> moments.value(all, parity);
            case TensorStatistic.MaxBlockwiseDynamicRange _ -> ranges.getOrDefault(s, 0.0);
        };
    }

    private double value(CastStatistic s) {
        double value = value(s.measure(), Objects.requireNonNull(casts.get(s)));
        boolean isScale = s.measure() == CastStatistic.Measure.SCALE_INV_MIN
                || s.measure() == CastStatistic.Measure.SCALE_INV_MAX;
        // its statistics of MXFP8 scales are of the stored E8M0 bytes
        return parity && isScale && s.recipe().equals(Optional.of(CastStatistic.WhatIf.MXFP8))
                ? Float8Format.E8M0.encode((float) value, Overflow.SATURATE)
                : value;
    }

    private static double value(CastStatistic.Measure measure, CastFit fit) {
        return switch (measure) {
            case UNDERFLOWS -> 100.0 * fit.underflowed() / fit.elements();
            case OVERFLOWS -> 100.0 * fit.overflowed() / fit.elements();
            case SCALE_INV_MIN -> fit.smallestScale();
            case SCALE_INV_MAX -> fit.largestScale();
            case MSE -> fit.squaredError() / fit.elements();
        };
    }

    private CastFit nvfp4() {
        return Objects.requireNonNull(nvfp4);
    }

    /** Features that write the tensor to a file. */
    public List<Feature.DumpTensors> dumps() {
        List<Feature.DumpTensors> dumps = new ArrayList<>();
        for (Feature.Reading f : features) {
            if (f instanceof Feature.DumpTensors d) {
                dumps.add(d);
            }
        }
        return dumps;
    }
}
