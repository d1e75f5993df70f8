package dev.octet.trainer.config;

import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.regex.Pattern;

/**
 * A whole run.
 *
 * @param batchSize samples of a micro-batch
 * @param gradientAccumulation micro-batches of a step
 * @param steps steps of the run; schedules end there
 * @param seed of all that is random
 * @param clipGradNorm largest norm of all gradients together; empty for any
 * @param precision which number type each operator computes in
 * @param freeze parameters matching one of these (anywhere in the name) are not trained
 * @param trainOnly where not empty, only parameters matching one of these are trained
 * @param ties which parameters that the export wrote twice are trained as one
 * @param evalEvery steps between two evaluations; 0 for none
 * @param fp8Health how often it is measured what casts to FP8 lose
 */
public record TrainingConfig(
        DataConfig data,
        LossConfig loss,
        int batchSize,
        int gradientAccumulation,
        long steps,
        long seed,
        OptimizerConfig optimizer,
        ScheduleConfig schedule,
        OptionalDouble clipGradNorm,
        PrecisionConfig precision,
        List<Pattern> freeze,
        List<Pattern> trainOnly,
        Ties.Restored ties,
        CheckpointConfig checkpoint,
        long evalEvery,
        NonFinitePolicy onNonFinite,
        DivergenceConfig divergence,
        Fp8HealthConfig fp8Health) {
    private static final Map<String, NonFinitePolicy> POLICIES =
            Map.of("skip", NonFinitePolicy.SKIP, "stop", NonFinitePolicy.STOP);

    private static final Map<String, Ties.Restored> TIES =
            Map.of("embeddings", Ties.Restored.EMBEDDINGS, "all", Ties.Restored.ALL, "none", Ties.Restored.NONE);

    /**
     * Reads a configuration. Relative paths in it start at its folder.
     *
     * @throws dev.octet.formats.error.InvalidOptionException for an unknown key, a value out of range, a contradiction; the message names
     *     the line
     * @throws IOException when the file cannot be read
     */
    public static TrainingConfig read(Path file) throws IOException {
        Path folder = file.toAbsolutePath().getParent();
        return of(YamlFile.read(file), folder == null ? Path.of("") : folder);
    }

    /**
     * Reads a configuration.
     *
     * @param folder where relative paths start
     * @throws dev.octet.formats.error.InvalidOptionException as {@link #read}
     */
    public static TrainingConfig of(Section file, Path folder) {
        return file.read(s -> read(s, folder));
    }

    private static TrainingConfig read(Section s, Path folder) {
        long steps = s.requiredWhole("steps", 1, Long.MAX_VALUE);
        PrecisionConfig precision = s.section("precision").read(PrecisionConfig::read);
        TrainingConfig config = new TrainingConfig(
                s.section("data").read(d -> DataConfig.read(d, folder)),
                s.section("loss").read(l -> LossConfig.read(l, folder)),
                (int) s.whole("batch_size", 8, 1, Integer.MAX_VALUE),
                (int) s.whole("gradient_accumulation", 1, 1, Integer.MAX_VALUE),
                steps,
                s.whole("seed", 1, Long.MIN_VALUE, Long.MAX_VALUE),
                s.section("optimizer").read(OptimizerConfig::read),
                s.section("schedule").read(x -> ScheduleConfig.read(x, steps)),
                s.optionalNumber("clip_grad_norm", Double.MIN_VALUE, Double.MAX_VALUE)
                        .map(OptionalDouble::of)
                        .orElse(OptionalDouble.empty()),
                precision,
                s.patterns("freeze"),
                s.patterns("train_only"),
                s.choice("ties", TIES, Ties.Restored.EMBEDDINGS),
                s.section("checkpoint").read(CheckpointConfig::read),
                s.whole("eval_every", 0, 0, Long.MAX_VALUE),
                s.choice("on_non_finite", POLICIES, NonFinitePolicy.SKIP),
                s.section("divergence").read(DivergenceConfig::read),
                Fp8HealthConfig.read(s, precision));
        if (config.evalEvery > 0 && config.data.eval().isEmpty()) {
            throw s.error(
                    "eval_every", "there is no data to evaluate on", "add data: {eval: FILE}, or leave eval_every out");
        }
        return config;
    }
}
