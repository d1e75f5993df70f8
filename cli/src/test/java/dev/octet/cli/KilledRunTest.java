package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Octet as a process of its own that is killed, runs out of space, or has little memory. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KilledRunTest {
    private static final int SHARDS = 6;
    private static final int ROWS = 2048;
    private static final int COLS = 1024;
    private static final String CONFIG = "{\"model_type\": \"llama\", \"torch_dtype\": \"bfloat16\"}\n";

    @TempDir
    Path folder;

    private Path source;

    @BeforeEach
    void make() throws IOException {
        source = Files.createDirectory(folder.resolve("source"));
    }

    private static String shard(int index) {
        return "model-%05d-of-%05d.safetensors".formatted(index + 1, SHARDS);
    }

    /** A file with one BF16 tensor; without bytes it is a hole of zeros. */
    private static void writeFile(Path file, String name, long rows, long cols, byte[] bytes) throws IOException {
        String json = "{\"%s\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}"
                .formatted(name, rows, cols, rows * cols * 2);
        byte[] header = json.getBytes(StandardCharsets.UTF_8);
        byte[] length = ByteBuffer.allocate(8)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(header.length)
                .array();
        try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
            out.write(length);
            out.write(header);
            out.write(bytes);
            out.setLength(8 + header.length + rows * cols * 2);
        }
    }

    /** Six files of four megabytes, their index, a configuration and a file to go along. */
    private void writeSource() throws IOException {
        StringBuilder index = new StringBuilder("{\"metadata\": {}, \"weight_map\": {");
        for (int i = 0; i < SHARDS; i++) {
            String name = "model.layers." + i + ".mlp.down_proj.weight";
            byte[] bytes = new byte[ROWS * COLS * 2];
            new SplittableRandom(i).nextBytes(bytes);
            for (int b = 1; b < bytes.length; b += 2) {
                bytes[b] &= (byte) 0xBF; // magnitudes below 2: no NaN, no infinity
            }
            writeFile(source.resolve(shard(i)), name, ROWS, COLS, bytes);
            index.append(i == 0 ? "" : ", ").append("\"%s\": \"%s\"".formatted(name, shard(i)));
        }
        Files.writeString(source.resolve("model.safetensors.index.json"), index + "}}");
        Files.writeString(source.resolve("config.json"), CONFIG);
        Files.writeString(source.resolve("tokenizer.json"), "{}");
    }

    private String[] quantize(Path out) {
        return new String[] {
            "quantize", source.toString(), "-o", out.toString(), "--recipe", "nvfp4", "--threads", "1", "--json"
        };
    }

    private static Map<String, Integer> hashes(Path root) throws IOException {
        Map<String, Integer> hashes = new TreeMap<>();
        if (!Files.exists(root)) {
            return hashes;
        }
        try (Stream<Path> all = Files.walk(root)) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                hashes.put(root.relativize(file).toString(), Arrays.hashCode(Files.readAllBytes(file)));
            }
        }
        return hashes;
    }

    /** Waits until so many files are finished and the next has so many bytes; false when the process ended before. */
    private static boolean waitFor(Process process, Path out, int finished, long bytes) throws Exception {
        Path part = out.resolve("." + shard(finished) + ".part");
        while (!process.waitFor(1, TimeUnit.MILLISECONDS)) {
            boolean before = finished == 0 || Files.exists(out.resolve(shard(finished - 1)));
            if (before && (bytes == 0 || (Files.exists(part) && part.toFile().length() >= bytes))) {
                return true;
            }
            if (Files.exists(out.resolve(shard(Math.min(finished, SHARDS - 1))))) {
                return true; // the moment has passed; this one is as good
            }
        }
        return false;
    }

    @Test
    void a_run_that_is_killed_again_and_again_ends_with_the_same_bytes() throws Exception {
        writeSource();
        Path whole = folder.resolve("whole");
        assertEquals(ExitCode.OK, CommandLine.run(quantize(whole)).code());
        Map<String, Integer> expected = hashes(whole);
        Path out = folder.resolve("out");
        SplittableRandom random = new SplittableRandom(20261121);
        int killed = 0;
        for (int round = 0; round < 3; round++) {
            int finished = 2 * round + random.nextInt(2);
            Process process = Child.start(Child.octet(List.of(quantize(out))), folder.resolve("child.txt"));
            try {
                killed += waitFor(process, out, finished, random.nextLong(400_000)) ? 1 : 0;
                if (round == 0) {
                    refusesASecondProcess(process, out);
                }
            } finally {
                process.destroyForcibly().waitFor();
            }
            onlyFinishedFiles(hashes(out), expected);
        }
        assumeTrue(killed > 0 && !Files.exists(out.resolve("config.json")), "the process was too fast to be killed");
        refusesAnotherCommand(out);
        CommandLine last = CommandLine.run(quantize(out));
        assertEquals(ExitCode.OK, last.code(), last.err());
        assertTrue(new ObjectMapper().readTree(last.out()).get("resumed_files").asInt() > 0, last.out());
        assertEquals(expected, hashes(out));
    }

    private void refusesASecondProcess(Process process, Path out) throws Exception {
        String pid = String.valueOf(process.pid());
        if (new ProcessBuilder("kill", "-STOP", pid).start().waitFor() != 0 || !process.isAlive()) {
            return; // it has ended meanwhile
        }
        CommandLine second = CommandLine.run(quantize(out));
        assertEquals(ExitCode.IO, second.code(), second.err());
        assertTrue(second.err().contains("another run is writing this folder"), second.err());
        List<String> forced = new ArrayList<>(Arrays.asList(quantize(out)));
        forced.add("--force");
        assertEquals(ExitCode.IO, CommandLine.run(forced.toArray(String[]::new)).code());
    }

    private static void onlyFinishedFiles(Map<String, Integer> left, Map<String, Integer> expected) {
        left.forEach((name, hash) -> {
            if (name.startsWith(".")) {
                assertTrue(name.startsWith(".octet-") || name.endsWith(".part"), name);
            } else {
                assertEquals(expected.get(name), hash, name);
                assertTrue(name.endsWith(".safetensors"), name + " makes an unfinished folder look like a model");
            }
        });
    }

    private void refusesAnotherCommand(Path out) throws IOException {
        Map<String, Integer> before = hashes(out);
        before.remove(".octet-lock"); // of the killed process; the next one takes it away
        CommandLine other = CommandLine.run("quantize", source.toString(), "-o", out.toString(), "--recipe", "int8");
        assertEquals(ExitCode.USAGE, other.code(), other.err());
        assertTrue(other.err().contains("recipe differs"), other.err());
        Path first = source.resolve(shard(0));
        FileTime time = Files.getLastModifiedTime(first);
        Files.setLastModifiedTime(first, FileTime.fromMillis(0));
        CommandLine changed = CommandLine.run(quantize(out));
        assertEquals(ExitCode.USAGE, changed.code(), changed.err());
        assertTrue(changed.err().contains("source file " + shard(0) + " differs"), changed.err());
        Files.setLastModifiedTime(first, time);
        assertEquals(before, hashes(out));
    }

    @Test
    void a_full_disk_ends_with_exit_4_and_the_same_command_goes_on_when_there_is_room() throws Exception {
        assumeTrue(Files.isExecutable(Path.of("/bin/bash")), "there is no bash to set a limit");
        writeSource();
        Path out = folder.resolve("out");
        List<String> command = Child.octet(List.of(quantize(out)));
        // no file may have more than 400 KiB; a finished one has 1152
        List<String> limited = new ArrayList<>(List.of("/bin/bash", "-c", "ulimit -f 400; exec \"$@\"", "limited"));
        limited.addAll(command);
        limited.add(5, "-XX:-UsePerfData");
        Process process = Child.start(limited, folder.resolve("child.txt"));
        assertEquals(ExitCode.IO.number(), process.waitFor(), Files.readString(folder.resolve("child.txt")));
        String printed = Files.readString(folder.resolve("child.txt"));
        assertTrue(printed.contains("File too large: it needs 1,"), printed);
        assertTrue(printed.contains("where: " + out.resolve("model")), printed);
        assertEquals(List.of(".octet-journal.jsonl"), List.copyOf(hashes(out).keySet()));
        assertEquals(ExitCode.OK, CommandLine.run(quantize(out)).code());
        Path whole = folder.resolve("whole");
        assertEquals(ExitCode.OK, CommandLine.run(quantize(whole)).code());
        assertEquals(hashes(whole), hashes(out));
    }

    @Test
    void one_large_tensor_takes_little_memory() throws Exception {
        Path status = Path.of("/proc/self/status");
        assumeTrue(Files.isReadable(status), "there is no /proc to see the memory of a process");
        writeFile(
                source.resolve("model.safetensors"),
                "model.layers.0.mlp.down_proj.weight",
                12_800,
                12_288,
                new byte[0]);
        Files.writeString(source.resolve("config.json"), CONFIG);
        List<String> command = Child.java("-Xmx64m");
        command.addAll(List.of(
                PeakMemory.class.getName(),
                "quantize",
                source.toString(),
                "-o",
                folder.resolve("out").toString(),
                "--recipe",
                "fp8-block",
                "--threads",
                "2"));
        Process process = new ProcessBuilder(command)
                .redirectError(folder.resolve("child.txt").toFile())
                .start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), Files.readString(folder.resolve("child.txt")));
        long peakKiB = printed.lines()
                .filter(l -> l.startsWith("VmHWM:"))
                .mapToLong(l -> Long.parseLong(l.replaceAll("\\D", "")))
                .findFirst()
                .orElseThrow();
        assertTrue(peakKiB < (300 + 2 * 64) * 1024, "peak of " + peakKiB + " KiB\n" + printed);
    }
}
