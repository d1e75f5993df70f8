package dev.octet.trainer.replay;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReplayFileTest {
    private static final Replay REPLAY = new Replay(
            "only dgrad 0-3",
            List.of(1.5, Double.NaN),
            List.of(0.25, Double.POSITIVE_INFINITY),
            List.of(Map.of("w", new Difference(0.5, 0.25, 1e-300, 7)), Map.of()),
            Map.of("w", new Difference(Double.POSITIVE_INFINITY, 0, 0, 7)),
            "step 2: loss",
            1.25);

    @TempDir
    Path folder;

    private Path file() {
        return folder.resolve("replays.jsonl");
    }

    @Test
    void a_replay_is_read_as_it_was_written_whatever_its_numbers() throws IOException {
        ReplayLog.file(file(), "x").add(REPLAY);
        assertEquals(Optional.of(REPLAY), ReplayLog.file(file(), "x").find(REPLAY.key()));
    }

    @Test
    void the_log_of_another_excerpt_is_begun_anew() throws IOException {
        ReplayLog.file(file(), "x").add(REPLAY);
        assertEquals(Optional.empty(), ReplayLog.file(file(), "y").find(REPLAY.key()));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"key\":\"only dgrad 0-3\",\"losses\":[1.",
                "{}",
                "[]",
                "null",
                "\"text\"",
                "{\"key\":null,\"losses\":[],\"norms\":[],\"gradients\":[],\"updates\":{},\"nonFinite\":\"\"}",
                "{\"key\":\"k\",\"losses\":[null],\"norms\":[],\"gradients\":[null],\"updates\":{\"w\":null},\"nonFinite\":\"\"}",
                "{\"key\":\"k\",\"losses\":{},\"norms\":3}"
            })
    void lines_that_are_no_replay_are_left_out(String line) throws IOException {
        ReplayLog.file(file(), "x").add(REPLAY);
        Files.writeString(file(), line + "\n", StandardOpenOption.APPEND);
        ReplayLog log = ReplayLog.file(file(), "x");
        assertEquals(Optional.of(REPLAY), log.find(REPLAY.key()));
        assertEquals(Optional.empty(), log.find("k"));
    }

    @Test
    void deep_nesting_and_bytes_that_are_no_text_do_no_harm() throws IOException {
        ReplayLog.file(file(), "x").add(REPLAY);
        Files.writeString(file(), "[".repeat(100_000) + "\n", StandardOpenOption.APPEND);
        Files.write(file(), new byte[] {(byte) 0xFF, (byte) 0xFE, 10}, StandardOpenOption.APPEND);
        assertEquals(Optional.of(REPLAY), ReplayLog.file(file(), "x").find(REPLAY.key()));
    }
}
