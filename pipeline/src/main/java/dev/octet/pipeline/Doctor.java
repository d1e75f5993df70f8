package dev.octet.pipeline;

import dev.octet.pipeline.doctor.BadFit;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.doctor.Cure;
import dev.octet.pipeline.doctor.Symptom;
import dev.octet.pipeline.doctor.TaskScores;
import dev.octet.pipeline.doctor.Triage;
import dev.octet.trainer.optimizer.WeightAveraging;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet doctor}: what ails a run in FP8, where it comes from, and the smallest cure.
 *
 * <pre>{@code
 * Doctor.Result found = Doctor.run(Doctor.Request.of(Path.of("runs/fp8")), Job.defaults());
 * }</pre>
 *
 * <p>The method is NVIDIA's for debugging FP8 training: triage into (a) spikes that the baseline has too, (b) mismatch or divergence, (c) equal
 * losses with other scores downstream; then short replays of the same batches.
 */
public final class Doctor {
    /** Folder of finished replays, a file for each stretch of steps: the same call goes on where an earlier one stopped. */
    static final String REPLAYS = "replays";

    /** What it writes in its folder: finished replays, and the cure in the words of three tools. */
    public static final List<String> WRITTEN = List.of(REPLAYS, "precision.yaml", "te-debug.yaml", "torchao_filter.py");

    private Doctor() {}

    /** What is examined. */
    public sealed interface Subject {
        /**
         * A run, as its folder has it.
         *
         * @param folder what {@code octet train -o} wrote
         * @param model where the model lies now; empty for where it lay when the run was started
         * @param step of the checkpoint that replays start from; 0 for the one that the curve asks for
         */
        record Run(Path folder, Optional<Path> model, long step) implements Subject {
            @Override
            public String name() {
                return folder.toString();
            }
        }

        /**
         * A model before its first step.
         *
         * @param config what the run would do, as YAML
         * @param settings keys of the configuration with other values, as {@code data.train=texts.jsonl}
         */
        record Untrained(Path model, Path config, List<String> settings) implements Subject {
            public Untrained {
                settings = List.copyOf(settings);
            }

            @Override
            public String name() {
                return model.toString();
            }
        }

        /** Its folder or file. */
        String name();
    }

    /**
     * How much may be spent.
     *
     * @param replays at most
     * @param time no replay is begun later
     */
    public record Budget(int replays, Duration time) {
        /** As much as it takes. */
        public static final Budget UNLIMITED = new Budget(Integer.MAX_VALUE, Duration.ofDays(365));

        public Budget {
            if (replays < 0 || time.isNegative()) {
                throw new IllegalArgumentException("a budget of " + replays + " replays, " + time);
            }
        }

        /** So many replays, however long they take. */
        public static Budget ofReplays(int count) {
            return new Budget(count, UNLIMITED.time);
        }

        /** So much time, however many replays that is. */
        public static Budget ofTime(Duration most) {
            return new Budget(UNLIMITED.replays, most);
        }
    }

    /**
     * What to examine.
     *
     * @param baseline folder of a run of the same data in BF16 or F32; empty to replay a stretch of the run in its base type
     * @param tasks scores of tasks, see {@link TaskScores}
     * @param exported what was exported from the run, and gave bad scores
     * @param average which average of the run's weights was exported; empty for the weights themselves
     * @param output a folder for the cure and finished replays; empty to keep nothing
     * @param device where replays compute
     */
    public record Request(
            Subject subject,
            Optional<Path> baseline,
            Optional<Path> tasks,
            Optional<Path> exported,
            Optional<WeightAveraging.Kind> average,
            Optional<Path> output,
            Budget budget,
            DeviceName device) {
        /** A run, with all that it takes, kept nowhere. */
        public static Request of(Path run) {
            return of(new Subject.Run(run, Optional.empty(), 0));
        }

        /** A run or a model. */
        public static Request of(Subject subject) {
            return new Request(
                    subject,
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Budget.UNLIMITED,
                    DeviceName.CPU);
        }

        /** The same with a baseline. */
        public Request withBaseline(Path run) {
            return new Request(subject, Optional.of(run), tasks, exported, average, output, budget, device);
        }

        /** The same with scores of tasks. */
        public Request withTasks(Path file) {
            return new Request(subject, baseline, Optional.of(file), exported, average, output, budget, device);
        }

        /** The same with an exported model. */
        public Request withExported(Path model) {
            return new Request(subject, baseline, tasks, Optional.of(model), average, output, budget, device);
        }

        /** The same, where an average of the run's weights was exported. */
        public Request withAverage(WeightAveraging.Kind kind) {
            return new Request(subject, baseline, tasks, exported, Optional.of(kind), output, budget, device);
        }

        /** The same, keeping cure and replays in a folder. */
        public Request withOutput(Path folder) {
            return new Request(subject, baseline, tasks, exported, average, Optional.of(folder), budget, device);
        }

        /** The same within a budget. */
        public Request withBudget(Budget newBudget) {
            return new Request(subject, baseline, tasks, exported, average, output, newBudget, device);
        }

        /** The same on another device. */
        public Request withDevice(DeviceName newDevice) {
            return new Request(subject, baseline, tasks, exported, average, output, budget, newDevice);
        }
    }

    /**
     * A curve.
     *
     * @param name whose: {@code run}, {@code baseline}, or the stretch that was replayed
     */
    public record Curve(String name, Course course) {}

    /**
     * A replay.
     *
     * @param what was changed
     * @param excess how far from the reference, in units of what noise explains; above 1 is sick; infinite where something is not finite
     * @param by what is farthest off
     * @param loss largest difference of a loss
     * @param cosine smallest cosine of a gradient with the reference's
     * @param update smallest cosine of an update with the reference's
     * @param sick whether noise does not explain it
     * @param reused whether it was kept from an earlier examination
     * @param seconds that it took
     * @param losses of each step
     */
    public record Trial(
            String what,
            double excess,
            String by,
            double loss,
            double cosine,
            double update,
            boolean sick,
            boolean reused,
            double seconds,
            List<Double> losses) {
        public Trial {
            losses = List.copyOf(losses);
        }
    }

    /**
     * What is known of one product of one layer.
     *
     * @param excess of the smallest set of products that it was tried in, see {@link Trial}; NaN where it was in none
     * @param together size of that set; 1 where it was tried alone
     */
    public record Cell(String module, String product, double excess, int together) {}

    /**
     * What is guilty.
     *
     * @param products as {@code model.layers.0.mlp.up_proj dgrad}; several that show the fault only together, or one product of many layers
     * @param operands of them that are guilty: {@code grad_output}
     * @param remedy {@code current scaling} or {@code high precision}
     */
    public record Guilty(List<String> products, List<String> operands, String remedy) {
        public Guilty {
            products = List.copyOf(products);
            operands = List.copyOf(operands);
        }
    }

    /**
     * Short replays of a run under changed precision.
     *
     * @param firstStep that was replayed
     * @param lastStep that was replayed
     * @param layers Linears in FP8
     * @param verdict as {@code STALE_SCALES}
     * @param sentence what it means
     * @param trials in their order
     * @param cells layer by product, for a heat map
     * @param guilty empty where nothing is, or it was not found
     * @param suspects products among which a guilty one is, where not all was found
     * @param proof the replay with the cure; null without one
     * @param toFind replays until the guilty products were known
     */
    public record Replays(
            long firstStep,
            long lastStep,
            int layers,
            String verdict,
            String sentence,
            List<Trial> trials,
            List<Cell> cells,
            List<Guilty> guilty,
            List<String> suspects,
            @Nullable Trial proof,
            int toFind) {
        public Replays {
            trials = List.copyOf(trials);
            cells = List.copyOf(cells);
            guilty = List.copyOf(guilty);
            suspects = List.copyOf(suspects);
        }
    }

    /**
     * The restore experiment: the last checkpoint of the run, continued in the base type.
     *
     * @param fromStep of the checkpoint
     * @param steps continued
     * @param gapBefore of the run, over the baseline at the checkpoint
     * @param gapAfter of the continuation, over the baseline at its end
     * @param returns whether the continuation comes back to the baseline
     */
    public record Restore(long fromStep, int steps, double gapBefore, double gapAfter, boolean returns) {}

    /**
     * A broken rule of {@code octet verify}.
     *
     * @param places the first few
     */
    public record ExportFinding(String rule, String what, long count, List<String> places, String fix) {
        public ExportFinding {
            places = List.copyOf(places);
        }
    }

    /**
     * An exported model, held against its run.
     *
     * @param layout how its weights lie
     * @param errors broken rules, with the run's weights as the original
     * @param sqnrDbMin of the worst weight, against the run's
     * @param worstTensor its name
     * @param proof the outputs of both
     */
    public record ExportFindings(
            String exported,
            String layout,
            List<ExportFinding> errors,
            double sqnrDbMin,
            String worstTensor,
            Prove.Result proof,
            boolean passed) {
        public ExportFindings {
            errors = List.copyOf(errors);
        }
    }

    /**
     * What was found.
     *
     * @param subject the run or model
     * @param symptom what the curves, scores and replays come down to
     * @param healthy whether nothing was found, with a budget that was enough
     * @param verdict in one sentence
     * @param complete whether the budget was enough
     * @param triage of the curves; null without
     * @param curves that were compared
     * @param badFits tensors that did not fit their codes around the step where the loss departs, worst first; from the run's
     *     {@code fp8_health.jsonl}
     * @param restore null where it was not tried
     * @param replays null where none were needed
     * @param tasks null without scores
     * @param exported null where nothing exported was looked at
     * @param cure proved by a replay; null without
     * @param advice what to do, each a sentence
     * @param written files with the cure
     * @param replaysRun for this answer, without those that were kept from an earlier one
     */
    public record Result(
            String subject,
            Symptom symptom,
            boolean healthy,
            String verdict,
            boolean complete,
            @Nullable Triage triage,
            List<Curve> curves,
            List<BadFit> badFits,
            @Nullable Restore restore,
            @Nullable Replays replays,
            @Nullable TaskScores tasks,
            @Nullable ExportFindings exported,
            @Nullable Cure cure,
            List<String> advice,
            List<String> written,
            int replaysRun,
            double seconds) {
        public Result {
            curves = List.copyOf(curves);
            badFits = List.copyOf(badFits);
            advice = List.copyOf(advice);
            written = List.copyOf(written);
        }
    }

    /**
     * Examines a run or a model.
     *
     * @throws dev.octet.formats.error.OctetException when the folder is not a run, does not compute in FP8, has too few steps, or model, data
     *     or baseline are not its own
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        try (DoctorCase examined = DoctorCase.open(request, job)) {
            return examined.result();
        }
    }
}
