package dev.octet.trainer.hook;

import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.tensorboard.EventFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Writes scalars of each step and evaluation, the settings as text and as hyperparameters to event files, for {@code tensorboard --logdir RUN}. */
public final class TensorBoard implements TrainingHook {
    /** Name of the folder of event files in the folder of a run. */
    public static final String FOLDER = "tensorboard";

    private final Path folder;
    private final Map<String, String> settings;
    private @Nullable EventFile file;
    private @Nullable Fp8Report fp8;

    /**
     * Creates the hook.
     *
     * @param folder folder of the event files
     * @param settings of the run, by dotted key
     */
    public TensorBoard(Path folder, Map<String, String> settings) {
        this.folder = folder;
        this.settings = new LinkedHashMap<>(settings);
        this.settings.values().removeIf(String::isEmpty);
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        file = EventFile.create(folder, start.firstStep(), Clock.systemUTC());
        long before = start.firstStep() - 1;
        if (!settings.isEmpty()) {
            file.hyperparameters(before, settings);
            file.text(before, "config", markdown());
        }
    }

    private String markdown() {
        StringBuilder table = new StringBuilder("| key | value |\n|---|---|\n");
        settings.forEach((key, value) -> table.append("| `")
                .append(key)
                .append("` | `")
                .append(value.replace('`', '\'').replace("|", "\\|").replaceAll("\\s", " "))
                .append("` |\n"));
        return table.toString();
    }

    @Override
    public void fp8Measured(Fp8Report report) {
        fp8 = report;
    }

    @Override
    public void tensorsObserved(ObservationReport report) throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        report.tensors().forEach(t -> t.values().forEach((name, value) -> values.put(t.name(name), value)));
        write(report.step(), values);
    }

    @Override
    public void afterStep(StepReport r) throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        values.put("train/loss", r.loss());
        r.lossParts().forEach((part, loss) -> values.put("train/" + LossValue.field(part), loss));
        values.put("train/lr", r.lr());
        values.put("train/grad_norm", r.gradNorm());
        values.put("train/loss_scale", r.lossScale());
        values.put("train/epoch", r.epoch());
        values.put("time/tokens_per_second", r.tokens() / r.seconds());
        values.put("time/data_seconds", r.dataSeconds());
        if (fp8 != null) {
            values.put("fp8/clipped", fp8.clippedShare());
            values.put("fp8/underflowed", fp8.underflowedShare());
            values.put("fp8/oldest_scale", (double) fp8.oldestScale());
            fp8 = null;
        }
        r.ranks().ifPresent(ranks -> {
            values.put("reduction/saturated", ranks.saturatedShare());
            values.put("reduction/pre_scale_min", (double) ranks.smallestPreScale());
            values.put("reduction/pre_scale_max", (double) ranks.largestPreScale());
        });
        write(r.step(), values);
    }

    @Override
    public void rolledBack(long step) throws IOException {
        EventFile before = file;
        if (before != null) {
            before.close();
            // readers ignore the steps after it in earlier files
            file = EventFile.create(folder, step + 1, Clock.systemUTC());
        }
    }

    @Override
    public void guardDecided(GuardReport r) throws IOException {
        long step = r.decision().step();
        if (file != null) {
            file.text(step, "guard", r.decision().sentence());
        }
        write(
                step,
                Map.of(
                        "guard/demoted", (double) r.demoted(),
                        "guard/high_precision", (double) r.highPrecision()));
    }

    @Override
    public void evaluated(EvaluationReport r) throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        values.put("eval/loss", r.loss());
        r.lossParts().forEach((part, loss) -> values.put("eval/" + LossValue.field(part), loss));
        r.perplexity().ifPresent(p -> values.put("eval/perplexity", p));
        write(r.step(), values);
    }

    private void write(long step, Map<String, Double> values) throws IOException {
        if (file != null) {
            file.scalars(step, values);
        }
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        if (file == null) {
            return;
        }
        try (EventFile last = file) {
            if (!settings.isEmpty()) {
                boolean good = end.reason() == RunEnd.Reason.COMPLETED || end.reason() == RunEnd.Reason.INTERRUPTED;
                last.ended(end.step(), good);
            }
        }
    }
}
