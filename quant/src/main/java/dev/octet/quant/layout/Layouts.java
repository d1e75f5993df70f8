package dev.octet.quant.layout;

import dev.octet.quant.block.Granularity;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** All layouts. One more is one more class and its place in {@link #ALL}. */
public final class Layouts {
    /** In the order help lists them, and in which configurations are asked. */
    public static final List<Layout> ALL =
            List.of(new CompressedTensorsLayout(), new Fp8Layout(), new ModelOptLayout());

    /** The layout of a checkpoint that has nothing quantised, or codes without scales. */
    public static final String PLAIN = "plain";

    private static final String TRANSFORMER_ENGINE = "transformer-engine";

    private Layouts() {}

    /** The layout that users call {@code name}; empty when there is none. */
    public static Optional<Layout> named(String name) {
        return ALL.stream().filter(l -> l.name().equals(name)).findFirst();
    }

    /**
     * Recognises the quantised weights of any checkpoint. Never fails: without a configuration that a layout knows, names, types and
     * shapes of the tensors speak for themselves, and a checkpoint with nothing quantised is {@link #PLAIN}.
     */
    public static StoredCheckpoint recognise(Headers headers) {
        return ALL.stream()
                .flatMap(l -> l.recognise(headers).stream())
                .findFirst()
                .or(() -> Torchao.recognise(headers))
                .orElseGet(() -> byNames(headers));
    }

    private static StoredCheckpoint byNames(Headers headers) {
        List<String> notes = new ArrayList<>();
        String method =
                Configs.quantization(headers.config()).map(Configs::method).orElse("");
        if (!method.isEmpty()) {
            notes.add("quant_method '" + method + "' is none that Octet knows");
        }
        StoredCheckpoint found = asTheOthers(headers, notes);
        String layout = found.weights().values().stream()
                .flatMap(w -> likeliest(w).stream())
                .findFirst()
                .orElse(PLAIN);
        if (!layout.equals(PLAIN)) {
            notes.add(
                    "no configuration that Octet knows says how this checkpoint is quantised; its names and shapes are"
                            + " those of "
                            + layout);
        } else if (found.others().keySet().stream().anyMatch(n -> n.endsWith(WeightFinder.EXTRA_STATE))) {
            layout = TRANSFORMER_ENGINE;
        }
        return new StoredCheckpoint(
                layout, found.weights(), found.plain(), found.others(), List.copyOf(notes), found.recipe());
    }

    /**
     * All weights by names and shapes. A weight of one block looks like one with a single scale: it is taken for what the others are.
     */
    private static StoredCheckpoint asTheOthers(Headers headers, List<String> notes) {
        List<String> before = List.copyOf(notes);
        StoredCheckpoint found = new WeightFinder(headers, _ -> WeightFinder.Expectation.NONE, notes).find(PLAIN);
        Optional<Granularity> blocks = found.weights().values().stream()
                .map(StoredWeight::granularity)
                .filter(Granularity.PerBlock.class::isInstance)
                .findFirst();
        if (blocks.isEmpty()) {
            return found;
        }
        notes.clear();
        notes.addAll(before);
        WeightFinder.Expectation expectation = new WeightFinder.Expectation(blocks.orElseThrow(), null);
        return new WeightFinder(headers, _ -> expectation, notes).find(PLAIN);
    }

    /** The layout that names and shapes of one weight's tensors are those of; empty when it has no scale. */
    private static Optional<String> likeliest(StoredWeight weight) {
        ScaleTensor scale = weight.scale();
        if (scale == null) {
            return Optional.empty();
        }
        if (scale.name().endsWith("_inv") || scale.name().endsWith(".scale")) {
            return Optional.of(Fp8Layout.NAME);
        }
        boolean modelOpt = scale.name().endsWith("scaling_factor")
                || scale.spec().shape().rank() == 4
                || (weight.granularity() instanceof Granularity.PerChannel
                        && scale.spec().shape().rank() == 1)
                || (weight.globalScale() != null
                        && weight.globalScale().direction() == ScaleTensor.Direction.MULTIPLIER)
                || scale.spec().shape().rank() == 0;
        return Optional.of(modelOpt ? ModelOptLayout.NAME : CompressedTensorsLayout.NAME);
    }
}
