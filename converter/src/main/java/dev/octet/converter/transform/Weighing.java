package dev.octet.converter.transform;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.transform.AwqClip;
import dev.octet.quant.transform.AwqSearch;
import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.TransformedWeight;
import dev.octet.quant.transform.WeightStep;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * AWQ on a model: factors of the channels that quantised Linears read, folded into the norm or Linear that makes them, then clips of the
 * weights. Values of attention with fewer heads than queries have the same factor in all heads that read them.
 */
final class Weighing {
    private final Transform.Awq how;
    private final TransformSources sources;
    private final ModelTransform target;

    private Weighing(Transform.Awq how, TransformSources sources, ModelTransform target) {
        this.how = how;
        this.sources = sources;
        this.target = target;
    }

    /**
     * Adds AWQ to what is done to a model.
     *
     * @throws UnsupportedModelException when no quantised Linear has an input that takes factors
     * @throws InvalidDataException when the statistics lack channels or second moments
     */
    static void add(Transform.Awq how, ModelStructure structure, TransformSources sources, ModelTransform target) {
        Weighing weighing = new Weighing(how, sources, target);
        boolean any = false;
        for (InputSite site : structure.sites()) {
            any |= !Smoothing.areHeads(site) && weighing.add(site);
        }
        if (!any) {
            throw new UnsupportedModelException(
                    "AWQ has no quantised Linear whose input comes from a norm or a Linear that takes the factors: "
                            + target.left().entrySet().stream()
                                    .findFirst()
                                    .map(e -> e.getKey() + ": " + e.getValue())
                                    .orElse("the model has no Linear"),
                    sources.where(),
                    "quantise without --transform awq");
        }
    }

    private boolean add(InputSite site) {
        Map<GraphLinear, WeightGrid> grids = site.readers().stream()
                .filter(l -> sources.grids().apply(l.weight()).isPresent())
                .collect(Collectors.toMap(
                        l -> l, l -> sources.grids().apply(l.weight()).orElseThrow(), (a, _) -> a, LinkedHashMap::new));
        Optional<String> reason = site.maker() instanceof InputSite.Other other
                ? Optional.of(other.text())
                : grids.isEmpty()
                        ? Optional.of("no weight that reads the input is quantised")
                        : site.readers().stream().anyMatch(l -> !l.outIn())
                                ? Optional.of("the weight lies as [in, out]")
                                : Optional.empty();
        if (reason.isPresent()) {
            site.readers().forEach(l -> target.leave(l.module(), reason.get()));
            return false;
        }
        String module = site.readers().getFirst().module();
        if (!sources.statistics().hasMoment(module) && module.contains("expert")) {
            site.readers().forEach(l -> target.leave(l.module(), "no sample reached it"));
            return false;
        }
        double[] magnitudes =
                sources.statistics().meanMagnitude(module).orElseThrow(() -> sources.lacks("channels", module));
        if (!sources.statistics().hasMoment(module)) {
            throw sources.lacks("second moments", module);
        }
        Supplier<AwqSearch.Found> found = new Once<>(() -> search(site, module, magnitudes, grids));
        Supplier<double[]> factors = () -> found.get().factors();
        Smoothing.fold(how.text(), site, site.maker(), factors, target);
        for (GraphLinear l : site.readers()) {
            WeightGrid grid = grids.get(l);
            int group = grid == null ? 0 : AwqSearch.groupSize(grid, l.in());
            if (grid != null && !isQueryOrKey(l) && !grid.scheme().perTensor() && group <= AwqClip.LARGEST_GROUP) {
                Supplier<WeightStep.RowClip> clip = new Once<>(() -> clip(site, module, grid, factors));
                target.step(l.weight(), new WeightStep.Clip("clipped by groups of " + group, clip));
            }
        }
        return true;
    }

    /** llm-awq does not clip what makes queries and keys: the scores are sensitive to it. */
    private static boolean isQueryOrKey(GraphLinear l) {
        String name = l.module().substring(l.module().lastIndexOf('.') + 1);
        return name.startsWith("q_") || name.startsWith("k_") || name.equals("query") || name.equals("key");
    }

    private SecondMoment moment(String module) {
        try {
            return sources.statistics().moment(module);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private AwqSearch.Found search(
            InputSite site, String module, double[] magnitudes, Map<GraphLinear, WeightGrid> grids) {
        int[] shared = new int[site.channels()];
        int[] first = new int[site.channels()];
        Arrays.fill(first, -1);
        for (int c = 0; c < shared.length; c++) {
            int maker = site.maker() instanceof InputSite.Rows rows ? rows.of(c) : c;
            first[maker] = first[maker] < 0 ? c : first[maker];
            shared[c] = first[maker];
        }
        List<AwqSearch.Reader> readers = new ArrayList<>();
        for (GraphLinear l : site.readers()) {
            if (grids.containsKey(l)) {
                readers.add(new AwqSearch.Reader(
                        sources.weights().rows(l.weight()), sources.weights().rowCount(l.weight())));
            }
        }
        WeightGrid grid = grids.values().iterator().next();
        return AwqSearch.search(
                new AwqSearch.Problem(how.duo(), magnitudes, shared, moment(module), readers, grid, sources.threads()));
    }

    private WeightStep.RowClip clip(InputSite site, String module, WeightGrid grid, Supplier<double[]> factors) {
        float whole = 1;
        if (grid.hasWholeScale()) {
            float amax = 0;
            for (GraphLinear reader : site.readers()) { // engines fuse them: one scale
                amax = Math.max(amax, amax(reader));
            }
            whole = grid.wholeScale(amax);
        }
        return new AwqClip(grid, whole, moment(module), factors.get());
    }

    /** The largest magnitude of a weight behind all steps but its clip. */
    private float amax(GraphLinear l) {
        List<WeightStep> steps = target.steps().getOrDefault(l.weight(), List.of()).stream()
                .filter(s -> !(s instanceof WeightStep.Clip))
                .toList();
        int rows = sources.weights().rowCount(l.weight());
        int cols = sources.weights().cols(l.weight());
        var source = sources.weights().rows(l.weight());
        TransformedWeight scaled =
                new TransformedWeight(steps, source, rows, cols, TransformedWeight.Room.MEMORY, sources.threads());
        float amax = 0;
        float[] row = new float[cols];
        for (int r = 0; r < rows; r++) {
            source.read(r, row);
            scaled.apply(r, row);
            for (float v : row) {
                amax = Math.max(amax, Math.abs(v));
            }
        }
        return amax;
    }
}
