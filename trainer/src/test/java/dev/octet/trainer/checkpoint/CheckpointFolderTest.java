package dev.octet.trainer.checkpoint;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CheckpointFolderTest {
    private static final List<String> FILES =
            List.of("parameters.safetensors", "state.safetensors", "checkpoint.json", "SHA256SUMS");

    @TempDir
    Path run;

    private CheckpointFolder folder;

    @BeforeEach
    void make() {
        folder = new CheckpointFolder(run);
    }

    private static TrainingState state(long step) {
        Tensor w = Tensor.ofFloats(Arena.ofAuto(), "w", Shape.of(2, 2), (float) step, 2, 3, 4);
        Tensor m = Tensor.ofFloats(Arena.ofAuto(), "m:w", Shape.of(2, 2), 5, (float) step, 7, 8);
        return new TrainingState(
                step,
                step * 3,
                Map.of("optimizer.lr", "0.1"),
                Map.of("scale", Double.toHexString(step / 3.0)),
                Map.of("w", w),
                Map.of("m:w", m));
    }

    @Test
    void what_is_written_is_read_bit_for_bit() throws IOException {
        Path written = folder.write(state(7), 3);
        assertEquals(run.resolve("checkpoints/step-7"), written);
        try (CheckpointFile file = folder.openNewest()) {
            TrainingState s = file.state();
            assertEquals(7, s.step());
            assertEquals(21, s.microBatches());
            assertEquals(state(7).settings(), s.settings());
            assertEquals(state(7).numbers(), s.numbers());
            assertArrayEquals(
                    new float[] {7, 2, 3, 4},
                    Objects.requireNonNull(s.parameters().get("w")).toFloats());
            assertArrayEquals(
                    new float[] {5, 7, 7, 8},
                    Objects.requireNonNull(s.state().get("m:w")).toFloats());
        }
    }

    @Test
    void equal_states_give_equal_bytes() throws IOException {
        Path first = folder.write(state(7), 3);
        Path second = new CheckpointFolder(run.resolve("other")).write(state(7), 3);
        for (String file : FILES) {
            assertArrayEquals(Files.readAllBytes(first.resolve(file)), Files.readAllBytes(second.resolve(file)), file);
        }
    }

    @Test
    void a_state_without_moments_is_written_too() throws IOException {
        TrainingState s = state(1);
        folder.write(new TrainingState(1, 1, Map.of(), Map.of(), s.parameters(), Map.of()), 1);
        try (CheckpointFile file = folder.openNewest()) {
            assertEquals(Map.of(), file.state().state());
        }
    }

    @Test
    void only_the_newest_are_kept_ordered_by_number() throws IOException {
        for (long step : new long[] {8, 9, 10, 11}) {
            folder.write(state(step), 2);
        }
        assertEquals(List.of(10L, 11L), folder.steps());
        folder.write(state(5), 2); // a run that went on from an early checkpoint
        assertTrue(folder.steps().contains(5L));
    }

    @Test
    void one_of_the_same_step_is_replaced() throws IOException {
        folder.write(state(3), 2);
        TrainingState other = new TrainingState(3, 1, Map.of(), Map.of(), state(9).parameters(), Map.of());
        folder.write(other, 2);
        try (CheckpointFile file = folder.open(3)) {
            assertEquals(1, file.state().microBatches());
        }
    }

    @Test
    void any_flipped_bit_of_any_file_is_found() throws IOException {
        folder.write(state(1), 3);
        folder.write(state(2), 3);
        SplittableRandom random = new SplittableRandom(4);
        for (String name : FILES) {
            Path file = folder.path(2).resolve(name);
            byte[] good = Files.readAllBytes(file);
            for (int i = 0; i < 20; i++) {
                byte[] bad = good.clone();
                bad[random.nextInt(bad.length)] ^= (byte) (1 << random.nextInt(7));
                Files.write(file, bad);
                MalformedModelException e = assertThrows(MalformedModelException.class, folder::openNewest, name);
                assertTrue(e.what().startsWith("checkpoint step-2 is damaged: "), e.what());
                assertEquals("step-1 is good: resume with --from-step 1, or export it with --step 1", e.fix());
            }
            Files.write(file, good);
        }
        folder.openNewest().close();
    }

    @Test
    void a_missing_or_short_file_is_found_and_damaged_ones_are_not_offered() throws IOException {
        for (long step = 1; step <= 3; step++) {
            folder.write(state(step), 5);
        }
        Files.delete(folder.path(3).resolve("state.safetensors"));
        Files.write(folder.path(2).resolve("parameters.safetensors"), new byte[5]);
        MalformedModelException e = assertThrows(MalformedModelException.class, folder::openNewest);
        assertEquals("checkpoint step-3 is damaged: state.safetensors is missing", e.what());
        assertEquals("step-1 is good: resume with --from-step 1, or export it with --step 1", e.fix());
        folder.open(1).close();
        Files.delete(folder.path(1).resolve("SHA256SUMS"));
        assertEquals(
                "no earlier checkpoint is good: start the run again in another folder",
                assertThrows(MalformedModelException.class, () -> folder.open(2))
                        .fix());
    }

    /** Digests agree, as of a file that another program wrote. */
    private MalformedModelException refusedWith(String json) throws IOException {
        Path written = folder.write(state(1), 1);
        Path file = written.resolve("checkpoint.json");
        String before = Sha256.of(file);
        Files.writeString(file, json);
        Path sums = written.resolve("SHA256SUMS");
        Files.writeString(sums, Files.readString(sums).replace(before, Sha256.of(file)));
        return assertThrows(MalformedModelException.class, () -> CheckpointFile.open(written), json);
    }

    private static final String HEAD = "{\"format\": \"octet-checkpoint\", \"version\": 1";
    private static final String STEP = ", \"step\": 1";
    private static final String BATCHES = ", \"micro_batches\": 3";
    private static final String SETTINGS = ", \"settings\": {}";
    private static final String NUMBERS = ", \"numbers\": {}";

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        step          | -1
        step          | 1.5
        step          | 9223372036854775808
        step          | 1e400
        step          | null
        step          | "7"
        step          | [1]
        micro_batches | -3
        micro_batches | {}
        micro_batches | true
        settings      | []
        settings      | "none"
        settings      | null
        numbers       | 4
        numbers       | {"scale": 1}
        settings      | {"lr": null}
        """)
    void a_value_that_cannot_be_is_refused_by_its_key(String key, String value) throws IOException {
        String rest = STEP + BATCHES + SETTINGS + NUMBERS;
        String json = HEAD + rest.replaceFirst("\"" + key + "\": [^,]+", "\"" + key + "\": " + value) + "}";
        MalformedModelException e = refusedWith(json);
        assertTrue(e.what().startsWith("checkpoint step-1 is damaged: checkpoint.json: '" + key), e.what());
        assertEquals("resume from another checkpoint", e.fix());
    }

    @ParameterizedTest
    @ValueSource(strings = {"step", "micro_batches", "settings", "numbers"})
    void a_missing_key_is_named(String key) throws IOException {
        String rest = STEP + BATCHES + SETTINGS + NUMBERS;
        String json = HEAD + rest.replaceFirst(", \"" + key + "\": [^,]+", "") + "}";
        assertTrue(refusedWith(json).what().contains("'" + key + "' is missing"), json);
    }

    @ParameterizedTest
    @ValueSource(strings = {"[]", "7", "null", "", "{", "\u0000", "{\"format\": 1}x"})
    void what_is_no_json_object_is_refused(String json) throws IOException {
        MalformedModelException e = refusedWith(json);
        assertTrue(e.what().contains("checkpoint"), e.what());
    }

    @Test
    void a_long_value_is_quoted_in_part() throws IOException {
        String json = HEAD + ", \"step\": \"" + "9".repeat(5000) + "\"}";
        assertTrue(refusedWith(json).what().length() < 250);
    }

    @Test
    void what_a_killed_process_left_is_no_checkpoint_and_is_swept_away() throws IOException {
        folder.write(state(1), 3);
        Path half = run.resolve("checkpoints/.step-2.new");
        Files.createDirectory(half);
        Files.writeString(half.resolve("state.safetensors"), "half");
        assertEquals(List.of(1L), folder.steps());
        folder.sweep();
        assertTrue(Files.notExists(half));
        assertEquals(List.of(1L), folder.steps());
    }

    @Test
    void a_failed_write_leaves_what_was_there() throws IOException {
        folder.write(state(1), 1);
        Arena arena = Arena.ofConfined();
        Tensor gone = Tensor.ofFloats(arena, "w", Shape.of(1), 1);
        TrainingState broken = new TrainingState(2, 2, Map.of(), Map.of(), Map.of("w", gone), Map.of());
        arena.close();
        assertThrows(IllegalStateException.class, () -> folder.write(broken, 1));
        assertEquals(List.of(1L), folder.steps());
        folder.openNewest().close();
    }

    @Test
    void nothing_to_go_on_from_is_said() {
        assertThrows(InvalidOptionException.class, folder::openNewest);
        assertThrows(InvalidOptionException.class, () -> folder.open(4));
    }

    @Test
    void a_setting_that_changed_is_named_with_both_values() {
        Map<String, String> saved = Map.of("optimizer.lr", "0.1", "model", "abc", "threads", "1");
        Map<String, String> now = Map.of("optimizer.lr", "0.2", "model", "abc", "threads", "2");
        ResumeCheck.require(saved, saved, k -> false, "here");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> ResumeCheck.require(saved, now, k -> k.equals("threads"), "here"));
        assertEquals("the run cannot resume: optimizer.lr was 0.1 and is 0.2", e.what());
    }

    @Test
    void a_failed_write_leaves_nothing_of_its_own() throws IOException {
        Arena arena = Arena.ofConfined();
        Tensor gone = Tensor.ofFloats(arena, "w", Shape.of(1), 1);
        arena.close();
        TrainingState broken = new TrainingState(2, 2, Map.of(), Map.of(), Map.of("w", gone), Map.of());
        assertThrows(IllegalStateException.class, () -> folder.write(broken, 1));
        assertEquals(
                0, Objects.requireNonNull(run.resolve("checkpoints").toFile().list()).length);
    }

    @Test
    void a_checkpoint_later_than_the_damaged_one_is_not_offered() throws IOException {
        for (long step = 1; step <= 3; step++) {
            folder.write(state(step), 5);
        }
        Files.delete(folder.path(2).resolve("SHA256SUMS"));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> folder.open(2));
        assertEquals("step-1 is good: resume with --from-step 1, or export it with --step 1", e.fix());
    }
}
