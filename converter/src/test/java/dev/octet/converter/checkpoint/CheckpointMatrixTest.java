package dev.octet.converter.checkpoint;

import static dev.octet.converter.checkpoint.MadeCheckpoint.TESTDATA;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Severity;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every checkpoint of testdata through every recipe and target: a model that keeps its promises, or a refusal that leaves nothing. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CheckpointMatrixTest {
    @TempDir
    Path folder;

    static Stream<Path> checkpoints() throws IOException {
        try (Stream<Path> own = Files.list(TESTDATA);
                Stream<Path> foreign = Files.list(TESTDATA.resolve("foreign"))) {
            return Stream.concat(own, foreign)
                    .filter(p -> Files.exists(p.resolve("config.json")))
                    .map(TESTDATA::relativize)
                    .sorted()
                    .toList()
                    .stream();
        }
    }

    @ParameterizedTest
    @MethodSource("checkpoints")
    void a_checkpoint_becomes_a_sound_model_or_is_refused(Path name) throws IOException {
        Path source = TESTDATA.resolve(name);
        int written = 0;
        for (Recipe usual : Recipes.CHECKPOINT) {
            // models of width 32 have no whole group of 128
            Recipe recipe = usual.withGroups(new Granularity.PerGroup(-1, 16));
            for (Layout layout : Layouts.ALL) {
                Path out = folder.resolve(recipe.name() + "-" + layout.name());
                ConversionRequest goal = MadeCheckpoint.goal(recipe, layout.name());
                try {
                    MadeCheckpoint.run(source, goal, out);
                } catch (InvalidOptionException | UnsupportedModelException | MalformedModelException refusal) {
                    assertFalse(Files.exists(out), () -> out + " is left after: " + refusal.getMessage());
                    assertTrue(mayRefuse(name, recipe, layout), () -> out.getFileName() + ": " + refusal.getMessage());
                    continue;
                }
                written++;
                new Result(source, out, recipe, layout).check();
            }
        }
        assertEquals(written == 0, refusedAltogether(name), written + " combinations were written");
    }

    /** GPT-2 stores its matrices the other way round; swizzled scales are in an order that only matrix units know. */
    private static boolean refusedAltogether(Path name) {
        return Set.of("gpt2", "foreign/torchao-mxfp8", "foreign/torchao-nvfp4").contains(name.toString());
    }

    private static boolean mayRefuse(Path name, Recipe recipe, Layout layout) {
        boolean noWayToSay = layout.scheme(
                        recipe, MadeCheckpoint.goal(recipe, layout.name()).options())
                .isEmpty();
        // models of width 32 have no whole block of 128 x 128 for readers that take rows over scales for the block
        boolean tooSmall = recipe.equals(Recipes.FP8_BLOCK)
                && !layout.name().equals("compressed-tensors")
                && !name.toString().contains("llama-128")
                && !name.startsWith("foreign");
        return noWayToSay || tooSmall || refusedAltogether(name);
    }

    /** What was written, next to what it was made from. */
    private record Result(Path source, Path out, Recipe recipe, Layout layout) {
        void check() throws IOException {
            try (CheckpointConverter before = CheckpointConverter.open(source);
                    CheckpointConverter after = CheckpointConverter.open(out)) {
                assertEquals(layout.name(), after.stored().layout(), out.toString());
                assertFalse(after.stored().weights().isEmpty(), out.toString());
                Set<String> expected = new LinkedHashSet<>();
                for (StoredWeight weight : after.stored().weights().values()) {
                    near(before, after, weight);
                    weight.tensors().forEach(t -> expected.add(t.name()));
                }
                for (TensorSpec plain : before.stored().plain().values()) {
                    if (!after.stored().weights().containsKey(plain.name())) {
                        expected.add(plain.name());
                        assertArrayEquals(
                                MadeCheckpoint.raw(before.checkpoint(), plain.name()),
                                MadeCheckpoint.raw(after.checkpoint(), plain.name()),
                                out + ": " + plain.name());
                    }
                }
                assertEquals(expected, new LinkedHashSet<>(inOrder(after.checkpoint(), expected)), "tensors of " + out);
                assertEquals(
                        before.checkpoint().shards().stream().map(s -> s.name()).toList(),
                        after.checkpoint().shards().stream().map(s -> s.name()).toList());
            }
            files();
            clean();
        }

        /** The tensors of the file, those that are expected first and in the order expected, so that sets compare readably. */
        private static List<String> inOrder(Checkpoint checkpoint, Set<String> expected) {
            Set<String> names = new LinkedHashSet<>(expected);
            names.retainAll(checkpoint.tensors().keySet());
            names.addAll(checkpoint.tensors().keySet());
            return List.copyOf(names);
        }

        /** Each value lies as near to the original as the number format allows. */
        private void near(CheckpointConverter before, CheckpointConverter after, StoredWeight weight)
                throws IOException {
            float[] x = MadeCheckpoint.values(before, weight.name());
            float[] y = MadeCheckpoint.values(after, weight.name());
            int cols = (int) weight.shape().dim(-1);
            Bound bound = Bound.of(recipe, cols, x.length);
            for (int from = 0; from < x.length; from += bound.group()) {
                float amax = 0;
                for (int i = from; i < Math.min(x.length, from + bound.group()); i++) {
                    amax = Math.max(amax, Math.abs(x[i]));
                }
                for (int i = from; i < Math.min(x.length, from + bound.group()); i++) {
                    double allowed = bound.relative() * Math.abs(x[i]) + bound.absolute() * amax;
                    if (!(Math.abs(x[i] - y[i]) <= allowed)) {
                        throw new AssertionError(out + ": " + weight.name() + "[" + i + "] was " + x[i] + ", is " + y[i]
                                + ", may differ by " + allowed);
                    }
                }
            }
        }

        private void files() throws IOException {
            Map<String, String> before = new TreeMap<>(MadeCheckpoint.sums(source));
            Map<String, String> after = new TreeMap<>(MadeCheckpoint.sums(out));
            for (String edited : List.of("config.json", "hf_quant_config.json", ShardIndex.FILE_NAME)) {
                before.remove(edited);
                after.remove(edited);
            }
            before.keySet().removeIf(n -> n.endsWith(".safetensors"));
            after.keySet().removeIf(n -> n.endsWith(".safetensors"));
            assertEquals(before, after, "files that go along to " + out);
            ObjectNode config = MadeCheckpoint.json(source.resolve("config.json"));
            ObjectNode edited = MadeCheckpoint.json(out.resolve("config.json"));
            config.remove("quantization_config");
            requireNonNull(edited.remove("quantization_config"));
            assertEquals(config, edited);
        }

        /** What the verifier knows of the programs that read this layout, it does not find here. */
        private void clean() throws IOException {
            EnumSet<Consumer> readers = EnumSet.of(Consumer.VLLM, Consumer.SGLANG);
            // one scale per weight: transformers looks for weight_scale_inv, the others for weight_scale
            boolean otherName = layout.name().equals("fp8") && recipe.equals(Recipes.CHECKPOINT_FP8);
            // blocks that overhang, or a single column of them: vLLM reads them, transformers does not
            boolean oddBlocks = layout.name().equals("compressed-tensors") && recipe.equals(Recipes.FP8_BLOCK);
            if (!otherName && !oddBlocks) {
                readers.add(layout.name().equals("modelopt") ? Consumer.TENSORRT_LLM : Consumer.TRANSFORMERS);
            }
            List<Finding> errors =
                    Verifier.verify(out, VerifyOptions.defaults().withConsumers(readers)).findings().stream()
                            .filter(f -> f.severity() == Severity.ERROR)
                            // not every engine has a method for every scheme, however sound the checkpoint
                            .filter(f -> !f.rule().equals("method-supported"))
                            .toList();
            assertEquals(List.of(), errors, out.toString());
            assertEquals(List.of(), besideTheSource(readers), out.toString());
        }

        /** What a look at every element finds: every code the nearest, everything else as it was. */
        private List<Finding> besideTheSource(Set<Consumer> readers) throws IOException {
            Set<String> rules = Set.of(
                    "weight-differs", "weight-rounding", "weight-direction", "weight-transposed", "value-differs");
            VerifyOptions options = VerifyOptions.defaults()
                    .withConsumers(readers)
                    .withDeep(true)
                    .withOriginal(source);
            return Verifier.verify(out, options).findings().stream()
                    .filter(f -> rules.contains(f.rule()))
                    .toList();
        }
    }

    /**
     * How far a value may be from its original: {@code relative} of itself, {@code absolute} of the largest of its group. Half a step of the
     * number format each, and the step by which a scale is rounded.
     */
    private record Bound(int group, double relative, double absolute) {
        static Bound of(Recipe recipe, int cols, int all) {
            double fp8 = 1.001 / 16;
            // half the smallest step, 2^-10, over the largest code; eight times it, since siblings with larger values
            // share the scale
            double least = 8 * 0x1p-10 / 448;
            int group = switch (recipe.weight().granularity()) {
                case Granularity.PerTensor _, Granularity.PerBlock _ -> all;
                case Granularity.PerChannel _, Granularity.PerToken _ -> cols;
                case Granularity.PerGroup(int _, int size) -> size;
                case Granularity.Mx(int _, int size) -> size;
            };
            boolean mx = recipe.weight().granularity() instanceof Granularity.Mx;
            return switch (recipe.weight().type()) {
                // a block whose largest value lies between 448 and 512 times its scale saturates
                case E4M3FN -> new Bound(group, mx ? 1.0 / 8 : fp8, least);
                case E2M1 -> new Bound(group, 0.25, 0.25 / 6 * 1.07);
                case INT8 -> new Bound(group, 0.001, 0.5 / 127 * 1.01);
                case INT8_ASYMMETRIC -> new Bound(group, 0.001, 2.0 / 255 * 1.01);
                // half a step of fifteen, and what rounding the scale to BF16 adds to eight of them
                case INT4 -> new Bound(group, 0.005, 0.5 / 7.5 * 1.01);
                case INT4_ASYMMETRIC -> new Bound(group, 0.005, 2.0 / 15 * 1.01);
                case E5M2, E4M3FNUZ, E5M2FNUZ -> throw new AssertionError(recipe.name());
            };
        }
    }

    @Test
    void every_number_of_threads_writes_the_same_bytes() throws IOException {
        Path source = MadeCheckpoint.small(folder.resolve("source"))
                .noise("model-00001-of-00002.safetensors", "model.layers.1.mlp.gate_proj.weight", 0.02, 1500, 512)
                .noise("model-00002-of-00002.safetensors", "model.layers.1.mlp.up_proj.weight", 0.03, 1500, 512)
                .write();
        for (Recipe recipe : List.of(
                Recipes.CHECKPOINT_FP8,
                Recipes.FP8_BLOCK,
                Recipes.NVFP4,
                Recipes.INT8_ASYMMETRIC,
                Recipes.INT4,
                Recipes.INT4_ASYMMETRIC)) {
            ConversionRequest goal = MadeCheckpoint.goal(recipe, "compressed-tensors");
            Map<String, String> one = Map.of();
            for (int threads : new int[] {1, 2, 3, 7}) {
                Path out = folder.resolve(recipe.name() + threads);
                MadeCheckpoint.run(
                        source, goal, CheckpointConverter.Request.all(), out, MadeCheckpoint.threads(threads));
                Map<String, String> sums = MadeCheckpoint.sums(out);
                one = threads == 1 ? sums : one;
                assertEquals(one, sums, recipe.name() + " with " + threads + " threads");
            }
        }
    }

    @Test
    void the_index_lists_every_tensor_and_their_bytes() throws IOException {
        Path source = MadeCheckpoint.small(folder.resolve("source")).write();
        Path out = folder.resolve("out");
        MadeCheckpoint.run(source, MadeCheckpoint.goal(Recipes.NVFP4, "compressed-tensors"), out);
        ShardIndex index = ShardIndex.read(out.resolve(ShardIndex.FILE_NAME));
        try (Checkpoint checkpoint = Checkpoint.open(out)) {
            assertEquals(checkpoint.tensors().keySet(), index.weightMap().keySet());
            long bytes = checkpoint.tensors().values().stream()
                    .mapToLong(t -> t.spec().byteSize())
                    .sum();
            assertEquals(bytes, index.totalSize().orElseThrow());
            checkpoint
                    .tensors()
                    .forEach((name, t) ->
                            assertEquals(t.shard().name(), index.weightMap().get(name), name));
        }
    }

    @Test
    void a_refusal_says_why_nothing_is_quantised() {
        OctetException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.plan(
                        TESTDATA.resolve("gpt2"), MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors")));
        assertTrue(refusal.what().contains("[in, out]"), refusal.what());
    }
}
