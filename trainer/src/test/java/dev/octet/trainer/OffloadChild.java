package dev.octet.trainer;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A run in a process of its own, which {@link OffloadMemoryTest} gives too little memory or kills. */
final class OffloadChild {
    /** Its matrices have 8 and 1 rows of them. */
    static final int HIDDEN = 1_500_000;

    private OffloadChild() {}

    /** Words: folder of the run, steps to do now, whether to resume, lines of the configuration. */
    public static void main(String... words) throws IOException {
        List<String> lines = List.of(words).subList(3, words.length);
        TrainingParts small = SmallRun.parts(SmallRun.with(lines.toArray(String[]::new)));
        TrainingParts parts = new TrainingParts(
                small.config(),
                SmallRun.source(HIDDEN),
                Optional.empty(),
                small.train(),
                Optional.empty(),
                Map.of("model", "abc"));
        RunOptions options = RunOptions.defaults().withMaxSteps(Integer.parseInt(words[1]));
        if (Boolean.parseBoolean(words[2])) {
            options = options.resuming();
        }
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(parts, device)) {
            System.out.println(trainer.run(Path.of(words[0]), options).reason());
        } catch (UnavailableException e) {
            System.out.println(e.getMessage());
            System.exit(5);
        }
        Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(l -> l.startsWith("Vm") || l.startsWith("Rss"))
                .forEach(System.out::println);
    }
}
