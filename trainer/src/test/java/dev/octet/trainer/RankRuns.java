package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Runs whose ranks are threads, and what is left of them. */
final class RankRuns {
    /** Ranks that wait longer have lost each other; the longest of these runs takes seconds. */
    static final Duration DEADLINE = Duration.ofSeconds(30);

    private RankRuns() {}

    static RunEnd run(TrainingParts parts, Path run, Collectives world, RunOptions options) throws IOException {
        return run(parts, CpuDevice.of(1), run, world, options);
    }

    /** @param opened is closed at the end */
    static RunEnd run(TrainingParts parts, Device opened, Path run, Collectives world, RunOptions options)
            throws IOException {
        try (Device device = opened;
                Trainer trainer = Trainer.of(parts, device, world)) {
            return trainer.run(run, options);
        }
    }

    static List<RunEnd> threads(int ranks, TrainingParts parts, Path run, RunOptions options) {
        return RankThreads.run(ranks, DEADLINE, world -> run(parts, run, world, options));
    }

    /** Everything of a checkpoint that computing goes on from: tensors by name, and numbers. */
    static Map<String, byte[]> contents(Path run, long step) throws IOException {
        Map<String, byte[]> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(run).open(step)) {
            file.state().parameters().forEach((name, t) -> all.put("parameter " + name, bytes(t)));
            file.state().state().forEach((name, t) -> all.put("state " + name, bytes(t)));
            all.put("numbers", file.state().numbers().toString().getBytes(StandardCharsets.UTF_8));
        }
        return all;
    }

    private static byte[] bytes(Tensor tensor) {
        return tensor.bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    static void assertSame(Path expected, Path got, long step) throws IOException {
        Map<String, byte[]> first = contents(expected, step);
        Map<String, byte[]> second = contents(got, step);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, requireNonNull(second.get(name)), name));
    }
}
