package dev.octet.formats.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.torch.Fp8TrainingState.Gemm;
import dev.octet.formats.torch.Fp8TrainingState.Operand;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What Transformer Engine saves of FP8 training (testdata/make/te_extra_state.py), beside the numbers that went in. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8TrainingStateTest {
    private static final Path FOLDER = TestData.path("checkpoints/te");
    private static final Path HOSTILE = TestData.path("hostile/te");

    @ParameterizedTest
    @ValueSource(strings = {"te2.bin", "te2.safetensors", "dcp", "zero1"})
    void states_of_version_2_are_those_that_were_saved(String file) throws IOException {
        Map<String, Fp8TrainingState> found = states(FOLDER.resolve(file));
        JsonNode expected = expected();
        assertTrue(found.keySet().containsAll(names(expected)), found.keySet().toString());
        expected.properties().forEach(e -> assertSame(e.getValue(), found.get(e.getKey())));
    }

    @Test
    void a_buffer_of_version_1_holds_the_same_scales_without_a_recipe() throws IOException {
        Map<String, Fp8TrainingState> found = states(FOLDER.resolve("te1.bin"));
        assertEquals(Set.of("layers.0.qkv", "layers.0.out"), found.keySet());
        assertSame(expected().get("layers.0.qkv"), found.get("layers.0.qkv"));
        assertSame(expected().get("layers.0.out"), found.get("layers.0.out"));
    }

    @Test
    void an_object_of_megatron_is_a_tensor_in_a_file_of_torch() throws IOException {
        assertSame(expected().get("layers.0.qkv"), states(FOLDER.resolve("dcp")).get("decoder.layers.qkv/shard_0_2"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"te1.bin", "te2.bin", "dcp", "zero1"})
    void states_are_no_weights(String file) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve(file))) {
            assertEquals(6, checkpoint.tensors().size(), checkpoint.tensors().keySet()::toString);
            assertTrue(checkpoint.notes().getFirst().contains("of FP8 training"), checkpoint.notes()::toString);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"foreign-class", "foreign-recipe"})
    void a_class_that_no_state_needs_is_refused_by_name(String name) throws IOException {
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> hostile(name));
        assertTrue(e.what().contains("the pickle names builtins.eval"), e.what());
    }

    @ParameterizedTest
    @CsvSource({
        "slots-that-make-no-gemm,        scale_fwd of 1 x 4",
        "history-of-other-slots,         amax_history_fwd of 4 x 6",
        "histories-of-two-lengths,       amax_history_bwd of 5 x 2",
        "history-of-no-steps,            amax_history_fwd of 0 x 0",
        "scale-of-zero,                  the scale 0.0 in scale_fwd[1]",
        "scale-that-is-no-number,        the scale NaN in scale_bwd[0]",
        "negative-amax,                  the amax -1.0",
        "scales-of-bytes,                scale_fwd of U8",
        "no-history,                     no amax_history_bwd",
        "numbers-for-tensors,            no scale_fwd",
        "cut-short,                      a frame of the pickle has",
        "shape-beyond-storage,           of its storage",
        "wrapped-too-often,              wrapped more than",
        "storage-in-a-storage,           is not made as torch makes tensors",
        "text-made-bytes-without-end,    the pickle has more than"
    })
    void a_state_that_lies_is_refused_with_what_is_wrong(String name, String what) {
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> hostile(name));
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void each_hostile_state_is_refused() throws IOException {
        try (Stream<Path> files = Files.list(HOSTILE)) {
            List<Path> all = files.toList();
            assertEquals(17, all.size());
            for (Path file : all) {
                String name = String.valueOf(file.getFileName()).replace(".bin", "");
                assertThrows(OctetException.class, () -> hostile(name), name);
            }
        }
    }

    private static Fp8TrainingState hostile(String name) throws IOException {
        return Fp8TrainingState.of(
                new ExtraState("m", Files.readAllBytes(HOSTILE.resolve(name + ".bin")), name + ".bin"));
    }

    private static Map<String, Fp8TrainingState> states(Path path) throws IOException {
        Map<String, Fp8TrainingState> found = new LinkedHashMap<>();
        try (Checkpoint checkpoint = Checkpoint.open(path)) {
            for (ExtraState stored : checkpoint.extraStates()) {
                found.put(stored.module(), Fp8TrainingState.of(stored));
            }
        }
        return found;
    }

    private static JsonNode expected() throws IOException {
        return new ObjectMapper().readTree(FOLDER.resolve("expected.json").toFile());
    }

    private static Set<String> names(JsonNode node) {
        Set<String> names = new TreeSet<>();
        node.fieldNames().forEachRemaining(names::add);
        return names;
    }

    private static void assertSame(JsonNode expected, @Nullable Fp8TrainingState decoded) {
        Fp8TrainingState found = Objects.requireNonNull(decoded);
        assertEquals(expected.get("recipe").asText(), found.recipe(), found.module());
        assertEquals(expected.get("history").asInt(), found.historyLength(), found.module());
        assertEquals(expected.get("gemms").size(), found.gemms().size(), found.module());
        for (int g = 0; g < found.gemms().size(); g++) {
            Gemm gemm = found.gemms().get(g);
            List<Operand> operands =
                    List.of(gemm.input(), gemm.weight(), gemm.output(), gemm.gradOutput(), gemm.gradInput());
            for (int i = 0; i < operands.size(); i++) {
                JsonNode numbers = expected.get("gemms").get(g).get(i);
                // a scale of Octet is the reciprocal of one of Transformer Engine
                assertEquals(
                        1 / (float) numbers.get(0).asDouble(), operands.get(i).scale());
                assertEquals((float) numbers.get(1).asDouble(), operands.get(i).newestAmax());
                assertEquals((float) numbers.get(2).asDouble(), operands.get(i).largestAmax());
            }
        }
    }
}
