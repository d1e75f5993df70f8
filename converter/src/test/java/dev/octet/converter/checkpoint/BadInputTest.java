package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints with something wrong or odd about them: refused by name with nothing left, or taken as what they are. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BadInputTest {
    private static final String A = "model-00001-of-00002.safetensors";
    private static final String B = "model-00002-of-00002.safetensors";
    private static final String Q = "model.layers.0.self_attn.q_proj.weight";
    private static final String K = "model.layers.0.self_attn.k_proj.weight";
    private static final String V = "model.layers.0.self_attn.v_proj.weight";
    private static final ConversionRequest DYNAMIC = MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors");

    @TempDir
    Path folder;

    private Path source;
    private Path out;

    @BeforeEach
    void names() {
        source = folder.resolve("source");
        out = folder.resolve("out");
    }

    private <E extends Exception> E refused(Class<E> kind, Executable run) {
        E refusal = assertThrows(kind, run);
        assertFalse(Files.exists(out), () -> "left after " + refusal);
        return refusal;
    }

    private OctetException refused(ConversionRequest goal) {
        return refused(OctetException.class, () -> MadeCheckpoint.run(source, goal, out));
    }

    private static CheckpointConverter.Request request(Selection selection, boolean allowNonFinite) {
        return new CheckpointConverter.Request(selection, Map.of(), AttentionScales.NONE, allowNonFinite, false, false);
    }

    private static Selection selection(List<String> keep, List<String> only, List<String> include) {
        return new Selection(patterns(keep), patterns(only), patterns(include), Map.of());
    }

    private static List<Pattern> patterns(List<String> texts) {
        return texts.stream().map(Pattern::compile).toList();
    }

    private List<String> quantized(CheckpointConverter.Request request) throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(source)) {
            return converter.plan(DYNAMIC, request, MadeCheckpoint.threads(2)).decisions().stream()
                    .filter(WeightDecision::quantized)
                    .map(WeightDecision::name)
                    .sorted()
                    .toList();
        }
    }

    private String reason(ConversionRequest goal, String name) throws IOException {
        return MadeCheckpoint.plan(source, goal).decisions().stream()
                .filter(d -> d.name().equals(name))
                .findFirst()
                .orElseThrow()
                .reason();
    }

    private void packed(int bits, boolean withOrder) throws IOException {
        MadeCheckpoint made = MadeCheckpoint.in(source)
                .with(A, MadeCheckpoint.bytes(DType.I32, Q + "_packed", new byte[64 * bits * 8], 64, 2L * bits))
                .noise(A, Q + "_scale", 0.02, 64, 2);
        if (withOrder) {
            made.with(A, MadeCheckpoint.bytes(DType.I32, Q + "_g_idx", new byte[64 * 4], 64));
        }
        made.write();
        Files.writeString(source.resolve("config.json"), """
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "int",
             "num_bits": %d, "strategy": "group", "group_size": 32}}}}}\
            """.formatted(bits));
    }

    @Test
    void integers_of_a_width_that_is_not_read_are_refused_without_advice_to_forget_that_they_are_codes()
            throws IOException {
        packed(2, false);
        OctetException refusal = refused(new ConversionRequest.Dequantize(DType.BF16, false));
        assertTrue(refusal.what().contains("4 or 8 bits"), refusal.what());
        assertFalse(refusal.fix().contains("quantization_config"), refusal.fix());
    }

    @Test
    void columns_in_the_order_of_their_groups_are_refused_with_that_reason() throws IOException {
        packed(4, true);
        OctetException refusal = refused(new ConversionRequest.Dequantize(DType.BF16, false));
        assertTrue(refusal.what().contains("weight_g_idx"), refusal.what());
    }

    @Test
    void an_index_that_names_a_missing_file_is_refused() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.delete(source.resolve(B));
        OctetException refusal = refused(DYNAMIC);
        assertTrue(refusal instanceof MalformedModelException && refusal.what().contains(B), refusal.what());
    }

    @Test
    void a_tensor_in_two_files_is_refused() throws IOException {
        MadeCheckpoint.small(source).noise(B, Q, 0.02, 128, 128).write();
        assertTrue(refused(DYNAMIC).what().contains(Q));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "{", "[]", "[1, 2]", "\"text\"", "{\"a\": 1} {}"})
    void a_configuration_that_is_no_object_is_refused(String text) throws IOException {
        MadeCheckpoint.small(source).write();
        Files.writeString(source.resolve("config.json"), text);
        assertTrue(refused(DYNAMIC) instanceof MalformedModelException);
    }

    @Test
    void without_a_configuration_the_weights_are_quantised_and_a_note_says_what_is_missing() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.delete(source.resolve("config.json"));
        CheckpointPlan plan = MadeCheckpoint.plan(source, DYNAMIC);
        assertTrue(
                plan.notes().toString().contains("no config.json"), plan.notes().toString());
        MadeCheckpoint.run(source, DYNAMIC, out);
        assertFalse(Files.exists(out.resolve("config.json")));
    }

    @Test
    void a_configuration_that_calls_plain_weights_quantised_is_refused() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.writeString(source.resolve("config.json"), "{\"quantization_config\": {\"quant_method\": \"fp8\"}}");
        assertTrue(refused(DYNAMIC).what().contains("quantization_config"));
    }

    @Test
    void a_configuration_whose_quantisation_is_null_is_of_a_plain_model() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.writeString(source.resolve("config.json"), "{\"quantization_config\": null}");
        MadeCheckpoint.run(source, DYNAMIC, out);
        assertTrue(MadeCheckpoint.json(out.resolve("config.json")).hasNonNull("quantization_config"));
    }

    @Test
    void what_is_quantised_already_is_rounded_twice_and_says_so() throws IOException {
        MadeCheckpoint.small(source).write();
        MadeCheckpoint.run(source, DYNAMIC, out);
        CheckpointPlan plan = MadeCheckpoint.plan(out, MadeCheckpoint.goal(Recipes.MXFP8, "compressed-tensors"));
        assertEquals(7, plan.count(Exactness.DOUBLE_ROUNDING));
        assertEquals(0, plan.count(Exactness.ONE_ROUNDING));
    }

    @ParameterizedTest
    @ValueSource(floats = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY})
    void a_weight_that_is_not_finite_is_refused_with_its_place(float value) throws IOException {
        MadeCheckpoint.small(source)
                .with(B, MadeCheckpoint.set(MadeCheckpoint.noise(DType.BF16, V, 0.01, 128, 128), 128 * 77 + 5, value))
                .write();
        for (String recipe : List.of("fp8-dynamic", "fp8", "fp8-block", "mxfp8", "nvfp4", "int8", "int8-asymmetric")) {
            ConversionRequest goal = MadeCheckpoint.goal(
                    Recipes.CHECKPOINT.stream()
                            .filter(r -> r.name().equals(recipe))
                            .findFirst()
                            .orElseThrow(),
                    "compressed-tensors");
            OctetException refusal = refused(goal);
            assertTrue(refusal instanceof InvalidDataException, recipe);
            assertEquals("the weight holds " + value, refusal.what(), recipe);
            assertEquals("tensor '" + V + "', row 77, column 5", refusal.where(), recipe);
        }
    }

    @Test
    void where_it_is_allowed_a_weight_that_is_not_finite_stays_with_those_fused_with_it() throws IOException {
        MadeCheckpoint.small(source)
                .with(
                        B,
                        MadeCheckpoint.set(
                                MadeCheckpoint.noise(DType.BF16, V, 0.01, 128, 128), 7, Float.POSITIVE_INFINITY))
                .write();
        MadeCheckpoint.run(source, DYNAMIC, request(Selection.ALL_LINEARS, true), out, MadeCheckpoint.threads(2));
        try (CheckpointConverter converter = CheckpointConverter.open(out);
                Checkpoint before = Checkpoint.open(source)) {
            assertEquals(
                    List.of("down_proj", "gate_proj", "o_proj", "up_proj"),
                    converter.stored().weights().values().stream()
                            .map(w -> w.module().substring(w.module().lastIndexOf('.') + 1))
                            .sorted()
                            .toList());
            for (String name : List.of(Q, K, V)) {
                assertArrayEquals(MadeCheckpoint.raw(before, name), MadeCheckpoint.raw(converter.checkpoint(), name));
            }
        }
        String ignored = MadeCheckpoint.json(out.resolve("config.json"))
                .path("quantization_config")
                .path("ignore")
                .toString();
        for (String name : List.of(Q, K, V)) {
            assertTrue(ignored.contains(name.replace(".weight", "")), ignored);
        }
    }

    @Test
    void blocks_that_overhang_are_padded_where_readers_do_so_and_kept_elsewhere() throws IOException {
        String odd = "model.layers.1.mlp.down_proj.weight";
        MadeCheckpoint.small(source).noise(B, odd, 0.02, 200, 300).write();
        MadeCheckpoint.run(source, MadeCheckpoint.goal(Recipes.FP8_BLOCK, "compressed-tensors"), out);
        assertEquals(6, MadeCheckpoint.floats(out, odd + "_scale").length);
        String reason = reason(MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), odd);
        assertTrue(reason.contains("200 x 300 is not a multiple of 128 x 128"), reason);
    }

    @Test
    void rows_too_long_to_stream_are_kept() throws IOException {
        String wide = "model.layers.1.mlp.down_proj.weight";
        long cols = Tile.maxCols(Recipes.FP8_BLOCK.weight().granularity()) + 32;
        MadeCheckpoint.small(source)
                .with(B, MadeCheckpoint.bytes(DType.BF16, wide, new byte[(int) cols * 2], 1, cols))
                .write();
        String reason = reason(MadeCheckpoint.goal(Recipes.FP8_BLOCK, "compressed-tensors"), wide);
        assertTrue(reason.contains("rows of " + cols + " elements"), reason);
        assertEquals("", reason(DYNAMIC, wide));
    }

    @Test
    void nothing_is_written_over_into_or_around_the_source() throws IOException {
        Path home = MadeCheckpoint.small(source).write();
        Path link = Files.createSymbolicLink(folder.resolve("link"), home);
        Path inner = Files.createDirectory(home.resolve("inner"));
        Path innerLink = Files.createSymbolicLink(folder.resolve("innerLink"), inner);
        Map<String, String> before = MadeCheckpoint.sums(folder);
        for (Path to : List.of(
                home,
                link,
                home.resolve("new"),
                link.resolve("new/er"),
                inner,
                folder,
                home.resolve("x/../.."),
                innerLink.resolve("../new"),
                home.resolve(A))) {
            for (boolean force : new boolean[] {false, true}) {
                StreamOptions options = new StreamOptions(1, force, ByteProgress.silent());
                assertThrows(
                        InvalidOptionException.class,
                        () -> MadeCheckpoint.run(home, DYNAMIC, CheckpointConverter.Request.all(), to, options),
                        to + (force ? " with force" : ""));
            }
        }
        assertEquals(before, MadeCheckpoint.sums(folder));
    }

    @Test
    void links_that_lead_in_a_circle_are_refused() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.createSymbolicLink(Files.createDirectory(source.resolve("sub")).resolve("up"), source);
        refused(FileSystemLoopException.class, () -> MadeCheckpoint.run(source, DYNAMIC, out));
    }

    @Test
    void a_link_that_leads_nowhere_is_left_behind() throws IOException {
        MadeCheckpoint.small(source).write();
        Files.createSymbolicLink(source.resolve("lost.txt"), folder.resolve("nowhere"));
        CheckpointResult result = MadeCheckpoint.run(source, DYNAMIC, out);
        assertEquals(List.of("lost.txt"), result.leftBehind());
    }

    @Test
    void other_weights_stay_behind_and_other_files_go_along() throws IOException {
        MadeCheckpoint.small(source).write();
        for (String name : List.of("pytorch_model.bin", "model.gguf", "tokenizer.json", "code/model.py", ".hidden")) {
            Path file = source.resolve(name);
            Files.createDirectories(requireNonNull(file.getParent()));
            Files.writeString(file, name);
        }
        CheckpointResult result = MadeCheckpoint.run(source, DYNAMIC, out);
        assertEquals(List.of("model.gguf", "pytorch_model.bin"), result.leftBehind());
        assertEquals(List.of("code/model.py", "tokenizer.json"), result.carried());
        assertEquals("code/model.py", Files.readString(out.resolve("code/model.py")));
        assertFalse(Files.exists(out.resolve("pytorch_model.bin")));
    }

    @Test
    void a_file_of_tensors_of_any_name_is_not_carried_over_what_it_became() throws IOException {
        MadeCheckpoint.in(source)
                .noise("weights.dat", Q, 0.02, 128, 128)
                .noise("more.dat", "model.norm.weight", 1, 128)
                .write();
        CheckpointResult result = MadeCheckpoint.run(source, DYNAMIC, out);
        assertEquals(List.of(), result.carried());
        assertTrue(MadeCheckpoint.names(out).contains(Q + "_scale"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"keep", "only", "include"})
    void a_pattern_that_matches_nothing_is_refused_by_name(String option) throws IOException {
        MadeCheckpoint.small(source).write();
        List<String> pattern = List.of("q_porj");
        Selection selection = selection(
                option.equals("keep") ? pattern : List.of(),
                option.equals("only") ? pattern : List.of(),
                option.equals("include") ? pattern : List.of());
        InvalidOptionException refusal =
                assertThrows(InvalidOptionException.class, () -> quantized(request(selection, false)));
        assertTrue(refusal.what().contains("--" + option + " 'q_porj'"), refusal.what());
    }

    @Test
    void patterns_choose_weights_by_their_names() throws IOException {
        MadeCheckpoint.small(source).write();
        List<String> none = List.of();
        String mlp = "model.layers.0.mlp.";
        assertEquals(
                List.of(mlp + "down_proj.weight", mlp + "gate_proj.weight", mlp + "up_proj.weight"),
                quantized(request(selection(none, List.of("mlp"), none), false)));
        assertEquals(
                List.of("lm_head.weight", mlp + "down_proj.weight"),
                quantized(request(selection(none, List.of("down_proj", "lm_head"), List.of("lm_head")), false)));
        // what engines fuse stays together
        assertEquals(
                List.of(mlp + "down_proj.weight", "model.layers.0.self_attn.o_proj.weight"),
                quantized(request(selection(List.of("k_proj", "up_proj"), none, none), false)));
    }

    @Test
    void tensors_of_every_odd_kind_go_along_byte_by_byte() throws IOException {
        String norms = "norms.safetensors";
        MadeCheckpoint.in(source)
                .noise(A, Q, 0.02, 128, 128)
                .with(A, MadeCheckpoint.bytes(DType.I64, "model.position_ids", new byte[] {1, 2, 3, 4, 5, 6, 7, 8}, 1))
                .with(A, MadeCheckpoint.bytes(DType.BOOL, "model.mask", new byte[] {1, 0, 1}, 3))
                .noise(A, "model.scalar", 1)
                .noise(A, "model.layers.0.mlp.empty_proj.weight", 1, 0, 128)
                .noise(A, "model.layers.0.mlp.thin_proj.weight", 1, 128, 0)
                .noise(A, "model.conv.weight", 1, 4, 3, 2, 2)
                .noise(norms, "model.norm.weight", 1, 128)
                .noise(norms, "model.other_norm.weight", 1, 128)
                .write();
        for (var recipe : Recipes.CHECKPOINT) {
            Path to = out.resolveSibling(recipe.name());
            MadeCheckpoint.run(source, MadeCheckpoint.goal(recipe, "compressed-tensors"), to);
            try (Checkpoint before = Checkpoint.open(source);
                    CheckpointConverter after = CheckpointConverter.open(to)) {
                assertEquals(1, after.stored().weights().size(), recipe.name());
                for (String name : before.tensors().keySet()) {
                    if (!name.equals(Q)) {
                        assertArrayEquals(
                                MadeCheckpoint.raw(before, name), MadeCheckpoint.raw(after.checkpoint(), name), name);
                        assertEquals(
                                requireNonNull(before.tensor(name)).spec(),
                                requireNonNull(after.checkpoint().tensor(name)).spec());
                    }
                }
            }
        }
    }

    @Test
    void a_tensor_of_the_name_that_a_scale_would_have_is_refused() throws IOException {
        for (String shard : List.of(A, B)) {
            Path home = MadeCheckpoint.small(folder.resolve(shard))
                    .noise(shard, Q + "_scale", 1, 3)
                    .write();
            MalformedModelException refusal =
                    assertThrows(MalformedModelException.class, () -> MadeCheckpoint.plan(home, DYNAMIC));
            assertTrue(refusal.what().contains(Q + "_scale"), refusal.what());
        }
    }

    @Test
    void a_file_that_vanishes_or_shrinks_while_it_is_read_is_named_and_nothing_half_written_is_left()
            throws IOException {
        for (boolean vanishes : new boolean[] {true, false}) {
            Path home =
                    MadeCheckpoint.small(folder.resolve("source" + vanishes)).write();
            Path to = folder.resolve("out" + vanishes);
            try (CheckpointConverter converter = CheckpointConverter.open(home)) {
                CheckpointConverter.Request request = CheckpointConverter.Request.all();
                StreamOptions options = MadeCheckpoint.threads(2);
                CheckpointPlan plan = converter.plan(DYNAMIC, request, options);
                Path victim = home.resolve(B);
                if (vanishes) {
                    Files.delete(victim);
                } else {
                    try (FileChannel channel = FileChannel.open(victim, StandardOpenOption.WRITE)) {
                        channel.truncate(channel.size() - 1000);
                    }
                }
                IOException failure = assertThrows(IOException.class, () -> converter.run(plan, to, options));
                assertTrue(String.valueOf(failure.getMessage()).contains(B), failure.toString());
            }
            List<String> left = List.copyOf(MadeCheckpoint.sums(to).keySet());
            // the first file is whole and stays, so that the same command continues after it
            assertEquals(vanishes ? List.of() : List.of(".octet-journal.jsonl", A), left);
        }
    }

    @Test
    void a_folder_that_cannot_be_written_ends_in_an_input_output_failure() throws IOException {
        MadeCheckpoint.small(source).write();
        Path file = Files.writeString(folder.resolve("file"), "in the way");
        assertThrows(IOException.class, () -> MadeCheckpoint.run(source, DYNAMIC, file.resolve("out")));
        assertEquals("in the way", Files.readString(file));
        Path closed = Files.createDirectory(folder.resolve("closed"));
        assertTrue(closed.toFile().setWritable(false));
        try {
            assumeFalse(Files.isWritable(closed), "this user may write everywhere");
            assertThrows(IOException.class, () -> MadeCheckpoint.run(source, DYNAMIC, closed.resolve("out")));
        } finally {
            assertTrue(closed.toFile().setWritable(true));
        }
    }

    @Test
    void a_folder_with_something_in_it_is_refused_and_with_force_only_the_model_in_it_goes() throws IOException {
        MadeCheckpoint.small(source).write();
        MadeCheckpoint.small(out).noise("stale.safetensors", "stale", 1, 3).write();
        Files.writeString(out.resolve("notes.txt"), "mine");
        Path scales = Files.createDirectories(out.resolve(KeptScales.FOLDER));
        Files.writeString(scales.resolve("scales.safetensors"), "of the model before");
        Map<String, String> before = MadeCheckpoint.sums(out);
        assertThrows(InvalidOptionException.class, () -> MadeCheckpoint.run(source, DYNAMIC, out));
        assertEquals(before, MadeCheckpoint.sums(out));
        MadeCheckpoint.run(
                source,
                DYNAMIC,
                CheckpointConverter.Request.all(),
                out,
                new StreamOptions(2, true, ByteProgress.silent()));
        assertEquals(
                List.of("config.json", A, B, "model.safetensors.index.json", "notes.txt"),
                List.copyOf(MadeCheckpoint.sums(out).keySet()));
    }

    @Test
    void one_file_becomes_one_file_and_a_second_run_is_locked_out() throws IOException {
        MadeCheckpoint.in(source).noise("model.safetensors", Q, 0.02, 128, 128).write();
        Path file = folder.resolve("one.safetensors");
        MadeCheckpoint.run(source, DYNAMIC, file);
        assertEquals(List.of(Q + "_scale", Q), MadeCheckpoint.names(file));
        assertThrows(InvalidOptionException.class, () -> MadeCheckpoint.run(source, DYNAMIC, file));
        Path other = folder.resolve("other.safetensors");
        try (FolderLock _ = FolderLock.of(folder, ".other.safetensors.lock")) {
            assertThrows(IOException.class, () -> MadeCheckpoint.run(source, DYNAMIC, other));
        }
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(
                    List.of("one.safetensors", "source"),
                    files.map(f -> String.valueOf(f.getFileName())).sorted().toList());
        }
    }

    @Test
    void several_files_do_not_go_into_one() throws IOException {
        MadeCheckpoint.small(source).write();
        Path file = folder.resolve("one.safetensors");
        assertThrows(InvalidOptionException.class, () -> MadeCheckpoint.run(source, DYNAMIC, file));
        assertFalse(Files.exists(file));
    }

    @Test
    void codes_without_a_scale_and_scales_that_are_no_scales_are_refused() throws IOException {
        Tensor codes = MadeCheckpoint.bytes(DType.F8_E4M3FN, Q, new byte[128 * 128], 128, 128);
        ConversionRequest plain = new ConversionRequest.Dequantize(DType.BF16, false);
        MadeCheckpoint.in(source).with("model.safetensors", codes).write();
        assertThrows(OctetException.class, () -> MadeCheckpoint.run(source, plain, out));
        for (float bad : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
            Path home = folder.resolve("source" + bad);
            Path to = folder.resolve("out" + bad);
            Tensor scale = MadeCheckpoint.set(MadeCheckpoint.noise(DType.F32, Q + "_scale", 1, 1), 0, bad);
            MadeCheckpoint.in(home)
                    .with("model.safetensors", codes)
                    .with("model.safetensors", scale)
                    .write();
            InvalidDataException refusal =
                    assertThrows(InvalidDataException.class, () -> MadeCheckpoint.run(home, plain, to));
            assertTrue(refusal.where().contains(Q + "_scale"), refusal.where());
            assertFalse(Files.exists(to));
        }
    }

    @Test
    void a_weight_of_no_elements_is_dequantised_to_none() throws IOException {
        for (long[] dims : new long[][] {{0, 128}, {128, 0}}) {
            Path home = folder.resolve("source" + dims[0]);
            Path to = folder.resolve("out" + dims[0]);
            MadeCheckpoint.in(home)
                    .with("model.safetensors", MadeCheckpoint.bytes(DType.F8_E4M3FN, Q, new byte[0], dims))
                    .with(
                            "model.safetensors",
                            MadeCheckpoint.set(MadeCheckpoint.noise(DType.F32, Q + "_scale", 1, 1), 0, 1))
                    .write();
            try {
                MadeCheckpoint.run(home, new ConversionRequest.Dequantize(DType.BF16, false), to);
                assertEquals(List.of(Q), MadeCheckpoint.names(to));
            } catch (MalformedModelException | UnsupportedModelException refusal) {
                assertFalse(Files.exists(to), refusal.toString());
            }
        }
    }
}
