package dev.octet.trainer.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.cut.Part;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Checkpoints that three ranks write together. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SharedCheckpointTest {
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final CheckpointFolder.Kept ALL = new CheckpointFolder.Kept(10, OptionalLong.empty());

    @TempDir
    Path run;

    /** What a rank does when it has written one of its tensors. */
    private interface Written {
        void on(Collectives world, String name);
    }

    private static Tensor tensor(String name, float x) {
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(2), x, -x);
    }

    private static TrainingState state(Collectives world, long step) {
        String own = "m:w" + world.rank();
        Map<String, Tensor> share = Map.of(own, tensor(own, (float) step + 10f * world.rank()));
        return world.isFirst()
                ? new TrainingState(step, 2 * step, Map.of(), Map.of(), Map.of("w", tensor("w", (float) step)), share)
                : new TrainingState(step, 2 * step, Map.of(), Map.of(), Map.of(), share);
    }

    private void write(long step, Written written) {
        RankThreads.run(
                3,
                DEADLINE,
                world -> new CheckpointFolder(run)
                        .writeShared(
                                state(world, step),
                                ALL,
                                CodedMasters.NONE,
                                name -> written.on(world, name),
                                new CheckpointFolder.Sharers(world, false, Map.of())));
    }

    private List<String> files(String folder) throws IOException {
        try (Stream<Path> all = Files.list(run.resolve(CheckpointFolder.NAME).resolve(folder))) {
            return all.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void each_rank_writes_a_file_and_what_is_read_back_is_one_state() throws IOException {
        write(4, (_, _) -> {});
        assertEquals(
                List.of(
                        "SHA256SUMS",
                        "checkpoint.json",
                        "parameters.safetensors",
                        "state-00001-of-00003.safetensors",
                        "state-00002-of-00003.safetensors",
                        "state-00003-of-00003.safetensors"),
                files("step-4"));
        try (CheckpointFile file = new CheckpointFolder(run).openNewest()) {
            assertEquals(
                    List.of("[4.0, -4.0]", "[14.0, -14.0]", "[24.0, -24.0]"),
                    file.state().state().values().stream()
                            .map(t -> Arrays.toString(t.toFloats()))
                            .toList());
            assertEquals(8, file.state().microBatches());
        }
    }

    @Test
    void a_rank_that_cannot_write_is_named_and_leaves_nothing_but_the_checkpoint_before() throws IOException {
        write(1, (_, _) -> {});
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> write(2, (world, _) -> {
                    if (world.rank() == 1) {
                        throw new IllegalStateException("the disk is full");
                    }
                }));
        // whichever rank is the first to say so
        assertTrue(failed.what().matches(".*rank 1 .*: the disk is full"), failed.what());
        assertEquals(List.of("step-1"), files(""));
    }

    @Test
    void the_others_learn_which_rank_could_not_write() {
        List<String> said = RankThreads.run(3, DEADLINE, world -> {
            try {
                new CheckpointFolder(run)
                        .writeShared(
                                state(world, 2),
                                ALL,
                                CodedMasters.NONE,
                                _ -> {
                                    if (world.rank() == 2) {
                                        throw new IllegalStateException("the disk is full");
                                    }
                                },
                                new CheckpointFolder.Sharers(world, false, Map.of()));
                return "written";
            } catch (UnavailableException | IllegalStateException e) {
                return e instanceof UnavailableException u ? u.what() : String.valueOf(e.getMessage());
            }
        });
        String other = "rank 2 could not write its part of the checkpoint: the disk is full";
        assertEquals(List.of(other, other, "the disk is full"), said);
    }

    /** As a process that is killed: it says nothing, and others may be in the middle of their share. */
    @Test
    void a_rank_that_is_gone_between_two_shares_leaves_no_folder_that_looks_like_a_checkpoint() throws IOException {
        write(1, (_, _) -> {});
        assertThrows(
                UnavailableException.class,
                () -> write(2, (world, _) -> {
                    if (world.rank() == 1) {
                        throw new AssertionError("killed");
                    }
                }));
        CheckpointFolder checkpoints = new CheckpointFolder(run);
        assertEquals(List.of(1L), checkpoints.steps());
        assertEquals(List.of(".step-2.new", "step-1"), files(""));
        checkpoints.sweep();
        assertEquals(List.of("step-1"), files(""));
        try (CheckpointFile file = checkpoints.openNewest()) {
            assertEquals(1, file.state().step());
        }
        write(2, (_, _) -> {});
        assertEquals(List.of(1L, 2L), checkpoints.steps());
    }

    @Test
    void a_checkpoint_of_shares_takes_the_place_of_a_whole_one_and_the_other_way_round() throws IOException {
        CheckpointFolder checkpoints = new CheckpointFolder(run);
        TrainingState whole = state(Collectives.alone(), 3);
        checkpoints.write(whole, 2);
        write(3, (_, _) -> {});
        assertEquals(6, files("step-3").size());
        checkpoints.write(whole, 2);
        assertEquals(4, files("step-3").size());
        try (CheckpointFile file = checkpoints.openNewest()) {
            assertEquals(1, file.state().state().size());
        }
    }

    private void writeCut(Part first, Part second) {
        RankThreads.run(2, DEADLINE, world -> {
            Part part = world.isFirst() ? first : second;
            Tensor own = Tensor.ofFloats(
                    Arena.ofAuto(),
                    "w",
                    part.shape(),
                    new float[(int) part.shape().elementCount()]);
            own.bytes().fill((byte) (world.rank() + 1));
            TrainingState state =
                    new TrainingState(1, 2, Map.of(), Map.of(), Map.of("w", own), Map.of("m:w", own.withName("m:w")));
            return new CheckpointFolder(run)
                    .writeShared(
                            state,
                            ALL,
                            CodedMasters.NONE,
                            _ -> {},
                            new CheckpointFolder.Sharers(world, true, Map.of("w", part, "m:w", part)));
        });
    }

    private static Part part(long from, long to) {
        return new Part(Shape.of(2, 5), 1, List.of(new Part.Range(from, to)));
    }

    @Test
    void tensors_that_ranks_have_parts_of_are_read_as_whole_tensors() throws IOException {
        writeCut(part(0, 2), part(2, 5));
        try (CheckpointFile file = new CheckpointFolder(run).openNewest()) {
            for (Tensor t : List.of(
                    requireNonNull(file.state().parameters().get("w")),
                    requireNonNull(file.state().state().get("m:w")))) {
                assertEquals(Shape.of(2, 5), t.shape());
                int[] expected = {1, 1, 2, 2, 2, 1, 1, 2, 2, 2};
                for (int i = 0; i < expected.length; i++) {
                    assertEquals(expected[i], t.bytes().get(ValueLayout.JAVA_BYTE, 4L * i), "element " + i);
                }
            }
        }
    }

    @Test
    void parts_that_are_no_whole_tensor_are_damage() {
        writeCut(part(0, 2), part(3, 5));
        MalformedModelException damaged =
                assertThrows(MalformedModelException.class, () -> new CheckpointFolder(run).openNewest());
        assertEquals(
                "checkpoint step-1 is damaged: its files have 4 of the 5 elements of axis 1 of 'w'", damaged.what());
    }
}
