package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** A checkpoint as rules see it: opened as far as it can be, sorted by module, with the values of its scales. Owned by {@link Verifier}. */
final class CheckpointSubject implements AutoCloseable {
    /** ModelOpt's configuration, next to {@code config.json}. */
    static final String QUANT_CONFIG = "hf_quant_config.json";

    private final Checkpoint checkpoint;
    private final List<MalformedModelException> problems;
    private final Map<String, LayerTensors> layers;
    private final @Nullable ObjectNode config;
    private final @Nullable ObjectNode quantConfig;
    private final QuantSettings settings;
    private final Exclusions exclusions;
    private final ScaleTable scales;
    private final List<LayerTensors> quantized;
    private final List<Scale> scaleTensors;
    private final StoredCheckpoint stored;
    private final @Nullable Checkpoint original;
    private final VerifyOptions options;
    private @Nullable Map<String, List<LayerTensors>> fusedGroups;
    private @Nullable OriginalDiff originalDiff;

    /** What other processes read of the weights; null where this one reads them. */
    private @Nullable VerifiedPart read;

    private CheckpointSubject(
            Checkpoint checkpoint,
            List<MalformedModelException> problems,
            @Nullable ObjectNode quantConfig,
            @Nullable Checkpoint original,
            VerifyOptions options)
            throws IOException {
        this.checkpoint = checkpoint;
        this.problems = problems;
        this.config = checkpoint.config().orElse(null);
        this.quantConfig = quantConfig;
        this.settings = QuantSettings.of(config, quantConfig);
        this.exclusions = Exclusions.of(settings);
        this.stored = Layouts.recognise(Headers.of(checkpoint, quantConfig));
        this.layers = LayerTensors.group(checkpoint.tensors(), stored.weights());
        this.original = original;
        this.options = options;
        this.quantized = layers.values().stream().filter(this::isQuantized).toList();
        this.scaleTensors = findScales();
        this.scales = ScaleTable.read(
                checkpoint, scaleTensors.stream().map(Scale::tensor).toList(), options.deep());
    }

    /**
     * Opens a checkpoint and, where given, the original.
     *
     * @throws MalformedModelException when none of its files can be read
     */
    static CheckpointSubject open(Path path, VerifyOptions options) throws IOException {
        List<MalformedModelException> problems = new ArrayList<>();
        Checkpoint checkpoint = Checkpoint.openLenient(path, problems::add);
        Checkpoint original = null;
        boolean opened = false;
        try {
            if (checkpoint.shards().isEmpty() && !problems.isEmpty()) {
                throw problems.getFirst();
            }
            ObjectNode quantConfig = null;
            try {
                quantConfig =
                        ModelConfig.read(checkpoint.folder(), QUANT_CONFIG).orElse(null);
            } catch (MalformedModelException e) {
                problems.add(e);
            }
            original = options.original().isPresent()
                    ? Checkpoint.open(options.original().get())
                    : null;
            CheckpointSubject subject = new CheckpointSubject(checkpoint, problems, quantConfig, original, options);
            opened = true;
            return subject;
        } finally {
            if (!opened) {
                checkpoint.close();
                if (original != null) {
                    original.close();
                }
            }
        }
    }

    /** Its quantised weights as Octet reads them. */
    StoredCheckpoint stored() {
        return stored;
    }

    Checkpoint checkpoint() {
        return checkpoint;
    }

    /** What could not be read, and why. */
    List<MalformedModelException> problems() {
        return problems;
    }

    /** All modules by path, in the order of the checkpoint. */
    Map<String, LayerTensors> layers() {
        return layers;
    }

    /** Paths of the modules that have a weight, as codes or not. */
    Set<String> storedModules() {
        return layers.values().stream()
                .filter(l -> l.isPlain() || isQuantized(l))
                .map(LayerTensors::module)
                .collect(Collectors.toSet());
    }

    /** Modules whose weight is stored as codes. */
    Stream<LayerTensors> quantized() {
        return quantized.stream();
    }

    /**
     * Whether a module's weight is stored as codes; bytes and integers count only where the configuration or a scale shows that they are
     * codes.
     */
    boolean isQuantized(LayerTensors layer) {
        return layer.isFloat8()
                || (layer.quantized()
                        && (settings.method() == QuantSettings.Method.COMPRESSED_TENSORS
                                || settings.method() == QuantSettings.Method.MODELOPT
                                || layer.first(LayerTensors.WEIGHT_SCALES).isPresent()));
    }

    /** Whether the index promises a tensor that could not be read, so that nothing is known of it. */
    boolean lost(String tensor) {
        return checkpoint.tensor(tensor) == null
                && checkpoint
                        .index()
                        .map(i -> i.weightMap().containsKey(tensor))
                        .orElse(false);
    }

    /** Modules that are Linear layers or experts by name and rank, quantised or not. */
    Stream<LayerTensors> linears() {
        return layers.values().stream().filter(l -> (l.isPlain() || isQuantized(l)) && l.isLinear());
    }

    /** Modules that are loaded into one matrix, two and more, by the name of that; found when a rule first asks. */
    synchronized Map<String, List<LayerTensors>> fusedGroups() {
        if (fusedGroups == null) {
            fusedGroups = FusedGroups.of(layers.values());
        }
        return fusedGroups;
    }

    /** Whether all files of the checkpoint could be read. */
    boolean complete() {
        return checkpoint.index().map(i -> i.shardNames().size()).orElse(1)
                <= checkpoint.shards().size();
    }

    /** {@code config.json}, or null. */
    @Nullable
    ObjectNode config() {
        return config;
    }

    /** {@code hf_quant_config.json}, or null. */
    @Nullable
    ObjectNode quantConfig() {
        return quantConfig;
    }

    /** The quantisation settings of the configuration. */
    QuantSettings settings() {
        return settings;
    }

    /** Which modules it leaves out. */
    Exclusions exclusions() {
        return exclusions;
    }

    /** The model this one was made from, or null. */
    @Nullable
    Checkpoint original() {
        return original;
    }

    /** The comparison of every element with the original's, made when a rule first asks; null without an original. */
    synchronized @Nullable OriginalDiff originalDiff() throws IOException {
        if (originalDiff == null && original != null) {
            originalDiff = OriginalDiff.of(original, checkpoint, stored, options.threads());
        }
        return originalDiff;
    }

    /**
     * Takes what other processes read in place of reading it.
     *
     * @param diff the comparison with the original; null without one
     */
    void take(VerifiedPart parts, @Nullable ModelDiff diff) {
        read = parts;
        originalDiff = diff == null ? null : OriginalDiff.of(diff, stored);
    }

    /** What other processes read of the weights; null where this one reads them. */
    @Nullable
    VerifiedPart read() {
        return read;
    }

    VerifyOptions options() {
        return options;
    }

    /** A scale and the module it belongs to. */
    record Scale(LayerTensors layer, String part, StoredTensor tensor) {
        /** Whether it multiplies or divides weights, on any level. */
        boolean ofWeight() {
            return LayerTensors.WEIGHT_SCALES.contains(part) || LayerTensors.GLOBAL_SCALES.contains(part);
        }

        boolean ofInput() {
            return LayerTensors.INPUT_SCALES.contains(part);
        }
    }

    /** All tensors that are scales by their name. */
    Stream<Scale> scales() {
        return scaleTensors.stream();
    }

    private List<Scale> findScales() {
        List<Scale> found = new ArrayList<>();
        for (LayerTensors layer : layers.values()) {
            for (LayerTensors.Part part : layer.parts()) {
                if (isScale(layer, part.name())) {
                    found.add(new Scale(layer, part.name(), part.tensor()));
                }
            }
        }
        return found;
    }

    private static boolean isScale(LayerTensors layer, String part) {
        // "scale" alone is also what some call the weight of a norm
        return part.equals("scale")
                ? layer.quantized()
                : LayerTensors.WEIGHT_SCALES.contains(part)
                        || LayerTensors.GLOBAL_SCALES.contains(part)
                        || LayerTensors.INPUT_SCALES.contains(part)
                        || LayerTensors.OTHER_SCALES.contains(part);
    }

    /** The values of a scale; empty when they were not read. */
    Optional<ScaleFacts> values(StoredTensor scale) {
        return scales.of(scale.name());
    }

    /** How many tensors of scales were too large to be read. */
    int unreadScales() {
        return scales.unread();
    }

    @Override
    public void close() throws IOException {
        checkpoint.close();
        if (original != null) {
            original.close();
        }
    }
}
