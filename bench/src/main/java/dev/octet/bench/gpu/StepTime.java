package dev.octet.bench.gpu;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.TrainingParts;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Training steps of a model, from drawing the batch to updated weights.
 *
 * @param parameters of the model
 * @param millis of each step that counts
 * @param losses of all steps, those of the warm-up first
 */
record StepTime(long parameters, List<Double> millis, List<Double> losses) {
    /**
     * Steps that do not count: kernels are compiled and algorithms measured in the first, the graph is made in the second. The third is the
     * first that is like all others.
     */
    static final int WARM_UP = 5;

    /** @param batch samples of a step
     *  @param steps that count */
    record Task(Subject subject, String precision, int batch, int steps) {
        private String yaml() {
            String mode = switch (precision) {
                case "fp8" -> "{mode: fp8, recipe: delayed}";
                case "block", "rowwise" -> "{mode: fp8, recipe: " + precision + "}";
                case "bf16", "fp32" -> "{mode: " + precision + "}";
                case "msamp-O1", "msamp-O2", "msamp-O3" -> "{mode: msamp, opt_level: " + precision.substring(6) + "}";
                default ->
                    throw new IllegalArgumentException("no precision " + precision
                            + ": fp32, bf16, fp8 (delayed scaling), block, rowwise, msamp-O1, msamp-O2 or msamp-O3");
            };
            // one more for the table of kernels
            return subject.config(mode, batch, WARM_UP + steps + 1);
        }
    }

    /**
     * Trains, the model's folder having been written.
     *
     * @param after done before the trainer is closed, with what does one more step
     */
    static StepTime measure(Task task, Path folder, Device device, Last after) throws IOException {
        TrainingConfig config = TrainingConfig.of(YamlFile.parse(task.yaml(), "made"), folder);
        try (ModelSource source = ModelSource.open(folder);
                Converter converter = source.converter()) {
            GraphSource graph = new GraphSource(
                    converter.canonical(), (model, sizes) -> TrainingGraph.of(model, sizes, new PassLog()));
            TrainingParts parts = new TrainingParts(
                    config,
                    graph,
                    Optional.empty(),
                    task.subject().samples(),
                    Optional.empty(),
                    Map.of("model", task.subject().name()));
            try (Trainer trainer = Trainer.of(parts, device)) {
                List<Double> losses = new ArrayList<>();
                List<Double> millis = new ArrayList<>();
                for (long step = 1; step <= WARM_UP + task.steps(); step++) {
                    long start = System.nanoTime();
                    losses.add(trainer.step(step).loss());
                    if (step > WARM_UP) {
                        millis.add((System.nanoTime() - start) / 1e6);
                    }
                }
                after.run(() -> trainer.step(WARM_UP + task.steps() + 1L));
                return new StepTime(task.subject().model().parameters(), millis, losses);
            }
        }
    }

    /** One more step. */
    interface Step {
        void run() throws IOException;
    }

    /** What is done last. */
    interface Last {
        void run(Step step) throws IOException;
    }

    double medianMillis() {
        return millis.stream().sorted().toList().get(millis.size() / 2);
    }
}
