package dev.octet.converter.verify;

import dev.octet.converter.merge.BaseWeights;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.regex.Pattern;

/** What is known of the base of an adapter: which modules its checkpoint has, and the shapes of their weights. */
final class BaseShapes {
    private static final Pattern HEAD =
            Pattern.compile("(.*\\.)?(lm_head|score|classifier|cls\\.predictions\\.decoder)");
    private static final Pattern TABLE = Pattern.compile("(.*\\.)?(embed\\w*|wte|wpe|\\w*_embeddings?|shared)");
    private static final Pattern TOKENS = Pattern.compile("(.*\\.)?(embed_tokens|wte|word_embeddings|shared)");
    private static final String WEIGHT = ".weight";

    private final BaseWeights weights;
    private final SequencedMap<String, ModuleKind> kinds = new LinkedHashMap<>();

    private BaseShapes(BaseWeights weights) {
        this.weights = weights;
        weights.shapes().forEach((name, shape) -> {
            if (name.endsWith(WEIGHT)) {
                String module = StoredWeight.moduleOf(name);
                kinds.put(module, kind(module, shape));
            }
        });
    }

    /**
     * Reads the headers of a checkpoint.
     *
     * @throws IOException when it cannot be read
     */
    static BaseShapes open(Path path) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(path)) {
            return new BaseShapes(BaseWeights.of(checkpoint, Layouts.recognise(Headers.of(checkpoint, null))));
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

    /** Its modules with a weight, and what they are as far as names and shapes tell. */
    SequencedMap<String, ModuleKind> kinds() {
        return Collections.unmodifiableSequencedMap(kinds);
    }

    /** The shape of the weight of a module that an adapter names; empty where the base has no such module. */
    Optional<Shape> shape(String module) {
        return find(module).map(weights.shapes()::get);
    }

    /** What a module that an adapter names is; empty where the base has no such module. */
    Optional<ModuleKind> kind(String module) {
        return find(module).map(StoredWeight::moduleOf).map(kinds::get);
    }

    /** The name of its weight in the checkpoint, which may lack the parts in front that the model's class adds. */
    private Optional<String> find(String module) {
        Optional<String> own = Optional.ofNullable(weights.byPath().get(module + WEIGHT));
        // a tied head has no weight of its own
        return own.or(() -> HEAD.matcher(module).matches()
                ? kinds.keySet().stream()
                        .filter(name -> TOKENS.matcher(name).matches())
                        .map(name -> name + WEIGHT)
                        .findFirst()
                : Optional.empty());
    }
}
