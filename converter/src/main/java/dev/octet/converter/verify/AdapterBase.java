package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.regex.Pattern;

/** The base of an adapter: which modules its checkpoint has, and the shapes of their weights. */
final class AdapterBase {
    private static final Pattern HEAD = Pattern.compile("(.*\\.)?(lm_head|score|classifier|cls\\.predictions\\.decoder)");
    private static final Pattern TABLE = Pattern.compile("(.*\\.)?(embed\\w*|wte|wpe|\\w*_embeddings?|shared)");
    private static final Pattern TIED = Pattern.compile("(.*\\.)?(embed_tokens|wte|word_embeddings|shared)");
    private static final String WEIGHT = ".weight";

    private final String path;
    private final SequencedMap<String, Shape> weights;

    private final SequencedMap<String, ModuleKind> kinds = new LinkedHashMap<>();

    private AdapterBase(String path, SequencedMap<String, Shape> weights) {
        this.path = path;
        this.weights = weights;
        weights.forEach((module, shape) -> kinds.put(module, kind(module, shape)));
    }

    /**
     * Reads the headers of a checkpoint.
     *
     * @throws IOException when it cannot be read
     */
    static AdapterBase open(Path path) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(path)) {
            StoredCheckpoint stored = Layouts.recognise(Headers.of(checkpoint, null));
            SequencedMap<String, Shape> weights = new LinkedHashMap<>();
            for (TensorSpec plain : stored.plain().values()) {
                if (plain.name().endsWith(WEIGHT)) {
                    weights.put(StoredWeight.moduleOf(plain.name()), plain.shape());
                }
            }
            stored.weights().values().forEach(w -> weights.put(w.module(), w.shape()));
            return new AdapterBase(path.toString(), weights);
        }
    }

    private static ModuleKind kind(String module, Shape shape) {
        if (shape.rank() < 2) {
            return ModuleKind.NORM;
        }
        if (HEAD.matcher(module).matches()) {
            return ModuleKind.OUTPUT_HEAD;
        }
        return TABLE.matcher(module).matches() ? ModuleKind.EMBEDDING : ModuleKind.LINEAR;
    }

    /** The path, for messages. */
    String path() {
        return path;
    }

    /** Its modules with a weight, and what they are as far as names and shapes tell. */
    SequencedMap<String, ModuleKind> kinds() {
        return Collections.unmodifiableSequencedMap(kinds);
    }

    /**
     * The shape of the weight of a module that an adapter names. The names of a checkpoint may lack the parts in front that the model's class
     * adds ({@code transformer.}), or have more of them.
     */
    Optional<Shape> shape(String module) {
        return find(module).map(weights::get);
    }

    /** What a module that an adapter names is. */
    Optional<ModuleKind> kind(String module) {
        return find(module).map(kinds::get);
    }

    private Optional<String> find(String module) {
        for (String end = module; ; end = end.substring(end.indexOf('.') + 1)) {
            if (weights.containsKey(end)) {
                return Optional.of(end);
            }
            if (end.indexOf('.') < 0) {
                break;
            }
        }
        Optional<String> longer = weights.keySet().stream()
                .filter(name -> name.endsWith("." + module))
                .findFirst();
        // a tied head has no weight of its own
        return longer.or(() -> HEAD.matcher(module).matches()
                ? kinds.entrySet().stream()
                        .filter(e -> TIED.matcher(e.getKey()).matches())
                        .map(Map.Entry::getKey)
                        .findFirst()
                : Optional.empty());
    }
}
