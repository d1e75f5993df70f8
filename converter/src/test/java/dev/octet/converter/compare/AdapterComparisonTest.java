package dev.octet.converter.compare;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.function.BiConsumer;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Adapters beside each other: equal is what changes a model equally. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterComparisonTest {
    private static final Path ADAPTERS =
            Path.of(System.getProperty("octet.testdata")).resolve("adapters");
    private static final String Q0 = "model.layers.0.self_attn.q_proj";

    @TempDir
    Path folder;

    /** A copy of an adapter with another configuration or other tensors. */
    private Path changed(String adapter, BiConsumer<ObjectNode, Map<String, Tensor>> change) throws IOException {
        Path copy = folder.resolve("copy");
        try (PeftAdapter source = PeftAdapter.open(ADAPTERS.resolve(adapter))) {
            ObjectNode json = source.config().json();
            Map<String, Tensor> tensors = new LinkedHashMap<>(source.tensors());
            change.accept(json, tensors);
            PeftAdapter.write(copy, PeftConfig.of(json), tensors);
        }
        return copy;
    }

    private static Tensor tensor(String key, Shape shape, float[] values) {
        return Tensor.ofFloats(Arena.ofAuto(), key, shape, values);
    }

    private static AdapterDiff compare(Path a, Path b) throws IOException {
        return AdapterComparison.compare(a, b, Optional.empty());
    }

    @Test
    void another_factorisation_of_the_same_product_is_the_same_change() throws IOException {
        // (B R) (R^-1 A) with R = [[2, 1], [1, 1]], R^-1 = [[1, -1], [-1, 2]]
        Path other = changed("llama-lora", (json, tensors) -> {
            for (String key : List.copyOf(tensors.keySet())) {
                Tensor t = requireNonNull(tensors.get(key));
                float[] x = t.toFloats();
                float[] y = new float[x.length];
                if (key.contains("lora_B")) {
                    for (int o = 0; o < x.length / 2; o++) {
                        y[2 * o] = 2 * x[2 * o] + x[2 * o + 1];
                        y[2 * o + 1] = x[2 * o] + x[2 * o + 1];
                    }
                } else {
                    int in = x.length / 2;
                    for (int i = 0; i < in; i++) {
                        y[i] = x[i] - x[in + i];
                        y[in + i] = 2 * x[in + i] - x[i];
                    }
                }
                tensors.put(key, tensor(key, t.shape(), y));
            }
        });
        AdapterDiff diff = compare(ADAPTERS.resolve("llama-lora"), other);
        assertTrue(diff.sameChange(), diff.parts().toString());
        assertFalse(diff.identical());
        assertEquals(4, diff.parts().size());
    }

    @Test
    void a_larger_rank_with_zeros_and_another_alpha_is_the_same_change() throws IOException {
        Path other = changed("llama-lora", (json, tensors) -> {
            json.put("r", 3).put("lora_alpha", 9); // 9 / 3 = 6 / 2
            for (String key : List.copyOf(tensors.keySet())) {
                float[] x = requireNonNull(tensors.get(key)).toFloats();
                if (key.contains("lora_A")) {
                    float[] y = java.util.Arrays.copyOf(x, x.length / 2 * 3);
                    java.util.Arrays.fill(y, x.length, y.length, 7);
                    tensors.put(key, tensor(key, Shape.of(3, x.length / 2), y));
                } else {
                    float[] y = new float[x.length / 2 * 3];
                    for (int o = 0; o < x.length / 2; o++) {
                        y[3 * o] = x[2 * o];
                        y[3 * o + 1] = x[2 * o + 1];
                    }
                    tensors.put(key, tensor(key, Shape.of(x.length / 2, 3), y));
                }
            }
        });
        AdapterDiff diff = compare(ADAPTERS.resolve("llama-lora"), other);
        assertTrue(diff.sameChange(), diff.parts().toString());
        assertEquals(
                List.of("lora_alpha", "r"),
                diff.keys().stream().map(AdapterDiff.Key::name).toList());
    }

    @Test
    void a_doubled_alpha_doubles_the_delta() throws IOException {
        Path other = changed("llama-lora", (json, tensors) -> json.put("lora_alpha", 12));
        AdapterDiff diff = compare(ADAPTERS.resolve("llama-lora"), other);
        diff.parts().forEach(part -> {
            assertEquals(1, part.relative(), 1e-12);
            assertEquals(1, part.cosine(), 1e-12);
            assertEquals(2 * part.normA(), part.normB(), 1e-9);
        });
        assertEquals(1, diff.relative(), 1e-12);
        assertFalse(diff.sameChange());
    }

    @Test
    void the_numbers_are_those_of_the_products_written_out() throws IOException {
        Path a = ADAPTERS.resolve("llama-patterns");
        SplittableRandom random = new SplittableRandom(5);
        String key = PeftKeys.key(Q0, PeftRole.LORA_B);
        Path b = changed("llama-patterns", (json, tensors) -> {
            float[] values = requireNonNull(tensors.get(key)).toFloats();
            for (int i = 0; i < values.length; i++) {
                values[i] += (float) random.nextGaussian() * 0.1f;
            }
            tensors.put(key, tensor(key, requireNonNull(tensors.get(key)).shape(), values));
        });
        double[] x = delta(a);
        double[] y = delta(b);
        double difference = 0;
        double square = 0;
        for (int i = 0; i < x.length; i++) {
            difference += (x[i] - y[i]) * (x[i] - y[i]);
            square += x[i] * x[i];
        }
        AdapterDiff diff = compare(a, b);
        AdapterDiff.Part worst = diff.parts().getFirst();
        assertEquals(Q0, worst.name());
        assertEquals(Math.sqrt(difference / square), worst.relative(), 1e-9);
        assertEquals(Math.sqrt(square), worst.normA(), 1e-9);
        assertEquals(5, diff.parts().stream().filter(p -> p.relative() == 0).count());
    }

    /** s·B·A of {@link #Q0}, by the definition. */
    private static double[] delta(Path adapter) throws IOException {
        try (PeftAdapter read = PeftAdapter.open(adapter)) {
            float[] a = requireNonNull(read.tensors().get(PeftKeys.key(Q0, PeftRole.LORA_A)))
                    .toFloats();
            float[] b = requireNonNull(read.tensors().get(PeftKeys.key(Q0, PeftRole.LORA_B)))
                    .toFloats();
            int rank = read.config().lora().rank(Q0);
            int in = a.length / rank;
            double[] delta = new double[b.length / rank * in];
            for (int o = 0; o < b.length / rank; o++) {
                for (int i = 0; i < in; i++) {
                    for (int k = 0; k < rank; k++) {
                        delta[o * in + i] += read.config().lora().scaling(Q0) * b[o * rank + k] * a[k * in + i];
                    }
                }
            }
            return delta;
        }
    }

    @Test
    void factors_of_IA3_are_compared_by_their_distance_from_one() throws IOException {
        String key = PeftKeys.key("model.layers.0.self_attn.k_proj", PeftRole.IA3);
        Path other = changed("llama-ia3", (json, tensors) -> {
            float[] values = requireNonNull(tensors.get(key)).toFloats();
            for (int i = 0; i < values.length; i++) {
                values[i] = 1 + 2 * (values[i] - 1);
            }
            tensors.put(key, tensor(key, requireNonNull(tensors.get(key)).shape(), values));
        });
        AdapterDiff.Part worst =
                compare(ADAPTERS.resolve("llama-ia3"), other).parts().getFirst();
        assertEquals("factors", worst.what());
        assertEquals(1, worst.relative(), 1e-5);
    }

    @Test
    void norms_of_DoRA_virtual_tokens_and_parameters_saved_whole_are_compared() throws IOException {
        assertEquals(
                List.of("delta", "norms"),
                compare(ADAPTERS.resolve("llama-dora"), ADAPTERS.resolve("llama-dora")).parts().stream()
                        .map(AdapterDiff.Part::what)
                        .distinct()
                        .toList());
        assertEquals(
                List.of("virtual tokens"),
                compare(ADAPTERS.resolve("llama-prefix"), ADAPTERS.resolve("llama-projection")).parts().stream()
                        .map(AdapterDiff.Part::what)
                        .toList());
        assertTrue(compare(ADAPTERS.resolve("llama-saved"), ADAPTERS.resolve("llama-saved")).parts().stream()
                .anyMatch(p -> p.name().equals("lm_head.weight")));
    }

    @Test
    void every_adapter_is_identical_to_itself_in_any_order_of_its_targets() throws IOException {
        AdapterDiff diff = compare(
                ADAPTERS.resolve("llama-bias"),
                changed(
                        "llama-bias",
                        (json, tensors) ->
                                json.putArray("target_modules").add("q_proj").add("v_proj")));
        assertTrue(diff.identical(), diff.toString());
    }

    @Test
    void what_only_one_has_and_what_has_other_shapes_is_listed() throws IOException {
        AdapterDiff apart = compare(ADAPTERS.resolve("llama-lora"), ADAPTERS.resolve("gpt2-lora"));
        assertEquals(4, apart.onlyA().size());
        assertEquals(4, apart.onlyB().size());
        assertEquals(0, apart.matched());
        AdapterDiff shapes = compare(ADAPTERS.resolve("llama-lora"), changed("llama-lora", (json, tensors) -> {
            String key = PeftKeys.key(Q0, PeftRole.LORA_A);
            tensors.put(key, tensor(key, Shape.of(2, 16), new float[32]));
        }));
        assertEquals(Q0, shapes.uncomparable().getFirst().a());
        assertFalse(shapes.sameChange());
        assertEquals(Double.POSITIVE_INFINITY, shapes.worst());
        assertEquals(0.75, shapes.matched());
    }

    @Test
    void different_methods_and_patterns_that_match_nothing_are_refused() {
        assertThrows(
                InvalidDataException.class,
                () -> compare(ADAPTERS.resolve("llama-lora"), ADAPTERS.resolve("llama-ia3")));
        assertThrows(
                InvalidOptionException.class,
                () -> AdapterComparison.compare(
                        ADAPTERS.resolve("llama-lora"),
                        ADAPTERS.resolve("llama-lora"),
                        Optional.of(Pattern.compile("mlp"))));
    }

    @Test
    void experts_are_compared_one_by_one() throws IOException {
        // two experts of rank 1: A [2, in] expert by expert, B [out, 2] rank by rank; exchanging both changes the
        // weights
        String keyA = PeftKeys.key("m.experts", PeftRole.LORA_A);
        String keyB = PeftKeys.key("m.experts", PeftRole.LORA_B);
        BiConsumer<ObjectNode, Map<String, Tensor>> experts = (json, tensors) -> {
            json.put("r", 1).putArray("target_parameters").add("experts.w");
            json.putArray("target_modules");
            tensors.clear();
            tensors.put(keyA, tensor(keyA, Shape.of(2, 2), new float[] {1, 2, 3, 4}));
            tensors.put(keyB, tensor(keyB, Shape.of(2, 2), new float[] {5, 6, 7, 8}));
        };
        Path first = folder.resolve("first");
        java.nio.file.Files.move(changed("llama-lora", experts), first);
        Path exchanged = changed("llama-lora", (json, tensors) -> {
            experts.accept(json, tensors);
            tensors.put(keyA, tensor(keyA, Shape.of(2, 2), new float[] {3, 4, 1, 2}));
            tensors.put(keyB, tensor(keyB, Shape.of(2, 2), new float[] {6, 5, 8, 7}));
        });
        assertTrue(compare(first, first).sameChange());
        assertFalse(compare(first, exchanged).sameChange());
    }
}
