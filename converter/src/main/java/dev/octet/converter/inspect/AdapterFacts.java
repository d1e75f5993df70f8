package dev.octet.converter.inspect;

import dev.octet.formats.peft.AdaptedModule;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * What an adapter holds.
 *
 * @param adapter its path
 * @param method {@code lora}, {@code ia3}, {@code prefix-tuning}
 * @param base name or path of the base; null when the configuration has none
 * @param task {@code CAUSAL_LM} and so on; null when the configuration has none
 * @param rank of LoRA, without patterns; null for other methods
 * @param alpha of LoRA, without patterns; null for other methods
 * @param variants what is on beside the plain method: {@code rslora}, {@code dora}, {@code lora_bias}, {@code bias all}, {@code patterns}
 * @param virtualTokens of prompt, P- and prefix tuning; null for other methods
 * @param targets the entries of {@code target_modules}, and how many of the adapter's modules each matches
 * @param parameters elements of all tensors
 * @param bytes of all tensors
 * @param dtypes number types of the tensors
 * @param modules the adapted modules, sorted by key
 * @param saved parameters of the base that were trained whole, by their path
 * @param foreignKeys keys that change what the adapter computes in a way that Octet does not know
 */
public record AdapterFacts(
        String adapter,
        String method,
        @Nullable String base,
        @Nullable String task,
        @Nullable Integer rank,
        @Nullable Double alpha,
        List<String> variants,
        @Nullable Integer virtualTokens,
        List<Target> targets,
        long parameters,
        long bytes,
        List<String> dtypes,
        List<Module> modules,
        List<TensorOf> saved,
        List<String> foreignKeys) {
    /** An entry of {@code target_modules}, and how many modules of the adapter it matches. */
    public record Target(String entry, int modules) {}

    /**
     * An adapted module.
     *
     * @param weight dimensions of the changed weight as B and A give them, [out, in]; empty where they do not
     * @param rank of LoRA, from A; null for other methods
     * @param scaling factor of LoRA's product; null for other methods
     */
    public record Module(
            String path,
            List<Long> weight,
            @Nullable Long rank,
            @Nullable Double scaling,
            long parameters,
            long bytes,
            List<TensorOf> tensors) {}

    /** A tensor. */
    public record TensorOf(String name, String dtype, List<Long> shape, long bytes) {
        private static TensorOf of(String name, Tensor tensor) {
            return new TensorOf(
                    name,
                    tensor.dtype().name(),
                    dimensions(tensor.shape()),
                    tensor.spec().byteSize());
        }
    }

    public AdapterFacts {
        variants = List.copyOf(variants);
        targets = List.copyOf(targets);
        dtypes = List.copyOf(dtypes);
        modules = List.copyOf(modules);
        saved = List.copyOf(saved);
        foreignKeys = List.copyOf(foreignKeys);
    }

    /**
     * Looks at an adapter: configuration and header, no values.
     *
     * @throws dev.octet.formats.error.OctetException when it cannot be read
     * @throws IOException when reading fails
     */
    public static AdapterFacts of(Path path) throws IOException {
        try (PeftAdapter adapter = PeftAdapter.open(path)) {
            return of(path, adapter);
        }
    }

    private static AdapterFacts of(Path path, PeftAdapter adapter) {
        PeftConfig config = adapter.config();
        LoraConfig lora = config.type() == PeftType.LORA ? config.lora() : null;
        List<Module> modules =
                adapter.modules().values().stream().map(m -> module(m, lora)).toList();
        List<TensorOf> saved = new ArrayList<>();
        adapter.saved().forEach((name, tensor) -> saved.add(TensorOf.of(name, tensor)));
        TreeSet<String> dtypes = new TreeSet<>();
        long parameters = 0;
        long bytes = 0;
        for (Tensor tensor : adapter.tensors().values()) {
            dtypes.add(tensor.dtype().name());
            parameters += tensor.shape().elementCount();
            bytes += tensor.spec().byteSize();
        }
        return new AdapterFacts(
                path.toString(),
                config.type().name().toLowerCase(Locale.ROOT).replace('_', '-'),
                config.baseModel().orElse(null),
                config.taskType().orElse(null),
                lora == null ? null : lora.r(),
                lora == null ? null : lora.loraAlpha(),
                lora == null ? List.of() : variants(lora),
                config.type().isPrompt() ? config.prompt().virtualTokens() : null,
                targets(adapter),
                parameters,
                bytes,
                List.copyOf(dtypes),
                modules,
                saved,
                lora == null ? List.of() : lora.foreignKeys());
    }

    private static List<String> variants(LoraConfig lora) {
        List<String> on = new ArrayList<>();
        if (lora.useRslora()) {
            on.add("rslora");
        }
        if (lora.useDora()) {
            on.add("dora");
        }
        if (lora.loraBias()) {
            on.add("lora_bias");
        }
        if (lora.bias() != LoraConfig.Bias.NONE) {
            on.add("bias " + lora.bias().name().toLowerCase(Locale.ROOT));
        }
        if (!lora.rankPattern().isEmpty() || !lora.alphaPattern().isEmpty()) {
            on.add("patterns");
        }
        return on;
    }

    private static List<Target> targets(PeftAdapter adapter) {
        Map<String, ModuleKind> modules = new LinkedHashMap<>();
        adapter.modules().keySet().forEach(path -> modules.put(path, ModuleKind.LINEAR));
        List<Target> targets = new ArrayList<>();
        adapter.config()
                .targets()
                .ifPresent(t -> t.counts(modules).forEach((entry, count) -> targets.add(new Target(entry, count))));
        return targets;
    }

    private static Module module(AdaptedModule module, @Nullable LoraConfig lora) {
        List<TensorOf> tensors = new ArrayList<>();
        module.tensors()
                .forEach((role, tensor) -> tensors.add(TensorOf.of(role.suffix().substring(1), tensor)));
        boolean table = module.tensor(PeftRole.LORA_EMBEDDING_A).isPresent();
        Tensor a = module.tensors().get(table ? PeftRole.LORA_EMBEDDING_A : PeftRole.LORA_A);
        Tensor b = module.tensors().get(table ? PeftRole.LORA_EMBEDDING_B : PeftRole.LORA_B);
        boolean product =
                a != null && b != null && a.shape().rank() == 2 && b.shape().rank() == 2;
        List<Long> weight = List.of();
        if (a != null && b != null && product) {
            long in = a.shape().dim(1);
            long out = b.shape().dim(0);
            weight = table ? List.of(in, out) : List.of(out, in); // a table lies as [rows, columns]
        }
        return new Module(
                module.path(),
                weight,
                a != null && product ? a.shape().dim(0) : null,
                lora != null && product ? lora.scaling(module.path()) : null,
                module.parameters(),
                module.bytes(),
                tensors);
    }

    private static List<Long> dimensions(Shape shape) {
        return Arrays.stream(shape.toArray()).boxed().toList();
    }
}
