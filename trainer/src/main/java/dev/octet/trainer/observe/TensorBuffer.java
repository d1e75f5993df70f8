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
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What the features of a layer find of one tensor in the micro-batches of a step, on one rank until it hears of the others. */
public final class TensorBuffer {
    private final DebugPlan.Layer layer;
    private final ObservedTensor tensor;
    private final boolean parity;
    private final List<Feature.Reading> features;
    private final List<Found> found = new ArrayList<>();

    /**
     * Of one micro-batch.
     *
     * @param turn in which order it counts
     * @param moments null where no feature asks for them
     * @param ranges as {@link #ranges} names them
     * @param casts as {@link #casts} names them
     * @param nvfp4 null where no feature asks for it
     */
    private record Found(
            long turn,
            TensorMoments.@Nullable Part moments,
            List<Double> ranges,
            List<CastFit> casts,
            @Nullable CastFit nvfp4) {}

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
     * @param turn in which order it counts, whichever rank has fed it; those with equal turns count in the order of ranks
     * @throws InvalidOptionException when a statistic is one of a recipe that the layer does not have
     */
    public void feed(Sample x, LiveCast live, long turn) {
        if (!found.isEmpty() && tensor == ObservedTensor.WEIGHT) {
            return;
        }
        boolean asksForMoments = features.stream().anyMatch(Feature.LogTensorStats.class::isInstance);
        boolean asksForNvfp4 = features.stream().anyMatch(Feature.LogNvfp4TensorStats.class::isInstance);
        found.add(new Found(
                turn,
                asksForMoments ? TensorMoments.Part.of(x) : null,
                ranges().stream().map(r -> TensorMoments.blockwise(x, r)).toList(),
                fits(x, live),
                asksForNvfp4 ? Nvfp4Cast.fit(x, tensor) : null));
    }

    /** Each cast is made once, whatever is asked of it. */
    private List<CastFit> fits(Sample x, LiveCast live) {
        Map<List<Object>, CastFit> made = new LinkedHashMap<>();
        return casts().stream()
                .map(s -> made.computeIfAbsent(List.of(s.recipe(), s.columnwise()), _ -> fit(x, live, s)))
                .toList();
    }

    private List<TensorStatistic.MaxBlockwiseDynamicRange> ranges() {
        List<TensorStatistic.MaxBlockwiseDynamicRange> ranges = new ArrayList<>();
        for (Feature.Reading feature : features) {
            if (feature instanceof Feature.LogTensorStats f) {
                for (TensorStatistic s : f.stats()) {
                    if (s instanceof TensorStatistic.MaxBlockwiseDynamicRange range && !ranges.contains(range)) {
                        ranges.add(range);
                    }
                }
            }
        }
        return ranges;
    }

    private List<CastStatistic> casts() {
        List<CastStatistic> casts = new ArrayList<>();
        for (Feature.Reading feature : features) {
            if (feature instanceof Feature.LogFp8TensorStats f) {
                f.stats().stream().filter(s -> !casts.contains(s)).forEach(casts::add);
            }
        }
        return casts;
    }

    /** Writes what was found, and forgets it: all ranks then {@link #read} what each has written. */
    public void drain(DataOutput out) throws IOException {
        out.writeInt(found.size());
        for (Found f : found) {
            out.writeLong(f.turn());
            if (f.moments() != null) {
                f.moments().write(out);
            }
            for (double range : f.ranges()) {
                out.writeDouble(range);
            }
            for (CastFit fit : f.casts()) {
                fit.write(out);
            }
            if (f.nvfp4() != null) {
                f.nvfp4().write(out);
            }
        }
        found.clear();
    }

    /** Adds what a rank has found, with the same features. */
    public void read(DataInput in) throws IOException {
        boolean hasMoments = features.stream().anyMatch(Feature.LogTensorStats.class::isInstance);
        boolean hasNvfp4 = features.stream().anyMatch(Feature.LogNvfp4TensorStats.class::isInstance);
        int ofRanges = ranges().size();
        int ofCasts = casts().size();
        for (int left = in.readInt(); left > 0; left--) {
            long turn = in.readLong();
            TensorMoments.Part moments = hasMoments ? TensorMoments.Part.read(in) : null;
            List<Double> ranges = new ArrayList<>();
            for (int i = 0; i < ofRanges; i++) {
                ranges.add(in.readDouble());
            }
            List<CastFit> casts = new ArrayList<>();
            for (int i = 0; i < ofCasts; i++) {
                casts.add(CastFit.read(in));
            }
            found.add(new Found(turn, moments, ranges, casts, hasNvfp4 ? CastFit.read(in) : null));
        }
    }

    /** What counts, in its order: of weights what was found of the first micro-batch. */
    private List<Found> counted() {
        List<Found> counted = new ArrayList<>(found);
        counted.sort(Comparator.comparingLong(Found::turn));
        if (tensor == ObservedTensor.WEIGHT) {
            counted.removeIf(f -> f.turn() > counted.getFirst().turn());
        }
        return counted;
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
        List<Found> all = counted();
        if (all.isEmpty()) {
            return Optional.empty();
        }
        TensorMoments moments = new TensorMoments(
                all.stream().map(Found::moments).filter(Objects::nonNull).toList());
        List<TensorStatistic.MaxBlockwiseDynamicRange> ranges = ranges();
        List<CastStatistic> casts = casts();
        Map<String, Double> values = new LinkedHashMap<>();
        for (Feature.Reading feature : features) {
            switch (feature) {
                case Feature.LogTensorStats f ->
                    f.stats()
                            .forEach(s -> values.put(
                                    s.label(),
                                    switch (s) {
                                        case TensorStatistic.OfAll of -> moments.value(of, parity);
                                        case TensorStatistic.MaxBlockwiseDynamicRange range -> {
                                            int i = ranges.indexOf(range);
                                            yield all.stream()
                                                    .mapToDouble(x -> x.ranges().get(i))
                                                    .reduce(0, Math::max);
                                        }
                                    }));
                case Feature.LogFp8TensorStats f ->
                    f.stats().forEach(s -> {
                        int i = casts.indexOf(s);
                        values.put(
                                s.label(),
                                value(s, all.stream().map(x -> x.casts().get(i))));
                    });
                case Feature.LogNvfp4TensorStats f ->
                    f.stats()
                            .forEach(m -> values.put(
                                    "nvfp4_" + m.label(),
                                    value(
                                            m,
                                            together(all.stream()
                                                    .map(Found::nvfp4)
                                                    .filter(Objects::nonNull)))));
                case Feature.DumpTensors _ -> {}
            }
        }
        return values.isEmpty()
                ? Optional.empty()
                : Optional.of(new TensorReport(layer.module().name(), tensor, values));
    }

    private static CastFit together(Stream<CastFit> fits) {
        return fits.reduce(CastFit::and).orElseThrow();
    }

    private double value(CastStatistic s, Stream<CastFit> fits) {
        double value = value(s.measure(), together(fits));
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
